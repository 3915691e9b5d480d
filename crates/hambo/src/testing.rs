//! A small system for tests of this crate, which cannot use the simulators: those build on it.

use crate::data::{Columns, Transitions};
use crate::policy::Policy;
use crate::rollout::Setting;
use crate::task::{Initial, Task};
use hambo_engine::backend::Device;
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Stream;
use std::f64::consts::PI;

/// A question about a policy; where logs end, a step pays −10.
pub(crate) fn setting<'a>(
    task: &'a Task,
    policy: &'a Policy,
    horizon: usize,
    discount: f64,
) -> Setting<'a> {
    Setting { task, policy, horizon, discount, worst_reward: -10.0, tail: None }
}

/// A pendulum (cos θ, sin θ, θ̇) that is to be swung up by a torque.
pub(crate) fn pendulum() -> Task {
    let pi = PI as f32;
    let state =
        Program::parse(&["cos(s[0])", "sin(s[0])", "s[1]"], 2, 1, Scope::CONTROLLER).unwrap();
    let task = Task::new("pendulum", [3, 1], "-(atan2(s[1], s[0])^2 + 0.1*s[2]^2)").unwrap();
    let initial = Initial::Box { low: vec![-pi, -1.0], high: vec![pi, 1.0], map: Some(state) };
    Task { initial, ..task.with_action_bounds(-2.0, 2.0) }
}

/// Its transitions under a policy with Gaussian noise on its actions, in episodes of 200 steps.
pub(crate) fn pendulum_data(device: &Device, policy: &Policy, noise: f64, n: usize) -> Transitions {
    let mut generator = Stream::new(3).generator();
    let mut c = Columns { state_dim: 3, action_dim: 1, ..Columns::default() };
    let (mut angle, mut speed) = (0.0f64, 0.0f64);
    let observe = |angle: f64, speed: f64| [angle.cos(), angle.sin(), speed].map(|x| x as f32);
    let mut action = device.zeros(1);
    for i in 0..n {
        if i % 200 == 0 {
            (angle, speed) = (generator.range(-PI, PI), generator.range(-1.0, 1.0));
            c.episode_starts.push(i);
        }
        let state = observe(angle, speed);
        policy.act(device, &device.upload(&state), &mut action);
        let torque = f64::from(device.download(&action).unwrap()[0]) + noise * generator.normal();
        let torque = torque.clamp(-2.0, 2.0);
        speed = (speed + 0.05 * (15.0 * angle.sin() + 3.0 * torque)).clamp(-8.0, 8.0);
        angle += 0.05 * speed;
        c.states.extend(state);
        c.actions.push(torque as f32);
        c.next_states.extend(observe(angle, speed));
        c.rewards.push(-(f64::from(state[1]).atan2(state[0].into()).powi(2)) as f32);
        c.terminals.push(false);
        c.timeouts.push(i % 200 == 199);
    }
    Transitions::new(c).unwrap()
}
