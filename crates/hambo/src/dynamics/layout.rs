//! What the networks see of a state, and what is carried along trajectories besides it.
//!
//! Angles are embedded here and nowhere else: the networks see (cos θ, sin θ) and predict the change of θ itself.
//! A learned reward is one more coordinate: what was paid so far stands behind the entries of the state, and its
//! change is the reward. So it has its own mean, deviations and place in the confidence set, as every coordinate.

use crate::Result;
use crate::data::Transitions;
use hambo_engine::expression::{Program, Scope};
use serde::{Deserialize, Serialize};
use std::f32::consts::{PI, TAU};

/// Rounding of logged angles at the ends of their range.
const SLACK: f32 = 1e-4;

/// The coordinates of a model's states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Length of a state as the data have it and policies see it.
    pub observed: usize,
    /// The angles among its entries.
    pub angles: Vec<Angle>,
    /// Whether the reward is learned.
    pub reward: bool,
}

/// An entry of the state that is an angle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Angle {
    /// Which entry.
    pub index: usize,
    /// Where the log starts it anew: angles within [from, from + 2π) stay there in trajectories; none: they go on.
    pub from: Option<f32>,
}

/// [`Layout`] as programs for states on a device; none where there is nothing to do.
#[derive(Clone, Debug)]
pub(crate) struct Views {
    /// From the carried state to what policies see.
    pub observation: Option<Program>,
    /// From the carried state to the networks' inputs.
    pub features: Option<Program>,
    /// From a predicted state to the one that the log would have, angles in their range.
    pub wrapped: Option<Program>,
}

impl Layout {
    /// For these data, with angles at the given entries.
    pub fn of(data: &Transitions, angles: &[usize], reward: bool) -> Self {
        let mut indices = angles.to_vec();
        indices.sort_unstable();
        indices.dedup();
        let angle = |index: usize| {
            let column = || {
                let values = data.states().iter().skip(index).step_by(data.state_dim());
                values.chain(data.next_states().iter().skip(index).step_by(data.state_dim()))
            };
            let within =
                |from: f32| column().all(|x| (from - SLACK..=from + TAU + SLACK).contains(x));
            Angle { index, from: [-PI, 0.0].into_iter().find(|&from| within(from)) }
        };
        Layout {
            observed: data.state_dim(),
            angles: indices.into_iter().map(angle).collect(),
            reward,
        }
    }

    /// Length of the states that trajectories carry.
    pub fn carried(&self) -> usize {
        self.observed + usize::from(self.reward)
    }

    /// Number of columns that the networks see of a state.
    pub fn features(&self) -> usize {
        self.observed + self.angles.len()
    }

    fn angle(&self, index: usize) -> Option<&Angle> {
        self.angles.iter().find(|angle| angle.index == index)
    }

    /// The networks' inputs of a state.
    pub(crate) fn embed(&self, state: &[f32], out: &mut [f32]) {
        let mut out = out.iter_mut();
        let mut put = |value: f32| out.next().into_iter().for_each(|to| *to = value);
        for (index, &x) in state.iter().take(self.observed).enumerate() {
            if self.angle(index).is_some() {
                put(x.cos());
                put(x.sin());
            } else {
                put(x);
            }
        }
    }

    /// What the networks learn of a step: changes, those of angles the short way round, and the reward.
    pub(crate) fn change(&self, data: &Transitions, row: usize, out: &mut [f32]) {
        for ((out, n), s) in out.iter_mut().zip(data.next_state(row)).zip(data.state(row)) {
            *out = n - s;
        }
        for angle in &self.angles {
            out[angle.index] -= (out[angle.index] / TAU).round() * TAU;
        }
        if self.reward {
            out[self.observed] = data.rewards()[row];
        }
    }

    /// States `[rows, observed]` as trajectories carry them: nothing was paid yet.
    pub(crate) fn carry(&self, states: &[f32]) -> Vec<f32> {
        if !self.reward {
            return states.to_vec();
        }
        states.chunks_exact(self.observed).flat_map(|s| s.iter().copied().chain([0.0])).collect()
    }

