//! What is shown behind trajectories of states with two entries.

use crate::Result;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::explain::trace::snapshot::Snapshot;
use crate::rollout::Setting;
use hambo_engine::expression::Scratch;
use serde::Serialize;

/// Logged states that are shown, and points along each side of the map of rewards.
const LOGGED: usize = 500;
const MAP: usize = 64;

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

/// What is shown behind trajectories in a plane; none where states have other than two entries.
pub(super) fn plane(
    data: &Transitions,
    setting: Setting<'_>,
    model: &dyn Dynamics,
    walks: [&Vec<Snapshot>; 2],
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
    let seen = walks.into_iter().flatten().flat_map(|snapshot| &snapshot.observed);
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
        setting.task.reward.evaluate(
            MAP * MAP,
            &states,
            &actions,
            &states,
            &mut rewards,
            scratch,
        )?;
        plane.rewards = rewards;
    }
    Ok(Some(plane))
}
