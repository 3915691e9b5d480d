//! Episodes in an environment: the true return of a policy, and data sets.

use super::{EnvName, Environment};
use crate::compute::{Counter, Device};
use crate::data::{Columns, Transitions};
use crate::policy::{Noise, Policy};
use crate::progress::Progress;
use crate::rng::{Generator, Stream};
use crate::stats::Mean;
use crate::task::Task;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// Episodes that are simulated side by side.
const BATCH: usize = 1000;

/// Episodes that a thread steps at the least, so that dividing them costs less than stepping a simple one.
const SHARE: usize = 16;

/// Transitions collected at the most: all of them are kept in memory until they are written.
const MOST_STEPS: usize = 100_000_000;

/// What episodes brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// The discounted return of each episode; of one whose simulator broke down, what it had earned till then.
    pub values: Vec<f64>,
    /// Episodes whose simulator broke down.
    pub diverged: usize,
}

/// The true return of a policy, as far as simulation tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// Mean return.
    pub value: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Episodes that were simulated.
    pub episodes: usize,
}

impl From<&Returns> for Truth {
    fn from(returns: &Returns) -> Self {
        let mean = Mean::of(returns.values.iter().copied());
        Truth { value: mean.value, std_error: mean.std_error, episodes: returns.values.len() }
    }
}

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
) -> Result<Returns> {
    let task = env.task()?;
    policy.check_task(&task)?;
    let mut values = vec![0.0; episodes];
    let mut diverged = 0;
    for first in (0..episodes).step_by(BATCH) {
        let n = BATCH.min(episodes - first);
        let luck = stream.child("policy").index(first as u64);
        let mut batch = Batch::new(device, env, &task, policy, luck, n)?;
        batch.start(stream, first);
        for t in 0..horizon {
            if batch.running.iter().all(|running| !running) {
                break;
            }
            let weight = discount.powi(t as i32);
            device.run(|| batch.step(weight));
        }
        values[first..first + n].copy_from_slice(&batch.returns);
        diverged += batch.diverged.iter().filter(|&&broke| broke).count();
        progress.report("simulating", first + n, episodes, "");
    }
    Ok(Returns { values, diverged })
}

/// Returns of one episode from each of `starts` `[episodes, state]`.
pub fn simulate_from(
    device: &Device,
    env: EnvName,
    policy: &Policy,
    horizon: usize,
    starts: &[f32],
    discount: f64,
    stream: Stream,
) -> Result<Vec<f64>> {
    let task = env.task()?;
    policy.check_task(&task)?;
    let n = starts.len() / task.state_dim;
    let mut batch = Batch::new(device, env, &task, policy, stream.child("policy"), n)?;
    batch.states.copy_from_slice(starts);
    for (env, start) in batch.envs.iter_mut().zip(starts.chunks_exact(task.state_dim)) {
        check_placed(env.place(start), &task)?;
    }
    for t in 0..horizon {
        device.run(|| batch.step(discount.powi(t as i32)));
    }
    Ok(batch.returns)
}