    pub(crate) fn views(&self) -> Result<Views> {
        let program = |texts: Vec<String>| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            Program::parse(&texts, self.carried(), 0, Scope::CONTROLLER)
        };
        let entries = || (0..self.observed).map(|i| format!("s[{i}]"));
        let features = || {
            (0..self.observed).flat_map(|i| match self.angle(i) {
                Some(_) => vec![format!("cos(s[{i}])"), format!("sin(s[{i}])")],
                None => vec![format!("s[{i}]")],
            })
        };
        let wrapped = || {
            (0..self.carried()).map(|i| match self.angle(i).and_then(|angle| angle.from) {
                Some(from) if from < 0.0 => format!("wrap(s[{i}])"),
                Some(_) => format!("wrap(s[{i}] - pi) + pi"),
                None => format!("s[{i}]"),
            })
        };
        let wraps = self.angles.iter().any(|angle| angle.from.is_some());
        Ok(Views {
            observation: self.reward.then(|| program(entries().collect())).transpose()?,
            features: (self.reward || !self.angles.is_empty())
                .then(|| program(features().collect()))
                .transpose()?,
            wrapped: wraps.then(|| program(wrapped().collect())).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;
    use hambo_engine::expression::Scratch;

    fn data(angles: [f32; 3]) -> Transitions {
        Transitions::new(Columns {
            state_dim: 2,
            action_dim: 1,
            states: vec![5.0, angles[0], 6.0, angles[1]],
            actions: vec![0.0; 2],
            rewards: vec![0.5, -2.0],
            next_states: vec![6.0, angles[1], 7.0, angles[2]],
            terminals: vec![false; 2],
            timeouts: vec![false; 2],
            episode_starts: vec![0],
            ..Default::default()
        })
        .unwrap()
    }

    #[test]
    fn angles_keep_the_range_of_the_log() {
        let from = |angles| Layout::of(&data(angles), &[1], false).angles[0].from;
        assert_eq!(from([-3.0, 3.0, 0.0]), Some(-PI));
        assert_eq!(from([0.1, 6.2, 3.0]), Some(0.0));
        assert_eq!(from([-3.0, 4.0, 9.0]), None);
    }

    #[test]
    fn changes_of_angles_go_the_short_way_and_rewards_follow_them() {
        let data = data([3.0, -3.0, -2.5]);
        let layout = Layout::of(&data, &[1, 1], true);
        let mut change = [0.0; 3];
        layout.change(&data, 0, &mut change);
        assert_eq!(change[0], 1.0);
        assert!((change[1] - (TAU - 6.0)).abs() < 1e-6, "{change:?}");
        assert_eq!(change[2], 0.5);
        assert_eq!(layout.carry(&[1.0, 2.0, 3.0, 4.0]), [1.0, 2.0, 0.0, 3.0, 4.0, 0.0]);
    }

    /// The program for devices gives the bits that training saw.
    #[test]
    fn programs_do_what_training_does() {
        let data = data([3.0, -3.0, 3.1]);
        let layout = Layout::of(&data, &[1], true);
        let views = layout.views().unwrap();
        let run = |program: &Option<Program>, state: &[f32]| {
            let program = program.as_ref().unwrap();
            let mut out = vec![0.0; program.outputs().len()];
            program.evaluate(1, state, &[], &[], &mut out, &mut Scratch::default()).unwrap();
            out
        };
        let mut embedded = [0.0; 3];
        layout.embed(&[5.0, 3.0], &mut embedded);
        assert_eq!(run(&views.features, &[5.0, 3.0, 9.0]), embedded);
        assert_eq!(run(&views.observation, &[5.0, 3.0, 9.0]), [5.0, 3.0]);
        let wrapped = run(&views.wrapped, &[5.0, 3.5, 9.0]);
        assert!((wrapped[1] - (3.5 - TAU)).abs() < 1e-5 && wrapped[2] == 9.0, "{wrapped:?}");

        let plain = Layout::of(&data, &[], false).views().unwrap();
        assert!(plain.observation.is_none() && plain.features.is_none() && plain.wrapped.is_none());
    }
}
