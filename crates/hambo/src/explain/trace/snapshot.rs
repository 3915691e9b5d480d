//! Trajectories at one step.

use crate::Result;
use crate::confidence::ConfidenceSet;
use crate::dynamics::Dynamics;
use crate::explain::trace::{BAND, Followed, Push, Sample};
use crate::rollout::{Rollout, ShiftAdversary, World};
use crate::stats::empirical_quantile;
use hambo_engine::backend::{Power, Status};

/// States, actions and what the model says of them at one step, rows that are under way alone.
pub(super) struct Snapshot {
    pub rows: Vec<usize>,
    /// As trajectories carry them, `[rows, state]`, and as the data have them.
    pub states: Vec<f32>,
    pub observed: Vec<f32>,
    pub actions: Vec<f32>,
    pub mean: Vec<f32>,
    pub sigma: Vec<f32>,
    /// β τ η, or nothing.
    pub shifts: Vec<f32>,
    pub members: Vec<u32>,
    /// γᵗ r of all rows, 0 for those that ended.
    pub rewards: Vec<f32>,
}

/// The trajectories at every `every`-th time and at the end, the adversary being switched off at step `until`.
pub(super) fn look(
    world: &World<'_>,
    followed: &Followed<'_>,
    starts: &[f32],
    until: usize,
    every: usize,
) -> Result<Vec<Snapshot>> {
    let World { device, setting, .. } = *world;
    let mut rollout = Rollout::new(world, followed.propagation, starts);
    let mut snapshots = Vec::new();
    for t in 0..=setting.horizon {
        if t == until {
            rollout.switch_off_adversary();
        }
        let kept = t % every == 0 || t == setting.horizon;
        let (states, status) = match kept {
            true => (device.download(&rollout.states)?, device.download(&rollout.status)?),
            false => (Vec::new(), Vec::new()),
        };
        if t < setting.horizon {
            rollout.step(followed.stream);
        }
        if kept {
            snapshots.push(Snapshot::new(world, &rollout, states, &status, t)?);
        }
    }
    Ok(snapshots)
}

impl Snapshot {
    /// `rollout` has made the step at time `t` from these states, unless they are the last.
    fn new(
        world: &World<'_>,
        rollout: &Rollout<'_>,
        states: Vec<f32>,
        status: &[u32],
        t: usize,
    ) -> Result<Snapshot> {
        let World { device, model, setting, .. } = *world;
        let (ds, da, seen) = (model.state_dim(), model.action_dim(), model.layout().observed);
        let running = |row: &usize| status[*row] == Status::Running as u32;
        let rows: Vec<usize> = (0..status.len()).filter(running).collect();
        let pick = |values: &[f32], width: usize, keep: usize| -> Vec<f32> {
            match values.is_empty() {
                true => Vec::new(),
                false => rows.iter().flat_map(|&i| &values[i * width..][..keep]).copied().collect(),
            }
        };
        let observed = pick(&states, ds, seen);
        let mut snapshot = Snapshot {
            states: pick(&states, ds, ds),
            observed,
            actions: vec![],
            mean: vec![],
            sigma: vec![],
            shifts: vec![],
            members: vec![],
            rewards: vec![0.0; status.len()],
            rows,
        };
        if t == setting.horizon || snapshot.rows.is_empty() {
            return Ok(snapshot);
        }
        let rows = &snapshot.rows;
        let pick = |values: &[f32], width: usize| -> Vec<f32> {
            match values.is_empty() {
                true => Vec::new(),
                false => {
                    rows.iter().flat_map(|&i| &values[i * width..][..width]).copied().collect()
                }
            }
        };
        snapshot.actions = pick(&device.download(&rollout.actions)?, da);
        let prediction = model.predict(device, &snapshot.observed, &snapshot.actions)?;
        (snapshot.mean, snapshot.sigma) = (prediction.mean, prediction.epistemic_std);
        snapshot.shifts = pick(&device.download(rollout.choices())?, ds);
        let members = device.download(rollout.members())?;
        snapshot.members = rows.iter().map(|&row| members[row]).collect();
        let rewards = device.download(&rollout.rewards)?;
        let discount = setting.discount.powi(t as i32) as f32;
        rows.iter().for_each(|&row| snapshot.rewards[row] = discount * rewards[row]);
        Ok(snapshot)
    }

