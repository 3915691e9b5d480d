//! The true return of a policy, by simulation.

use crate::{EnvSpec, Environment};
use hambo::evaluate::Truth;
use hambo::policy::{ActionNoise, Policy};
use hambo::rollout::Tail;
use hambo::run::Observer;
use hambo::stats::Mean;
use hambo::task::Task;
use hambo::{Error, Result};
use hambo_engine::backend::{Counter, Device};
use hambo_engine::rng::Stream;
use rayon::prelude::*;

/// Episodes that are simulated side by side.
pub(crate) const BATCH: usize = 1000;

/// Episodes that a thread steps at the least, so that dividing them costs less than stepping a simple one.
const SHARE: usize = 16;

/// Episodes at the most: all returns are kept in memory.
const MOST_EPISODES: usize = 100_000_000;

/// Episodes to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Episodes {
    /// Steps of an episode that does not end earlier.
    pub horizon: usize,
    /// How many.
    pub count: usize,
    /// γ, with which rewards are discounted.
    pub discount: f64,
    /// Random numbers.
    pub stream: Stream,
}

impl Episodes {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        if self.horizon == 0 {
            return Err(Error::setting("horizon", 0, "at least 1 step"));
        }
        Error::check_count("horizon", self.horizon, 1_000_000)?;
        if !(2..=MOST_EPISODES).contains(&self.count) {
            let expected = format!("at least 2, for a standard error, and at most {MOST_EPISODES}");
            return Err(Error::setting("episodes", self.count, expected));
        }
        if !(self.discount > 0.0 && self.discount <= 1.0) {
            return Err(Error::setting("discount", self.discount, "a number in (0, 1]"));
        }
        Ok(())
    }
}

/// Returns of simulated episodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// The discounted return of each episode; of one whose simulator broke down, what it had
    /// earned until then.
    pub values: Vec<f64>,
    /// Episodes whose simulator broke down.
    pub diverged: usize,
}

impl Returns {
    /// What they say of the truth: of the mean return, or of the mean over a worst share of episodes.
    pub fn truth(&self, risk: Option<f64>) -> Truth {
        let values = self.values.iter().copied();
        let tail = risk.map(|share| Tail::of(values.clone(), share));
        let mean = Mean::of(values.map(|value| tail.map_or(value, |tail| tail.value(value))));
        Truth { value: mean.value, std_error: mean.std_error, episodes: self.values.len() }
    }
}

/// Discounted returns of episodes from the environment's own initial states, by its own rewards.
pub fn simulate(
    device: &Device,
    env: &EnvSpec,
    policy: &Policy,
    episodes: &Episodes,
    progress: &dyn Observer,
) -> Result<Returns> {
    episodes.validate()?;
    policy.check_task(&env.task)?;
    let Episodes { horizon, count, discount, stream } = *episodes;
    let mut values = vec![0.0; count];
    let mut diverged = 0;
    for first in (0..count).step_by(BATCH) {
        let n = BATCH.min(count - first);
        let noise_stream = stream.child("policy").index(first as u64);
        let mut batch = Batch::new(device, env, policy, noise_stream, n)?;
        batch.start(stream, first);
        for t in 0..horizon {
            if batch.running.iter().all(|running| !running) {
                break;
            }
            let weight = discount.powi(t as i32);
            device.run(|| batch.step(weight))?;
        }
        values[first..first + n].copy_from_slice(&batch.returns);
        diverged += batch.diverged.iter().filter(|&&broke| broke).count();
        progress.report("simulating", first + n, count, "");
    }
    Ok(Returns { values, diverged })
}

/// Returns of one episode from each of `starts` `[count, state]`.
pub fn simulate_from(
    device: &Device,
    env: &EnvSpec,
    policy: &Policy,
    starts: &[f32],
    episodes: &Episodes,
) -> Result<Vec<f64>> {
    episodes.validate()?;
    policy.check_task(&env.task)?;
    let (n, width) = (episodes.count, env.task.state_dim);
    if starts.len() != n * width {
        return Err(Error::Mismatch(format!(
            "{} numbers for {n} initial states of {width} dimensions: expected {}",
            starts.len(),
            n * width
        )));
    }
    let mut batch = Batch::new(device, env, policy, episodes.stream.child("policy"), n)?;
    batch.states.copy_from_slice(starts);
    for (env, start) in batch.envs.iter_mut().zip(starts.chunks_exact(width)) {
        place(env.as_mut(), start, batch.task)?;
    }
    for t in 0..episodes.horizon {
        device.run(|| batch.step(episodes.discount.powi(t as i32)))?;
    }
    Ok(batch.returns)
}

