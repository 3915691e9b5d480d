//! Adversaries: searches for the worst future inside the model's uncertainty.

pub(crate) mod pathwise;
mod portfolio;

pub(crate) use portfolio::search;
pub use portfolio::{SearchConfig, SearchReport};
