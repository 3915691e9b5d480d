//! The step of a hallucinated rollout: policy, adversary, five networks, noise, reward, for a thousand trajectories.

use hambo::confidence::ConfidenceSet;
use hambo::data::{Columns, Transitions};
use hambo::dynamics::{Bnn, BnnConfig};
use hambo::policy::Policy;
use hambo::rollout::ShiftAdversary;
use hambo::rollout::{Propagation, Setting, rollout};
use hambo::run::Run;
use hambo::task::Task;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;
use std::error::Error;
use std::time::Instant;

const STATE: usize = 11;
const ACTION: usize = 3;
const ROWS: usize = 1000;
const HORIZON: usize = 4000;

/// Steps per second of rollouts of [`HORIZON`] steps, everything that a rollout does at its start and end included, and
/// the mean return.
pub fn measure(device: &Device, seconds: f64) -> Result<(Vec<f64>, f64), Box<dyn Error>> {
    let stream = Stream::new(0);
    let data = data(&stream)?;
    let config = BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        steps: Some(400),
        variance_weight: Some(0.0),
        ..Default::default()
    };
    let model = Bnn::learn(device, &data, &config, 0, &Run::default())?;
    let bounds = [vec![-1.0; ACTION], vec![1.0; ACTION]];
    let shape = Shape::new(1, vec![STATE, 256, 256, ACTION], Activation::Relu)?;
    let actor = Ensemble::random(device, shape, stream.child("policy"));
    let policy = Policy::squashed("random", device, &actor, bounds)?;
    let reward = "1 + n[5] - 0.001 * (a[0]^2 + a[1]^2 + a[2]^2)";
    let task = Task::new("rollout", [STATE, ACTION], reward)?.with_action_bounds(-1.0, 1.0);
    let starts = task.initial.sample(ROWS, &data, stream.child("starts"))?;
    let set = ConfidenceSet::new(&model, 0.5)?;
    let adversary =
        ShiftAdversary::random(device, &model, &set, 1, &[256, 256], stream.child("adversary"))?;
    let setting = Setting {
        task: &task,
        policy: &policy,
        horizon: HORIZON,
        discount: 1.0,
        worst_reward: -10.0,
        tail: None,
    };
    let mut rates = Vec::new();
    let (mut spent, mut mean) = (0.0, 0.0);
    while spent < seconds || rates.len() < 2 {
        let start = Instant::now();
        let returns = rollout(
            device,
            &model,
            &setting,
            Propagation::Shifted(&adversary),
            &starts,
            stream,
            &Run::default(),
        )?;
        let took = start.elapsed().as_secs_f64();
        if returns.diverged_count() > 0 {
            return Err("trajectories left the finite numbers".into());
        }
        mean = returns.values.iter().map(|&r| f64::from(r)).sum::<f64>() / ROWS as f64;
        rates.push(HORIZON as f64 / took);
        spent += took;
    }
    rates.remove(0); // kernels were compiled in the first
    Ok((rates, mean))
}

/// Episodes of a linear system that forgets: s' = 0.9 s + 0.1 (a, a, …) + noise.
fn data(stream: &Stream) -> Result<Transitions, Box<dyn Error>> {
    let n = 4000;
    let mut generator = stream.child("data").generator();
    let (mut states, mut actions, mut next_states) = (Vec::new(), Vec::new(), Vec::new());
    let mut state = vec![0.0f32; STATE];
    for _ in 0..n {
        let action: Vec<f32> = (0..ACTION).map(|_| generator.range(-1.0, 1.0) as f32).collect();
        states.extend_from_slice(&state);
        for (i, s) in state.iter_mut().enumerate() {
            *s = 0.9 * *s + 0.1 * action[i % ACTION] + 0.02 * generator.normal() as f32;
        }
        actions.extend(action);
        next_states.extend_from_slice(&state);
    }
    Ok(Transitions::new(Columns {
        state_dim: STATE,
        action_dim: ACTION,
        states,
        actions,
        rewards: vec![0.0; n],
        next_states,
        terminals: vec![false; n],
        timeouts: vec![false; n],
        episode_starts: (0..n).step_by(200).collect(),
        ..Default::default()
    })?)
}
