//! Why a bound is what it is: some of its trajectories followed again, step by step, with and without the adversary.
//!
//! They are the first ones of those that the bound was measured on, with the same starts and the same noise, so that
//! every difference is the adversary's doing. It is switched off at one step after the other: what the return loses
//! when it acts for a few steps longer is what its pushes in these steps cost, with all that follows from them, and
//! these losses add up to the whole.

mod help;
mod snapshot;
mod plane;

pub use help::Region;
pub use plane::Plane;

use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::evaluate::Method;
use crate::rollout::ShiftAdversary;
use crate::rollout::{Propagation, Rollout, Setting, World};
use crate::run::Run;
use crate::stats::empirical_quantile;
use crate::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use help::Losses;
use plane::plane;
use serde::Serialize;
use snapshot::{Snapshot, look, sample};

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
/// Logged rows that tell how large σ_e usually is.
const LOGGED: usize = 500;

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

/// What is followed.
pub(crate) struct Followed<'a> {
    pub method: Method,
    /// With the adversary.
    pub propagation: Propagation<'a>,
    /// HAMBO-CA's adversary.
    pub continuous: Option<&'a ShiftAdversary>,
    /// All starts of the bound, of which some are followed.
    pub starts: &'a [f32],
    /// Its noise.
    pub stream: Stream,
    /// Who is told how far it is.
    pub run: &'a Run<'a>,
}

/// What the work is called while it goes on.
const STAGE: &str = "explanation";

/// Follows the trajectories.
pub(crate) fn trace(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    setting: Setting<'_>,
    followed: &Followed<'_>,
) -> Result<Trace> {
    let observed = model.layout().observed;
    let rows = FOLLOWED.min(followed.starts.len() / observed);
    let rows = rows - rows % model.folds();
    let starts = &followed.starts[..rows * observed];
    let horizon = setting.horizon;
    let world = World::new(device, model, setting);
    let run = |propagation: Propagation<'_>, until: usize| -> Result<Vec<f32>> {
        let mut rollout = Rollout::new(&world, propagation, starts);
        for t in 0..horizon {
            if t == until {
                rollout.switch_off_adversary();
            }
            rollout.step(followed.stream);
        }
        Ok(rollout.returns(device)?.values)
    };

    let spans = SPANS.min(horizon);
    let edges: Vec<usize> = (0..=spans).map(|i| i * horizon / spans).collect();
    let returns: Vec<Vec<f32>> = device.run(|| {
        let with_adversary = |(i, &until): (usize, &usize)| {
            followed.run.report(STAGE, i, edges.len(), "");
            run(followed.propagation, until)
        };
        edges.iter().enumerate().map(with_adversary).collect::<Result<_>>()
    })?;
    let lost =
        |span: usize, row: usize| f64::from(returns[span][row]) - f64::from(returns[span + 1][row]);
    let span = |i: usize, loss: f64| Span { from: edges[i], to: edges[i + 1], loss };
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / rows as f64;

    let every = horizon.div_ceil(STEPS);
    followed.run.report(STAGE, edges.len(), edges.len(), "");
    let (neutral, hallucinated) = device.run(|| {
        let look = |until: usize| look(&world, followed, starts, until, every);
        Ok::<_, Error>((look(0)?, look(horizon)?))
    })?;
    let times: Vec<usize> = (0..=horizon).filter(|t| t % every == 0 || *t == horizon).collect();
    let dimensions = most_pushed(model, &hallucinated);
    let usual = usual_uncertainty(device, data, model)?;

    let mut order: Vec<usize> = (0..rows).collect();
    order.sort_by(|&i, &j| returns[spans][i].total_cmp(&returns[spans][j]));
    let worst_rows = &order[..WORST.min(rows)];
    let mut shown = worst_rows.to_vec();
    shown.extend((0..rows).filter(|row| !worst_rows.contains(row)).take(SHOWN));
    let walk = |snapshots: &[Snapshot], returns: &[f32]| Walk {
        value: mean(&mut returns.iter().map(|&r| f64::from(r))),
        bands: snapshots.iter().map(|snapshot| snapshot.bands(model, &dimensions)).collect(),
        running: snapshots.iter().map(|snapshot| snapshot.rows.len()).collect(),
        samples: shown
            .iter()
            .map(|&row| sample(model, snapshots, followed.continuous, row, returns, &dimensions))
            .collect(),
    };
    let whole =
        mean(&mut (0..rows).map(|row| f64::from(returns[0][row]) - f64::from(returns[spans][row])));
    let costliest = |row: usize| {
        let i = (0..spans).max_by(|&i, &j| lost(i, row).total_cmp(&lost(j, row))).unwrap_or(0);
        span(i, lost(i, row))
    };
    let loss_alone = match followed.continuous {
        Some(adversary) => device.run(|| {
            let alone = |&dimension: &usize| {
                let mut limited = adversary.within(device, &adversary.set);
                let others =
                    limited.set.reach.iter_mut().enumerate().filter(|(d, _)| *d != dimension);
                others.for_each(|(_, reach)| *reach = 0.0);
                let values = run(Propagation::Shifted(&limited), horizon)?;
                let pairs = returns[0].iter().zip(&values);
                Ok(mean(&mut pairs.map(|(neutral, value)| f64::from(*neutral) - f64::from(*value))))
            };
            dimensions.iter().map(alone).collect::<Result<_>>()
        })?,
        None => Vec::new(),
    };
    let losses =
        Losses { snapshots: &hallucinated, every, edges: &edges, lost: &lost, whole, rows };
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
            .map(|(with, without)| {
                with.push(model, followed.continuous, without, rows, &dimensions)
            })
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
        regions: losses.regions(data, model, &usual),
        logged_range: dimensions.iter().map(|&d| logged_range(data, d)).collect(),
        plane: plane(data, setting, model, [&neutral, &hallucinated])?,
        neutral: walk(&neutral, &returns[0]),
        hallucinated: walk(&hallucinated, &returns[spans]),
        dimensions,
    })
}

