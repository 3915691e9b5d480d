//! The experiments of the paper, a folder each: the experiment itself, and its table and plot.

pub mod fig2;

use crate::plot::Panel;
use serde_json::Value;

/// The outcome of an experiment.
pub struct Reproduced {
    /// Table with an introduction, for people.
    pub text: String,
    /// Everything that was measured, for programs.
    pub numbers: Value,
    pub plot: Vec<Panel>,
}