/// Single transitions from given states and actions, `[n, state]` and `[n, action]`, each an episode of its own.
pub fn scatter(env: EnvName, states: &[f32], actions: &[f32]) -> Result<Transitions> {
    let task = env.task()?;
    let mut data = Columns { state_dim: task.state_dim, action_dim: task.action_dim, ..Default::default() };
    let mut simulator = env.make()?;
    let mut next = vec![0.0; task.state_dim];
    for (s, a) in states.chunks_exact(task.state_dim).zip(actions.chunks_exact(task.action_dim)) {
        check_placed(simulator.place(s), &task)?;
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

fn check_placed(placed: bool, task: &Task) -> Result<()> {
    match placed {
        true => Ok(()),
        false => Err(Error::Mismatch(format!(
            "{} cannot be put into any state: its state says not all",
            task.name
        ))),
    }
}

/// Episodes side by side, so that the policy is asked once a step and the simulators run on all threads.
struct Batch<'a> {
    device: &'a Device,
    task: &'a Task,
    policy: &'a Policy,
    luck: Luck,
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
        env: EnvName,
        task: &'a Task,
        policy: &'a Policy,
        luck: Stream,
        n: usize,
    ) -> Result<Self> {
        Ok(Batch {
            device,
            task,
            policy,
            luck: Luck::new(device, policy, n, luck),
            envs: (0..n).map(|_| env.make()).collect::<Result<_>>()?,
            states: vec![0.0; n * task.state_dim],
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
    fn step(&mut self, weight: f64) {
        let (task, device) = (self.task, self.device);
        let mut actions = device.zeros(self.envs.len() * task.action_dim);
        self.luck.draw(device);
        self.policy.draw(device, &device.upload(&self.states), &self.luck.noise, &mut actions);
        let mut actions = device.download(&actions);
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
    }
}

/// Random numbers of a policy that draws its actions.
struct Luck {
    noise: Noise,
    stream: Stream,
    time: Counter,
}

impl Luck {
    fn new(device: &Device, policy: &Policy, rows: usize, stream: Stream) -> Self {
        Luck { noise: policy.noise(device, rows, 1), stream, time: device.counter() }
    }

    /// Those of the next step.
    fn draw(&mut self, device: &Device) {
        self.noise.draw(device, self.stream, &self.time);
        device.advance(&mut self.time);
    }
}

/// Limits an action to the task's bounds.
fn limit(task: &Task, action: &mut [f32]) {
    for ((a, &low), &high) in action.iter_mut().zip(&task.action_low).zip(&task.action_high) {
        *a = a.max(low).min(high);
    }
}

/// Who made the data: a policy with Gaussian noise of this standard deviation on its actions.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The policy.
    pub policy: Policy,
    /// Standard deviation of the noise, in units of the action.
    pub noise: f64,
}

/// Exactly `steps` transitions; episodes go to the behaviours in turn and end after `horizon` steps, in a terminal state,
/// or before a step at which the simulator broke down. The last one is cut where the data are full.
pub fn collect(
    device: &Device,
    env: EnvName,
    behaviours: &[Behaviour],
    horizon: usize,
    steps: usize,
    stream: Stream,
    progress: &dyn Progress,
) -> Result<Transitions> {
    let task = env.task()?;
    if !(2..=MOST_STEPS).contains(&steps) {
        return Err(Error::setting("steps", steps, format!("2 to {MOST_STEPS} transitions")));
    }
    if horizon == 0 {
        return Err(Error::setting("horizon", horizon, "at least 1 step an episode"));
    }
    for behaviour in behaviours {
        behaviour.policy.check_task(&task)?;
        if !(behaviour.noise >= 0.0 && behaviour.noise.is_finite()) {
            return Err(Error::setting("noise", behaviour.noise, "0 or a positive standard deviation"));
        }
    }
    let mut data = Columns { state_dim: task.state_dim, action_dim: task.action_dim, ..Default::default() };
    let mut episode = 0;
    while data.rewards.len() < steps {
        let before = data.rewards.len();
        // As many episodes as are needed even if none ends early: none is simulated in vain.
        let n = (steps - before).div_ceil(horizon).min(BATCH);
        let log = |episode: usize| {
            let behaviour = &behaviours[episode % behaviours.len()];
            let [noise, reset] =
                ["noise", "reset"].map(|name| stream.child(name).index(episode as u64).generator());
            let luck = stream.child("policy").index(episode as u64);
            one_episode(device, env, &task, behaviour, horizon, [reset, noise], luck)
        };
        let logged: Result<Vec<Columns>> =
            device.run(|| (episode..episode + n).into_par_iter().map(log).collect());
        for log in logged? {
            append(&mut data, log, steps);
        }
        if data.rewards.len() == before {
            return Err(Error::Numeric(format!(
                "the simulator of {} broke down at the first step of all of {n} episodes",
                env.name()
            )));
        }
        progress.report("collecting", data.rewards.len(), steps, "");
        episode += n;
    }
    Transitions::new(data)
}

/// All transitions of one episode.
fn one_episode(
    device: &Device,
    env: EnvName,
    task: &Task,
    behaviour: &Behaviour,
    horizon: usize,
    [mut reset, mut noise]: [Generator; 2],
    luck: Stream,
) -> Result<Columns> {
    let mut log = Columns { state_dim: task.state_dim, action_dim: task.action_dim, ..Default::default() };
    let mut state = vec![0.0; task.state_dim];
    let mut simulator = env.make()?;
    simulator.reset(&mut reset);
    simulator.observe(&mut state);
    let mut actions = device.zeros(task.action_dim);
    let mut luck = Luck::new(device, &behaviour.policy, 1, luck);
    for _ in 0..horizon {
        luck.draw(device);
        behaviour.policy.draw(device, &device.upload(&state), &luck.noise, &mut actions);
        let mut action = device.download(&actions);
        action.iter_mut().for_each(|a| *a = (f64::from(*a) + behaviour.noise * noise.normal()) as f32);
        limit(task, &mut action);
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

/// Appends an episode, or as much of it as fits into `steps` transitions; one that did not end by itself timed out.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Scratch;

    fn data(env: EnvName, policy: &str, steps: usize) -> Transitions {
        let behaviour = Behaviour { policy: Policy::read(policy).unwrap(), noise: 0.3 };
        let device = Device::cpu(Some(1)).unwrap();
        collect(&device, env, &[behaviour], env.time_limit(), steps, Stream::new(1), &()).unwrap()
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
                let mut instance = env.make().unwrap();
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

    /// Episodes from given states are those that started there by themselves.
    #[test]
    fn episodes_from_given_starts_pay_the_same() {
        let device = Device::cpu(Some(1)).unwrap();
        for (env, policy) in &CASES[1..] {
            let policy = Policy::read(policy).unwrap();
            let (mut starts, mut state) = (Vec::new(), vec![0.0; env.task().unwrap().state_dim]);
            for episode in 0..5 {
                let mut instance = env.make().unwrap();
                instance.reset(&mut Stream::new(3).index(episode).generator());
                instance.observe(&mut state);
                starts.extend_from_slice(&state);
            }
            let own = simulate(&device, *env, &policy, 40, 5, 0.99, Stream::new(3), &()).unwrap().values;
            let given = simulate_from(&device, *env, &policy, 40, &starts, 0.99, Stream::new(3)).unwrap();
            for (own, given) in own.iter().zip(&given) {
                assert!((own - given).abs() < 1e-3 * own.abs(), "{env:?}: {own} and {given}");
            }
        }
    }

    #[test]
    fn scattered_transitions_are_steps() {
        let data = scatter(EnvName::Point, &[3.0, -4.0, 30.0, 0.0], &[0.5, 1.0, -2.0, 0.0]).unwrap();
        assert_eq!(data.next_states(), [3.5, -3.0, 29.0, 0.0]);
        assert_eq!((data.rewards(), data.episodes().len()), ([-5.0, -30.0].as_slice(), 2));
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

    #[test]
    fn episodes_are_cut_at_the_horizon() {
        let behaviour = Behaviour { policy: Policy::read("builtin:swing-up").unwrap(), noise: 0.3 };
        let device = Device::cpu(Some(1)).unwrap();
        let of = |horizon| {
            collect(
                &device,
                EnvName::Pendulum,
                std::slice::from_ref(&behaviour),
                horizon,
                120,
                Stream::new(1),
                &(),
            )
        };
        let data = of(50).unwrap();
        assert_eq!(data.episodes().collect::<Vec<_>>(), [0..50, 50..100, 100..120]);
        assert!(data.timeouts()[49] && !data.terminals()[49]);
        assert!(of(0).unwrap_err().to_string().contains("horizon"));
    }
}
