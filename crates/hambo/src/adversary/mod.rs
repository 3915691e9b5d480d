//! Adversaries: how large their set is, and searches for the worst future inside it.

mod adjoint;
pub(crate) mod pathwise;
mod portfolio;
mod sac;
mod size;
#[cfg(test)]
mod tests;
mod trajectory;

pub(crate) use portfolio::search;
pub use portfolio::{Candidate, SearchConfig, SearchReport};
pub use sac::SacConfig;
pub(crate) use size::confidence_set;
pub use size::{Beta, SetReport};
pub use trajectory::TrajectoryBeta;
