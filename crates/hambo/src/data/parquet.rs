//! Parquet: a table in columns, of numbers, flags, and text for the name of an episode.

use super::ReadOptions;
use super::hdf5::{Entry, FREE_BYTES, LARGEST_EXPANSION};
use super::log::{Format, Log};
use super::table::Table;
use crate::{Error, Result};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Values read at a time, so that what a file declares does not decide how much memory is asked for.
const BLOCK: usize = 1 << 14;

/// The columns of a Parquet file, each with its number of rows.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    guarded(path, || columns_of(path))
}

fn columns_of(path: &Path) -> Result<Vec<Entry>> {
    let reader = open(path)?;
    let metadata = reader.metadata().file_metadata();
    let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
    let columns = metadata.schema_descr().columns().iter();
    Ok(columns
        .map(|c| Entry {
            path: c.path().string(),
            shape: vec![rows],
            dtype: c.physical_type().to_string().to_lowercase(),
        })
        .collect())
}

impl Log {
    /// Reads a Parquet file.
    pub(crate) fn read_parquet(path: &Path, options: &ReadOptions) -> Result<Log> {
        guarded(path, || Log::read_row_groups(path, options))
    }

    fn read_row_groups(path: &Path, options: &ReadOptions) -> Result<Log> {
        let reader = open(path)?;
        let fail = |problem: String| Error::file(path, problem);
        let schema = reader.metadata().file_metadata().schema_descr();
        let header: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
        let mut table =
            Table::new(header.clone(), &options.columns, options.keep_not_finite).map_err(fail)?;
        let used: Vec<usize> = table.places.all().into_iter().map(|(place, _)| place).collect();
        if let Some(&place) = used.iter().find(|&&place| schema.column(place).max_rep_level() > 0) {
            return Err(fail(format!("column `{}` holds lists: expected one number a row", header[place])));
        }
        let mut before = 0; // rows of the groups before
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(|e| damaged(path, &e))?;
            let rows = usize::try_from(group.metadata().num_rows())
                .map_err(|_| fail("a row group of less than no rows: the file is damaged".into()))?;
            let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); header.len()];
            for &place in &used {
                cells[place] = column(&*group, place, rows)
                    .map_err(|e| fail(format!("column `{}`: {}", header[place], words(&e))))?;
            }
            (0..rows).try_for_each(|i| {
                let episode = table.places.episode.map(|place| cells[place][i].text());
                let line = format!("row {}", before + i);
                table.push(&line, episode.as_deref(), |place| cells[place][i].number()).map_err(fail)
            })?;
            before += rows;
        }
        Ok(table.finish(Format::Parquet))
    }
}

/// Turns a panic into an error: the reader beneath expects some things of a file that a damaged one does not have.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Error::file(path, "a damaged Parquet file")))
}

/// One value.
#[derive(Clone, Debug)]
enum Cell {
    Null,
    Number(f64),
    Text(String),
}

impl Cell {
    fn number(&self) -> std::result::Result<f64, String> {
        match self {
            Cell::Number(v) => Ok(*v),
            Cell::Null => Err("empty: expected a number".into()),
            Cell::Text(text) => {
                Err(format!("`{}` is not a number", text.chars().take(60).collect::<String>()))
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Cell::Null => String::new(),
            Cell::Number(v) => v.to_string(),
            Cell::Text(text) => text.clone(),
        }
    }
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let size = file.metadata().map_err(|e| Error::io(path, "read", e))?.len();
    let reader = SerializedFileReader::new(file).map_err(|e| damaged(path, &e))?;
    let most = size.saturating_mul(LARGEST_EXPANSION).saturating_add(FREE_BYTES);
    let declared =
        reader.metadata().row_groups().iter().flat_map(|g| g.columns()).try_fold(0u64, |all, c| {
            let bytes = u64::try_from(c.uncompressed_size()).ok()?;
            // A column chunk is held in memory as it lies in the file.
            all.checked_add(bytes).filter(|_| u64::try_from(c.compressed_size()).is_ok_and(|c| c <= size))
        });
    match declared {
        Some(bytes) if bytes <= most => Ok(reader),
        _ => Err(Error::file(path, "declares more than a file of this size can hold: it is damaged")),
    }
}

/// All values of a column of a row group.
fn column(
    group: &dyn RowGroupReader,
    place: usize,
    rows: usize,
) -> std::result::Result<Vec<Cell>, ParquetError> {
    match group.get_column_reader(place)? {
        ColumnReader::BoolColumnReader(r) => cells(r, rows, |v| Cell::Number(f64::from(u8::from(*v)))),
        ColumnReader::Int32ColumnReader(r) => cells(r, rows, |v| Cell::Number(f64::from(*v))),
        ColumnReader::Int64ColumnReader(r) => cells(r, rows, |v| Cell::Number(*v as f64)),
        ColumnReader::FloatColumnReader(r) => cells(r, rows, |v| Cell::Number(f64::from(*v))),
        ColumnReader::DoubleColumnReader(r) => cells(r, rows, |v| Cell::Number(*v)),
        ColumnReader::ByteArrayColumnReader(r) => {
            cells(r, rows, |v| Cell::Text(String::from_utf8_lossy(v.data()).into_owned()))
        }
        _ => Err(ParquetError::General("expected numbers, flags or text".into())),
    }
}

fn cells<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    cell: impl Fn(&T::T) -> Cell,
) -> std::result::Result<Vec<Cell>, ParquetError> {
    let mut all = Vec::new();
    while all.len() < rows {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let wanted = BLOCK.min(rows - all.len());
        let (records, present, _) = reader.read_records(wanted, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General(format!("{} rows, {rows} are declared", all.len())));
        }
        if present == records {
            all.extend(values.iter().map(&cell));
        } else {
            // A value is there where its level is the deepest.
            let deepest = levels.iter().max().copied().unwrap_or(0).max(1);
            let mut values = values.iter();
            all.extend(levels.iter().map(|&level| match level == deepest {
                true => values.next().map_or(Cell::Null, &cell),
                false => Cell::Null,
            }));
        }
    }
    Ok(all)
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    Error::file(path, format!("a damaged Parquet file, or one of a kind not known here: {}", words(error)))
}

/// What the reader says, and the remedy where a codec is not built in.
fn words(error: &ParquetError) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("Parquet error: ").unwrap_or(&text);
    match text.contains("Disabled feature") {
        true => format!("{text}; write the file uncompressed or with Snappy"),
        false => text.to_owned(),
    }
}
