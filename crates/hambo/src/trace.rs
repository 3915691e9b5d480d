//! Why a bound is what it is: some of its trajectories followed again, step by step, with and without the adversary.
//!
//! They are the first ones of those that the bound was measured on, with the same starts and the same noise, so that
//! every difference is the adversary's doing. It is switched off at one step after the other: what the return loses
//! when it acts for a few steps longer is what its pushes in these steps cost, with all that follows from them, and
//! these losses add up to the whole.

use crate::Result;
use crate::compute::{Device, Power, Status};
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::estimate::Method;
use crate::expression::Scratch;
use crate::hallucination::{ConfidenceSet, Continuous};
use crate::regions::{Bounds, Side, costly_boxes};
use crate::rng::Stream;
use crate::rollout::{Propagation, Rollout, Setting, World};
use crate::stats::empirical_quantile;
use serde::Serialize;

/// Trajectories that are followed, at the most.
const FOLLOWED: usize = 256;
/// Those of them that are shown as lines, besides the worst.
const SHOWN: usize = 15;
const WORST: usize = 5;
/// Steps whose states are kept, and spans of steps between which the adversary is switched off, at the most.
const STEPS: usize = 200;
const SPANS: usize = 20;
/// Coordinates that are kept: those that the adversary pushes most, where there are more.
const DIMENSIONS: usize = 24;
/// Logged rows that tell how large σ_e usually is, and logged states that are shown.
const LOGGED: usize = 500;
/// Sides of a region that are told, and the share of its visits beyond either.
const SIDES: usize = 4;
const EDGE: f64 = 0.02;
/// Points along each side of a map of rewards.
const MAP: usize = 64;

/// Shares of the trajectories below the lines of a band.
pub const BAND: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// The method whose adversary was followed: the first conservative one that was asked for.
    pub method: Method,
    /// Trajectories followed, of those that the bound was measured on.
    pub trajectories: usize,
    /// Coordinates of the carried state that are shown; all lists per dimension have these, in this order.
    pub dimensions: Vec<usize>,
    /// Coordinates that there are.
    pub all_dimensions: usize,
    /// Times at which states were kept.
    pub times: Vec<usize>,
    /// Without the adversary.
    pub neutral: Walk,
    /// With it.
    pub hallucinated: Walk,
    /// Median σ_e on logged data, per dimension.
    pub usual_uncertainty: Vec<f64>,
    /// The adversary at each kept time but the last.
    pub pushes: Vec<Push>,
    /// What the pushes between two steps cost; the losses add up to the whole.
    pub spans: Vec<Span>,
    /// What the same adversary costs if it may push in one dimension alone; HAMBO-CA only. These do not add up.
    pub loss_alone: Vec<f64>,
    /// The trajectories that ended worst, the worst first; they are the first of the samples, in this order.
    pub worst: Vec<Worst>,
    /// Smallest and largest logged value per dimension; none for what a learned reward has paid.
    pub logged_range: Vec<Option<[f32; 2]>>,
    /// States of two entries alone: some of the logged ones, and what the task pays in the plane.
    pub plane: Option<Plane>,
    /// Where data would help: boxes of states and actions in which the pushes cost most.
    pub regions: Vec<Region>,
}

/// The plane of states of two entries.
#[derive(Clone, Debug, Serialize)]
pub struct Plane {
    /// Some logged states.
    pub logged: Vec<[f32; 2]>,
    /// Smallest and largest value of both entries.
    pub range: [[f32; 2]; 2],
    /// r(s, 0) at equal distances, row by row from the smallest s\[1\] on; empty where the reward is learned.
    pub rewards: Vec<f32>,
    /// Numbers of a row.
    pub side: usize,
}

/// Trajectories with or without the adversary.
#[derive(Clone, Debug, Serialize)]
pub struct Walk {
    /// Their mean return.
    pub value: f64,
    /// Of the states at each kept time, per dimension, the quantiles at [`BAND`]; empty where none was still under way.
    pub bands: Vec<Vec<Vec<f64>>>,
    /// Trajectories still under way at each kept time.
    pub running: Vec<usize>,
    /// Some of them.
    pub samples: Vec<Sample>,
}

