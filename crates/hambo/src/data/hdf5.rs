//! HDF5 files from strangers: every declared size is checked before anything is read, every error names the
//! file and the field. Some 85 000 damaged files made the reader beneath fail in words but never panic, so
//! nothing here catches panics.

use super::memory::zeros;
use super::transitions::first_not_finite;
use crate::{Error, Result};
use rayon::prelude::*;
use rust_hdf5::types::H5Type;
use rust_hdf5::{DatatypeMessage, H5Dataset, H5File, Hdf5Error, ReadNumeric, StorageLayout};
use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Deflate shrinks at most 1032-fold, so a file cannot hold more than about this many times its own size.
pub(crate) const LARGEST_EXPANSION: u64 = 1100;
/// What a file may declare beyond that: chunks never written take no room in the file.
pub(crate) const FREE_BYTES: u64 = 64 << 20;
/// Groups nested deeper than this are not listed.
const DEEPEST_GROUP: usize = 16;
/// Numbers converted at a time, so that a float64 file needs no float64 copy of itself in memory.
const BLOCK: usize = 1 << 18;
/// Numbers read at a time where none are converted: few enough for a processor's own memory, so many that the call costs
/// nothing.
const PIECE: usize = 1 << 16;
/// Rows put together at a time from chunks of some columns each.
const TILE: usize = 64;
/// Chunks of a field that is read in pieces at the most, since each piece goes through the list of all chunks.
const MOST_CHUNKS: usize = 4000;
/// Blocks of a field with more chunks than that, or compressed ones.
const MOST_BLOCKS: usize = 64;
/// Numbers for which another thread is worth while.
const LEAST_FOR_A_THREAD: usize = 1 << 20;

/// One dataset of an HDF5 file, one array of an NPZ file, or one column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path within the file, as `infos/qpos`, or name.
    pub path: String,
    /// Extent in each dimension; empty for a single value.
    pub shape: Vec<usize>,
    /// Element type in words: `float32`, `int64`, `bool`, `string`, …
    pub dtype: String,
}

/// The datasets of an HDF5 file in the order of their paths, groups at most 16 deep.
///
/// Of a Minari file only those of the first episode: the others are alike, and there may be thousands.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    let file = Source::open(path)?;
    let first = super::minari::episodes(&file).first().map(|&(_, group)| format!("{group}/"));
    let listed = file
        .names
        .iter()
        .filter(|n| n.matches('/').count() < DEEPEST_GROUP)
        .filter(|n| first.as_ref().is_none_or(|group| n.starts_with(group)));
    let entry = |path: &String| {
        let found = file.file.dataset(path).and_then(|d| Ok((d.shape(), type_name(&d.datatype()?))));
        // One dataset of a kind that cannot be read must not hide the others.
        let (shape, dtype) = found.unwrap_or_else(|e| (Vec::new(), format!("unreadable: {}", words(&e))));
        Entry { path: path.clone(), shape, dtype }
    };
    Ok(listed.map(entry).collect())
}

/// The text attributes of the root group, in the order of their names.
pub(crate) fn attributes(path: &Path) -> Result<Vec<(String, String)>> {
    let file = Source::open(path)?;
    let mut names = file.file.attr_names().map_err(|e| file.error("attributes", e))?;
    names.sort();
    // Attributes of other types are no text to show.
    Ok(names.into_iter().filter_map(|n| file.file.attr_string(&n).ok().map(|value| (n, value))).collect())
}

/// An open file, and how many more bytes its fields may declare.
pub(crate) struct Source {
    path: PathBuf,
    file: H5File,
    names: Vec<String>,
    bytes_left: Cell<u64>,
    /// Whether values that are not finite are kept rather than refused.
    pub(crate) keep_not_finite: bool,
}

