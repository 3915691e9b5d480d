//! Parquet: a table in columns, of numbers, flags, text for the name of an episode, and lists: vectors with one row a step, or
//! whole episodes in a row.
//!
//! The reader beneath reserves as much memory as a file declares. So what it does so for is checked before: the schema
//! here, pages in [`crate::data::formats::parquet_pages`].

use crate::data::ReadOptions;
use crate::data::formats::Entry;
use crate::data::formats::by_episode::{ByEpisode, Episode};
use crate::data::formats::columns::Places;
use crate::data::formats::parquet_cells::{Cell, Leaf, next_cells};
use crate::data::formats::parquet_pages::Pages;
use crate::data::formats::table::{Table, note_unused};
use crate::data::formats::thrift::Compact;
use crate::data::log::{Format, Log};
use crate::data::transitions::first_not_finite;
use crate::{Error, Result};
use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Numbers held at a time besides those of the table, and rows at the most.
const BLOCK: usize = 1 << 18;
const BLOCK_ROWS: usize = 1 << 14;
/// Numbers that a file may hold for each of its bytes, and besides. One byte can stand for any number of equal values in a
/// row, but a log of such values tells nothing.
const NUMBERS_A_BYTE: u64 = 64;
const FREE_NUMBERS: u64 = 4 << 20;

/// The columns of a Parquet file, each with its number of rows.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    guarded(path, || columns_of(path))
}

fn columns_of(path: &Path) -> Result<Vec<Entry>> {
    let file = ParquetFile::open(path)?;
    let metadata = file.reader.metadata().file_metadata();
    let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
    let columns = metadata.schema_descr().columns().iter().zip(file.leaves);
    let entry = |(column, leaf): (&Arc<ColumnDescriptor>, Leaf)| {
        let lists = ["", "list of ", "lists of "][leaf.depth().min(2)];
        let dtype = format!("{lists}{}", column.physical_type().to_string().to_lowercase());
        Entry { path: leaf.name, shape: vec![rows], dtype }
    };
    Ok(columns.map(entry).collect())
}

impl Log {
    /// Reads a Parquet file: one row a step, or one row an episode, with lists in it.
    pub(crate) fn read_parquet(path: &Path, options: &ReadOptions) -> Result<Log> {
        guarded(path, || {
            let file = ParquetFile::open(path)?;
            let places = file.places(options)?;
            match file.has_episodes_in_rows(&places)? {
                true => file.read_episodes(&places, options),
                false => Ok(file.read_steps(&places, options, None)?.finish(Format::Parquet)),
            }
        })
    }
}

/// The rows of a file, one a step, after those of a table of the same columns, if there is one.
pub(super) fn steps(path: &Path, options: &ReadOptions, before: Option<Table>) -> Result<Table> {
    guarded(path, || {
        let file = ParquetFile::open(path)?;
        let places = file.places(options)?;
        if file.has_episodes_in_rows(&places)? {
            return Err(file.fail("a row holds more than one step: expected one row a step".into()));
        }
        file.read_steps(&places, options, before)
    })
}

/// An open file.
pub(super) struct ParquetFile<'a> {
    path: &'a Path,
    reader: SerializedFileReader<File>,
    /// For its pages.
    file: Arc<File>,
    leaves: Vec<Leaf>,
    size: u64,
}

