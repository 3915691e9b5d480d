//! Points in the plane: the paper's PointSafety and PointEnv. Both move by their action, s' = s + a.

use crate::{Environment, Outcome};
use hambo::Result;
use hambo::task::{Initial, Task};
use hambo_engine::rng::Generator;

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
    let reward = format!(
        "-hypot(s[0] - {}, s[1]) - {DANGER} * sigmoid((1 - hypot(s[0], s[1])) / {EDGE})",
        GOAL[0]
    );
    let initial = Initial::Fixed(START.map(|x| x as f32).to_vec());
    Ok(Task { initial, ..task("point-safety", &reward, PACE)? })
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
    let initial = Initial::Box { low: vec![-FIELD; 2], high: vec![FIELD; 2], map: None };
    Ok(Task { initial, ..task("point", "-hypot(s[0], s[1])", 1.0)? })
}

/// A task in the plane whose actions are steps of at most `pace` in each direction.
fn task(name: &str, reward: &str, pace: f32) -> Result<Task> {
    let task = Task::new(name, [2, 2], reward)?.with_action_bounds(-pace, pace);
    Ok(task.with_names(&["x", "y"], &["step in x", "step in y"]))
}

fn move_by(position: &mut [f64; 2], action: &[f32], limit: f32) {
    for (p, a) in position.iter_mut().zip(action) {
        *p += f64::from(a.clamp(-limit, limit));
    }
}
