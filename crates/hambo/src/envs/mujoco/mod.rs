//! Gymnasium's Hopper and HalfCheetah on MuJoCo: the same states, observations and rewards, bit for bit, as
//! gymnasium 1.4 with mujoco 3.17.0. The models (XML) are gymnasium's, see LICENSE.gymnasium.

mod half_cheetah;
mod hopper;
mod library;
#[cfg(test)]
mod tests;

pub(super) use half_cheetah::{HalfCheetah, task as half_cheetah_task};
pub(super) use hopper::{Hopper, task as hopper_task};

use crate::Result;
use crate::expression::{Program, Scope};
use library::Model;
use std::sync::OnceLock;

/// Which of gymnasium's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As in the time of the paper and of D4RL; v2 and v3 pay and end the same way.
    V4,
    /// Hopper: no reward for being healthy at the step where it falls. HalfCheetah: nothing changed.
    V5,
}

/// A robot's model, compiled when it is first asked for.
struct Compiled {
    xml: &'static str,
    model: OnceLock<Model>,
}

impl Compiled {
    const fn new(xml: &'static str) -> Self {
        Compiled { xml, model: OnceLock::new() }
    }

    fn get(&'static self) -> Result<&'static Model> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let model = Model::compile(self.xml)?;
        Ok(self.model.get_or_init(|| model))
    }
}

/// The position along the way is not observed, and so the reward is no function of what is: it is learned.
fn learned_reward(state_dim: usize, action_dim: usize) -> Result<Program> {
    Program::parse(&["r"], state_dim, action_dim, Scope::REWARD)
}

/// weight · Σ a². The action is a float32, and NumPy keeps its square, sum and product in float32.
fn control_cost(weight: f32, action: &[f32]) -> f64 {
    let squares: f32 = action.iter().map(|a| a * a).fold(0.0, |sum, square| sum + square);
    f64::from(weight * squares)
}