/// Puts a simulator into a state that a policy sees.
pub(crate) fn place(env: &mut dyn Environment, state: &[f32], task: &Task) -> Result<()> {
    match env.place(state) {
        true => Ok(()),
        false => Err(Error::Mismatch(format!(
            "{} cannot start from a given state: what a policy sees of it is not its whole state",
            task.name
        ))),
    }
}

/// Episodes side by side, so that the policy is asked once a step and the simulators run on all threads.
struct Batch<'a> {
    device: &'a Device,
    task: &'a Task,
    policy: &'a Policy,
    noise: NoiseSource,
    envs: Vec<Box<dyn Environment>>,
    /// What each episode sees, `[episodes, state]`.
    states: Vec<f32>,
    returns: Vec<f64>,
    running: Vec<bool>,
    diverged: Vec<bool>,
}

impl<'a> Batch<'a> {
    fn new(
        device: &'a Device,
        env: &'a EnvSpec,
        policy: &'a Policy,
        noise_stream: Stream,
        n: usize,
    ) -> Result<Self> {
        Ok(Batch {
            device,
            task: &env.task,
            policy,
            noise: NoiseSource::new(device, policy, n, noise_stream),
            envs: (0..n).map(|_| env.make()).collect::<Result<_>>()?,
            states: vec![0.0; n * env.task.state_dim],
            returns: vec![0.0; n],
            running: vec![true; n],
            diverged: vec![false; n],
        })
    }

    /// Starts episodes number `first` and on.
    fn start(&mut self, stream: Stream, first: usize) {
        let states = self.states.chunks_exact_mut(self.task.state_dim);
        for ((env, state), episode) in self.envs.iter_mut().zip(states).zip(first..) {
            env.reset(&mut stream.index(episode as u64).generator());
            env.observe(state);
        }
    }

    /// One step of every episode that is not over; its reward counts `weight`.
    fn step(&mut self, weight: f64) -> Result<()> {
        let (task, device) = (self.task, self.device);
        let mut actions = device.zeros(self.envs.len() * task.action_dim);
        self.noise.draw(device);
        self.policy.sample(device, &device.upload(&self.states), &self.noise.values, &mut actions);
        let mut actions = device.download(&actions)?;
        let episodes = (
            &mut self.envs,
            self.states.par_chunks_exact_mut(task.state_dim),
            actions.par_chunks_exact_mut(task.action_dim),
            &mut self.returns,
            &mut self.running,
            &mut self.diverged,
        );
        let episodes = episodes.into_par_iter().with_min_len(SHARE).filter(|e| *e.4);
        episodes.for_each(|(env, state, action, total, running, diverged)| {
            limit(task, action);
            match env.step(action) {
                Some(outcome) => {
                    *total += weight * outcome.reward;
                    *running = !outcome.terminal;
                    env.observe(state);
                }
                None => (*running, *diverged) = (false, true),
            }
        });
        Ok(())
    }
}

/// Random numbers of a policy that draws its actions.
pub(crate) struct NoiseSource {
    pub(crate) values: ActionNoise,
    stream: Stream,
    time: Counter,
}

impl NoiseSource {
    pub(crate) fn new(device: &Device, policy: &Policy, rows: usize, stream: Stream) -> Self {
        NoiseSource { values: policy.noise(device, rows, 1), stream, time: device.counter() }
    }

    /// Draws those of the next step.
    pub(crate) fn draw(&mut self, device: &Device) {
        self.values.draw(device, self.stream, &self.time);
        device.advance(&mut self.time);
    }
}

/// Limits an action to the task's bounds.
pub(crate) fn limit(task: &Task, action: &mut [f32]) {
    for ((a, &low), &high) in action.iter_mut().zip(&task.action_low).zip(&task.action_high) {
        *a = a.max(low).min(high);
    }
}
