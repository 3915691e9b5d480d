//! Gymnasium's Pendulum-v1: swing up and balance with a torque too weak to lift directly.

use crate::{Environment, Outcome};
use hambo::Result;
use hambo::task::{Initial, Task};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Generator;
use std::f64::consts::PI;

const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;
const DT: f64 = 0.05;
const GRAVITY: f64 = 10.0;

/// Angle (0 on top) and angular velocity.
#[derive(Clone, Debug, Default)]
pub(super) struct Pendulum {
    angle: f64,
    velocity: f64,
}

impl Environment for Pendulum {
    fn reset(&mut self, generator: &mut Generator) {
        self.angle = generator.range(-PI, PI);
        self.velocity = generator.range(-1.0, 1.0);
    }

    fn step(&mut self, action: &[f32]) -> Option<Outcome> {
        // Gymnasium's action is a float32, and NumPy keeps its products with numbers in float32.
        let torque = action[0].clamp(-MAX_TORQUE, MAX_TORQUE);
        let normalized = (self.angle + PI).rem_euclid(2.0 * PI) - PI;
        let cost =
            normalized.powi(2) + 0.1 * self.velocity.powi(2) + f64::from(0.001 * (torque * torque));
        let acceleration = 3.0 * GRAVITY / 2.0 * self.angle.sin() + f64::from(3.0 * torque);
        self.velocity = (self.velocity + acceleration * DT).clamp(-MAX_SPEED, MAX_SPEED);
        self.angle += self.velocity * DT;
        Some(Outcome { reward: -cost, terminal: false })
    }

    fn observe(&self, state: &mut [f32]) {
        state.copy_from_slice(&[
            self.angle.cos() as f32,
            self.angle.sin() as f32,
            self.velocity as f32,
        ]);
    }

    fn place(&mut self, state: &[f32]) -> bool {
        let [x, y, velocity] = [state[0], state[1], state[2]].map(f64::from);
        (self.angle, self.velocity) = (y.atan2(x), velocity);
        true
    }
}

/// States (cos θ, sin θ, θ̇), actions the torque.
pub(super) fn task() -> Result<Task> {
    let pi = PI as f32;
    let reward = "-(atan2(s[1], s[0])^2 + 0.1*s[2]^2 + 0.001*clamp(a[0], -2, 2)^2)";
    let task = Task::new("pendulum", [3, 1], reward)?
        .with_action_bounds(-MAX_TORQUE, MAX_TORQUE)
        .with_names(&["cos θ", "sin θ", "speed (rad/s)"], &["torque (N m)"]);
    let map = Program::parse(&["cos(s[0])", "sin(s[0])", "s[1]"], 2, 1, Scope::CONTROLLER)?;
    let initial = Initial::Box { low: vec![-pi, -1.0], high: vec![pi, 1.0], map: Some(map) };
    Ok(Task { initial, ..task })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trajectories of gymnasium's Pendulum-v1 under random actions, from tests/reference/make_pendulum.py.
    #[test]
    fn episodes_work_like_gymnasium() {
        let reference = include_str!("../tests/reference/pendulum.csv");
        let mut env = Pendulum::default();
        let mut steps = 0;
        for line in reference.lines().skip(1) {
            let row: Vec<f64> = line.split(',').map(|x| x.parse().unwrap()).collect();
            let [start, angle, velocity, action, reward] = row[..5] else { panic!("row {line}") };
            if start == 1.0 {
                env = Pendulum { angle, velocity };
            }
            let outcome = env.step(&[action as f32]).unwrap();
            let mut state = [0.0; 3];
            env.observe(&mut state);
            assert!(
                (outcome.reward - reward).abs() < 1e-6,
                "reward {} at step {steps}: {line}",
                outcome.reward
            );
            for (ours, theirs) in state.iter().zip(&row[5..]) {
                assert!(
                    (f64::from(*ours) - theirs).abs() < 1e-6,
                    "state {state:?} at step {steps}: {line}"
                );
            }
            steps += 1;
        }
        assert_eq!(steps, 1000);
    }
}
