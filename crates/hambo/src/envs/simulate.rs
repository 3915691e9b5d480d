//! Episodes in an environment: the true return of a policy, and data sets.

use super::{EnvName, Environment};
use crate::compute::{Counter, Device};
use crate::data::{Columns, Transitions};
use crate::policy::{Noise, Policy};
use crate::progress::Progress;
use crate::rng::{Generator, Stream};
use crate::task::Task;
use crate::{Error, Result};

/// Episodes that are simulated side by side.
const BATCH: usize = 1000;

/// Transitions collected at the most: all of them are kept in memory until they are written.
const MOST_STEPS: usize = 100_000_000;

/// Discounted returns of `episodes` episodes of `horizon` steps, from the environment's own rewards.
#[allow(clippy::too_many_arguments)]
pub fn simulate(
    device: &Device,
    env: EnvName,
    policy: &Policy,
    horizon: usize,
    episodes: usize,
    discount: f64,
    stream: Stream,
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let task = env.task()?;
    policy.check_task(&task)?;
    let mut returns = vec![0.0; episodes];
    for first in (0..episodes).step_by(BATCH) {
        let n = BATCH.min(episodes - first);
        let luck = stream.child("policy").index(first as u64);
        let mut batch = Batch::new(device, env, &task, policy, luck);
        batch.start((first..first + n).map(|e| stream.index(e as u64).generator()));
        let returns = &mut returns[first..first + n];
        let mut over = vec![false; n];
        for t in 0..horizon {
            let weight = discount.powi(t as i32);
            batch.step(
                |_, _| 0.0,
                |episode, outcome| {
                    if !over[episode] {
                        returns[episode] += weight * outcome.reward;
                        over[episode] = outcome.terminal;
                    }
                },
            );
        }
        progress.report("simulating", first + n, episodes, "");
    }
    Ok(returns)
}

/// Who made the data: a policy with Gaussian noise of this standard deviation on its actions.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The policy.
    pub policy: Policy,
    /// Standard deviation of the noise, in units of the action.
    pub noise: f64,
}

/// Exactly `steps` transitions; episodes go to the behaviours in turn and end at the environment's time
/// limit or in a terminal state. The last one is cut where the data are full.
pub fn collect(
    device: &Device,
    env: EnvName,
    behaviours: &[Behaviour],
    steps: usize,
    stream: Stream,
    progress: &dyn Progress,
) -> Result<Transitions> {
    let task = env.task()?;
    if !(2..=MOST_STEPS).contains(&steps) {
        return Err(Error::setting("steps", steps, format!("2 to {MOST_STEPS} transitions")));
    }
    for behaviour in behaviours {
        behaviour.policy.check_task(&task)?;
        if !(behaviour.noise >= 0.0 && behaviour.noise.is_finite()) {
            return Err(Error::setting("noise", behaviour.noise, "0 or a positive standard deviation"));
        }
    }
    let mut columns =
        Columns { state_dim: task.state_dim, action_dim: task.action_dim, ..Default::default() };
    let mut episode = 0;
    while columns.rewards.len() < steps {
        let behaviour = &behaviours[episode % behaviours.len()];
        columns.episode_starts.push(columns.rewards.len());
        let mut noise = stream.child("noise").index(episode as u64).generator();
        let luck = stream.child("policy").index(episode as u64);
        let mut batch = Batch::new(device, env, &task, &behaviour.policy, luck);
        batch.start(std::iter::once(stream.child("reset").index(episode as u64).generator()));
        for t in 1..=env.time_limit() {
            columns.states.extend_from_slice(&batch.states);
            let mut terminal = false;
            batch.step(
                |_, _| behaviour.noise * noise.normal(),
                |_, outcome| {
                    columns.rewards.push(outcome.reward as f32);
                    terminal = outcome.terminal;
                },
            );
            columns.actions.extend_from_slice(&batch.actions);
            columns.next_states.extend_from_slice(&batch.states);
            let full = columns.rewards.len() == steps;
            columns.terminals.push(terminal);
            columns.timeouts.push(!terminal && (t == env.time_limit() || full));
            if terminal || full {
                break;
            }
        }
        progress.report("collecting", columns.rewards.len(), steps, "");
        episode += 1;
    }
    Transitions::new(columns)
}

/// Environments that take their steps together, so that the policy is asked once a step.
struct Batch<'a> {
    device: &'a Device,
    env: EnvName,
    task: &'a Task,
    policy: &'a Policy,
    /// Random numbers of the policy, where they come from, and the step.
    luck: (Noise, Stream, Counter),
    envs: Vec<Box<dyn Environment>>,
    states: Vec<f32>,
    actions: Vec<f32>,
}

impl<'a> Batch<'a> {
    fn new(device: &'a Device, env: EnvName, task: &'a Task, policy: &'a Policy, luck: Stream) -> Self {
        let luck = (policy.noise(device, 0, 1), luck, device.counter());
        Batch { device, env, task, policy, luck, envs: Vec::new(), states: Vec::new(), actions: Vec::new() }
    }

