//! How large the confidence set has to be, measured on whole logged trajectories.
//!
//! A coherent adversary adds up over the steps what honest errors average out, so the β that covers single
//! steps is far too large for trajectories. Here held-out episodes are cut into windows of as many steps as
//! are bounded, and these into segments short enough to be replayed: the logged actions go through the model
//! from the segment's first state on, with the worst shifts that first-order analysis finds. β is the one at
//! which these shifts take from a window at least what the model overstates in it, for all but a share δ of
//! the windows. What the model understates in one segment does not pay for another: replayed without its policy
//! an unstable system falls, and that pessimism is of the replay, not of the model. Episodes, not windows, are
//! exchangeable: the quantile is that of the mean of the episodes' distributions, at the finite-sample level of
//! their number (Dunn, Wasserman & Ramdas 2022, pooling CDFs).
//!
//! This is coverage on the behavior's data. It says nothing about places the behavior never went.

use super::set::ConfidenceSet;
use crate::Result;
use crate::adversary::adjoint::{Adjoint, AdjointStep};
use crate::data::Transitions;
use crate::rollout::World;
use crate::run::Run;
use hambo_engine::backend::{Buffer, Device, Number, Outcome, Shift};
use serde::Serialize;

/// Lengths of segments, the longest first.
const LENGTHS: [usize; 3] = [50, 20, 5];
/// Largest β looked at.
const LARGEST: f32 = 64.0;
/// Rounds of doubling and halving β, and adjoints in each.
const ROUNDS: usize = 16;
const LINEARIZATIONS: usize = 3;

/// A measured β.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrajectoryBeta {
    /// The size of the set.
    pub beta: f64,
    /// Steps of a segment.
    pub segment_length: usize,
    /// Segments looked at.
    pub segments: usize,
    /// Windows that they make up, each with a β_i of its own.
    pub windows: usize,
    /// Held-out episodes that they are from.
    pub episodes: usize,
    /// Level that so few episodes can attain: below 1 − δ the largest β_i was taken.
    pub level: f64,
    /// Share of windows that β = 1, the paper's set, covers.
    pub coverage_of_one: f64,
    /// Windows that no β up to 64 covers.
    pub uncovered: usize,
}

/// Segments of held-out episodes, and the room to replay them.
struct SegmentReplay<'a> {
    world: &'a World<'a>,
    length: usize,
    /// τ per dimension.
    tau: Vec<f32>,
    starts: Buffer,
    /// Logged actions, one buffer a step.
    actions: Vec<Buffer>,
    /// The window and logged return of each segment, and the episode of each window.
    window: Vec<usize>,
    logged: Vec<f64>,
    episode: Vec<usize>,
}

/// β for a failure probability δ; none where fewer than two held-out episodes have a segment.
pub(crate) fn trajectory_beta(
    world: &World<'_>,
    data: &Transitions,
    set: &ConfidenceSet,
    delta: f64,
    run: &Run<'_>,
) -> Result<Option<TrajectoryBeta>> {
    let mut lengths = LENGTHS.into_iter().filter(|&l| l <= world.setting.horizon);
    let logged = world.setting.task.logged(data)?;
    let Some(replay) =
        lengths.find_map(|length| SegmentReplay::new(world, data, &logged, set, length))
    else {
        return Ok(None);
    };
    let betas = replay.smallest_covering(set, run)?;
    let (beta, level) = pooled_quantile(&betas, &replay.episode, 1.0 - delta);
    let covered = betas.iter().filter(|&&b| b <= 1.0).count();
    Ok(Some(TrajectoryBeta {
        beta,
        segment_length: replay.length,
        segments: replay.window.len(),
        windows: betas.len(),
        episodes: replay.episodes(),
        level,
        coverage_of_one: covered as f64 / betas.len() as f64,
        uncovered: betas.iter().filter(|&&b| b >= f64::from(LARGEST)).count(),
    }))
}

