//! Logged transitions: what they are, how they are read, standardized and split.

mod columns;
mod csv;
mod d4rl;
mod episodes;
mod hdf5;
mod log;
mod memory;
mod minari;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_pages;
mod read;
mod split;
mod standardize;
mod survey;
mod table;
#[cfg(feature = "parquet")]
mod thrift;
mod transitions;

pub use columns::ColumnNames;
pub use d4rl::{read_d4rl, write_d4rl};
pub use hdf5::Entry;
pub(crate) use hdf5::{Source, edit_distance};
pub use log::{Format, Loaded};
pub use read::{ReadOptions, Subsample, attributes, describe, digest, locate, read, read_all};
pub use split::Split;
pub(crate) use split::check_holdout;
pub use standardize::{Standardizer, refuse_constant_columns};
pub use survey::{ColumnSurvey, Range, Survey, survey};
pub use transitions::{Columns, Transitions};
