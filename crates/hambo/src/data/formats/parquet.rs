//! Parquet: a table in columns, of numbers, flags, and text for the name of an episode.
//!
//! The reader beneath reserves as much memory as a file declares. So what it does so for is checked before: the schema
//! here, pages in [`crate::data::formats::parquet_pages`].

use crate::data::ReadOptions;
use crate::data::formats::Entry;
use crate::data::formats::parquet_pages::Pages;
use crate::data::formats::table::Table;
use crate::data::formats::thrift::Compact;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Numbers held at a time besides those of the table, and rows at the most.
const BLOCK: usize = 1 << 18;
const BLOCK_ROWS: usize = 1 << 14;
/// Numbers that a file may hold for each of its bytes, and besides. One byte can stand for any number of equal values in a
/// row, but a log of such values tells nothing.
const NUMBERS_A_BYTE: u64 = 64;
const FREE_NUMBERS: u64 = 4 << 20;
/// Bytes of a text, which may be the name of an episode.
const LONGEST_TEXT: usize = 1000;

/// The columns of a Parquet file, each with its number of rows.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    guarded(path, || columns_of(path))
}

fn columns_of(path: &Path) -> Result<Vec<Entry>> {
    let (reader, _) = open(path)?;
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
        let (reader, file) = open(path)?;
        let fail = |problem: String| Error::file(path, problem);
        let schema = reader.metadata().file_metadata().schema_descr();
        let header: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
        let mut table =
            Table::new(header.clone(), &options.columns, options.keep_not_finite).map_err(fail)?;
        let used: Vec<usize> = table.places.all().into_iter().map(|(place, _)| place).collect();
        if let Some(&place) = used.iter().find(|&&place| schema.column(place).max_rep_level() > 0) {
            return Err(fail(format!(
                "column `{}` holds lists: expected one number a row",
                header[place]
            )));
        }
        let size = file.metadata().map_err(|e| Error::io(path, "read", e))?.len();
        let mut numbers_left = size.saturating_mul(NUMBERS_A_BYTE).saturating_add(FREE_NUMBERS);
        let mut before = 0; // rows of the groups before
        for group in reader.metadata().row_groups() {
            let rows = usize::try_from(group.num_rows()).ok();
            let numbers = rows.and_then(|rows| (rows as u64).checked_mul(used.len() as u64));
            let (Some(rows), Some(left)) =
                (rows, numbers.and_then(|n| numbers_left.checked_sub(n)))
            else {
                return Err(fail(format!(
                    "declares a group of {} rows, more than a file of this size can tell: it is damaged, or hardly a \
                     value in it differs from others",
                    group.num_rows()
                )));
            };
            numbers_left = left;
            let wrong = |place: usize| {
                let name = &header[place];
                move |e: ParquetError| fail(format!("column `{name}`: {}", words(&e)))
            };
            let mut columns = Vec::new();
            for &place in &used {
                let pages = Pages::new(&file, group.column(place), rows).map_err(wrong(place))?;
                columns.push((place, get_column_reader(schema.column(place), Box::new(pages))));
            }
            let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); header.len()];
            let block = (BLOCK / used.len().max(1)).clamp(1, BLOCK_ROWS);
            for start in (0..rows).step_by(block) {
                let count = block.min(rows - start);
                for (place, column) in &mut columns {
                    cells[*place] = next_cells(column, count).map_err(wrong(*place))?;
                }
                (0..count).try_for_each(|i| {
                    let episode = table.places.episode.map(|place| cells[place][i].text());
                    let line = format!("row {}", before + start + i);
                    table
                        .push(&line, episode.as_deref(), |place| cells[place][i].number())
                        .map_err(fail)
                })?;
            }
            before += rows;
        }
        Ok(table.finish(Format::Parquet))
    }
}

/// Turns a panic into an error: the reader beneath expects some things of a file that a damaged one does not have.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::file(path, "a damaged Parquet file")))
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

