//! Data sets from simulated episodes.

use crate::EnvSpec;
use crate::simulate::{BATCH, NoiseSource, limit, place};
use hambo::data::{Columns, Transitions};
use hambo::policy::Policy;
use hambo::run::Observer;
use hambo::task::Task;
use hambo::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use rayon::prelude::*;

/// Transitions at the most: all of them are kept in memory until they are written.
const MOST_STEPS: usize = 100_000_000;

/// The behavior that data are collected with: a policy with Gaussian noise on its actions.
#[derive(Clone, Debug)]
pub struct Behavior {
    /// The policy.
    pub policy: Policy,
    /// Standard deviation of the noise, in units of the action.
    pub noise: f64,
}

/// A data set to collect.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// Transitions in all.
    pub steps: usize,
    /// Steps after which an episode is cut.
    pub horizon: usize,
    /// Random numbers.
    pub stream: Stream,
}

/// Collects exactly as many transitions as are asked for. Episodes go to the behaviors in turn and end at the horizon, in a
/// terminal state, or before a step at which the simulator broke down. The last one is cut when the data are complete.
pub fn collect(
    device: &Device,
    env: &EnvSpec,
    behaviors: &[Behavior],
    collection: &Collection,
    progress: &dyn Observer,
) -> Result<Transitions> {
    let Collection { steps, horizon, stream } = *collection;
    if !(2..=MOST_STEPS).contains(&steps) {
        return Err(Error::setting("steps", steps, format!("2 to {MOST_STEPS} transitions")));
    }
    if horizon == 0 {
        return Err(Error::setting("horizon", horizon, "at least 1 step an episode"));
    }
    if behaviors.is_empty() {
        return Err(Error::setting("policy", "none", "at least one policy to collect data with"));
    }
    for behavior in behaviors {
        behavior.policy.check_task(&env.task)?;
        if !(behavior.noise >= 0.0 && behavior.noise.is_finite()) {
            return Err(Error::setting(
                "noise",
                behavior.noise,
                "0 or a positive standard deviation",
            ));
        }
    }
    let mut data = empty(&env.task);
    let mut episode = 0;
    while data.rewards.len() < steps {
        let before = data.rewards.len();
        // As many episodes as are needed even if none ends early: none is simulated in vain.
        let n = (steps - before).div_ceil(horizon).min(BATCH);
        let log = |episode: usize| {
            let behavior = &behaviors[episode % behaviors.len()];
            // What is beyond the data that are asked for would be cut off.
            let longest = horizon.min(steps - before);
            one_episode(device, env, behavior, longest, Streams::of(stream, episode as u64))
        };
        let logged: Result<Vec<Columns>> =
            device.run(|| (episode..episode + n).into_par_iter().map(log).collect());
        for log in logged? {
            append(&mut data, log, steps);
        }
        if data.rewards.len() == before {
            return Err(Error::Numeric(format!(
                "the simulator of {} broke down at the first step of all {n} episodes",
                env.name
            )));
        }
        progress.report("collecting", data.rewards.len(), steps, "");
        episode += n;
    }
    Transitions::new(data)
}

/// Single transitions from given states and actions, `[n, state]` and `[n, action]`, each an episode of its own.
pub fn scatter(env: &EnvSpec, states: &[f32], actions: &[f32]) -> Result<Transitions> {
    let task = &env.task;
    let mut data = empty(task);
    let mut simulator = env.make()?;
    let mut next = vec![0.0; task.state_dim];
    for (s, a) in states.chunks_exact(task.state_dim).zip(actions.chunks_exact(task.action_dim)) {
        place(simulator.as_mut(), s, task)?;
        let Some(outcome) = simulator.step(a) else { continue };
        simulator.observe(&mut next);
        data.episode_starts.push(data.rewards.len());
        data.states.extend_from_slice(s);
        data.actions.extend_from_slice(a);
        data.next_states.extend_from_slice(&next);
        data.rewards.push(outcome.reward as f32);
        data.terminals.push(outcome.terminal);
        data.timeouts.push(!outcome.terminal);
    }
    Transitions::new(data)
}

/// The random streams of one episode.
struct Streams {
    reset: Stream,
    noise: Stream,
    policy: Stream,
}

impl Streams {
    fn of(stream: Stream, episode: u64) -> Self {
        let [reset, noise, policy] =
            ["reset", "noise", "policy"].map(|name| stream.child(name).index(episode));
        Streams { reset, noise, policy }
    }
}

/// All transitions of one episode.
fn one_episode(
    device: &Device,
    env: &EnvSpec,
    behavior: &Behavior,
    horizon: usize,
    streams: Streams,
) -> Result<Columns> {
    let mut log = empty(&env.task);
    let mut state = vec![0.0; env.task.state_dim];
    let mut simulator = env.make()?;
    simulator.reset(&mut streams.reset.generator());
    simulator.observe(&mut state);
    let mut actions = device.zeros(env.task.action_dim);
    let mut noise = streams.noise.generator();
    let mut policy_noise = NoiseSource::new(device, &behavior.policy, 1, streams.policy);
    for _ in 0..horizon {
        policy_noise.draw(device);
        behavior.policy.sample(device, &device.upload(&state), &policy_noise.values, &mut actions);
        let mut action = device.download(&actions)?;
        action
            .iter_mut()
            .for_each(|a| *a = (f64::from(*a) + behavior.noise * noise.normal()) as f32);
        limit(&env.task, &mut action);
        let Some(outcome) = simulator.step(&action) else { break };
        log.states.extend_from_slice(&state);
        simulator.observe(&mut state);
        log.next_states.extend_from_slice(&state);
        log.actions.extend(action);
        log.rewards.push(outcome.reward as f32);
        log.terminals.push(outcome.terminal);
        log.timeouts.push(false);
        if outcome.terminal {
            break;
        }
    }
    Ok(log)
}

/// No transitions, of the task's sizes.
fn empty(task: &Task) -> Columns {
    Columns { state_dim: task.state_dim, action_dim: task.action_dim, ..Columns::default() }
}

/// Appends an episode, or as much of it as fits into `steps` transitions; an episode that did not end by itself
/// timed out.
fn append(data: &mut Columns, log: Columns, steps: usize) {
    let n = log.rewards.len().min(steps - data.rewards.len());
    if n == 0 {
        return;
    }
    data.episode_starts.push(data.rewards.len());
    data.states.extend_from_slice(&log.states[..n * log.state_dim]);
    data.actions.extend_from_slice(&log.actions[..n * log.action_dim]);
    data.next_states.extend_from_slice(&log.next_states[..n * log.state_dim]);
    data.rewards.extend_from_slice(&log.rewards[..n]);
    data.terminals.extend_from_slice(&log.terminals[..n]);
    data.timeouts.extend_from_slice(&log.timeouts[..n]);
    if let (Some(timeout), Some(false)) = (data.timeouts.last_mut(), data.terminals.last()) {
        *timeout = true;
    }
}