/// One trajectory.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Its number among those that were followed.
    pub trajectory: usize,
    /// Its return.
    pub value: f64,
    /// Its states at the kept times, until it ended, `[times][dimensions]`.
    pub states: Vec<Vec<f32>>,
    /// Half the width of the confidence set around the expected next state, at the kept times; HAMBO-CA only.
    pub reach: Vec<Vec<f32>>,
    /// The expected next state, which is the middle of the set.
    pub middle: Vec<Vec<f32>>,
}

/// The adversary at one step, on average over the trajectories under way.
#[derive(Clone, Debug, Serialize)]
pub struct Push {
    /// HAMBO-CA: |η| per dimension, from 0 (it does nothing) to 1 (it goes to the edge of the set).
    pub effort: Vec<f64>,
    /// σ_e per dimension, where the trajectories are.
    pub uncertainty: Vec<f64>,
    /// HAMBO-DA: share of the trajectories in which each particle was chosen.
    pub members: Vec<f64>,
    /// Mean of γᵗ r with the adversary less that without.
    pub reward_change: f64,
}

/// Some steps.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    /// The first.
    pub from: usize,
    /// The one after the last.
    pub to: usize,
    /// Mean loss of return by what the adversary did in these steps.
    pub loss: f64,
}

/// A bad trajectory.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// Its number among those that were followed.
    pub trajectory: usize,
    /// Its return with the adversary.
    pub value: f64,
    /// And without.
    pub neutral: f64,
    /// The steps whose pushes cost it most, and what they cost.
    pub costliest: Span,
}

/// Where data would help.
#[derive(Clone, Debug, Serialize)]
pub struct Region {
    /// Its sides.
    pub bounds: Bounds,
    /// Mean loss of return by pushes there.
    pub loss: f64,
    /// As a share of the whole loss.
    pub share: f64,
    /// Share of the followed steps that are there.
    pub visits: f64,
    /// Logged transitions that are there.
    pub logged: usize,
    /// The dimension that the model knows least there, and σ_e in multiples of its median on logged data.
    pub least_known: (usize, f64),
}

/// What is followed.
pub(crate) struct Followed<'a> {
    pub method: Method,
    /// With the adversary.
    pub propagation: Propagation<'a>,
    /// HAMBO-CA's adversary.
    pub continuous: Option<&'a Continuous>,
    /// All starts of the bound, of which some are followed.
    pub starts: &'a [f32],
    /// Its noise.
    pub stream: Stream,
}

/// States, actions and what the model says of them at one step, rows that are under way alone.
struct Moment {
    rows: Vec<usize>,
    /// As trajectories carry them, `[rows, state]`, and as the data have them.
    states: Vec<f32>,
    observed: Vec<f32>,
    actions: Vec<f32>,
    mean: Vec<f32>,
    sigma: Vec<f32>,
    /// β τ η, or nothing.
    shifts: Vec<f32>,
    members: Vec<u32>,
    /// γᵗ r of all rows, 0 for those that ended.
    rewards: Vec<f32>,
}

