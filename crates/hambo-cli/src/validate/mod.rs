//! A benchmark of bounds: suites of cases with known truths, run one by one, and what they say together.

mod book;
mod cases;
mod page;
mod plan;
mod reading;
mod record;
mod settings;
mod sheet;
mod statistics;
mod suite;
mod table;
mod work;

pub use book::Book;
pub use cases::{Fit, fits, shard};
pub use page::html;
pub use plan::Plan;
pub use record::{Number, Record, TruthRecord};
pub use sheet::markdown;
pub use suite::Written;
pub use table::Table;
pub use work::Lab;
