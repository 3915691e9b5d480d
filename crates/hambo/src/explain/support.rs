//! How far a policy leaves the data: before anything is bounded, what the model says of the places that the policy
//! goes to, beside what it says of held-out data.

use crate::Result;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::rollout::{Propagation, Rollout, Setting, World};
use crate::stats::empirical_quantile;
use hambo_engine::backend::{Device, Status};
use hambo_engine::rng::Stream;
use serde::Serialize;

/// Trajectories looked at.
const TRAJECTORIES: usize = 64;
/// Steps looked at, at the most.
const STEPS: usize = 50;
/// Logged rows that neighbors are sought among, and held-out rows that give the measure.
const REFERENCE: usize = 10_000;
const HELD_OUT: usize = 2_500;
/// Steps of held-out episodes before and after one that are compared with it, and rows of these that it takes.
const AROUND: usize = 2;
const FEW: usize = 20;
/// A state is outside if it is less known than this share of held-out data …
const USUAL: f64 = 0.99;
/// … and a warning is due if more than this share of all that are looked at are. (Single steps may be rare in the
/// data and known all the same, as the first one is.)
const TOLERATED: f64 = 0.25;

/// Where the policy leaves the data, along trajectories drawn by OPE-DS.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SupportReport {
    /// Trajectories that were looked at.
    pub trajectories: usize,
    /// Steps that were looked at.
    pub steps: Vec<usize>,
    /// Median of σ_e over its median on held-out data, for each step and each predicted dimension.
    pub uncertainty: Vec<Vec<f64>>,
    /// Median distance of (s, a) to the nearest logged one over that of held-out data, for each step.
    pub distance: Vec<f64>,
    /// For each step the share of trajectories that are less known than 99 % of held-out data, and of those at that step, by
    /// σ_e, or further from what was logged than 99 % of them.
    pub outside: Vec<f64>,
    /// For each entry of the state the share of all looked-at states beyond its logged range.
    pub beyond_range: Vec<f64>,
    /// Mean of ‖σ_e(s, a)‖ over all that were looked at, in the units of the state.
    pub mean_deviation: f64,
}

/// What is usual on data that the model was not trained on.
struct Usual {
    /// Logged (s, a), standardized, `[rows, input]`.
    reference: Vec<f32>,
    /// Median σ_e of each dimension.
    uncertainty: Vec<f64>,
    /// The largest multiple of it in each held-out row, with the row's step.
    held_out: Vec<(usize, f64)>,
    /// Median and 99 % quantile of the distance to the nearest neighbor.
    distance: (f64, f64),
}

/// Looks at trajectories from some of `starts` `[rows, state]`.
pub(crate) fn support(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    setting: Setting<'_>,
    starts: &[f32],
    stream: Stream,
) -> Result<SupportReport> {
    let usual = Usual::of(device, data, model)?;
    let observed = model.layout().observed;
    let some = TRAJECTORIES.min(starts.len() / observed);
    let starts = &starts[..(some - some % model.folds()) * observed];
    let range: Vec<(f32, f32)> = (0..observed)
        .map(|d| {
            let column = data.states().iter().chain(data.next_states()).skip(d).step_by(observed);
            column.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)))
        })
        .collect();
    let every = setting.horizon.div_ceil(STEPS);
    let mut report = SupportReport {
        trajectories: starts.len() / observed,
        steps: Vec::new(),
        uncertainty: Vec::new(),
        distance: Vec::new(),
        outside: Vec::new(),
        beyond_range: vec![0.0; observed],
        mean_deviation: 0.0,
    };
    let mut seen = 0.0;
    device.run(|| -> Result<()> {
        let world = World::new(device, model, setting);
        let mut rollout = Rollout::new(&world, Propagation::Moments, starts);
        for t in 0..setting.horizon {
            if t % every != 0 {
                rollout.step(stream);
                continue;
            }
            let (states, status) =
                (device.download(&rollout.states)?, device.download(&rollout.status)?);
            rollout.step(stream);
            let actions = device.download(&rollout.actions)?;
            let da = model.action_dim();
            let running: Vec<usize> =
                (0..status.len()).filter(|&i| status[i] == Status::Running as u32).collect();
            if running.is_empty() {
                break;
            }
            let pick = |values: &[f32], width: usize, keep: usize| -> Vec<f32> {
                running.iter().flat_map(|&i| &values[i * width..][..keep]).copied().collect()
            };
            let (s, a) = (pick(&states, model.state_dim(), observed), pick(&actions, da, da));
            let (uncertainty, largest, norm) = usual.uncertainty_of(device, model, &s, &a)?;
            let distances = usual.distances(model, &s, &a);
            let limit = usual.uncertainty_at(t);
            let outside = |i: &usize| largest[*i] > limit || distances[*i] > usual.distance.1;
            report.steps.push(t);
            report
                .outside
                .push((0..running.len()).filter(outside).count() as f64 / running.len() as f64);
            report.uncertainty.push(uncertainty);
            report.distance.push(ratio(median(distances), usual.distance.0));
            seen += running.len() as f64;
            report.mean_deviation += norm;
            for state in s.chunks_exact(observed) {
                for ((count, x), (low, high)) in
                    report.beyond_range.iter_mut().zip(state).zip(&range)
                {
                    *count += f64::from(u8::from(x < low || x > high));
                }
            }
        }
        Ok(())
    })?;
    report.beyond_range.iter_mut().for_each(|count| *count = ratio(*count, seen));
    report.mean_deviation = ratio(report.mean_deviation, seen);
    Ok(report)
}

