//! The numbers of one field, read in pieces by all cores, the way its bytes lie in the file.

use crate::Result;
use crate::data::formats::hdf5::{Source, is_bool, type_name};
use crate::data::memory::zeros;
use crate::data::transitions::first_not_finite;
use rayon::prelude::*;
use rust_hdf5::types::H5Type;
use rust_hdf5::{DatatypeMessage, H5Dataset, ReadNumeric};
use std::ops::Range;

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
/// Numbers for which another thread is worthwhile.
const LEAST_FOR_A_THREAD: usize = 1 << 20;

/// A dataset of numbers whose shape is checked: `[rows, width]`.
pub(crate) struct Field<'a> {
    pub(super) source: &'a Source,
    pub(crate) name: String,
    pub(super) dataset: H5Dataset,
    pub(super) rank: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
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
    pub(crate) fn read_runs<const N: usize>(
        &self,
        lists: [&[Range<usize>]; N],
    ) -> Result<[Vec<f32>; N]> {
        let mut arrays =
            lists.map(|runs| zeros(runs.iter().map(Range::len).sum::<usize>() * self.width));
        let mut left = arrays.each_mut().map(|array| &mut array[..]);
        let mut bands: Vec<(Range<usize>, [Sink<'_>; N])> = Vec::new();
        for band in self.bands() {
            let sinks = std::array::from_fn(|i| {
                let runs = &lists[i][lists[i].partition_point(|run| run.end <= band.start)..];
                let inside = |run: &Range<usize>| run.end.min(band.end) - run.start.max(band.start);
                let rows: usize =
                    runs.iter().take_while(|run| run.start < band.end).map(inside).sum();
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
        let count =
            (self.rows * self.width / LEAST_FOR_A_THREAD).clamp(1, rayon::current_num_threads());
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
            let bytes =
                self.dataset.read_raw_bytes().map_err(|e| self.source.error(&self.name, e))?;
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
        let shape =
            [chunk.first().copied().unwrap_or(1).max(1), chunk.get(1).copied().unwrap_or(1).max(1)];
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
    fn read_narrow_chunks(
        &self,
        rows: &Range<usize>,
        shape: [usize; 2],
        block: &mut [f32],
    ) -> Result<()> {
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
                    for (value, &bytes) in
                        row[column..column + width].iter_mut().zip(part.as_chunks().0)
                    {
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
            DatatypeMessage::FloatingPoint { .. } => {
                self.read_numbers(&starts, &counts, |v: f32| v, block)
            }
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
        let read =
            self.dataset.read_numeric_slice_as::<T>(&starts[..self.rank], &counts[..self.rank]);
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
