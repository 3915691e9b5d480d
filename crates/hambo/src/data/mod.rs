//! Logged transitions: what they are, how they are read, standardized and split.

mod copies;
mod episodes;
mod folder;
pub(crate) mod formats;
mod given;
pub(crate) mod kind;
mod last_rows;
mod log;
mod memory;
mod place;
mod read;
mod split;
mod standardize;
mod survey;
mod transitions;

pub use folder::{Contents, contents};
pub use formats::Entry;
pub use formats::columns::ColumnNames;
pub use formats::d4rl::{read_d4rl, write_d4rl};
pub(crate) use formats::hdf5::Source;
pub use given::TableColumn;
pub use last_rows::LastRows;
pub use log::{Format, Logs};
pub use read::{ReadOptions, Subsample, attributes, describe, digest, locate};
pub(crate) use split::check_holdout;
pub use split::{Fold, Split};
pub use standardize::{Standardizer, refuse_constant_columns};
pub use survey::{ColumnSurvey, Range, Survey, survey};
pub use transitions::{Columns, Transitions};
