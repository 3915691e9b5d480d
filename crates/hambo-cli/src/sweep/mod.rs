//! Many evaluations: a plan becomes jobs, workers that share a folder do them, and what they found becomes one table.

mod board;
mod columns;
mod fits;
mod lease;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod ranking;
mod record;
mod settings;
mod status;
mod work;
mod written;

pub use board::{Board, PAGE};
pub use columns::{columns, csv, records};
pub use page::{live, ranked};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use plan::{Job, Plan};
pub use status::Status;
pub use work::Worker;