/// The reader beneath, and the file for its pages.
fn open(path: &Path) -> Result<(SerializedFileReader<File>, Arc<File>)> {
    let failed = |e| Error::io(path, "read", e);
    let mut file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let footer = footer(&mut file, size).map_err(failed)?;
    if !footer.is_some_and(|footer| Compact(&footer).has_sound_schema()) {
        return Err(Error::file(
            path,
            "a damaged Parquet file: its list of columns makes no sense",
        ));
    }
    let pages = Arc::new(file.try_clone().map_err(failed)?);
    let reader = SerializedFileReader::new(file).map_err(|e| damaged(path, &e))?;
    // A column chunk is held in memory as it lies in the file.
    let mut chunks = reader.metadata().row_groups().iter().flat_map(|g| g.columns());
    match chunks.all(|c| u64::try_from(c.compressed_size()).is_ok_and(|bytes| bytes <= size)) {
        true => Ok((reader, pages)),
        false => {
            Err(Error::file(path, "declares more than a file of this size can hold: it is damaged"))
        }
    }
}

/// What lies before the last eight bytes, which are its length and the name of the format.
fn footer(file: &mut File, size: u64) -> std::io::Result<Option<Vec<u8>>> {
    let Some(end) = size.checked_sub(8) else { return Ok(None) };
    let mut last = [0; 4];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut last)?;
    let length = u64::from(u32::from_le_bytes(last));
    let Some(start) = end.checked_sub(length) else { return Ok(None) };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(Some(bytes))
}

/// The next `count` values of a column.
fn next_cells(
    column: &mut ColumnReader,
    count: usize,
) -> std::result::Result<Vec<Cell>, ParquetError> {
    match column {
        ColumnReader::BoolColumnReader(r) => {
            cells(r, count, |v| Ok(Cell::Number(f64::from(u8::from(*v)))))
        }
        ColumnReader::Int32ColumnReader(r) => cells(r, count, |v| Ok(Cell::Number(f64::from(*v)))),
        ColumnReader::Int64ColumnReader(r) => cells(r, count, |v| Ok(Cell::Number(*v as f64))),
        ColumnReader::FloatColumnReader(r) => cells(r, count, |v| Ok(Cell::Number(f64::from(*v)))),
        ColumnReader::DoubleColumnReader(r) => cells(r, count, |v| Ok(Cell::Number(*v))),
        ColumnReader::ByteArrayColumnReader(r) => cells(r, count, |v| match v.data().len() {
            0..=LONGEST_TEXT => Ok(Cell::Text(String::from_utf8_lossy(v.data()).into_owned())),
            bytes => Err(ParquetError::General(format!(
                "a text of {bytes} bytes: expected numbers or names"
            ))),
        }),
        _ => Err(ParquetError::General("expected numbers, flags or text".into())),
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    cell: impl Fn(&T::T) -> std::result::Result<Cell, ParquetError>,
) -> std::result::Result<Vec<Cell>, ParquetError> {
    let mut all = Vec::new();
    while all.len() < count {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let wanted = count - all.len();
        let (records, present, _) =
            reader.read_records(wanted, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("fewer rows than are declared".into()));
        }
        if present == records {
            for value in &values {
                all.push(cell(value)?);
            }
        } else {
            // A value is there where its level is the deepest.
            let deepest = levels.iter().max().copied().unwrap_or(0).max(1);
            let mut values = values.iter();
            for level in levels {
                let value = if level == deepest { values.next() } else { None };
                all.push(value.map_or(Ok(Cell::Null), &cell)?);
            }
        }
    }
    all.truncate(count);
    Ok(all)
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    Error::file(
        path,
        format!("a damaged Parquet file, or one of a kind not known here: {}", words(error)),
    )
}

/// What the reader says.
fn words(error: &ParquetError) -> String {
    let text = error.to_string();
    text.strip_prefix("Parquet error: ").unwrap_or(&text).to_owned()
}
