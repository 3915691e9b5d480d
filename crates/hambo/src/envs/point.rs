//! Points in the plane: the paper's PointSafety and PointEnv. Both move by their action, s' = s + a.

use super::{Environment, Outcome};
use crate::Result;
use crate::expression::{Program, Scope};
use crate::rng::Generator;
use crate::task::{Initial, Task};

/// From (−2, 0) around the unit circle, which is a danger zone, to (2, 0).
#[derive(Clone, Debug, Default)]
pub(super) struct PointSafety {
    position: [f64; 2],
}

const START: [f64; 2] = [-2.0, 0.0];
const GOAL: [f64; 2] = [2.0, 0.0];
const DANGER: f64 = 50.0;
/// The paper draws a sharp circle and names no reward. The edge here is two hundredths wide, so that an
/// adversary which follows gradients can feel it.
const EDGE: f64 = 0.02;
const PACE: f32 = 0.5;

impl Environment for PointSafety {
    fn reset(&mut self, _: &mut Generator) {
        self.position = START;
    }

    fn step(&mut self, action: &[f32]) -> Option<Outcome> {
        let [x, y] = self.position;
        let inside = 1.0 / (1.0 + (-(1.0 - x.hypot(y)) / EDGE).exp());
        let reward = -(x - GOAL[0]).hypot(y - GOAL[1]) - DANGER * inside;
        move_by(&mut self.position, action, PACE);
        Some(Outcome { reward, terminal: false })
    }

    fn observe(&self, state: &mut [f32]) {
        state.copy_from_slice(&self.position.map(|x| x as f32));
    }

    fn place(&mut self, state: &[f32]) -> bool {
        self.position = [state[0], state[1]].map(f64::from);
        true
    }
}

pub(super) fn point_safety_task() -> Result<Task> {
    let reward =
        format!("-hypot(s[0] - {}, s[1]) - {DANGER} * sigmoid((1 - hypot(s[0], s[1])) / {EDGE})", GOAL[0]);
    Ok(Task {
        name: "point-safety".to_owned(),
        state_dim: 2,
        action_dim: 2,
        action_low: vec![-PACE; 2],
        action_high: vec![PACE; 2],
        reward: Program::parse(&[&reward], 2, 2, Scope::REWARD)?,
        termination: None,
        initial: Initial::Fixed(START.map(|x| x as f32).to_vec()),
    })
}

/// To the origin, from anywhere in \[−20, 20\]².
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    position: [f64; 2],
}

const FIELD: f32 = 20.0;

impl Environment for Point {
    fn reset(&mut self, generator: &mut Generator) {
        let field = f64::from(FIELD);
        self.position = std::array::from_fn(|_| generator.range(-field, field));
    }

    fn step(&mut self, action: &[f32]) -> Option<Outcome> {
        let reward = -self.position[0].hypot(self.position[1]);
        move_by(&mut self.position, action, 1.0);
        Some(Outcome { reward, terminal: false })
    }

    fn observe(&self, state: &mut [f32]) {
        state.copy_from_slice(&self.position.map(|x| x as f32));
    }

    fn place(&mut self, state: &[f32]) -> bool {
        self.position = [state[0], state[1]].map(f64::from);
        true
    }
}

pub(super) fn point_task() -> Result<Task> {
    Ok(Task {
        name: "point".to_owned(),
        state_dim: 2,
        action_dim: 2,
        action_low: vec![-1.0; 2],
        action_high: vec![1.0; 2],
        reward: Program::parse(&["-hypot(s[0], s[1])"], 2, 2, Scope::REWARD)?,
        termination: None,
        initial: Initial::Box { low: vec![-FIELD; 2], high: vec![FIELD; 2], map: None },
    })
}

fn move_by(position: &mut [f64; 2], action: &[f32], limit: f32) {
    for (p, a) in position.iter_mut().zip(action) {
        *p += f64::from(a.clamp(-limit, limit));
    }
}