/// Follows the trajectories.
pub(crate) fn trace(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    setting: Setting<'_>,
    followed: &Followed<'_>,
) -> Result<Trace> {
    let observed = model.layout().observed;
    let starts = &followed.starts[..followed.starts.len().min(FOLLOWED * observed)];
    let rows = starts.len() / observed;
    let horizon = setting.horizon;
    let world = World::new(device, model, setting);
    let run = |propagation: Propagation<'_>, until: usize| -> Vec<f32> {
        let mut rollout = Rollout::new(&world, propagation, starts);
        for t in 0..horizon {
            if t == until {
                rollout.switch_off_adversary();
            }
            rollout.step(followed.stream);
        }
        rollout.returns(device).values
    };

    let spans = SPANS.min(horizon);
    let edges: Vec<usize> = (0..=spans).map(|i| i * horizon / spans).collect();
    let returns: Vec<Vec<f32>> =
        device.run(|| edges.iter().map(|&until| run(followed.propagation, until)).collect());
    let lost = |span: usize, row: usize| f64::from(returns[span][row]) - f64::from(returns[span + 1][row]);
    let span = |i: usize, loss: f64| Span { from: edges[i], to: edges[i + 1], loss };
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / rows as f64;

    let every = horizon.div_ceil(STEPS);
    let (neutral, hallucinated) = device.run(|| {
        let look = |until: usize| look(&world, followed, starts, until, every);
        (look(0), look(horizon))
    });
    let times: Vec<usize> = (0..=horizon).filter(|t| t % every == 0 || *t == horizon).collect();
    let dimensions = most_pushed(model, &hallucinated);
    let usual = usual_uncertainty(device, data, model);

    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|&i, &j| returns[spans][i].total_cmp(&returns[spans][j]));
    let worst_rows = &order[..WORST.min(rows)];
    let mut shown = worst_rows.to_vec();
    shown.extend((0..rows).filter(|row| !worst_rows.contains(row)).take(SHOWN));
    let walk = |moments: &[Moment], returns: &[f32]| Walk {
        value: mean(&mut returns.iter().map(|&r| f64::from(r))),
        bands: moments.iter().map(|moment| moment.bands(model, &dimensions)).collect(),
        running: moments.iter().map(|moment| moment.rows.len()).collect(),
        samples: shown
            .iter()
            .map(|&row| sample(model, moments, followed.continuous, row, returns, &dimensions))
            .collect(),
    };
    let whole = mean(&mut (0..rows).map(|row| f64::from(returns[0][row]) - f64::from(returns[spans][row])));
    let costliest = |row: usize| {
        let i = (0..spans).max_by(|&i, &j| lost(i, row).total_cmp(&lost(j, row))).unwrap_or(0);
        span(i, lost(i, row))
    };
    let loss_alone = match followed.continuous {
        Some(adversary) => device.run(|| {
            let alone = |&dimension: &usize| {
                let mut limited = adversary.restart(device, 0);
                let others = limited.set.reach.iter_mut().enumerate().filter(|(d, _)| *d != dimension);
                others.for_each(|(_, reach)| *reach = 0.0);
                let values = run(Propagation::Shifted(&limited), horizon);
                let pairs = returns[0].iter().zip(&values);
                mean(&mut pairs.map(|(neutral, value)| f64::from(*neutral) - f64::from(*value)))
            };
            dimensions.iter().map(alone).collect()
        }),
        None => Vec::new(),
    };
    Ok(Trace {
        method: followed.method,
        trajectories: rows,
        all_dimensions: model.state_dim(),
        times,
        usual_uncertainty: dimensions.iter().map(|&d| usual[d]).collect(),
        pushes: hallucinated
            .iter()
            .zip(&neutral)
            .take(hallucinated.len() - 1)
            .map(|(with, without)| with.push(model, followed.continuous, without, rows, &dimensions))
            .collect(),
        spans: (0..spans).map(|i| span(i, mean(&mut (0..rows).map(|row| lost(i, row))))).collect(),
        loss_alone,
        worst: worst_rows
            .iter()
            .map(|&row| Worst {
                trajectory: row,
                value: returns[spans][row].into(),
                neutral: returns[0][row].into(),
                costliest: costliest(row),
            })
            .collect(),
        regions: regions(data, model, &hallucinated, every, &edges, &lost, (whole, rows), &usual),
        logged_range: dimensions.iter().map(|&d| logged_range(data, d)).collect(),
        plane: plane(data, setting, model, [&neutral, &hallucinated])?,
        neutral: walk(&neutral, &returns[0]),
        hallucinated: walk(&hallucinated, &returns[spans]),
        dimensions,
    })
}

/// The trajectories at every `every`-th time and at the end, the adversary being switched off at step `until`.
fn look(
    world: &World<'_>,
    followed: &Followed<'_>,
    starts: &[f32],
    until: usize,
    every: usize,
) -> Vec<Moment> {
    let World { device, setting, .. } = *world;
    let mut rollout = Rollout::new(world, followed.propagation, starts);
    let mut moments = Vec::new();
    for t in 0..=setting.horizon {
        if t == until {
            rollout.switch_off_adversary();
        }
        let kept = t % every == 0 || t == setting.horizon;
        let (states, status) = match kept {
            true => (device.download(&rollout.states), device.download(&rollout.status)),
            false => (Vec::new(), Vec::new()),
        };
        if t < setting.horizon {
            rollout.step(followed.stream);
        }
        if kept {
            moments.push(Moment::new(world, &rollout, states, &status, t));
        }
    }
    moments
}