impl SupportReport {
    /// Share of the steps at which most states are less known than 99 % of held-out data.
    pub fn steps_outside(&self) -> f64 {
        let count = self.outside.iter().filter(|share| **share > 0.5).count();
        count as f64 / self.outside.len().max(1) as f64
    }

    /// Where the policy leaves the data, if it does.
    pub fn leaves_data(&self) -> Option<LeavesData> {
        let share = self.outside.iter().sum::<f64>() / self.outside.len().max(1) as f64;
        if share <= TOLERATED {
            return None;
        }
        let worst =
            (0..self.outside.len()).max_by(|&i, &j| self.outside[i].total_cmp(&self.outside[j]))?;
        let (dimension, &uncertainty) =
            self.uncertainty[worst].iter().enumerate().max_by(|(_, x), (_, y)| x.total_cmp(y))?;
        let (step, distance) = (self.steps[worst], self.distance[worst]);
        Some(LeavesData { share, step, dimension, uncertainty, distance })
    }
}

/// How far a policy leaves the data, where it does so most.
#[derive(Clone, Debug, PartialEq)]
pub struct LeavesData {
    /// Share of all states that are less known than 99 % of held-out data.
    pub share: f64,
    /// The step at which most are.
    pub step: usize,
    /// The dimension that is least known there, and σ_e in multiples of what is usual.
    pub dimension: usize,
    /// σ_e of that dimension, in multiples of what is usual.
    pub uncertainty: f64,
    /// The distance to the nearest logged state and action, in multiples of what is usual.
    pub distance: f64,
}

impl std::fmt::Display for LeavesData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LeavesData { share, step, dimension, uncertainty, distance } = self;
        write!(
            f,
            "the policy leaves the data: {:.0} % of the predicted states are less known than 99 % of held-out data, most \
             of all at step {step} (σ_e of dimension {dimension} is {uncertainty:.1} times as large as usual, the nearest \
             logged state and action {distance:.1} times as far); the bound is an extrapolation there: log data where the \
             policy goes, or shorten the horizon",
            100.0 * share
        )
    }
}

impl Usual {
    fn of(device: &Device, data: &Transitions, model: &dyn Dynamics) -> Result<Usual> {
        let held_out = &model.held_out().held_out();
        let all = || 0..data.len() as u32;
        let some = !held_out.is_empty() && held_out.len() < data.len();
        let (measure, rest): (Vec<u32>, Vec<u32>) = match some {
            true => {
                let mut rest: Vec<bool> = vec![true; data.len()];
                held_out.iter().for_each(|&row| rest[row as usize] = false);
                (held_out.clone(), all().filter(|&row| rest[row as usize]).collect())
            }
            false => all().partition(|row| row % 5 == 0),
        };
        let some = |rows: &[u32], most: usize| -> Vec<u32> {
            rows.iter().step_by(rows.len().div_ceil(most).max(1)).copied().collect()
        };
        let inputs = |rows: &[u32]| -> (Vec<f32>, Vec<f32>) {
            let rows = || rows.iter().map(|&row| row as usize);
            let states = rows().flat_map(|row| data.state(row)).copied().collect();
            (states, rows().flat_map(|row| data.action(row)).copied().collect())
        };
        let (s, a) = inputs(&some(&rest, REFERENCE));
        let mut usual = Usual {
            reference: model.frame().standardized_inputs(&s, &a),
            uncertainty: vec![1.0; model.state_dim()],
            held_out: Vec::new(),
            distance: (0.0, 0.0),
        };
        let measure = some(&measure, HELD_OUT);
        let (s, a) = inputs(&measure);
        let distances = usual.distances(model, &s, &a);
        usual.distance = (median(distances.clone()), quantile(distances, USUAL));
        // Of what it held out each fold speaks alone: the others have learned it.
        let folds = model.held_out().held_out_by_fold();
        let folds: Vec<Vec<u32>> =
            folds.into_iter().map(|rows| some(rows, HELD_OUT / model.folds())).collect();
        let (rows, sigma) = match folds.is_empty() || folds.iter().any(Vec::is_empty) {
            true => (measure, model.predict(device, &s, &a)?.epistemic_std),
            false => (folds.concat(), held_out_std(device, data, model, &folds)?),
        };
        (usual.uncertainty, _, _) = usual.multiples(&sigma);
        let (_, largest, _) = usual.multiples(&sigma);
        let mut step = vec![0; data.len()];
        for episode in data.episodes() {
            episode.clone().for_each(|row| step[row] = row - episode.start);
        }
        usual.held_out = rows.iter().map(|&row| step[row as usize]).zip(largest).collect();
        Ok(usual)
    }