impl<'a> SegmentReplay<'a> {
    fn new(
        world: &'a World<'a>,
        data: &Transitions,
        (rewards, ended): &(Vec<f32>, Vec<bool>),
        set: &ConfidenceSet,
        length: usize,
    ) -> Option<Self> {
        let held_out = world.model.held_out();
        if !held_out.by_episode {
            return None;
        }
        let mut is_held_out = vec![false; data.len()];
        held_out
            .validation
            .iter()
            .chain(&held_out.calibration)
            .for_each(|&row| is_held_out[row as usize] = true);
        let (mut first, mut window, mut episode) = (Vec::new(), Vec::new(), Vec::new());
        let in_a_window = world.setting.horizon / length;
        for (index, rows) in data.episodes().enumerate().filter(|(_, rows)| is_held_out[rows.start])
        {
            let starts = rows.clone().step_by(length).filter(|start| start + length <= rows.end);
            for (nth, start) in starts.enumerate() {
                if nth % in_a_window == 0 {
                    episode.push(index);
                }
                first.push(start);
                window.push(episode.len() - 1);
            }
        }
        let (device, layout) = (world.device, world.model.layout());
        let gather = |t: usize| {
            first.iter().flat_map(|&f| data.action(f + t)).copied().collect::<Vec<f32>>()
        };
        let logged = |&f: &usize| {
            let last = (f..f + length - 1).find(|&row| ended[row]).unwrap_or(f + length - 1);
            rewards[f..=last].iter().map(|&r| f64::from(r)).sum()
        };
        let replay = SegmentReplay {
            world,
            length,
            tau: set.reach.clone(),
            starts: device
                .adopt(layout.carry(
                    &first.iter().flat_map(|&f| data.state(f)).copied().collect::<Vec<_>>(),
                )),
            actions: (0..length).map(|t| device.adopt(gather(t))).collect(),
            logged: first.iter().map(logged).collect(),
            window,
            episode,
        };
        (replay.episodes() >= 2).then_some(replay)
    }

    fn episodes(&self) -> usize {
        let mut episodes = self.episode.clone();
        episodes.dedup();
        episodes.len()
    }

