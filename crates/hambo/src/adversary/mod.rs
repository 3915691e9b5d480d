//! Adversaries: searches for the worst future inside the model's uncertainty.

pub(crate) mod pathwise;
mod portfolio;
mod sac;
#[cfg(test)]
mod tests;

pub(crate) use portfolio::search;
pub use portfolio::{Candidate, SearchConfig, SearchReport};
pub use sac::SacConfig;
