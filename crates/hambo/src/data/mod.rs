//! Logged transitions: what they are, how they are read, standardized and split.

mod transitions;

pub use transitions::{Columns, Transitions};
