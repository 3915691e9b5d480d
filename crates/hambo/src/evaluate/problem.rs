//! All that a policy is evaluated on, and whether it belongs together.

use super::config::EvaluationConfig;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::policy::Policy;
use crate::task::{Constraint, Task};
use crate::{Error, Result};
use hambo_engine::backend::Device;

/// All that a policy is evaluated on: for those who bring a model of their own. Others take an
/// [`Evaluator`](super::Evaluator).
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Where to compute.
    pub device: &'a Device,
    /// The logs.
    pub data: &'a Transitions,
    /// The model that was fitted on them.
    pub model: &'a dyn Dynamics,
    /// Reward, termination, initial states.
    pub task: &'a Task,
    /// Further rewards, each with a bound of its own on the same model; δ is shared by all.
    pub constraints: &'a [Constraint],
    /// What is asked.
    pub config: &'a EvaluationConfig,
}

impl Problem<'_> {
    /// An error where data, model, tasks and policy do not belong together.
    pub(super) fn check(&self, policy: &Policy) -> Result<()> {
        let Problem { device, data, model, config, .. } = *self;
        config.validate()?;
        config.check_model(model)?;
        // Networks live on one device; a Gaussian process lives on the host, which every device has.
        if !model.on_device(device) && model.has_particles() {
            let device = device.name();
            return Err(Error::Mismatch(format!(
                "the model is on another device than {device}: save and load it there"
            )));
        }
        for task in self.constraints.iter().map(|c| &c.task).chain([self.task]) {
            task.check_data(data)?;
            policy.check_task(task)?;
            check_model(model, task)?;
        }
        model.check_data(data)
    }
}

fn check_model(model: &dyn Dynamics, task: &Task) -> Result<()> {
    let (name, observed) = (&task.name, model.layout().observed);
    if (observed, model.action_dim()) != (task.state_dim, task.action_dim) {
        return Err(Error::Mismatch(format!(
            "the model has states of {observed} and actions of {} dimensions, task {name} has {} and {}",
            model.action_dim(),
            task.state_dim,
            task.action_dim
        )));
    }
    match task.learns_reward() && !model.layout().reward {
        true => Err(Error::Mismatch(format!(
            "task {name} asks for the learned reward, which this model does not predict: fit one that does (`reward` \
             in its settings)"
        ))),
        false => Ok(()),
    }
}
