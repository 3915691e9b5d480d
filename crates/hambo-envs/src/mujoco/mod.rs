//! Gymnasium's Hopper and HalfCheetah on MuJoCo: the same states, observations and rewards, bit for bit, as
//! gymnasium 1.4 with mujoco 3.17.0. The models (XML) are gymnasium's, see LICENSE.gymnasium.

mod half_cheetah;
mod hopper;
mod library;
#[cfg(test)]
mod tests;

pub(super) use half_cheetah::{HalfCheetah, task as half_cheetah_task};
pub(super) use hopper::{Hopper, task as hopper_task};

use hambo::Result;
use hambo::task::{Initial, Task};
use hambo_engine::expression::Program;
use library::{Model, Simulation};
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
struct LazyModel {
    xml: &'static str,
    model: OnceLock<Model>,
}

impl LazyModel {
    const fn new(xml: &'static str) -> Self {
        LazyModel { xml, model: OnceLock::new() }
    }

    fn get(&'static self) -> Result<&'static Model> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let model = Model::compile(self.xml)?;
        Ok(self.model.get_or_init(|| model))
    }
}

/// Holds an action for that many steps of the simulator, of `frame` seconds each: the mean speed along the way, or none
/// if the simulator broke down.
fn advance(simulation: &mut Simulation, action: &[f32], frames: usize, frame: f64) -> Option<f64> {
    let before = simulation.positions()[0];
    let controls: Vec<f64> = action.iter().map(|&a| a.into()).collect();
    let sound = simulation.step(&controls, frames);
    sound.then(|| (simulation.positions()[0] - before) / (frame * frames as f64))
}

/// The task of a robot. The position along the way is not observed, so the reward is no function of what is: it is
/// learned from logged rewards.
fn task(
    name: &str,
    sizes: [usize; 2],
    termination: Option<Program>,
    initial: Initial,
) -> Result<Task> {
    Ok(Task { termination, initial, ..Task::new(name, sizes, "r")?.with_action_bounds(-1.0, 1.0) })
}

/// weight · Σ a². The action is a float32, and NumPy keeps its square, sum and product in float32.
fn control_cost(weight: f32, action: &[f32]) -> f64 {
    let squares: f32 = action.iter().map(|a| a * a).fold(0.0, |sum, square| sum + square);
    f64::from(weight * squares)
}
