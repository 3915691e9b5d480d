//! An unstable linear system under a stabilizing policy, in a model that is wrong by a known amount: every return is known
//! in closed form, so that nothing but the rule can fail.

use super::*;
use crate::data::{Columns, Fold, Split};
use crate::dynamics::{Bnn, Dynamics};
use crate::policy::Policy;
use crate::task::{Initial, Task};
use crate::testing::setting;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::nn::Ensemble;
use std::ops::Range;

const GAIN: f64 = 1.2;
const FEEDBACK: f64 = 0.8;
const DRIFT: f64 = 0.3;
/// What the model adds to the drift, and half of what its two members differ by.
const WRONG: f64 = 0.05;
const SPREAD: f64 = 0.1;
const HORIZON: usize = 50;
const START: f32 = 1.0;
const NOISE: f64 = 0.1;

/// s' = 1.2 s + a + drift; a return is the sum of the states after each step.
fn model(device: &Device, held_out: Split) -> Bnn {
    let shape = Shape::new(2, vec![2, 2], Activation::Relu).unwrap();
    let member = |sign: f64| {
        // Weights [2 inputs, 2 outputs] of (s, a) → (change, raw deviation), then biases.
        let drift = DRIFT + WRONG + sign * SPREAD;
        [GAIN - 1.0, 0.0, 1.0, 0.0, drift, NOISE.exp_m1().ln()].map(|x| x as f32)
    };
    let params = [member(1.0), member(-1.0)].concat();
    let ensemble = Ensemble { params: device.adopt(shape.spread(&params)), shape };
    Bnn::by_hand(1, 1, ensemble, 1e-6).holding_out(held_out)
}

fn task() -> Task {
    let task = Task::new("test", [1, 1], "n[0]").unwrap().with_action_bounds(-2.0, 2.0);
    Task { initial: Initial::Fixed(vec![START]), ..task }
}

fn policy(action: fn(f32) -> f32) -> Policy {
    Policy::from_fn("test", 1, 1, move |states, actions| {
        states.iter().zip(actions).for_each(|(s, a)| *a = action(*s));
    })
}

/// E Σ s_t of the closed loop with a constant drift.
fn value(drift: f64) -> f64 {
    let closed = GAIN - FEEDBACK;
    (0..HORIZON)
        .scan(f64::from(START), |s, _| {
            *s = closed * *s + drift;
            Some(*s)
        })
        .sum()
}

/// Episodes of the policy with noise on its actions; in a share of them the state is once pushed far down.
fn log(episodes: usize, share: f64, stream: Stream) -> Transitions {
    let mut generator = stream.generator();
    let mut c = Columns { state_dim: 1, action_dim: 1, ..Default::default() };
    for _ in 0..episodes {
        c.episode_starts.push(c.rewards.len());
        let catastrophe = generator.range(0.0, 1.0) < share;
        let mut s = f64::from(START);
        for t in 0..HORIZON {
            let a = -FEEDBACK * s + 0.2 * generator.normal();
            let pushed = if catastrophe && t == 5 { PUSH } else { 0.0 };
            let next = GAIN * s + a.clamp(-2.0, 2.0) + DRIFT + NOISE * generator.normal() + pushed;
            c.states.push(s as f32);
            c.actions.push(a.clamp(-2.0, 2.0) as f32);
            c.next_states.push(next as f32);
            c.rewards.push(0.0);
            c.terminals.push(false);
            c.timeouts.push(t + 1 == HORIZON);
            s = next;
        }
    }
    Transitions::new(c).unwrap()
}

/// A push that the policy, whose actions end at ±2, still recovers from.
const PUSH: f64 = -6.0;

/// What one catastrophe costs: the sum of the states is that much lower.
fn cost() -> f64 {
    let run = |push: f64| {
        let mut s = f64::from(START);
        let mut sum = 0.0;
        for t in 0..HORIZON {
            let pushed = if t == 5 { push } else { 0.0 };
            s = GAIN * s + (-FEEDBACK * s).clamp(-2.0, 2.0) + DRIFT + pushed;
            sum += s;
        }
        sum
    };
    run(0.0) - run(PUSH)
}

/// Share of logs whose bound is above the truth, and the median gap relative to it.
fn violations(logs: usize, episodes: usize, catastrophes: f64) -> (f64, f64) {
    let device = Device::cpu(Some(2)).unwrap();
    let held_out = Split {
        folds: vec![Fold {
            held_out: (0..(episodes * HORIZON) as u32).collect(),
            ..Fold::default()
        }],
        by_episode: true,
        ..Split::default()
    };
    let model = model(&device, held_out);
    let (task, policy) = (task(), policy(|s| -FEEDBACK as f32 * s));
    let setting = setting(&task, &policy, HORIZON, 1.0);
    let truth = value(DRIFT) - catastrophes * cost();
    let mut gaps: Vec<f64> = device.run(|| {
        let world = World::new(&device, &model, setting);
        let set = ConfidenceSet::new(&model, 1.0).unwrap();
        // The worst is known: η = −1 everywhere.
        let shape = Shape::new(1, vec![model.input_dim(), 1], Activation::Relu).unwrap();
        let shape = Shape { output: Activation::Tanh, ..shape };
        let params = device.adopt(shape.spread(&[0.0, 0.0, -20.0]));
        let worst = ShiftAdversary { networks: Ensemble { shape, params }, set };
        let gap = |log: usize| {
            let stream = Stream::new(5).index(log as u64);
            let data = super::tests::log(episodes, catastrophes, stream);
            let found =
                replay(&world, &data, (&worst, 1.0), 0.05, stream, &Run::default()).unwrap();
            assert_eq!(found.evidence, Evidence::Supported);
            truth - (value(DRIFT + WRONG - found.beta * SPREAD) - found.subtracted)
        };
        (0..logs).map(gap).collect()
    });
    gaps.sort_by(f64::total_cmp);
    let above = gaps.iter().filter(|gap| **gap < 0.0).count();
    (above as f64 / logs as f64, gaps[logs / 2] / truth.abs())
}