    /// What 99 % of held-out data, and of those around that step, are known better than: in multiples of the usual σ_e. What
    /// every episode goes through at some time, such as a contact, may be rare, and is in the data all the same.
    fn uncertainty_at(&self, step: usize) -> f64 {
        let within = |around: usize| -> Vec<f64> {
            let rows = self.held_out.iter().filter(|(t, _)| t.abs_diff(step) <= around);
            rows.map(|(_, largest)| *largest).collect()
        };
        let (all, then) = (quantile(within(usize::MAX), USUAL), within(AROUND));
        if then.len() < FEW { all } else { all.max(quantile(then, USUAL)) }
    }

    /// In multiples of what is usual: the median σ_e of each dimension, and the largest σ_e of each row. And the sum of
    /// ‖σ_e‖ over rows.
    fn uncertainty_of(
        &self,
        device: &Device,
        model: &dyn Dynamics,
        s: &[f32],
        a: &[f32],
    ) -> Result<(Vec<f64>, Vec<f64>, f64)> {
        Ok(self.multiples(&model.predict(device, s, a)?.epistemic_std))
    }

    /// The same of given σ_e.
    fn multiples(&self, sigma: &[f32]) -> (Vec<f64>, Vec<f64>, f64) {
        let width = self.uncertainty.len();
        let multiple = |i: usize| ratio(sigma[i].into(), self.uncertainty[i % width]);
        let rows = sigma.len() / width;
        let medians =
            (0..width).map(|d| median((0..rows).map(|row| multiple(row * width + d)).collect()));
        let largest =
            (0..rows).map(|row| (0..width).map(|d| multiple(row * width + d)).fold(0.0, f64::max));
        let norm = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        (medians.collect(), largest.collect(), sigma.chunks_exact(width).map(norm).sum())
    }

    /// Distance of each (s, a) to the nearest logged one, in standardized units.
    fn distances(&self, model: &dyn Dynamics, s: &[f32], a: &[f32]) -> Vec<f64> {
        let width = model.input_dim();
        let squared =
            |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
        let nearest = |x: &[f32]| {
            let all = self.reference.chunks_exact(width).map(|y| squared(x, y));
            f64::from(all.fold(f32::INFINITY, f32::min)).sqrt()
        };
        model.frame().standardized_inputs(s, a).chunks_exact(width).map(nearest).collect()
    }
}

/// σ_e of logged rows as the fold says that held them out, in the units of the state.
fn held_out_std(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    folds: &[Vec<u32>],
) -> Result<Vec<f32>> {
    let longest = folds.iter().map(Vec::len).max().unwrap_or(0);
    let filled: Vec<u32> =
        folds.iter().flat_map(|rows| rows.iter().cycle().take(longest).copied()).collect();
    let (x, _) = model.frame().standardized(data, &filled);
    let [_, epistemic, _] = model.moments(device, &device.adopt(x), filled.len())?;
    let scale = &model.frame().targets.std;
    let of_fold = |(rows, sigma): (&Vec<u32>, &[f32])| -> Vec<f32> {
        let rows = sigma.chunks_exact(scale.len()).take(rows.len());
        rows.flat_map(|row| row.iter().zip(scale).map(|(e, s)| s * e.sqrt())).collect()
    };
    let parts = epistemic.chunks_exact(longest * scale.len());
    Ok(folds.iter().zip(parts).flat_map(of_fold).collect())
}

fn quantile(mut values: Vec<f64>, p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    empirical_quantile(&values, p)
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

/// A multiple that is a number also where nothing varies.
fn ratio(value: f64, usual: f64) -> f64 {
    if usual > 0.0 {
        (value / usual).min(f64::from(f32::MAX))
    } else {
        f64::from(u8::from(value > 0.0))
    }
}
