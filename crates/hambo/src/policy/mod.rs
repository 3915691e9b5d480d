//! Policies: what chooses the actions that are to be evaluated.

mod builtin;

use crate::compute::{Buffer, Device};
use crate::expression::Program;
use crate::task::Task;
use crate::{Error, Result};

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How the user named it.
    pub spec: String,
    state_dim: usize,
    action_dim: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One expression of the state per action dimension.
    Controller(Program),
}

impl Policy {
    /// Reads a policy from its specification, `builtin:NAME[,gain=value…]`.
    pub fn read(spec: &str) -> Result<Self> {
        match spec.strip_prefix("builtin:") {
            Some(builtin) => builtin::read(spec, builtin),
            None => Err(Error::Mismatch(format!(
                "policy {spec:?}: not a kind of policy that can be read; expected builtin:NAME with NAME one of {}",
                builtin::names()
            ))),
        }
    }

    fn controller(spec: &str, state_dim: usize, program: Program) -> Self {
        let action_dim = program.outputs().len();
        Policy { spec: spec.to_owned(), state_dim, action_dim, kind: Kind::Controller(program) }
    }

    /// An error that says which sizes differ, if the policy does not belong to this task.
    pub fn check_task(&self, task: &Task) -> Result<()> {
        if (self.state_dim, self.action_dim) != (task.state_dim, task.action_dim) {
            return Err(Error::Mismatch(format!(
                "policy {} takes states of {} and gives actions of {} dimensions, task {} has {} and {}",
                self.spec, self.state_dim, self.action_dim, task.name, task.state_dim, task.action_dim
            )));
        }
        Ok(())
    }

    /// actions `[rows, action]` ← π(states), before any limit.
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let none = device.zeros(0);
        match &self.kind {
            Kind::Controller(program) => device.evaluate(program, states, &none, &none, actions),
        }
    }

    /// d_states += d_actionsᵀ · dπ/ds.
    pub(crate) fn back(&self, device: &Device, states: &Buffer, d_actions: &Buffer, d_states: &mut Buffer) {
        let none = device.zeros(0);
        let [mut no_action, mut no_next] = [device.zeros(0), device.zeros(0)];
        match &self.kind {
            Kind::Controller(program) => device.evaluate_gradient(
                program,
                [states, &none, &none],
                d_actions,
                [d_states, &mut no_action, &mut no_next],
            ),
        }
    }
}
