//! Gradients along whole trajectories, and what a descent makes of them.

use super::*;
use crate::confidence::ConfidenceSet;
use crate::data::{Columns, Transitions};
use crate::dynamics::{Bnn, BnnConfig, Dynamics};
use crate::policy::Policy;
use crate::rollout::Tail;
use crate::run::Run;
use crate::task::Task;
use crate::testing::{self, pendulum_data, setting};
use hambo_engine::backend::{Activation, Device};
use std::f64::consts::PI;

const STARTS: usize = 5;

fn pendulum() -> (Device, Task, Policy, Bnn, Vec<f32>) {
    let device = Device::cpu(Some(2)).unwrap();
    let policy = Policy::read("builtin:swing-up").unwrap();
    let data = pendulum_data(&device, &policy, 1.0, 600);
    let config = BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        particles: 3,
        hidden: vec![16, 16],
        steps: Some(300),
        ..Default::default()
    };
    let model = Bnn::learn(&device, &data, &config, 0, &Run::default()).unwrap();
    let task = testing::pendulum();
    let starts = task.initial.sample(STARTS, &data, Stream::new(4)).unwrap();
    (device, task, policy, model, starts)
}

/// dJ/dη through model, noise, policy and reward, over several steps, for both widths of the set and for discounted
/// rewards.
#[test]
fn gradients_are_those_of_finite_differences() {
    let (device, task, policy, model, starts) = pendulum();
    let setting = setting(&task, &policy, 6, 0.9);
    let world = World::new(&device, &model, setting);
    for set in [ConfidenceSet::new(&model, 3.0).unwrap(), ConfidenceSet::literal(&model)] {
        let adversary =
            ShiftAdversary::random(&device, &model, &set, 2, &[8], Stream::new(5)).unwrap();
        Pathwise::check_gradient(&world, &adversary, &starts, 1e-2);
    }
}

/// The same of the worst trajectories alone.
#[test]
fn gradients_of_the_worst_are_those_of_finite_differences() {
    let (device, task, policy, model, starts) = pendulum();
    let set = ConfidenceSet::new(&model, 3.0).unwrap();
    let adversary = ShiftAdversary::random(&device, &model, &set, 2, &[8], Stream::new(5)).unwrap();
    let setting = setting(&task, &policy, 6, 0.9);
    let world = World::new(&device, &model, setting);
    let mut rollout = Rollout::new(&world, Propagation::Shifted(&adversary), &starts);
    (0..6).for_each(|_| rollout.step(Stream::new(6)));
    let returns = rollout.returns(&device).unwrap().values;
    // Two of five restarts' trajectories are below, well away from the next.
    let mut sorted = returns[..STARTS].to_vec();
    sorted.sort_by(f32::total_cmp);
    let tail = Tail { share: 0.3, below: f64::from(sorted[1] + sorted[2]) / 2.0 };
    let world = World::new(&device, &model, Setting { tail: Some(tail), ..setting });
    Pathwise::check_gradient(&world, &adversary, &starts, 1e-2);
}