/// The coordinates that the adversary moves furthest in units of the logged changes, in their own order.
fn most_pushed(model: &dyn Dynamics, snapshots: &[Snapshot]) -> Vec<usize> {
    let width = model.state_dim();
    let mut dimensions: Vec<usize> = (0..width).collect();
    if width > DIMENSIONS {
        let units = &model.frame().targets.std;
        let push = |d: usize| -> f64 {
            let shift = |m: &Snapshot, i: usize| {
                m.shifts.get(i).map_or(1.0, |s| s.abs()) * m.sigma[i] / units[d]
            };
            let known = snapshots.iter().filter(|m| !m.sigma.is_empty());
            known.map(|m| m.mean(model, d, |i| shift(m, i))).sum()
        };
        let pushes: Vec<f64> = dimensions.iter().map(|&d| push(d)).collect();
        dimensions.sort_by(|&i, &j| pushes[j].total_cmp(&pushes[i]));
        dimensions.truncate(DIMENSIONS);
        dimensions.sort_unstable();
    }
    dimensions
}

/// Median σ_e of each dimension on logged data, on rows held out of the training where there are some.
fn usual_uncertainty(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
) -> Result<Vec<f64>> {
    let held_out = model.held_out().held_out();
    let rows: Vec<usize> = if !held_out.is_empty() {
        held_out.iter().map(|&row| row as usize).collect()
    } else {
        (0..data.len()).collect()
    };
    let some = || rows.iter().step_by(rows.len().div_ceil(LOGGED).max(1));
    let states: Vec<f32> = some().flat_map(|&row| data.state(row)).copied().collect();
    let actions: Vec<f32> = some().flat_map(|&row| data.action(row)).copied().collect();
    let sigma = device.run(|| model.predict(device, &states, &actions))?.epistemic_std;
    let median = |d: usize| {
        let mut values: Vec<f64> =
            sigma.iter().skip(d).step_by(model.state_dim()).map(|&x| x.into()).collect();
        values.sort_by(f64::total_cmp);
        empirical_quantile(&values, 0.5)
    };
    Ok((0..model.state_dim()).map(median).collect())
}

fn logged_range(data: &Transitions, dimension: usize) -> Option<[f32; 2]> {
    (dimension < data.state_dim()).then(|| range(data.states(), dimension, data.state_dim()))
}

/// Smallest and largest value of a column.
fn range(values: &[f32], column: usize, width: usize) -> [f32; 2] {
    let values = values.iter().skip(column).step_by(width);
    values.fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], &x| [low.min(x), high.max(x)])
}
