//! Held-out episodes as they are replayed, and how far the policy is from what was done in them.

use crate::Result;
use crate::data::Transitions;
use crate::rollout::World;
use crate::task::earned::{Earned, LoggedRewards};
use std::ops::Range;

/// The deviation from the policy, in half ranges of the action, up to which an episode is near: its systematic part, and all
/// of it. What a policy earns with much noise says little about what it earns without.
pub(super) const NEAR: f64 = 0.35;
const NEAR_WITH_NOISE: f64 = 0.5;
/// Steps in which a systematic deviation shows: those of a gait come and go.
const LAGS: usize = 10;
/// Share of the horizon that an episode must have lasted, unless it ended for good, to speak for the whole.
const WHOLE: f64 = 0.9;
/// States that the policy is asked about at a time.
const CHUNK: usize = 65_536;

/// A held-out episode as it is replayed.
pub(super) struct Episode {
    pub fold: usize,
    pub start: usize,
    /// Logged transitions, and steps: one more where a last row follows.
    pub rows: usize,
    pub steps: usize,
    /// Whether it ended for good.
    pub ended: bool,
    /// Discounted sum of its rewards.
    pub logged: f64,
    /// a − π(s), `[steps, action]`.
    pub deviations: Vec<f32>,
    /// Systematic and whole size of these.
    pub size: [f64; 2],
}

impl Episode {
    pub fn is_near(&self) -> bool {
        self.size[0] <= NEAR && self.size[1] <= NEAR_WITH_NOISE
    }

    pub fn is_whole(&self, horizon: usize) -> bool {
        self.ended || self.steps as f64 >= WHOLE * horizon as f64
    }
}
/// The episodes that some model has never seen, and how far the policy is from what was done in them.
pub(super) fn episodes(world: &World<'_>, data: &Transitions) -> Result<Vec<Episode>> {
    let held_out = world.model.held_out();
    if !held_out.by_episode {
        return Ok(Vec::new());
    }
    let World { setting, .. } = *world;
    let mut fold_of = vec![None; data.len()];
    for (fold, rows) in held_out.folds.iter().enumerate() {
        rows.held_out.iter().for_each(|&row| fold_of[row as usize] = Some(fold));
    }
    let rewards = LoggedRewards::new(setting.task, data, setting.horizon, setting.discount)?;
    let last = data.last_rows();
    let policy = policy_actions(world, data.states(), data)?;
    let last_policy = policy_actions(world, &last.states, data)?;
    let (width, half_range) = (data.action_dim(), half_ranges(world, data, &policy));
    let episode = |rows: Range<usize>, fold: usize| {
        let earned = rewards.of(rows);
        let Earned { rows, one_more, ended, value, .. } = &earned;
        let deviations_of = |actions: &[f32], policy: &[f32], rows: Range<usize>| -> Vec<f32> {
            let entries = rows.start * width..rows.end * width;
            let pairs = actions[entries.clone()].iter().zip(&policy[entries]);
            pairs.map(|(a, pi)| a - pi).collect()
        };
        let mut deviations = deviations_of(data.actions(), &policy, rows.clone());
        deviations.extend(
            one_more.iter().flat_map(|&i| deviations_of(&last.actions, &last_policy, i..i + 1)),
        );
        Episode {
            fold,
            start: rows.start,
            rows: rows.len(),
            steps: earned.steps(),
            ended: *ended,
            logged: *value,
            size: sizes(&deviations, &half_range),
            deviations,
        }
    };
    let held_out = data.episodes().filter_map(|rows| fold_of[rows.start].map(|fold| (rows, fold)));
    Ok(held_out.map(|(rows, fold)| episode(rows, fold)).collect())
}

/// π(s) of logged states, within the bounds; the mean where the policy is random.
fn policy_actions(world: &World<'_>, states: &[f32], data: &Transitions) -> Result<Vec<f32>> {
    let World { device, setting, .. } = *world;
    let mut policy = Vec::with_capacity(states.len() / data.state_dim() * data.action_dim());
    for states in states.chunks(CHUNK * data.state_dim()) {
        let mut actions = device.zeros(states.len() / data.state_dim() * data.action_dim());
        setting.policy.act(device, &device.upload(states), &mut actions);
        device.clamp(&world.bounds[0], &world.bounds[1], &mut actions);
        policy.extend(device.download(&actions)?);
    }
    Ok(policy)
}

/// Half the range of each entry of the action: the task's, or that of log and policy where it has none.
fn half_ranges(world: &World<'_>, data: &Transitions, policy: &[f32]) -> Vec<f64> {
    let task = world.setting.task;
    let half = |d: usize| {
        let declared = f64::from(task.action_high[d]) - f64::from(task.action_low[d]);
        if declared.is_finite() {
            return 0.5 * declared;
        }
        let entries = data.actions().chunks_exact(data.action_dim());
        let values = entries.chain(policy.chunks_exact(data.action_dim())).map(|action| &action[d]);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| {
            (l.min(x.into()), h.max(x.into()))
        });
        0.5 * (high - low)
    };
    (0..data.action_dim()).map(|d| half(d).max(f64::MIN_POSITIVE)).collect()
}

/// Root mean squares of deviations over steps and entries, in half ranges. The systematic part is the most that a step has
/// in common with one of the next few: noise that is drawn anew at every step is no difference of policies.
fn sizes(deviations: &[f32], half_range: &[f64]) -> [f64; 2] {
    let width = half_range.len();
    let scaled = |i: usize| f64::from(deviations[i]) / half_range[i % width];
    let mean = |lag: usize| {
        let n = deviations.len().saturating_sub(lag * width);
        let products = (0..n).map(|i| scaled(i) * scaled(i + lag * width));
        if n == 0 { f64::INFINITY } else { products.sum::<f64>() / n as f64 }
    };
    let systematic = (1..=LAGS).map(|lag| mean(lag).abs()).filter(|m| m.is_finite());
    [systematic.fold(f64::NAN, f64::max).sqrt(), mean(0).sqrt()]
}