impl<'a> ParquetFile<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let (reader, file) = open(path)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let leaves =
            schema.columns().iter().map(|column| Leaf::of(column, schema.root_schema())).collect();
        let size = file.metadata().map_err(|e| Error::io(path, "read", e))?.len();
        Ok(ParquetFile { path, reader, file, leaves, size })
    }

    fn names(&self) -> Vec<String> {
        self.leaves.iter().map(|leaf| leaf.name.clone()).collect()
    }

    fn places(&self, options: &ReadOptions) -> Result<Places> {
        let places = options.columns.find(&self.names(), !options.without_rewards);
        places.map_err(|problem| self.fail(problem))
    }

    fn fail(&self, problem: String) -> Error {
        Error::file(self.path, problem)
    }

    /// Whether a row is an episode: its states are lists of lists, or it has a list of rewards.
    fn has_episodes_in_rows(&self, places: &Places) -> Result<bool> {
        if let Some((place, _)) = places.all().iter().find(|(p, _)| self.leaves[*p].depth() > 2) {
            return Err(self.fail(format!(
                "column `{}` holds lists of lists of lists: expected vectors of numbers",
                self.leaves[*place].name
            )));
        }
        let reward = match places.reward.filter(|&place| self.leaves[place].depth() == 1) {
            Some(place) => self.first_length(place)? > 1,
            None => false,
        };
        Ok(reward || places.state.iter().any(|&place| self.leaves[place].depth() == 2))
    }

    /// The length of the list in a column's first row.
    fn first_length(&self, place: usize) -> Result<usize> {
        let mut length = 0;
        self.for_each_row(&[place], 1, &mut |row, cells| {
            if let (0, Cell::List(list)) = (row, &cells[place]) {
                length = list.len();
            }
            Ok(row > 0)
        })?;
        Ok(length)
    }

    /// One row a step; a list is as many columns as it has numbers in the first row.
    fn read_steps(
        &self,
        places: &Places,
        options: &ReadOptions,
        before: Option<Table>,
    ) -> Result<Table> {
        let names = self.names();
        let mut header = Vec::new();
        let mut parts = Vec::new(); // where each column of the table comes from
        let mut ranges = vec![0..0; names.len()];
        let used: Vec<usize> = places.all().into_iter().map(|(place, _)| place).collect();
        for (place, name) in names.into_iter().enumerate() {
            let start = header.len();
            let is_list = used.contains(&place) && self.leaves[place].depth() > 0;
            match is_list {
                true => {
                    let length = self.first_length(place)?;
                    header.extend((0..length).map(|i| format!("{name}[{i}]")));
                    parts.extend((0..length).map(|i| (place, i)));
                }
                false => {
                    header.push(name);
                    parts.push((place, 0));
                }
            }
            ranges[place] = start..header.len();
        }
        let places = places.expanded(&ranges).map_err(|problem| self.fail(problem))?;
        let mut table = match before {
            None => Table::new(header, places, options.keep_not_finite),
            Some(table) if table.has_columns(&header, &places) => table,
            Some(_) => {
                return Err(
                    self.fail("other columns than in the files before: expected the same".into())
                );
            }
        };
        self.for_each_row(&used, BLOCK_ROWS, &mut |row, cells| {
            for &place in &used {
                if let Cell::List(list) = &cells[place]
                    && list.len() != ranges[place].len()
                {
                    return Err(self.fail(format!(
                        "row {row}, column `{}`: a list of {} numbers, where that of row 0 has {}",
                        self.leaves[place].name,
                        list.len(),
                        ranges[place].len()
                    )));
                }
            }
            let episode = table.places.episode.map(|place| cells[parts[place].0].text());
            let number = |place: usize| {
                let (column, at) = parts[place];
                cells[column].number_at(at)
            };
            table
                .push(&format!("row {row}"), episode.as_deref(), number)
                .map_err(|problem| self.fail(problem))?;
            Ok(false)
        })?;
        Ok(table)
    }

    /// One row an episode: lists of vectors, or of numbers.
    fn read_episodes(&self, places: &Places, options: &ReadOptions) -> Result<Log> {
        let names = self.names();
        let used: Vec<usize> = places.all().into_iter().map(|(place, _)| place).collect();
        let mut all = ByEpisode::default();
        let [&[state], &[action]] = [&places.state[..], &places.action[..]] else {
            return Err(self.fail(
                "a row is an episode, but its states or actions are in several columns: expected lists of vectors".into(),
            ));
        };
        if !places.next.is_empty() {
            return Err(self.fail(format!(
                "a row is an episode with next states of their own (`{}`): leave them out",
                names[places.next[0]]
            )));
        }
        self.for_each_row(&used, 1, &mut |row, cells| {
            let wrong = |problem| self.fail(format!("row {row}: {problem}"));
            let list = |place: usize| {
                vectors(&cells[place], options.keep_not_finite)
                    .map_err(|problem| wrong(format!("`{}` {problem}", names[place])))
            };
            let flags = |place: Option<usize>, steps: usize| match place {
                None => Ok(None),
                // One for the whole episode is that of its last step.
                Some(place) if self.leaves[place].depth() == 0 => match cells[place].number() {
                    Ok(v) if v == 0.0 || v == 1.0 => {
                        Ok(Some((1..=steps).map(|i| i == steps && v == 1.0).collect()))
                    }
                    _ => Err(wrong(format!("`{}` is no flag", names[place]))),
                },
                Some(place) => {
                    let (_, flags) = list(place)?;
                    match flags.iter().find(|&&v| v != 0.0 && v != 1.0) {
                        Some(v) => {
                            Err(wrong(format!("`{}` holds {v}: expected 0 or 1", names[place])))
                        }
                        None => Ok(Some(flags.into_iter().map(|v| v == 1.0).collect())),
                    }
                }
            };
            let ((state_dim, states), (action_dim, actions)) = (list(state)?, list(action)?);
            let rewards = match places.reward {
                Some(place) => list(place)?.1,
                None => vec![0.0; actions.len() / action_dim.max(1)],
            };
            let steps = rewards.len();
            let (terminals, timeouts) =
                (flags(places.terminal, steps)?, flags(places.timeout, steps)?);
            let episode = Episode { states, actions, rewards, terminals, timeouts };
            all.push([state_dim, action_dim], episode).map_err(wrong)?;
            Ok(false)
        })?;
        let mut notes = Vec::new();
        note_unused(&names, &used, &mut notes);
        all.has_no_rewards = places.reward.is_none();
        Ok(all.finish(Format::ParquetEpisodes, notes))
    }

    /// Calls `each` with the number of a row and the cells of its columns, of which those not `used` are empty; until it
    /// returns true.
    fn for_each_row(
        &self,
        used: &[usize],
        most: usize,
        each: &mut dyn FnMut(usize, &[Cell]) -> Result<bool>,
    ) -> Result<()> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let numbers = self.size.saturating_mul(NUMBERS_A_BYTE).saturating_add(FREE_NUMBERS);
        let values_left = Arc::new(AtomicU64::new(numbers));
        let mut numbers_left = numbers;
        let mut before = 0; // rows of the groups before
        let mut row = vec![Cell::Null; self.leaves.len()];
        for group in self.reader.metadata().row_groups() {
            let rows = usize::try_from(group.num_rows()).ok();
            let numbers = rows.and_then(|rows| (rows as u64).checked_mul(used.len() as u64));
            let (Some(rows), Some(left)) =
                (rows, numbers.and_then(|n| numbers_left.checked_sub(n)))
            else {
                return Err(self.fail(format!(
                    "declares a group of {} rows, more than a file of this size can tell: it is damaged, or hardly a \
                     value in it differs from others",
                    group.num_rows()
                )));
            };
            numbers_left = left;
            let wrong = |place: usize| {
                let name = &self.leaves[place].name;
                move |e: ParquetError| self.fail(format!("column `{name}`: {}", words(&e)))
            };
            let mut columns = Vec::new();
            for &place in used {
                let pages = Pages::new(&self.file, group.column(place), rows, &values_left)
                    .map_err(wrong(place))?;
                columns.push((place, get_column_reader(schema.column(place), Box::new(pages))));
            }
            let block = (BLOCK / used.len().max(1)).clamp(1, most);
            for start in (0..rows).step_by(block) {
                let count = block.min(rows - start);
                let mut cells = Vec::new();
                for (place, column) in &mut columns {
                    let leaf = &self.leaves[*place];
                    let values = next_cells(column, leaf, count).map_err(wrong(*place))?;
                    cells.push((*place, values.into_iter()));
                }
                for i in 0..count {
                    for (place, values) in &mut cells {
                        row[*place] = values.next().unwrap_or(Cell::Null);
                    }
                    if each(before + start + i, &row)? {
                        return Ok(());
                    }
                }
            }
            before += rows;
        }
        Ok(())
    }
}

/// Width and numbers of a list of vectors, or of numbers.
fn vectors(cell: &Cell, keep_not_finite: bool) -> std::result::Result<(usize, Vec<f32>), String> {
    let (width, values) = match cell {
        Cell::List(values) => (1, values),
        Cell::Rows { width, values } => (*width, values),
        Cell::Null => return Err("is empty: expected a list".into()),
        Cell::Number(_) | Cell::Text(_) => return Err("is one value: expected a list".into()),
    };
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    match first_not_finite(&values).filter(|_| !keep_not_finite) {
        None => Ok((width, values)),
        Some(i) => Err(format!(
            "is not a finite float32 number in step {}: remove or repair such rows",
            i / width.max(1)
        )),
    }
}

/// Turns a panic into an error: the reader beneath expects some things of a file that a damaged one does not have.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::file(path, "a damaged Parquet file")))
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
