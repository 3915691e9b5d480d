//! Adversaries: how large their set is, and searches for the worst future inside it.

mod adjoint;
mod dqn;
mod learning;
mod memory;
pub(crate) mod pathwise;
mod portfolio;
mod sac;
mod saved;
mod size;
#[cfg(test)]
mod tests;
mod trajectory;

pub use dqn::DqnConfig;
pub use learning::Learning;
pub use portfolio::{Candidate, Optimisers, SearchConfig, SearchReport};
pub(crate) use portfolio::{search, search_members};
pub use sac::SacConfig;
pub use size::{Beta, SetReport};
pub(crate) use size::{NO_GRADIENT, TOO_FEW_EPISODES, confidence_set};
pub use trajectory::TrajectoryBeta;
