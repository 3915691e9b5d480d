//! Adversaries: searches for the worst future inside the confidence set.

pub(crate) mod adjoint;
mod config;
mod dqn;
mod experience;
mod learning;
mod member_search;
pub(crate) mod pathwise;
mod report;
mod sac;
mod search;
mod shift_search;
mod survival;
#[cfg(test)]
mod tests;

pub use config::{Optimizers, SearchConfig};
pub use dqn::DqnConfig;
pub use learning::LearningConfig;
pub(crate) use member_search::search_members;
pub use report::{Candidate, FoundBy, SearchReport};
pub use sac::SacConfig;
pub(crate) use shift_search::search_shifts;