    pub fn bands(&self, model: &dyn Dynamics, dimensions: &[usize]) -> Vec<Vec<f64>> {
        let width = model.state_dim();
        let band = |&d: &usize| -> Vec<f64> {
            let mut values: Vec<f64> =
                self.states.iter().skip(d).step_by(width).map(|&x| x.into()).collect();
            values.sort_by(f64::total_cmp);
            BAND.iter()
                .filter(|_| !values.is_empty())
                .map(|&p| empirical_quantile(&values, p))
                .collect()
        };
        dimensions.iter().map(band).collect()
    }

    /// Mean over the rows under way of what `value` says of a place in the lists `[rows, state]`.
    pub fn mean(
        &self,
        model: &dyn Dynamics,
        dimension: usize,
        value: impl Fn(usize) -> f32,
    ) -> f64 {
        let places = (0..self.rows.len()).map(|i| i * model.state_dim() + dimension);
        places.map(|i| f64::from(value(i))).sum::<f64>() / self.rows.len().max(1) as f64
    }

    pub fn push(
        &self,
        model: &dyn Dynamics,
        adversary: Option<&ShiftAdversary>,
        without: &Snapshot,
        rows: usize,
        dimensions: &[usize],
    ) -> Push {
        let effort = |&d: &usize| {
            let reach = adversary.map_or(0.0, |a| a.set.reach[d]);
            self.mean(model, d, |i| if reach > 0.0 { (self.shifts[i] / reach).abs() } else { 0.0 })
        };
        let share = |member: u32| {
            let chosen = self.members.iter().filter(|&&m| m == member).count();
            chosen as f64 / self.rows.len().max(1) as f64
        };
        let paid = |snapshot: &Snapshot| {
            snapshot.rewards.iter().map(|&r| f64::from(r)).sum::<f64>() / rows as f64
        };
        Push {
            effort: if adversary.is_some() {
                dimensions.iter().map(effort).collect()
            } else {
                Vec::new()
            },
            uncertainty: dimensions
                .iter()
                .map(|&d| self.mean(model, d, |i| self.sigma[i]))
                .collect(),
            members: match adversary {
                Some(_) => Vec::new(),
                None => (0..model.members() as u32).map(share).collect(),
            },
            reward_change: paid(self) - paid(without),
        }
    }
}

pub(super) fn sample(
    model: &dyn Dynamics,
    snapshots: &[Snapshot],
    adversary: Option<&ShiftAdversary>,
    row: usize,
    returns: &[f32],
    dimensions: &[usize],
) -> Sample {
    let width = model.state_dim();
    let mut sample = Sample {
        trajectory: row,
        value: returns[row].into(),
        states: Vec::new(),
        reach: Vec::new(),
        middle: Vec::new(),
    };
    for snapshot in snapshots {
        let Some(place) = snapshot.rows.iter().position(|&r| r == row) else { break };
        let pick = |values: &[f32]| -> Vec<f32> {
            dimensions.iter().map(|&d| values[place * width + d]).collect()
        };
        sample.states.push(pick(&snapshot.states));
        if let (Some(adversary), false) = (adversary, snapshot.sigma.is_empty()) {
            let width =
                |(i, &sigma): (usize, &f32)| half_width(model, &adversary.set, i % width, sigma);
            let widths: Vec<f32> = snapshot.sigma.iter().enumerate().map(width).collect();
            sample.reach.push(pick(&widths));
            sample.middle.push(pick(&snapshot.mean));
        }
    }
    sample
}

/// How far from its middle the confidence set reaches, in the units of the state, where σ_e is in these units, too.
fn half_width(model: &dyn Dynamics, set: &ConfidenceSet, dimension: usize, sigma: f32) -> f32 {
    set.reach[dimension]
        * match set.power {
            Power::Deviation => sigma,
            Power::Variance => sigma * sigma / model.frame().targets.std[dimension],
        }
}