    /// For each window the smallest β whose worst shifts take what the model overstates.
    fn smallest_covering(&self, set: &ConfidenceSet, run: &Run<'_>) -> Result<Vec<f64>> {
        let m = self.episode.len();
        let ds = self.world.model.state_dim();
        let mut signs = vec![vec![0.0; self.window.len() * ds]; self.length];
        let mut worst = |betas: &[f32]| {
            let of_segments: Vec<f32> = self.window.iter().map(|&w| betas[w]).collect();
            self.worst(set, &of_segments, &mut signs)
        };
        let neutral = worst(&vec![0.0; m])?;
        let mut overstated = self.falls(&neutral, &self.logged);
        // What the model says of a window that it leaves the finite numbers in is worth nothing: no β covers it.
        for (segment, _) in neutral.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
            overstated[self.window[segment]] = f64::INFINITY;
        }
        let (mut low, mut high) = (vec![0.0f32; m], vec![f32::INFINITY; m]);
        for i in (0..m).filter(|&i| overstated[i] == 0.0) {
            high[i] = 0.0;
        }
        for round in 0..ROUNDS {
            let tried: Vec<f32> = (0..m)
                .map(|i| match (low[i], high[i]) {
                    (_, 0.0) => 0.0,
                    (0.0, f32::INFINITY) => 0.1,
                    (low, f32::INFINITY) => (2.0 * low).min(LARGEST),
                    (low, high) => 0.5 * (low + high),
                })
                .collect();
            let taken = self.falls(&neutral, &worst(&tried)?);
            for i in 0..m {
                if overstated[i].is_finite() && taken[i] >= overstated[i] {
                    high[i] = high[i].min(tried[i]);
                } else {
                    low[i] = low[i].max(tried[i]);
                }
            }
            run.report("confidence set", round + 1, ROUNDS, "");
        }
        Ok(high.iter().map(|&h| f64::from(h.min(LARGEST))).collect())
    }

    /// How far the segments of each window fall from one return to another, summed; rises count nothing.
    fn falls(&self, from: &[f64], to: &[f64]) -> Vec<f64> {
        let mut falls = vec![0.0; self.episode.len()];
        for (segment, &window) in self.window.iter().enumerate() {
            falls[window] += (from[segment] - to[segment]).max(0.0);
        }
        falls
    }

    /// Lowest return of each segment under shifts of its β, from the best signs known and from those that
    /// the adjoint along the shifted trajectory suggests, a few times over. Leaves the best in `best`.
    fn worst(&self, set: &ConfidenceSet, betas: &[f32], best: &mut [Vec<f32>]) -> Result<Vec<f64>> {
        let ds = self.tau.len();
        let mut lowest = vec![f64::INFINITY; betas.len()];
        let mut signs = best.to_vec();
        for linearization in 0..=LINEARIZATIONS {
            let (states, status, returns) = self.replay(set, betas, &signs)?;
            for (segment, reached) in returns.into_iter().enumerate() {
                if reached > lowest[segment] {
                    continue;
                }
                lowest[segment] = reached;
                let own = segment * ds..(segment + 1) * ds;
                best.iter_mut()
                    .zip(&signs)
                    .for_each(|(b, s)| b[own.clone()].copy_from_slice(&s[own.clone()]));
            }
            if linearization < LINEARIZATIONS {
                self.worst_signs(set, betas, &states, &status, &mut signs)?;
            }
        }
        Ok(lowest)
    }

    fn amounts(&self, betas: &[f32], signs: &[f32]) -> Buffer {
        let ds = self.tau.len();
        let amount = |(i, sign): (usize, &f32)| betas[i / ds] * self.tau[i % ds] * sign;
        self.world.device.adopt(signs.iter().enumerate().map(amount).collect())
    }

    /// States and status before every step, and the returns.
    #[allow(clippy::type_complexity)]
    fn replay(
        &self,
        set: &ConfidenceSet,
        betas: &[f32],
        signs: &[Vec<f32>],
    ) -> Result<(Vec<Buffer>, Vec<Buffer<u32>>, Vec<f64>)> {
        let World { device, model, ref reward, ref termination, .. } = *self.world;
        let (m, ds) = (betas.len(), model.state_dim());
        let mut observed = self.world.observation_buffers(m);
        let mut inputs = device.zeros(m * model.input_dim());
        let mut outputs = device.zeros(model.members() * m * 2 * ds);
        let [mut rewards, mut returns, mut ended] = std::array::from_fn(|_| device.zeros(m));
        let (unit, begin) = (device.upload(&[1.0]), device.counter()); // no discount within a segment
        let noise = device.zeros(ds);
        let mut current = copy_of(device, &self.starts);
        let mut running: Buffer<u32> = device.zeros(m);
        let (mut states, mut status) = (Vec::new(), Vec::new());
        for (actions, signs) in self.actions.iter().zip(signs) {
            states.push(copy_of(device, &current));
            status.push(copy_of(device, &running));
            self.world.inputs(&current, actions, &mut observed, &mut inputs);
            model.infer(device, hambo_engine::backend::Input::Shared(&inputs), m, &mut outputs);
            let amount = self.amounts(betas, signs);
            let step = hambo_engine::backend::Step::Shifted(Shift {
                amount: &amount,
                power: set.power,
                noise: &noise,
            });
            let mut next = device.zeros(m * ds);
            self.world.propagate(&step, &outputs, &current, &mut observed, &mut next);
            device.evaluate(reward, &current, actions, &next, &mut rewards);
            let ended = termination.as_ref().map(|termination| {
                device.evaluate(termination, &current, actions, &next, &mut ended);
                &ended
            });
            let outcome = Outcome { next: &next, rewards: &rewards, ended };
            device.end_step((&unit, &begin), &outcome, &mut current, &mut returns, &mut running);
        }
        states.push(current);
        Ok((states, status, device.download(&returns)?.into_iter().map(f64::from).collect()))
    }

    /// η = −sign(dJ/d shift) along a replayed trajectory.
    fn worst_signs(
        &self,
        set: &ConfidenceSet,
        betas: &[f32],
        states: &[Buffer],
        status: &[Buffer<u32>],
        signs: &mut [Vec<f32>],
    ) -> Result<()> {
        let World { device, model, .. } = *self.world;
        let (m, ds) = (betas.len(), model.state_dim());
        let mut adjoint = Adjoint::new(self.world, m)?;
        let (unit, begin) = (device.upload(&[1.0]), device.counter());
        let noise = device.zeros(ds);
        let mut d_next = device.zeros(m * ds);
        for t in (0..self.length).rev() {
            let amount = self.amounts(betas, &signs[t]);
            adjoint.recompute(self.world, &states[t], &self.actions[t]);
            let step = AdjointStep {
                s: &states[t],
                a: &self.actions[t],
                next: &states[t + 1],
                running: &status[t],
                shift: Shift { amount: &amount, power: set.power, noise: &noise },
                weight: (&unit, &begin),
            };
            adjoint.back(self.world, &step, &mut d_next);
            let worst = device.download(&adjoint.d_shifts)?;
            // A derivative that overflowed says nothing: a shift of NaN would seem to lose everything.
            let known = |d: &f32| d.is_finite() && *d != 0.0;
            signs[t] = worst.iter().map(|d| if known(d) { -d.signum() } else { 0.0 }).collect();
            device.still_running(&status[t], &mut adjoint.d_s);
            std::mem::swap(&mut adjoint.d_s, &mut d_next);
        }
        Ok(())
    }
}