/// The same where the reward is learned and an entry of the state is an angle, which the networks see as cosine
/// and sine, and which starts anew at ±π.
#[test]
fn gradients_go_through_learned_rewards_and_angles() {
    let device = Device::cpu(Some(2)).unwrap();
    let mut generator = Stream::new(9).generator();
    let mut c = Columns { state_dim: 2, action_dim: 2, ..Default::default() };
    for i in 0..600 {
        let (angle, speed) = (generator.range(-3.1, 3.1), generator.range(-2.0, 2.0));
        let a = [generator.range(-1.0, 1.0), generator.range(-1.0, 1.0)];
        let next = [angle + 0.3 * speed, speed + angle.sin() + 0.5 * a[0]];
        c.states.extend([angle, speed].map(|x| x as f32));
        c.next_states.extend([(next[0] + PI).rem_euclid(2.0 * PI) - PI, next[1]].map(|x| x as f32));
        c.actions.extend(a.map(|x| x as f32));
        c.rewards.push((angle.cos() - 0.1 * speed * speed + 0.2 * a[1]) as f32);
        c.terminals.push(false);
        c.timeouts.push(i % 20 == 19);
        if i % 20 == 0 {
            c.episode_starts.push(i);
        }
    }
    let data = Transitions::new(c).unwrap();
    let config = BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        particles: 3,
        hidden: vec![16, 16],
        steps: Some(300),
        angles: vec![0],
        reward: true,
        ..Default::default()
    };
    let model = Bnn::learn(&device, &data, &config, 0, &Run::default()).unwrap();
    assert_eq!(model.layout().angles[0].from, Some(-std::f32::consts::PI));
    let task = Task::new("test", [2, 2], "r - 0.1*n[1]^2").unwrap().with_action_bounds(-9.0, 9.0);
    let policy = Policy::read("builtin:proportional,gain=0.7").unwrap();
    let setting = setting(&task, &policy, 6, 0.9);
    let world = World::new(&device, &model, setting);
    let set = ConfidenceSet::new(&model, 3.0).unwrap();
    let adversary = ShiftAdversary::random(&device, &model, &set, 1, &[8], Stream::new(5)).unwrap();
    let starts = task.initial.sample(STARTS, &data, Stream::new(4)).unwrap();
    Pathwise::check_gradient(&world, &adversary, &starts, 2e-2);
}

#[test]
fn descent_lowers_the_return() {
    let (device, task, policy, model, starts) = pendulum();
    let setting = setting(&task, &policy, 10, 1.0);
    let world = World::new(&device, &model, setting);
    let set = ConfidenceSet::new(&model, 3.0).unwrap();
    let mut adversary =
        ShiftAdversary::random(&device, &model, &set, 1, &[16], Stream::new(5)).unwrap();
    let mut pathwise = Pathwise::new(&world, &adversary, STARTS, Adam::constant(1e-2)).unwrap();
    let idle = pathwise.forward(&adversary.idle(&device, 1), &starts, Stream::new(6)).unwrap()[0];
    let values: Vec<f64> = (0..20)
        .map(|_| pathwise.descend(&mut adversary, &starts, Stream::new(6)).unwrap()[0])
        .collect();
    assert!(values[19] < idle && values[19] < values[0], "neutral {idle}, descent {values:?}");
}

/// The last step alone does not tell whether a descent could move.
#[test]
fn a_descent_most_of_whose_steps_were_dropped_stands_still() {
    let (device, task, policy, model, starts) = pendulum();
    let setting = setting(&task, &policy, 5, 1.0);
    let world = World::new(&device, &model, setting);
    let set = ConfidenceSet::new(&model, 3.0).unwrap();
    let mut adversary =
        ShiftAdversary::random(&device, &model, &set, 1, &[16], Stream::new(5)).unwrap();
    let mut pathwise = Pathwise::new(&world, &adversary, STARTS, Adam::constant(1e-2)).unwrap();
    let nowhere = vec![f32::NAN; starts.len()];
    let mut descend = |pathwise: &mut Pathwise<'_>, starts: &[f32]| {
        pathwise.descend(&mut adversary, starts, Stream::new(6)).unwrap();
        pathwise.stands_still().unwrap()
    };
    assert!(descend(&mut pathwise, &nowhere), "it did not move");
    assert!(!descend(&mut pathwise, &starts), "half of the steps were taken");
    assert!(descend(&mut pathwise, &nowhere));
    assert!(!descend(&mut pathwise, &starts), "two of four");
    descend(&mut pathwise, &nowhere);
    descend(&mut pathwise, &nowhere);
    assert!(descend(&mut pathwise, &starts), "four of seven were dropped");
    pathwise.count_anew();
    assert!(!descend(&mut pathwise, &starts));
}
