//! Logged transitions: what they are, how they are read, standardized and split.

mod d4rl;
mod episodes;
mod hdf5;
mod split;
mod standardize;
mod transitions;

pub use d4rl::{Loaded, read_d4rl, write_d4rl};
pub(crate) use hdf5::Source;
pub use hdf5::{Entry, attributes, describe};
pub use split::Split;
pub(crate) use split::check_holdout;
pub use standardize::{Standardizer, refuse_constant_columns};
pub use transitions::{Columns, Transitions};
