//! The paper's experiments, one file a figure or table.

pub mod fig2;