impl Moment {
    /// `rollout` has made the step at time `t` from these states, unless they are the last.
    fn new(world: &World<'_>, rollout: &Rollout<'_>, states: Vec<f32>, status: &[u32], t: usize) -> Moment {
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
        let mut moment = Moment {
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
        if t == setting.horizon || moment.rows.is_empty() {
            return moment;
        }
        let rows = &moment.rows;
        let pick = |values: &[f32], width: usize| -> Vec<f32> {
            match values.is_empty() {
                true => Vec::new(),
                false => rows.iter().flat_map(|&i| &values[i * width..][..width]).copied().collect(),
            }
        };
        moment.actions = pick(&device.download(&rollout.actions), da);
        let prediction = model.predict(device, &moment.observed, &moment.actions);
        (moment.mean, moment.sigma) = (prediction.mean, prediction.epistemic_std);
        moment.shifts = pick(&device.download(rollout.choices()), ds);
        let members = device.download(rollout.members());
        moment.members = rows.iter().map(|&row| members[row]).collect();
        let rewards = device.download(&rollout.rewards);
        let discount = setting.discount.powi(t as i32) as f32;
        rows.iter().for_each(|&row| moment.rewards[row] = discount * rewards[row]);
        moment
    }

    fn bands(&self, model: &dyn Dynamics, dimensions: &[usize]) -> Vec<Vec<f64>> {
        let width = model.state_dim();
        let band = |&d: &usize| -> Vec<f64> {
            let mut values: Vec<f64> = self.states.iter().skip(d).step_by(width).map(|&x| x.into()).collect();
            values.sort_by(f64::total_cmp);
            BAND.iter().filter(|_| !values.is_empty()).map(|&p| empirical_quantile(&values, p)).collect()
        };
        dimensions.iter().map(band).collect()
    }

    /// Mean over the rows under way of what `value` says of a place in the lists `[rows, state]`.
    fn mean(&self, model: &dyn Dynamics, dimension: usize, value: impl Fn(usize) -> f32) -> f64 {
        let places = (0..self.rows.len()).map(|i| i * model.state_dim() + dimension);
        places.map(|i| f64::from(value(i))).sum::<f64>() / self.rows.len().max(1) as f64
    }

    fn push(
        &self,
        model: &dyn Dynamics,
        adversary: Option<&Continuous>,
        without: &Moment,
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
        let paid = |moment: &Moment| moment.rewards.iter().map(|&r| f64::from(r)).sum::<f64>() / rows as f64;
        Push {
            effort: if adversary.is_some() { dimensions.iter().map(effort).collect() } else { Vec::new() },
            uncertainty: dimensions.iter().map(|&d| self.mean(model, d, |i| self.sigma[i])).collect(),
            members: match adversary {
                Some(_) => Vec::new(),
                None => (0..model.members() as u32).map(share).collect(),
            },
            reward_change: paid(self) - paid(without),
        }
    }
}

/// The coordinates that the adversary moves furthest in units of the logged changes, in their own order.
fn most_pushed(model: &dyn Dynamics, moments: &[Moment]) -> Vec<usize> {
    let width = model.state_dim();
    let mut dimensions: Vec<usize> = (0..width).collect();
    if width > DIMENSIONS {
        let units = &model.frame().targets.std;
        let push = |d: usize| -> f64 {
            let shift =
                |m: &Moment, i: usize| m.shifts.get(i).map_or(1.0, |s| s.abs()) * m.sigma[i] / units[d];
            let known = moments.iter().filter(|m| !m.sigma.is_empty());
            known.map(|m| m.mean(model, d, |i| shift(m, i))).sum()
        };
        let pushes: Vec<f64> = dimensions.iter().map(|&d| push(d)).collect();
        dimensions.sort_by(|&i, &j| pushes[j].total_cmp(&pushes[i]));
        dimensions.truncate(DIMENSIONS);
        dimensions.sort_unstable();
    }
    dimensions
}

fn sample(
    model: &dyn Dynamics,
    moments: &[Moment],
    adversary: Option<&Continuous>,
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
    for moment in moments {
        let Some(place) = moment.rows.iter().position(|&r| r == row) else { break };
        let pick =
            |values: &[f32]| -> Vec<f32> { dimensions.iter().map(|&d| values[place * width + d]).collect() };
        sample.states.push(pick(&moment.states));
        if let (Some(adversary), false) = (adversary, moment.sigma.is_empty()) {
            let width = |(i, &sigma): (usize, &f32)| half_width(model, &adversary.set, i % width, sigma);
            let widths: Vec<f32> = moment.sigma.iter().enumerate().map(width).collect();
            sample.reach.push(pick(&widths));
            sample.middle.push(pick(&moment.mean));
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

/// Median σ_e of each dimension on logged data, on rows held out of the training where there are some.
fn usual_uncertainty(device: &Device, data: &Transitions, model: &dyn Dynamics) -> Vec<f64> {
    let held_out = &model.held_out().calibration;
    let own = model.check_data(data).is_ok() && !held_out.is_empty();
    let rows: Vec<usize> =
        if own { held_out.iter().map(|&row| row as usize).collect() } else { (0..data.len()).collect() };
    let some = || rows.iter().step_by(rows.len().div_ceil(LOGGED).max(1));
    let states: Vec<f32> = some().flat_map(|&row| data.state(row)).copied().collect();
    let actions: Vec<f32> = some().flat_map(|&row| data.action(row)).copied().collect();
    let sigma = device.run(|| model.predict(device, &states, &actions)).epistemic_std;
    let median = |d: usize| {
        let mut values: Vec<f64> =
            sigma.iter().skip(d).step_by(model.state_dim()).map(|&x| x.into()).collect();
        values.sort_by(f64::total_cmp);
        empirical_quantile(&values, 0.5)
    };
    (0..model.state_dim()).map(median).collect()
}

fn logged_range(data: &Transitions, dimension: usize) -> Option<[f32; 2]> {
    (dimension < data.state_dim()).then(|| range(data.states(), dimension, data.state_dim()))
}

/// What is shown behind trajectories in a plane; none where states have other than two entries.
fn plane(
    data: &Transitions,
    setting: Setting<'_>,
    model: &dyn Dynamics,
    walks: [&Vec<Moment>; 2],
) -> Result<Option<Plane>> {
    if model.layout().observed != 2 {
        return Ok(None);
    }
    let every = data.len().div_ceil(LOGGED);
    let logged = (0..data.len()).step_by(every).map(|row| [data.state(row)[0], data.state(row)[1]]);
    let mut plane = Plane {
        logged: logged.collect(),
        range: [[f32::INFINITY, f32::NEG_INFINITY]; 2],
        rewards: Vec::new(),
        side: MAP,
    };
    let seen = walks.into_iter().flatten().flat_map(|moment| &moment.observed);
    let all = plane.logged.as_flattened().iter().chain(seen).enumerate();
    for (i, &x) in all.filter(|(_, x)| x.is_finite()) {
        let [low, high] = &mut plane.range[i % 2];
        (*low, *high) = (low.min(x), high.max(x));
    }
    for [low, high] in &mut plane.range {
        let margin = 0.06 * (*high - *low).max(1e-6);
        (*low, *high) = (*low - margin, *high + margin);
    }
    if !setting.task.learns_reward() {
        let at = |[low, high]: [f32; 2], i: usize| low + (high - low) * i as f32 / (MAP - 1) as f32;
        let point = |i: usize| [at(plane.range[0], i % MAP), at(plane.range[1], i / MAP)];
        let states: Vec<f32> = (0..MAP * MAP).flat_map(point).collect();
        let actions = vec![0.0; MAP * MAP * model.action_dim()];
        let mut rewards = vec![0.0; MAP * MAP];
        let scratch = &mut Scratch::default();
        setting.task.reward.evaluate(MAP * MAP, &states, &actions, &states, &mut rewards, scratch)?;
        plane.rewards = rewards;
    }
    Ok(Some(plane))
}

/// The box around 96 % of the visits in each of the coordinates that tell it from the rest of the log: those in which it
/// is less than half as wide. The given bounds, where there is none.
fn narrowed(data: &Transitions, bounds: Bounds, visited: &[&[f32]]) -> Bounds {
    let share = |coordinate: usize| {
        let mut values: Vec<f64> = visited.iter().map(|place| f64::from(place[coordinate])).collect();
        values.sort_by(f64::total_cmp);
        let [low, high] = [EDGE, 1.0 - EDGE].map(|p| empirical_quantile(&values, p));
        let ds = data.state_dim();
        let [least, most] = match coordinate.checked_sub(ds) {
            None => range(data.states(), coordinate, ds),
            Some(action) => range(data.actions(), action, data.action_dim()),
        };
        let side = Side { coordinate, low: Some(low as f32), high: Some(high as f32) };
        ((high - low) / f64::from(most - least).max(f64::MIN_POSITIVE), side)
    };
    let width = data.state_dim() + data.action_dim();
    let mut sides: Vec<(f64, Side)> = (0..width).map(share).filter(|(share, _)| *share < 0.5).collect();
    sides.sort_by(|a, b| a.0.total_cmp(&b.0));
    sides.truncate(SIDES);
    if sides.is_empty() {
        return bounds;
    }
    sides.sort_by_key(|(_, side)| side.coordinate);
    Bounds { sides: sides.into_iter().map(|(_, side)| side).collect() }
}

/// Smallest and largest value of a column.
fn range(values: &[f32], column: usize, width: usize) -> [f32; 2] {
    let values = values.iter().skip(column).step_by(width);
    values.fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], &x| [low.min(x), high.max(x)])
}

/// The boxes in which the pushes of the adversary cost most.
#[allow(clippy::too_many_arguments)]
fn regions(
    data: &Transitions,
    model: &dyn Dynamics,
    moments: &[Moment],
    every: usize,
    edges: &[usize],
    lost: &dyn Fn(usize, usize) -> f64,
    (whole, rows): (f64, usize),
    usual: &[f64],
) -> Vec<Region> {
    let (seen, da, width) = (model.layout().observed, model.action_dim(), model.state_dim());
    let steps = &moments[..moments.len() - 1];
    let span_of = |i: usize| edges[1..].iter().position(|&to| i * every < to).unwrap_or(0);
    // A span's loss is shared among the visits that were kept of it.
    let mut kept = vec![vec![0.0; rows]; edges.len() - 1];
    for (i, moment) in steps.iter().enumerate() {
        moment.rows.iter().for_each(|&row| kept[span_of(i)][row] += 1.0);
    }
    let (mut places, mut costs, mut sigmas) = (Vec::new(), Vec::new(), Vec::new());
    for (i, moment) in steps.iter().enumerate() {
        for (place, &row) in moment.rows.iter().enumerate() {
            let cost = lost(span_of(i), row) / kept[span_of(i)][row];
            if !cost.is_finite() {
                continue;
            }
            places.extend_from_slice(&moment.observed[place * seen..][..seen]);
            places.extend_from_slice(&moment.actions[place * da..][..da]);
            sigmas.push(&moment.sigma[place * width..][..width]);
            costs.push(cost);
        }
    }
    let visits = costs.len() as f64;
    let found = costly_boxes(&places, seen + da, &costs).into_iter();
    let region = |(bounds, inside): (Bounds, Vec<usize>)| {
        let visited: Vec<&[f32]> = inside.iter().map(|&i| &places[i * (seen + da)..][..seen + da]).collect();
        let bounds = narrowed(data, bounds, &visited);
        let loss = inside.iter().map(|&i| costs[i]).sum::<f64>() / rows as f64;
        let multiple = |d: usize| {
            let sum: f64 = inside.iter().map(|&i| f64::from(sigmas[i][d])).sum();
            if usual[d] > 0.0 { sum / inside.len() as f64 / usual[d] } else { 0.0 }
        };
        let least_known = (0..width).map(|d| (d, multiple(d))).max_by(|a, b| a.1.total_cmp(&b.1));
        let logged = (0..data.len())
            .filter(|&row| bounds.holds(data.state(row).iter().chain(data.action(row)).copied()))
            .count();
        Region {
            loss,
            share: if whole > 0.0 { loss / whole } else { 0.0 },
            visits: inside.len() as f64 / visits,
            logged,
            least_known: least_known.unwrap_or((0, 0.0)),
            bounds,
        }
    };
    found.map(region).collect()
}