/// A buffer with the same content.
fn copy_of<T: Number>(device: &Device, buffer: &Buffer<T>) -> Buffer<T> {
    let mut copy = device.zeros(buffer.len());
    device.copy(buffer, &mut copy);
    copy
}

/// The quantile of the mean of the groups' distributions at level (1 − δ)(1 + 1/groups), and the level that
/// this attains: with too few groups the largest value is all there is.
fn pooled_quantile(values: &[f64], group: &[usize], level: f64) -> (f64, f64) {
    let size = |g: usize| group.iter().filter(|&&other| other == g).count() as f64;
    let mut distinct = group.to_vec();
    distinct.dedup();
    let groups = distinct.len() as f64;
    let mut weighted: Vec<(f64, f64)> =
        values.iter().zip(group).map(|(&v, &g)| (v, 1.0 / (size(g) * groups))).collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = level * (1.0 + 1.0 / groups);
    let largest = weighted.last().map_or(f64::NAN, |w| w.0);
    if wanted > 1.0 {
        return (largest, groups / (groups + 1.0));
    }
    let mut sum = 0.0;
    for (value, weight) in weighted {
        sum += weight;
        if sum >= wanted - 1e-12 {
            return (value, level);
        }
    }
    (largest, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_weigh_episodes_not_segments() {
        // One long episode of 98 easy segments and one of 2 hard ones: half of the weight is hard.
        let values: Vec<f64> = (0..98).map(|_| 0.1).chain([5.0, 5.0]).collect();
        let group: Vec<usize> = (0..98).map(|_| 0).chain([1, 1]).collect();
        assert_eq!(pooled_quantile(&values, &group, 0.3), (0.1, 0.3));
        assert_eq!(pooled_quantile(&values, &group, 0.5), (5.0, 0.5));
    }

    #[test]
    fn few_episodes_give_the_largest_and_say_what_it_attains() {
        let (beta, level) = pooled_quantile(&[0.2, 0.7, 0.4], &[0, 1, 2], 0.95);
        assert_eq!((beta, level), (0.7, 0.75));
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let group: Vec<usize> = (0..40).collect();
        assert_eq!(
            pooled_quantile(&values, &group, 0.95),
            (38.0, 0.95),
            "⌈0.95 · 41⌉ = 39th of 40"
        );
    }
}
