//! The confidence set: what an adversary may choose from, and how large it has to be.

mod beta;
mod course;
mod episode;
mod replay;
mod set;
pub mod theory;

pub use beta::{Beta, SetReport, SetRule};
pub(crate) use beta::{confidence_set, large_set, replayed_set};
pub(crate) use replay::replay;
pub use replay::{Evidence, Overstated, Replay};
pub use set::ConfidenceSet;