    fn start(&mut self, generators: impl Iterator<Item = Generator>) {
        for mut generator in generators {
            let mut env = self.env.make();
            env.reset(&mut generator);
            self.envs.push(env);
        }
        self.states = vec![0.0; self.envs.len() * self.task.state_dim];
        self.luck.0 = self.policy.noise(self.device, self.envs.len(), 1);
        self.observe();
    }

    fn observe(&mut self) {
        for (env, state) in self.envs.iter().zip(self.states.chunks_exact_mut(self.task.state_dim)) {
            env.observe(state);
        }
    }

    /// One step of all; `noise(episode, dimension)` is added to the action before it is limited.
    fn step(
        &mut self,
        mut noise: impl FnMut(usize, usize) -> f64,
        mut book: impl FnMut(usize, super::Outcome),
    ) {
        let da = self.task.action_dim;
        let mut actions = self.device.zeros(self.envs.len() * da);
        let (luck, stream, time) = &mut self.luck;
        luck.draw(self.device, *stream, time);
        self.device.advance(time);
        self.policy.draw(self.device, &self.device.upload(&self.states), luck, &mut actions);
        self.actions = self.device.download(&actions);
        for (episode, (env, action)) in
            self.envs.iter_mut().zip(self.actions.chunks_exact_mut(da)).enumerate()
        {
            for (d, a) in action.iter_mut().enumerate() {
                let noisy = (f64::from(*a) + noise(episode, d)) as f32;
                *a = noisy.max(self.task.action_low[d]).min(self.task.action_high[d]);
            }
            book(episode, env.step(action));
        }
        self.observe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Scratch;

    fn data(env: EnvName, policy: &str, steps: usize) -> Transitions {
        let behaviour = Behaviour { policy: Policy::read(policy).unwrap(), noise: 0.3 };
        collect(&Device::cpu(Some(1)).unwrap(), env, &[behaviour], steps, Stream::new(1), &()).unwrap()
    }

    const CASES: [(EnvName, &str); 3] = [
        (EnvName::PointSafety, "builtin:waypoint"),
        (EnvName::Point, "builtin:proportional"),
        (EnvName::Pendulum, "builtin:swing-up"),
    ];

    /// The environment pays in f64 what the task's expression says in f32.
    #[test]
    fn rewards_of_task_and_environment_agree() {
        for (env, policy) in CASES {
            let data = data(env, policy, 500);
            let task = env.task().unwrap();
            let mut rewards = vec![0.0; data.len()];
            let (s, a, n) = (data.states(), data.actions(), data.next_states());
            task.reward.evaluate(data.len(), s, a, n, &mut rewards, &mut Scratch::default()).unwrap();
            for (ours, logged) in rewards.iter().zip(data.rewards()) {
                assert!((ours - logged).abs() < 2e-4 * (1.0 + logged.abs()), "{env:?}: {ours} and {logged}");
            }
        }
    }

    #[test]
    fn initial_states_of_task_and_environment_agree_in_their_moments() {
        for (env, _) in CASES {
            let task = env.task().unwrap();
            let n = 20_000;
            let few = data(env, CASES.iter().find(|c| c.0 == env).unwrap().1, 2);
            let drawn = task.initial.sample(n, &few, Stream::new(1)).unwrap();
            let mut reset = vec![0.0; n * task.state_dim];
            for (i, state) in reset.chunks_exact_mut(task.state_dim).enumerate() {
                let mut instance = env.make();
                instance.reset(&mut Stream::new(2).index(i as u64).generator());
                instance.observe(state);
            }
            for d in 0..task.state_dim {
                let moments = |v: &[f32]| {
                    let column = || v.iter().skip(d).step_by(task.state_dim).map(|&x| f64::from(x));
                    let mean = column().sum::<f64>() / n as f64;
                    (mean, (column().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt())
                };
                let ((m1, s1), (m2, s2)) = (moments(&drawn), moments(&reset));
                let tolerance = 5.0 * s1.max(s2) / (n as f64).sqrt();
                assert!((m1 - m2).abs() <= tolerance && (s1 - s2).abs() <= tolerance, "{env:?} {d}");
            }
        }
    }

    #[test]
    fn collected_data_are_whole_and_actions_in_bounds() {
        let data = data(EnvName::Pendulum, "builtin:swing-up", 450);
        assert_eq!(data.len(), 450);
        assert_eq!(data.episodes().collect::<Vec<_>>(), [0..200, 200..400, 400..450]);
        let timeouts: Vec<usize> = (0..450).filter(|&i| data.timeouts()[i]).collect();
        assert_eq!(timeouts, [199, 399, 449]);
        assert!(data.actions().iter().all(|a| a.abs() <= 2.0));
        assert_eq!(data.next_state(0), data.state(1));
    }
}
