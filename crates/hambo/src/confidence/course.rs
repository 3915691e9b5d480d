//! Where a policy goes, beside where the episodes near it went.
//!
//! Small differences of actions add up: a policy that steers a little to one side at every step ends up where no episode was,
//! and what the episodes say of the model is not about there.

use crate::Result;
use crate::data::Transitions;
use crate::rollout::{Propagation, Rollout, World};
use crate::stats::empirical_quantile;
use hambo_engine::backend::Status;
use hambo_engine::rng::Stream;

/// Trajectories of the policy at the least, and steps that are looked at, at the most.
const TRAJECTORIES: usize = 64;
const STEPS: usize = 50;
/// Steps before and after one whose logged states are taken with it.
const AROUND: usize = 0;
/// The policy is off course if it is this many standard deviations of the episodes away from their mean.
const FAR: f64 = 2.0;
/// Deviations are not taken for smaller than this share of those of all data; an entry that never changes is not looked at.
const LEAST: f64 = 0.05;

/// The share of its steps at which the policy, in the model and from the same starts, is away from where the episodes `[first
/// row, steps]` were at the same time; in the entry of the state where it is largest.
pub(super) fn off_course(
    world: &World<'_>,
    data: &Transitions,
    episodes: &[(usize, usize)],
    stream: Stream,
) -> Result<f64> {
    let World { device, model, setting, .. } = *world;
    let n = episodes.len().max(TRAJECTORIES).next_multiple_of(model.folds());
    let starts = episodes.iter().cycle().take(n).flat_map(|&(start, _)| data.state(start));
    let starts: Vec<f32> = starts.copied().collect();
    let mut rollout = Rollout::new(world, Propagation::Moments, &starts);
    let (carried, seen) = (model.state_dim(), data.state_dim());
    let least: Vec<f64> =
        (0..seen).map(|d| LEAST * spread(data.states().iter().skip(d).step_by(seen)).1).collect();
    let every = setting.horizon.div_ceil(STEPS);
    let (mut looked, mut away) = (0, vec![0; seen]);
    for t in 0..setting.horizon {
        if t % every == 0 {
            let states = device.download(&rollout.states)?;
            let status = device.download(&rollout.status)?;
            let running = |i: &usize| status[*i] == Status::Running as u32;
            let running: Vec<usize> = (0..n).filter(running).collect();
            let logged = |&(start, steps): &(usize, usize)| {
                start + t.saturating_sub(AROUND)..start + steps.min(t + AROUND + 1)
            };
            let logged: Vec<usize> = episodes.iter().flat_map(logged).collect();
            if running.is_empty() || logged.is_empty() {
                break; // nothing is left to compare
            }
            looked += 1;
            for d in (0..seen).filter(|&d| least[d] > 0.0) {
                let (mean, deviation) = spread(logged.iter().map(|&row| &data.state(row)[d]));
                let mut there: Vec<f64> =
                    running.iter().map(|&i| f64::from(states[i * carried + d])).collect();
                there.sort_by(f64::total_cmp);
                let off = (empirical_quantile(&there, 0.5) - mean).abs();
                away[d] += usize::from(off > FAR * deviation.max(least[d]));
            }
        }
        rollout.step(stream);
    }
    let most = away.into_iter().max().unwrap_or(0);
    Ok(most as f64 / looked.max(1) as f64)
}

/// Mean and standard deviation.
fn spread<'a>(values: impl Iterator<Item = &'a f32> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().map(|&x| f64::from(x)).sum::<f64>() / n;
    let square = values.map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    (mean, square.sqrt())
}
