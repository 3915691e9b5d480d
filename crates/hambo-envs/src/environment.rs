//! What an environment is, and how instances of it are made.

use hambo::Result;
use hambo::task::Task;
use hambo_engine::rng::Generator;

/// A simulated system.
pub trait Environment: Send {
    /// Starts an episode.
    fn reset(&mut self, generator: &mut Generator);
    /// Makes one step. The action is within the task's bounds. None if the simulator broke down: there is no new state,
    /// and the episode is over.
    fn step(&mut self, action: &[f32]) -> Option<Outcome>;
    /// Writes the state as a policy sees it.
    fn observe(&self, state: &mut [f32]);
    /// Puts the system into the state that a policy sees as this one; false if what a policy sees does not determine
    /// the whole state.
    fn place(&mut self, _state: &[f32]) -> bool {
        false
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// r(s, a).
    pub reward: f64,
    /// Whether the new state ends the episode for good.
    pub terminal: bool,
}

/// An environment to run episodes in: its task, and how instances of it are made.
pub struct EnvSpec {
    /// Name for messages and files.
    pub name: String,
    /// Its reward, bounds and initial states.
    pub task: Task,
    /// Steps after which an episode is usually cut when data are collected or a policy is trained.
    pub time_limit: usize,
    pub(crate) make: Box<dyn Fn() -> Result<Box<dyn Environment>> + Send + Sync>,
}

impl EnvSpec {
    /// An environment of one's own; `make` gives a fresh instance, of which many are stepped side by side.
    pub fn new<E: Environment + 'static>(
        task: Task,
        time_limit: usize,
        make: impl Fn() -> E + Send + Sync + 'static,
    ) -> Self {
        let name = task.name.clone();
        EnvSpec { name, task, time_limit, make: Box::new(move || Ok(Box::new(make()))) }
    }

    /// A fresh instance. An error if it needs a library that is not there.
    pub fn make(&self) -> Result<Box<dyn Environment>> {
        (self.make)()
    }
}