#[test]
fn bounds_hold_on_an_unstable_system() {
    let (violated, gap) = violations(60, 40, 0.0);
    assert!(violated <= 0.05 && gap < 0.1, "{violated} violated, gap {gap}");
}

#[test]
fn a_policy_that_is_far_from_the_log_has_no_evidence() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = log(20, 0.0, Stream::new(1));
    let rows = (0..data.len() as u32).collect();
    let held_out = Split {
        folds: vec![Fold { held_out: rows, ..Fold::default() }],
        by_episode: true,
        ..Split::default()
    };
    let model = model(&device, held_out);
    let (task, policy) = (task(), policy(|_| 2.0));
    let setting = setting(&task, &policy, HORIZON, 1.0);
    let world = World::new(&device, &model, setting);
    let set = ConfidenceSet::new(&model, 1.0).unwrap();
    let idle = ShiftAdversary::random(&device, &model, &set, 1, &[4], Stream::new(2)).unwrap();
    let found = replay(&world, &data, (&idle, 1.0), 0.05, Stream::new(3), &Run::default()).unwrap();
    assert_eq!((found.evidence, found.near, found.beta), (Evidence::Unsupported, 0, 1.0));
    assert_eq!(found.level, None);
}

/// The whole experiment, for the documents: `cargo test --release -p hambo --lib replay -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes; its figures are in docs/guarantees.md"]
fn a_thousand_logs() {
    for (episodes, catastrophes) in [(40, 0.0), (100, 0.0), (100, 0.04), (200, 0.04)] {
        let (violated, gap) = violations(1000, episodes, catastrophes);
        println!(
            "{episodes} episodes, {catastrophes} catastrophes: {violated} violated, median gap {gap:.4}"
        );
        assert!(violated <= 0.05, "{violated}");
    }
}

/// The same log without its last next states: what was paid there and that it ended there is not lost.
#[test]
fn last_rows_are_steps_of_their_episodes() {
    let device = Device::cpu(Some(1)).unwrap();
    let data = log(6, 0.0, Stream::new(8));
    let rows: Vec<usize> = data.episodes().map(|e| e.end - 1).collect();
    let mut c = Columns { state_dim: 1, action_dim: 1, ..Default::default() };
    for row in 0..data.len() {
        let (s, a) = (data.state(row)[0], data.action(row)[0]);
        if rows.contains(&row) {
            c.last_rows.after.push(c.rewards.len() - 1);
            c.last_rows.states.push(s);
            c.last_rows.actions.push(a);
            c.last_rows.rewards.push(s);
            c.last_rows.terminals.push(row != rows[0]);
            continue;
        }
        if row == 0 || rows.contains(&(row - 1)) {
            c.episode_starts.push(c.rewards.len());
        }
        c.states.push(s);
        c.actions.push(a);
        c.next_states.push(data.next_state(row)[0]);
        c.rewards.push(s);
        c.terminals.push(false);
        c.timeouts.push(rows.contains(&(row + 1)));
    }
    let without = Transitions::new(c).unwrap();
    let all = |data: &Transitions, reward: &str, ends: bool| {
        let held_out = Fold { held_out: (0..data.len() as u32).collect(), ..Fold::default() };
        let split = Split { folds: vec![held_out], by_episode: true, ..Split::default() };
        let (model, policy) = (model(&device, split), policy(|s| -FEEDBACK as f32 * s));
        let reward = Task::new("test", [1, 1], reward).unwrap().reward;
        let never = Task::new("test", [1, 1], "s[0] > 1000").unwrap().reward;
        let task = Task { reward, termination: ends.then_some(never), ..task() };
        let setting = setting(&task, &policy, HORIZON, 0.9);
        device.run(|| super::episodes(&World::new(&device, &model, setting), data)).unwrap()
    };
    for (full, cut) in all(&data, "s[0]", true).iter().zip(all(&without, "s[0]", true)) {
        assert_eq!(
            (full.steps, &full.deviations, full.size),
            (cut.steps, &cut.deviations, cut.size)
        );
        assert_eq!((full.rows, full.logged), (cut.rows + 1, cut.logged));
    }
    let ended = |reward, ends| all(&without, reward, ends).iter().filter(|e| e.ended).count();
    assert_eq!([ended("s[0]", true), ended("s[0]", false)], [5, 0], "a task without ends has none");
    // Where the reward hangs on the state that is not there, the worst counts.
    let worst = without.next_states().iter().fold(0.0f32, |low, &x| low.min(-x));
    let known = all(&without, "-n[0]", true);
    let of = |rows: Range<usize>| {
        rows.enumerate()
            .map(|(t, row)| -0.9f64.powi(t as i32) * f64::from(without.next_state(row)[0]))
            .sum::<f64>()
    };
    let expected = of(0..HORIZON - 1) + 0.9f64.powi(HORIZON as i32 - 1) * f64::from(worst);
    assert!((known[0].logged - expected).abs() < 1e-9, "{} {expected}", known[0].logged);
}
