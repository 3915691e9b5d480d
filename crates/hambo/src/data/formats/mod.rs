//! The files that logs come in.

pub(super) mod arrow;
pub(crate) mod by_episode;
pub(crate) mod columns;
pub(super) mod csv;
pub(super) mod d4rl;
pub(super) mod demos;
mod flatbuffer;
pub(crate) mod hdf5;
#[cfg(feature = "parquet")]
mod lerobot;
pub(super) mod minari;
mod minari_folder;
pub(super) mod npy;
pub(super) mod npz;
mod npz_episodes;
#[cfg(feature = "parquet")]
pub(super) mod parquet;
#[cfg(feature = "parquet")]
mod parquet_cells;
#[cfg(feature = "parquet")]
mod parquet_pages;
pub(super) mod table;
#[cfg(feature = "parquet")]
mod thrift;

/// Deflate shrinks at most 1032-fold, so a file cannot hold more than about this many times its own size.
pub(crate) const LARGEST_EXPANSION: u64 = 1100;
/// What a file may declare beyond that: chunks never written take no room in the file.
pub(crate) const FREE_BYTES: u64 = 64 << 20;

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