/// A dataset of numbers whose shape is checked: `[rows, width]`.
pub(crate) struct Field<'a> {
    source: &'a Source,
    pub(crate) name: String,
    dataset: H5Dataset,
    rank: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl Source {
    /// Opens `path` for reading.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, "read", e))?;
        if !metadata.is_file() {
            return Err(Error::file(path, "not a regular file: expected an HDF5 file"));
        }
        // Locks are refused by some network file systems, and reading needs none.
        let file = H5File::options().no_locking().open(path).map_err(|e| match e {
            Hdf5Error::Io(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => Error::io(path, "read", e),
            e => Error::file(path, format!("not an HDF5 file, or a damaged one: {}", words(&e))),
        })?;
        let mut names = file.dataset_names();
        names.sort();
        let bytes_left =
            Cell::new(metadata.len().saturating_mul(LARGEST_EXPANSION).saturating_add(FREE_BYTES));
        Ok(Source { path: path.to_owned(), file, names, bytes_left, keep_not_finite: false })
    }

    /// Paths of all datasets, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there is a dataset of this path.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.binary_search_by(|n| n.as_str().cmp(name)).is_ok()
    }

    /// Whether there is such a dataset. An error if there is none, but one at the root that looks misspelt:
    /// going on without it would silently read other data than the writer meant.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        if self.contains(name) {
            return Ok(true);
        }
        match self.nearest(name).filter(|n| !n.contains('/')) {
            Some(near) => Err(Error::file(
                &self.path,
                format!(
                    "no field `{name}`, but `{near}`; rename it to `{name}` if it is that, else to something less like it"
                ),
            )),
            None => Ok(false),
        }
    }

    /// The field `name` of shape `[n, width]`.
    pub(crate) fn matrix(&self, name: &str) -> Result<Field<'_>> {
        let field = self.field(name, "[n, width]")?;
        match field.rank {
            2 => Ok(field),
            _ => Err(self.wrong_shape(&field, "[n, width]")),
        }
    }

    /// The field `name` of shape `[n]` or `[n, 1]`.
    pub(crate) fn column(&self, name: &str) -> Result<Field<'_>> {
        let field = self.field(name, "[n] or [n, 1]")?;
        match field.width {
            1 => Ok(field),
            _ => Err(self.wrong_shape(&field, "[n] or [n, 1]")),
        }
    }

    /// The text in the field `name`, if there is such a field.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        if !self.names.iter().any(|n| n == name) {
            return Ok(None);
        }
        let dataset = self.dataset(name)?;
        self.check_size(name, &dataset)?;
        let text = dataset.read_strings().map_err(|e| self.error(name, e))?;
        text.into_iter().next().map(Some).ok_or_else(|| self.problem(format!("`{name}` is empty")))
    }

    /// An error about `path` as a whole.
    pub(crate) fn problem(&self, problem: String) -> Error {
        Error::file(&self.path, problem)
    }

    fn field(&self, name: &str, expected: &str) -> Result<Field<'_>> {
        let dataset = self.dataset(name)?;
        let shape = dataset.shape();
        let (rank, rows, width) = match shape[..] {
            [rows] => (1, rows, 1),
            [rows, width] => (2, rows, width),
            _ => return Err(self.problem(format!("`{name}` has shape {shape:?}: expected {expected}"))),
        };
        if rows == 0 || width == 0 {
            return Err(self.problem(format!("`{name}` has shape {shape:?}: there is nothing in it")));
        }
        self.check_size(name, &dataset)?;
        Ok(Field { source: self, name: name.to_owned(), dataset, rank, rows, width })
    }

    /// Refuses a dataset that declares more than its file can hold, before anything is allocated for it.
    fn check_size(&self, name: &str, dataset: &H5Dataset) -> Result<()> {
        let layout = dataset.storage_layout().map_err(|e| self.error(name, e))?;
        let external = dataset.external_files().map_err(|e| self.error(name, e))?;
        if layout == StorageLayout::Virtual || !external.is_empty() {
            return Err(self.problem(format!("`{name}` is kept in other files: copy it into this one")));
        }
        let bytes = |extent: &[usize]| {
            extent.iter().try_fold(dataset.element_size() as u64, |size, &d| size.checked_mul(d as u64))
        };
        let chunk = dataset.chunk_dims().unwrap_or_default();
        let left = self.bytes_left.get();
        match (bytes(&dataset.shape()), bytes(&chunk)) {
            (Some(all), Some(one)) if all <= left && one <= left => {
                self.bytes_left.set(left - all);
                Ok(())
            }
            _ => Err(self.problem(format!(
                "`{name}` declares shape {:?} in chunks of {chunk:?} with {} bytes a number, more than a file of this \
                 size can hold: it is damaged",
                dataset.shape(),
                dataset.element_size()
            ))),
        }
    }

    fn dataset(&self, name: &str) -> Result<H5Dataset> {
        if !self.contains(name) {
            let hint = match self.nearest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.names.is_empty() => "it holds no data at all".into(),
                None => {
                    let some: Vec<_> = self.names.iter().take(12).map(|n| format!("`{n}`")).collect();
                    format!("it holds {}{}", some.join(", "), if self.names.len() > 12 { ", …" } else { "" })
                }
            };
            return Err(self.problem(format!("no field `{name}`: {hint}")));
        }
        self.file.dataset(name).map_err(|e| self.error(name, e))
    }

    /// The dataset whose last path component is spelt most like `name`, if any is nearly the same.
    fn nearest(&self, name: &str) -> Option<&str> {
        let distance = |n: &str| edit_distance(n.rsplit('/').next().unwrap_or(n), name);
        let near = self.names.iter().min_by_key(|n| distance(n))?;
        (distance(near) <= 2).then_some(near)
    }

    fn wrong_shape(&self, field: &Field<'_>, expected: &str) -> Error {
        self.problem(format!("`{}` has shape {:?}: expected {expected}", field.name, field.dataset.shape()))
    }

    fn error(&self, name: &str, error: Hdf5Error) -> Error {
        self.problem(format!("`{name}` cannot be read: {}", words(&error)))
    }
}

