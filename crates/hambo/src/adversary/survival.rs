//! Ends of episodes as the pathwise adversary sees them.
//!
//! A trajectory's return is Σ_t w_t r_t Π_{k<t} (1 − p_k), where p_k is 1 if step k ended it. The trajectories are those
//! of the task, but on the way back p has the derivative of a softened termination: ending at step k costs what was still
//! to come, dJ/dp_k = −Σ_{t>k} w_t r_t. A trajectory that did end has nothing to come; what it would have had is taken to
//! be the mean of those that went on at the same time.

use crate::Result;
use crate::data::Transitions;
use crate::rollout::World;
use crate::task::Task;
use hambo_engine::backend::{Buffer, Counter, Device};
use hambo_engine::expression::Program;

/// Width of a comparison as a share of the deviation of its two sides' difference in the log: narrow enough that a
/// state of the log's middle is no end (Hopper's height varies by 0.2 and ends an episode below 0.7), wide enough that a
/// policy which falls now and then is seen to.
const WIDTH: f64 = 0.1;

/// The probability of an end, with widths from the log. None where episodes end by the horizon alone, or by a rule that has
/// no comparisons whose sides varied.
pub(super) fn soft_termination(world: &World<'_>, data: &Transitions) -> Result<Option<Program>> {
    let Some(termination) = &world.setting.task.termination else { return Ok(None) };
    let Some(margins) = termination.margins() else { return Ok(None) };
    let count = margins.outputs().len();
    let logged = Task::on_log(&margins, data)?;
    let width = |k: usize| (WIDTH * deviation(logged.iter().skip(k).step_by(count))) as f32;
    let widths: Vec<f32> = (0..count).map(width).collect();
    Ok(termination.softened(&widths).map(|soft| soft.widened(world.model.state_dim())))
}

fn deviation<'a>(values: impl Iterator<Item = &'a f32> + Clone) -> f64 {
    let n = values.clone().count() as f64;
    let mean = values.clone().map(|&x| f64::from(x)).sum::<f64>() / n;
    (values.map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// What ends are worth, along a way back over many trajectories.
pub(super) struct Survival {
    /// The probability of an end, p(s, a, s').
    pub end: Program,
    /// Restarts, each with as many trajectories.
    groups: usize,
    rewards: Buffer,
    /// What each trajectory still earns.
    to_go: Buffer,
    /// Which trajectories go on after the step.
    pub goes_on: Buffer<u32>,
    /// dJ/dp of the step.
    pub d_end: Buffer,
}

impl Survival {
    pub fn new(device: &Device, end: Program, (groups, rows): (usize, usize)) -> Self {
        Survival {
            end,
            groups,
            rewards: device.zeros(rows),
            to_go: device.zeros(rows),
            goes_on: device.zeros(rows),
            d_end: device.zeros(rows),
        }
    }

    /// Nothing is earned after the last step.
    pub fn begin(&mut self, device: &Device) {
        device.fill(&mut self.to_go, 0.0);
    }

    /// One step back: what its end is worth, and what is to come from it on.
    pub fn back(
        &mut self,
        world: &World<'_>,
        [s, a, next]: [&Buffer; 3],
        running: &Buffer<u32>,
        weight: (&Buffer, &Counter),
    ) {
        let (device, status) = (world.device, [running, &self.goes_on]);
        device.evaluate(&world.reward, s, a, next, &mut self.rewards);
        let (to_go, d_end) = (&mut self.to_go, &mut self.d_end);
        device.end_gradient(self.groups, status, weight, &self.rewards, to_go, d_end);
    }
}
