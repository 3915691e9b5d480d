//! The confidence set: what an adversary may choose from, and how large it has to be.

mod beta;
mod replay;
mod set;
pub mod theory;

pub(crate) use beta::confidence_set;
pub use beta::{Beta, SetReport, SetRule};
pub use replay::TrajectoryBeta;
pub use set::ConfidenceSet;
