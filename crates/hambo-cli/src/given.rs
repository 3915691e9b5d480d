//! What another program gives in memory, in place of what flags name.

use hambo::Policy;
use hambo::data::Logs;
use hambo::run::Observer;
use hambo::task::{Initial, TaskFunctions};
use hambo_envs::Simulation;
use std::path::PathBuf;

/// What is given in memory, in place of what the flags name.
pub struct Inputs {
    /// The logs, in place of `--data`.
    pub logs: Option<Logs>,
    /// One for each of `--policies`, or nothing.
    pub policies: Vec<Subject>,
    /// Bounds of the actions and initial states, where an environment is given that is not built in.
    pub environment: Option<Environment>,
    /// The same environment, to measure true returns in.
    pub simulation: Option<Box<dyn Simulation>>,
    /// Reward and termination, in place of expressions.
    pub functions: TaskFunctions,
    /// Who watches.
    pub observer: Box<dyn Observer + Send>,
    /// How the run is repeated, in words for the report.
    pub command: String,
    /// The file whose build computes, for what is kept of unfinished work.
    pub program: PathBuf,
}

/// A policy to evaluate.
pub enum Subject {
    /// What the flag says.
    Named,
    /// This one.
    Ready(Box<Policy>),
    /// A function, which becomes a policy when the sizes of states and actions are known.
    Function(Box<dyn Fn([usize; 2]) -> Policy + Send>),
}

/// What is known of an environment that is not built in.
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Smallest and largest actions.
    pub actions: [Vec<f32>; 2],
    /// Where episodes begin.
    pub initial: Initial,
}
