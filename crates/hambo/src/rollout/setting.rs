//! What is asked of trajectories.

use super::Tail;
use crate::policy::Policy;
use crate::task::Task;

/// The question that trajectories answer.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Reward, termination, bounds.
    pub task: &'a Task,
    /// The policy under evaluation.
    pub policy: &'a Policy,
    /// Steps, T.
    pub horizon: usize,
    /// γ
    pub discount: f64,
    /// What a step pays at most after a trajectory has left the range of the logs, see [`Task::lowest_reward`].
    pub worst_reward: f32,
    /// Where the worst episodes are asked about, in place of all: which are among them.
    pub tail: Option<Tail>,
}

impl Setting<'_> {
    /// The lowest return that a trajectory can have: the worst reward at every step.
    pub(crate) fn floor(&self) -> f64 {
        f64::from(self.worst_reward) * self.total_weight()
    }

    /// Σ γᵗ over the horizon.
    pub(crate) fn total_weight(&self) -> f64 {
        (0..self.horizon).map(|t| self.discount.powi(t as i32)).sum()
    }
}
