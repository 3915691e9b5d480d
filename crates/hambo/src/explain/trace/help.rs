//! What data would help: the regions of states and actions in which the adversary's pushes cost most.

use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::explain::regions::{Bounds, Side, costly_boxes};
use crate::explain::trace::range;
use crate::explain::trace::snapshot::Snapshot;
use crate::stats::empirical_quantile;
use serde::Serialize;

/// Sides of a region that are told, and the share of its visits beyond either.
const SIDES: usize = 4;
const EDGE: f64 = 0.02;

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

/// What the pushes of the adversary cost along the trajectories that were followed.
pub(super) struct Losses<'a> {
    /// The trajectories at every `every`-th step, and at the end.
    pub snapshots: &'a [Snapshot],
    pub every: usize,
    /// Where the spans of steps begin and end, and what a trajectory lost in a span.
    pub edges: &'a [usize],
    pub lost: &'a dyn Fn(usize, usize) -> f64,
    /// Mean loss of a trajectory, and how many there are.
    pub whole: f64,
    pub rows: usize,
}

impl Losses<'_> {
    /// The boxes in which the pushes cost most; `usual` is the median σ_e of each dimension on logged data.
    pub fn regions(&self, data: &Transitions, model: &dyn Dynamics, usual: &[f64]) -> Vec<Region> {
        let Losses { snapshots, every, edges, lost, whole, rows } = *self;
        let (seen, da, width) = (model.layout().observed, model.action_dim(), model.state_dim());
        let steps = &snapshots[..snapshots.len() - 1];
        let span_of = |i: usize| edges[1..].iter().position(|&to| i * every < to).unwrap_or(0);
        // A span's loss is shared among the visits that were kept of it.
        let mut kept = vec![vec![0.0; rows]; edges.len() - 1];
        for (i, snapshot) in steps.iter().enumerate() {
            snapshot.rows.iter().for_each(|&row| kept[span_of(i)][row] += 1.0);
        }
        let (mut places, mut costs, mut sigmas) = (Vec::new(), Vec::new(), Vec::new());
        for (i, snapshot) in steps.iter().enumerate() {
            for (place, &row) in snapshot.rows.iter().enumerate() {
                let cost = lost(span_of(i), row) / kept[span_of(i)][row];
                if !cost.is_finite() {
                    continue;
                }
                places.extend_from_slice(&snapshot.observed[place * seen..][..seen]);
                places.extend_from_slice(&snapshot.actions[place * da..][..da]);
                sigmas.push(&snapshot.sigma[place * width..][..width]);
                costs.push(cost);
            }
        }
        let visits = costs.len() as f64;
        let found = costly_boxes(&places, seen + da, &costs).into_iter();
        let region = |(bounds, inside): (Bounds, Vec<usize>)| {
            let visited: Vec<&[f32]> =
                inside.iter().map(|&i| &places[i * (seen + da)..][..seen + da]).collect();
            let bounds = narrowed(data, bounds, &visited);
            let loss = inside.iter().map(|&i| costs[i]).sum::<f64>() / rows as f64;
            let multiple = |d: usize| {
                let sum: f64 = inside.iter().map(|&i| f64::from(sigmas[i][d])).sum();
                if usual[d] > 0.0 { sum / inside.len() as f64 / usual[d] } else { 0.0 }
            };
            let least_known =
                (0..width).map(|d| (d, multiple(d))).max_by(|a, b| a.1.total_cmp(&b.1));
            let logged = (0..data.len())
                .filter(|&row| {
                    bounds.holds(data.state(row).iter().chain(data.action(row)).copied())
                })
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
}

/// The box around 96 % of the visits in each of the coordinates that tell it from the rest of the log: those in which it
/// is less than half as wide. The given bounds, where there is none.
fn narrowed(data: &Transitions, bounds: Bounds, visited: &[&[f32]]) -> Bounds {
    let share = |coordinate: usize| {
        let mut values: Vec<f64> =
            visited.iter().map(|place| f64::from(place[coordinate])).collect();
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
    let mut sides: Vec<(f64, Side)> =
        (0..width).map(share).filter(|(share, _)| *share < 0.5).collect();
    sides.sort_by(|a, b| a.0.total_cmp(&b.0));
    sides.truncate(SIDES);
    if sides.is_empty() {
        return bounds;
    }
    sides.sort_by_key(|(_, side)| side.coordinate);
    Bounds { sides: sides.into_iter().map(|(_, side)| side).collect() }
}