impl Field<'_> {
    /// All numbers, row by row, as float32. Integers are converted; what is not finite in float32 is an error.
    pub(crate) fn read(&self) -> Result<Vec<f32>> {
        let all = 0..self.rows;
        let [values] = self.read_runs([std::slice::from_ref(&all)])?;
        Ok(values)
    }

    /// As [`Field::read`], but for each list of ascending runs of rows only the rows in it, all in one pass over the file.
    /// Rows in no list are checked, too.
    pub(crate) fn read_runs<const N: usize>(&self, lists: [&[Range<usize>]; N]) -> Result<[Vec<f32>; N]> {
        let mut arrays = lists.map(|runs| zeros(runs.iter().map(Range::len).sum::<usize>() * self.width));
        let mut left = arrays.each_mut().map(|array| &mut array[..]);
        let mut bands: Vec<(Range<usize>, [Sink<'_>; N])> = Vec::new();
        for band in self.bands() {
            let sinks = std::array::from_fn(|i| {
                let runs = &lists[i][lists[i].partition_point(|run| run.end <= band.start)..];
                let inside = |run: &Range<usize>| run.end.min(band.end) - run.start.max(band.start);
                let rows: usize = runs.iter().take_while(|run| run.start < band.end).map(inside).sum();
                let (values, others) = std::mem::take(&mut left[i]).split_at_mut(rows * self.width);
                left[i] = others;
                Sink { runs, values }
            });
            bands.push((band, sinks));
        }
        if bands.len() == 1 {
            bands.into_iter().try_for_each(|(band, sinks)| self.fill(band, sinks))?;
        } else {
            // The reader beneath serves one thread, so each gets one of its own.
            let (path, name, keep) = (&self.source.path, &self.name, self.source.keep_not_finite);
            let read = |(band, sinks)| {
                let source = Source { keep_not_finite: keep, ..Source::open(path)? };
                source.field(name, "[n, width]")?.fill(band, sinks)
            };
            let results: Vec<Result<()>> = bands.into_par_iter().map(read).collect();
            results.into_iter().collect::<Result<()>>()?; // the first of them, in the order of the file
        }
        Ok(arrays)
    }

    /// All rows, in as many parts as there are threads if these have enough to do; whole chunks each.
    fn bands(&self) -> Vec<Range<usize>> {
        let count = (self.rows * self.width / LEAST_FOR_A_THREAD).clamp(1, rayon::current_num_threads());
        let chunk = self.chunk_rows();
        let rows = self.rows.div_ceil(count).div_ceil(chunk) * chunk;
        (0..self.rows).step_by(rows).map(|start| start..self.rows.min(start + rows)).collect()
    }

    /// Rows of a chunk; 1 where there are no chunks.
    fn chunk_rows(&self) -> usize {
        self.dataset.chunk_dims().and_then(|c| c.first().copied()).unwrap_or(1).clamp(1, self.rows)
    }

    /// Reads rows block by block, checks each block while the processor still has it at hand, and gives the sinks theirs.
    fn fill<const N: usize>(&self, band: Range<usize>, mut sinks: [Sink<'_>; N]) -> Result<()> {
        if let [Sink { runs: [run, ..], values }] = &mut sinks[..]
            && run.start <= band.start
            && band.end <= run.end
        {
            // All of it goes to one place, so straight there.
            let layout = self.layout()?;
            let block = self.block_rows(&layout);
            for (i, values) in values.chunks_mut(block * self.width).enumerate() {
                let start = band.start + i * block;
                let rows = start..start + values.len() / self.width;
                self.read_block(&layout, &rows, values)?;
                self.check_finite(&rows, values)?;
            }
            return Ok(());
        }
        self.read_blocks(band, |rows, block| {
            self.check_finite(&rows, block)?;
            sinks.iter_mut().for_each(|sink| sink.take(&rows, block, self.width));
            Ok(())
        })
    }

    fn check_finite(&self, rows: &Range<usize>, block: &[f32]) -> Result<()> {
        match first_not_finite(block).filter(|_| !self.source.keep_not_finite) {
            None => Ok(()),
            Some(i) => Err(self.source.problem(format!(
                "`{}` in row {}, column {} is not a finite float32 number: remove or repair such rows",
                self.name,
                rows.start + i / self.width,
                i % self.width
            ))),
        }
    }

    /// All values as yes or no: bool, or numbers that are 0 or 1.
    pub(crate) fn read_flags(&self) -> Result<Vec<bool>> {
        let datatype = self.dataset.datatype().map_err(|e| self.source.error(&self.name, e))?;
        let wrong = |value: f32, row: usize| {
            self.source.problem(format!("`{}` is {value} in row {row}: expected 0 or 1", self.name))
        };
        let mut flags = Vec::with_capacity(self.rows);
        if is_bool(&datatype) {
            // One byte each, so no byte order or width can be mistaken; enumerations are no numbers to the reader.
            let bytes = self.dataset.read_raw_bytes().map_err(|e| self.source.error(&self.name, e))?;
            if let Some(row) = bytes.iter().position(|b| *b > 1) {
                return Err(wrong(f32::from(bytes[row]), row));
            }
            flags.extend(bytes.iter().map(|b| *b == 1));
        } else {
            self.read_blocks(0..self.rows, |rows, block| {
                if let Some(i) = block.iter().position(|v| *v != 0.0 && *v != 1.0) {
                    return Err(wrong(block[i], rows.start + i));
                }
                flags.extend(block.iter().map(|v| *v == 1.0));
                Ok(())
            })?;
        }
        match flags.len() == self.rows {
            true => Ok(flags),
            false => Err(self.source.problem(format!("`{}` is cut short", self.name))),
        }
    }

    /// Calls `use_block` on these rows in turn, as float32. They begin with a chunk.
    fn read_blocks(
        &self,
        band: Range<usize>,
        mut use_block: impl FnMut(Range<usize>, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let layout = self.layout()?;
        let block_rows = self.block_rows(&layout);
        let mut block = Vec::new();
        for start in band.clone().step_by(block_rows) {
            let rows = start..band.end.min(start + block_rows);
            block.resize(rows.len() * self.width, 0.0);
            self.read_block(&layout, &rows, &mut block)?;
            use_block(rows, &block)?;
        }
        Ok(())
    }

    /// Rows read at a time: whole chunks where these have to be unpacked, so that none is unpacked twice.
    fn block_rows(&self, layout: &Layout) -> usize {
        let chunk_rows = self.chunk_rows();
        let whole_chunks = |values: usize| {
            let rows = (values / self.width).max(self.rows / MOST_BLOCKS);
            (rows / chunk_rows).max(1) * chunk_rows
        };
        match layout {
            Layout::Plain => PIECE.div_ceil(self.width),
            Layout::NarrowChunks { .. } => chunk_rows,
            Layout::Packed => whole_chunks(PIECE),
            Layout::Other(_) => whole_chunks(BLOCK),
        }
    }

    /// Fills `block` with these rows, as float32.
    fn read_block(&self, layout: &Layout, rows: &Range<usize>, block: &mut [f32]) -> Result<()> {
        match layout {
            Layout::Plain | Layout::Packed => self.read_slice(rows, block),
            Layout::NarrowChunks { shape } => self.read_narrow_chunks(rows, *shape, block),
            Layout::Other(datatype) => self.read_converted(rows, datatype, block),
        }
    }

    fn layout(&self) -> Result<Layout> {
        let fail = |e| self.source.error(&self.name, e);
        let datatype = self.dataset.datatype().map_err(fail)?;
        if datatype != f32::hdf5_type() {
            return Ok(Layout::Other(datatype));
        }
        if !self.dataset.filters().map_err(fail)?.is_empty() {
            return Ok(Layout::Packed);
        }
        let Some(chunk) = self.dataset.chunk_dims() else { return Ok(Layout::Plain) };
        let shape = [chunk.first().copied().unwrap_or(1).max(1), chunk.get(1).copied().unwrap_or(1).max(1)];
        let chunks = self.rows.div_ceil(shape[0]) * self.width.div_ceil(shape[1]);
        Ok(match chunks <= MOST_CHUNKS {
            false => Layout::Packed,
            true if shape[1] < self.width => Layout::NarrowChunks { shape },
            true => Layout::Plain,
        })
    }

    /// Fills `block` with these rows of float32 numbers.
    fn read_slice(&self, rows: &Range<usize>, block: &mut [f32]) -> Result<()> {
        let (starts, counts) = ([rows.start, 0], [rows.len(), self.width]);
        let read = self.dataset.read_slice_into(block, &starts[..self.rank], &counts[..self.rank]);
        read.map_err(|e| self.source.error(&self.name, e))
    }

    /// Fills `block` with the rows of one row of chunks, each of which has some columns only. The reader beneath would put
    /// them together number by number.
    fn read_narrow_chunks(&self, rows: &Range<usize>, shape: [usize; 2], block: &mut [f32]) -> Result<()> {
        let [chunk_rows, columns] = shape;
        let mut chunks = Vec::new();
        for chunk in 0..self.width.div_ceil(columns) {
            match self.dataset.read_chunk_raw_at(&[rows.start / chunk_rows, chunk]) {
                Ok((bytes, _)) if Some(bytes.len()) == chunk_rows.checked_mul(4 * columns) => {
                    chunks.push(bytes)
                }
                // Never written, or cut off: the reader knows what to make of it.
                _ => return self.read_slice(rows, block),
            }
        }
        // So few rows at a time that they stay in the processor's own memory until all their columns are there.
        for (tile, values) in block.chunks_mut(TILE * self.width).enumerate() {
            for (chunk, bytes) in chunks.iter().enumerate() {
                let from = tile * TILE * 4 * columns;
                let column = chunk * columns;
                let width = columns.min(self.width - column);
                let parts = bytes[from..].chunks_exact(4 * columns);
                for (row, part) in values.chunks_exact_mut(self.width).zip(parts) {
                    for (value, &bytes) in row[column..column + width].iter_mut().zip(part.as_chunks().0) {
                        *value = f32::from_le_bytes(bytes);
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills `block` with these rows of numbers that are not float32.
    fn read_converted(
        &self,
        rows: &Range<usize>,
        datatype: &DatatypeMessage,
        block: &mut [f32],
    ) -> Result<()> {
        let (starts, counts) = ([rows.start, 0], [rows.len(), self.width]);
        match datatype {
            DatatypeMessage::FloatingPoint { size: 8, .. } => {
                self.read_numbers(&starts, &counts, |v: f64| v as f32, block)
            }
            DatatypeMessage::FloatingPoint { .. } => self.read_numbers(&starts, &counts, |v: f32| v, block),
            DatatypeMessage::FixedPoint { .. } => {
                self.read_numbers(&starts, &counts, |v: i128| v as f32, block)
            }
            other => Err(self.source.problem(format!(
                "`{}` holds {}: expected numbers (float32, float64 or integers)",
                self.name,
                type_name(other)
            ))),
        }
    }

    fn read_numbers<T: ReadNumeric>(
        &self,
        starts: &[usize; 2],
        counts: &[usize; 2],
        convert: impl Fn(T) -> f32,
        block: &mut [f32],
    ) -> Result<()> {
        let read = self.dataset.read_numeric_slice_as::<T>(&starts[..self.rank], &counts[..self.rank]);
        let numbers = read.map_err(|e| self.source.error(&self.name, e))?;
        if numbers.len() != block.len() {
            return Err(self.source.problem(format!("`{}` is cut short", self.name)));
        }
        block.iter_mut().zip(numbers).for_each(|(value, number)| *value = convert(number));
        Ok(())
    }
}

/// How numbers lie in a file.
enum Layout {
    /// float32, row by row.
    Plain,
    /// float32 in chunks that are narrower than a row, this many rows and columns each.
    NarrowChunks { shape: [usize; 2] },
    /// float32, compressed or in many chunks.
    Packed,
    /// Numbers of another type.
    Other(DatatypeMessage),
}

/// Where the rows in some ascending runs go, one after another.
struct Sink<'a> {
    /// Those not yet (wholly) taken.
    runs: &'a [Range<usize>],
    /// Room for them.
    values: &'a mut [f32],
}

impl Sink<'_> {
    /// Takes its part of a block of rows that follows the block before.
    fn take(&mut self, rows: &Range<usize>, block: &[f32], width: usize) {
        while let Some(run) = self.runs.first() {
            let (start, end) = (run.start.max(rows.start), run.end.min(rows.end));
            if start < end {
                let part = &block[(start - rows.start) * width..(end - rows.start) * width];
                let (now, later) = std::mem::take(&mut self.values).split_at_mut(part.len());
                now.copy_from_slice(part);
                self.values = later;
            }
            if run.end > rows.end {
                return; // the rest is in the next block
            }
            self.runs = &self.runs[1..];
        }
    }
}

/// Whether this is how h5py stores numpy's bool: an enumeration of FALSE and TRUE over one byte.
fn is_bool(datatype: &DatatypeMessage) -> bool {
    matches!(datatype, DatatypeMessage::Enum { base, members }
        if matches!(**base, DatatypeMessage::FixedPoint { size: 1, .. })
            && members.iter().all(|m| matches!((m.name.as_str(), &m.value[..]), ("FALSE", [0]) | ("TRUE", [1]))))
}

/// An element type in numpy's words.
fn type_name(datatype: &DatatypeMessage) -> String {
    match datatype {
        _ if is_bool(datatype) => "bool".into(),
        DatatypeMessage::FloatingPoint { size, .. } => format!("float{}", u64::from(*size) * 8),
        DatatypeMessage::FixedPoint { size, signed, .. } => {
            format!("{}int{}", if *signed { "" } else { "u" }, u64::from(*size) * 8)
        }
        DatatypeMessage::FixedString { .. } | DatatypeMessage::VarLenString { .. } => "string".into(),
        DatatypeMessage::Compound { .. } => "compound".into(),
        DatatypeMessage::Enum { .. } => "enumeration".into(),
        other => other.to_string(),
    }
}

/// What the reader says, without its names for its own layers.
pub(crate) fn words(error: &Hdf5Error) -> String {
    let mut text = error.to_string();
    for layer in ["hdf5-io error: ", "I/O error: ", "format error: ", "invalid state: ", "type mismatch: "] {
        if let Some(rest) = text.strip_prefix(layer) {
            text = rest.to_owned();
        }
    }
    text
}

/// Insertions, deletions and replacements that turn `a` into `b`.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_are_exact() {
        for (a, b, expected) in
            [("", "abc", 3), ("timeout", "timeouts", 1), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
            assert_eq!(edit_distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn types_are_named_as_numpy_names_them() {
        assert_eq!(type_name(&DatatypeMessage::f32_type()), "float32");
        assert_eq!(type_name(&DatatypeMessage::u8_type()), "uint8");
        assert_eq!(type_name(&DatatypeMessage::i64_type()), "int64");
        assert_eq!(type_name(&DatatypeMessage::bool_type()), "bool");
        assert_eq!(type_name(&DatatypeMessage::fixed_string(3)), "string");
    }
}
