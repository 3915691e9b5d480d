//! The task: reward, termination, initial states, bounds of the actions.

pub(crate) mod earned;
mod file;
mod remarks;
mod spec;
mod termination;
#[cfg(test)]
pub(crate) mod tests;

pub use spec::{
    Constraint, ConstraintSpec, ResolvedTask, TaskFunctions, TaskSpec, TaskSummary, Termination,
};
pub use termination::LearnedTermination;

use crate::data::Transitions;
use crate::stats::block_of;
use crate::{Error, Result};
pub use hambo_engine::expression::{Function, RowFn};
use hambo_engine::expression::{Program, Scope, Scratch};
use hambo_engine::rng::Stream;

/// Logged rows that a program sees at once.
const AT_ONCE: usize = 1 << 16;

/// A decision problem without its dynamics: those are learned.
#[derive(Clone, Debug)]
pub struct Task {
    /// Name for the report.
    pub name: String,
    /// Length of a state.
    pub state_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    /// Names of the entries of a state for the report; those that are missing are called `s[0]`, `s[1]`, ….
    pub state_names: Vec<String>,
    /// Names of the entries of an action; those that are missing are called `a[0]`, `a[1]`, ….
    pub action_names: Vec<String>,
    /// Smallest allowed action; policies are limited to the bounds as the system would limit them.
    pub action_low: Vec<f32>,
    /// Largest allowed action.
    pub action_high: Vec<f32>,
    /// r(s, a), or r(s, a, s').
    pub reward: Program,
    /// Not 0 if s' ends the episode for good; without it episodes end at the horizon alone.
    pub termination: Option<Program>,
    /// The distribution of initial states.
    pub initial: Initial,
    /// A step never pays less than this, as far as is known; none: than the logs show.
    pub worst_reward: Option<f64>,
}

/// The distribution of initial states, p₀.
#[derive(Clone, Debug)]
pub enum Initial {
    /// Always the same state.
    Fixed(Vec<f32>),
    /// Uniform in a box; `map` takes the drawn point to a state (an angle to its cosine and sine, say).
    Box {
        /// Lower corner.
        low: Vec<f32>,
        /// Upper corner.
        high: Vec<f32>,
        /// From the point, as `s`, to the state.
        map: Option<Program>,
    },
    /// Independent normal numbers.
    Gaussian {
        /// Mean of each entry.
        mean: Vec<f32>,
        /// Standard deviation of each entry.
        std: Vec<f32>,
    },
    /// The logged episode starts, drawn with replacement.
    EpisodeStarts,
    /// One of these states, one after another, drawn with replacement: what resets of a simulator gave.
    Drawn(Vec<f32>),
}

impl Initial {
    /// Draws n states `[n, state]` in so many equal parts. The [blocks](block_of) of each part are independent, while the
    /// states of a block fill a box evenly: it begins anywhere and goes on by steps of an irrational length (Roberts 2018:
    /// powers of the root of x^(d+1) = x + 1).
    pub fn sample_evenly(
        &self,
        (n, parts): (usize, usize),
        data: &Transitions,
        stream: Stream,
    ) -> Result<Vec<f32>> {
        let Initial::Box { low, high, map } = self else { return self.sample(n, data, stream) };
        let (mut generator, dims) = (stream.generator(), low.len());
        let root = (0..64).fold(2.0f64, |x, _| (1.0 + x).powf(1.0 / (dims as f64 + 1.0)));
        let (mut at, block) = (vec![0.0f64; dims], block_of(n, parts));
        let mut points = Vec::with_capacity(n * dims);
        for i in 0..n {
            let begins = i % (n / parts) % block == 0;
            for (d, x) in at.iter_mut().enumerate() {
                let step = root.powi(-(d as i32 + 1));
                *x = if begins { generator.range(0.0, 1.0) } else { (*x + step).fract() };
                let [low, high] = [low[d], high[d]].map(f64::from);
                points.push((low + *x * (high - low)) as f32);
            }
        }
        mapped(points, n, map.as_ref())
    }

    /// Draws n states `[n, state]`; `data` supplies the starts of episodes.
    pub fn sample(&self, n: usize, data: &Transitions, stream: Stream) -> Result<Vec<f32>> {
        let mut generator = stream.generator();
        match self {
            Initial::Fixed(state) => Ok(state.repeat(n)),
            Initial::Box { low, high, map } => {
                let mut points = Vec::with_capacity(n * low.len());
                for _ in 0..n {
                    points.extend(
                        low.iter()
                            .zip(high)
                            .map(|(&l, &h)| generator.range(l.into(), h.into()) as f32),
                    );
                }
                mapped(points, n, map.as_ref())
            }
            Initial::Gaussian { mean, std } => {
                let mut draw = |(&m, &s): (&f32, &f32)| {
                    (f64::from(m) + f64::from(s) * generator.normal()) as f32
                };
                Ok((0..n)
                    .flat_map(|_| mean.iter().zip(std).map(&mut draw).collect::<Vec<_>>())
                    .collect())
            }
            Initial::EpisodeStarts => {
                let starts: Vec<usize> = data.episodes().map(|e| e.start).collect();
                Ok((0..n)
                    .flat_map(|_| data.state(starts[generator.below(starts.len())]))
                    .copied()
                    .collect())
            }
            Initial::Drawn(states) => {
                let ds = data.state_dim();
                let count = states.len() / ds;
                Ok((0..n)
                    .flat_map(|_| &states[generator.below(count) * ds..][..ds])
                    .copied()
                    .collect())
            }
        }
    }
}

/// From n points of a box to states.
fn mapped(points: Vec<f32>, n: usize, map: Option<&Program>) -> Result<Vec<f32>> {
    let Some(map) = map else { return Ok(points) };
    let mut states = vec![0.0; n * map.outputs().len()];
    map.evaluate(n, &points, &[], &[], &mut states, &mut Scratch::default())?;
    Ok(states)
}

impl Task {
    /// A task with states and actions of these sizes and this reward, an expression of `s`, `a`, `n` (the next state) and
    /// `r` (the logged reward, which is then learned). Actions have no bounds, nothing ends an episode but the horizon,
    /// and episodes begin where those of the log did: set the other fields to change that.
    ///
    /// ```
    /// use hambo::task::{Initial, Task};
    ///
    /// let task = Task::new("balance", [2, 1], "-s[0]^2 - 0.1 * a[0]^2")?.with_action_bounds(-1.0, 1.0);
    /// let task = Task { initial: Initial::Fixed(vec![0.5, 0.0]), ..task };
    /// # Ok::<(), hambo::Error>(())
    /// ```
    pub fn new(name: &str, [state_dim, action_dim]: [usize; 2], reward: &str) -> Result<Self> {
        Ok(Task {
            name: name.to_owned(),
            state_dim,
            action_dim,
            state_names: Vec::new(),
            action_names: Vec::new(),
            action_low: vec![f32::NEG_INFINITY; action_dim],
            action_high: vec![f32::INFINITY; action_dim],
            reward: Program::parse(&[reward], state_dim, action_dim, Scope::REWARD)?,
            termination: None,
            initial: Initial::EpisodeStarts,
            worst_reward: None,
        })
    }

    /// The same task with every entry of the action limited to [low, high].
    pub fn with_action_bounds(self, low: f32, high: f32) -> Self {
        let bounds = [vec![low; self.action_dim], vec![high; self.action_dim]];
        let [action_low, action_high] = bounds;
        Task { action_low, action_high, ..self }
    }

    /// The same task with names for the entries of its states and actions.
    pub fn with_names(self, state: &[&str], action: &[&str]) -> Self {
        let [state_names, action_names] =
            [state, action].map(|all| all.iter().map(|&n| n.to_owned()).collect());
        Task { state_names, action_names, ..self }
    }

    /// What the entries of states and of actions are called in a report.
    pub fn entry_names(&self) -> [Vec<String>; 2] {
        let all = |names: &[String], letter: char, n: usize| {
            (0..n)
                .map(|i| names.get(i).cloned().unwrap_or_else(|| format!("{letter}[{i}]")))
                .collect()
        };
        [all(&self.state_names, 's', self.state_dim), all(&self.action_names, 'a', self.action_dim)]
    }

    /// The task's reward for each logged transition, and whether the episode ends there; an error if a value is not
    /// finite.
    pub fn logged(&self, data: &Transitions) -> Result<(Vec<f32>, Vec<bool>)> {
        let evaluate = |program: &Program| {
            let values = Task::on_log(program, data)?;
            match values.iter().position(|x| !x.is_finite()) {
                None => Ok(values),
                Some(row) => Err(Error::Data(format!(
                    "`{program}` is {} in row {row} (s = {:?}, a = {:?}): expected a finite number",
                    values[row],
                    data.state(row),
                    data.action(row)
                ))),
            }
        };
        let rewards = evaluate(&self.reward)?;
        let ended =
            self.termination.as_ref().map_or_else(|| Ok(vec![0.0; data.len()]), evaluate)?;
        Ok((rewards, ended.into_iter().map(|x| x != 0.0).collect()))
    }

    /// The task's reward for each of the log's [last rows](Transitions::last_rows), and whether the episode ended there,
    /// as the log says. Where the reward hangs on the next state, which nobody knows, it is what the log says, too, if it
    /// is elsewhere; else the worst is taken.
    pub(crate) fn logged_last(&self, data: &Transitions) -> Result<(Vec<f32>, Vec<bool>)> {
        let last = data.last_rows();
        let rewards = match self.known_of_last(data)? {
            Some(rewards) => rewards,
            None if self.pays_as_logged(data)? => last.rewards.clone(),
            None => vec![self.lowest_reward(data)?; last.len()],
        };
        let can_end = self.termination.is_some();
        Ok((rewards, last.terminals.iter().map(|&terminal| terminal && can_end).collect()))
    }

    fn pays_as_logged(&self, data: &Transitions) -> Result<bool> {
        let (paid, _) = self.logged(data)?;
        let pays = data.rewards().iter().any(|&r| r != 0.0);
        Ok(pays && self.differs_from_log(&paid, data).is_none())
    }

    /// By how much a step's reward differs from the logged one on average, and how large that is, if by more than a
    /// hundredth; `paid` are the task's rewards of the logged transitions.
    pub(crate) fn differs_from_log(&self, paid: &[f32], data: &Transitions) -> Option<[f64; 2]> {
        let logged = data.rewards();
        let mean =
            |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / logged.len() as f64;
        let pairs = paid.iter().zip(logged);
        let difference = mean(&mut pairs.map(|(&p, &l)| f64::from((p - l).abs())));
        let size = mean(&mut logged.iter().map(|&l| f64::from(l.abs())));
        (size > 0.0 && difference > 1e-2 * size).then_some([difference, size])
    }

    /// The reward of last rows, as far as it can be told without their next states.
    fn known_of_last(&self, data: &Transitions) -> Result<Option<Vec<f32>>> {
        let last = data.last_rows();
        if self.reward.uses_entries_of_next_state(self.state_dim) {
            return Ok(None);
        }
        let no_next = &last.states; // nothing looks at them
        let rewards =
            Task::on_rows(&self.reward, [&last.states, &last.actions, no_next, &last.rewards])?;
        Ok(Some(rewards).filter(|rewards| rewards.iter().all(|r| r.is_finite())))
    }

    /// What a program of (s, a, s') gives for each logged transition, `[rows, outputs]`.
    pub(crate) fn on_log(program: &Program, data: &Transitions) -> Result<Vec<f32>> {
        if !data.has_rewards() && program.uses_reward(data.state_dim()) {
            return Err(Error::Data(
                "no rewards in the log: say what a step pays with --reward EXPR, or `reward` in the task file".into(),
            ));
        }
        Task::on_rows(program, [data.states(), data.actions(), data.next_states(), data.rewards()])
    }

    fn on_rows(
        program: &Program,
        [states, actions, next_states, rewards]: [&[f32]; 4],
    ) -> Result<Vec<f32>> {
        let n = rewards.len();
        if n > AT_ONCE {
            // What is carried is a copy, of which there is no room for one of a long log.
            let width = |all: &[f32]| all.len() / n;
            let widths = [width(states), width(actions), width(next_states), 1];
            let mut values = Vec::with_capacity(n * program.outputs().len());
            for start in (0..n).step_by(AT_ONCE) {
                let rows = start..n.min(start + AT_ONCE);
                let all = [states, actions, next_states, rewards];
                let part = |i: usize| &all[i][rows.start * widths[i]..rows.end * widths[i]];
                values.extend(Task::on_rows(program, [part(0), part(1), part(2), part(3)])?);
            }
            return Ok(values);
        }
        if n == 0 {
            return Ok(Vec::new());
        }
        let ds = states.len() / n;
        // The logged reward follows the state, see `Program::parse`.
        let carry = |states: &[f32], reward: &dyn Fn(usize) -> f32| -> Vec<f32> {
            let rows = states.chunks_exact(ds).enumerate();
            rows.flat_map(|(row, s)| s.iter().copied().chain([reward(row)])).collect()
        };
        let s = carry(states, &|_| 0.0);
        let next = carry(next_states, &|row| rewards[row]);
        let mut values = vec![0.0; n * program.outputs().len()];
        let (program, scratch) = (program.widened(ds + 1), &mut Scratch::default());
        program.evaluate(n, &s, actions, &next, &mut values, scratch)?;
        Ok(values)
    }

    /// The worst reward of a step that is declared or that the logs show, whichever is lower.
    pub fn lowest_reward(&self, data: &Transitions) -> Result<f32> {
        Ok(self.reward_range(data)?[0])
    }

    /// That, and the best reward that the logs show.
    pub(crate) fn reward_range(&self, data: &Transitions) -> Result<[f32; 2]> {
        let declared = self.worst_reward.map_or(f32::INFINITY, |worst| worst as f32);
        if self.worst_reward.is_some() && !declared.is_finite() {
            return Err(Error::setting("worst_reward", declared, "a finite number"));
        }
        let (rewards, _) = Task { termination: None, ..self.clone() }.logged(data)?;
        Ok(rewards
            .into_iter()
            .chain(self.known_of_last(data)?.unwrap_or_default())
            .fold([declared, f32::NEG_INFINITY], |[low, high], r| [low.min(r), high.max(r)]))
    }

    /// Whether what a step pays, or what ends an episode, is a function on the host.
    pub fn calls_functions(&self) -> bool {
        self.reward.is_function() || self.termination.as_ref().is_some_and(Program::is_function)
    }

    /// Whether the model has to predict the reward.
    pub fn learns_reward(&self) -> bool {
        let programs = [Some(&self.reward), self.termination.as_ref()];
        programs.into_iter().flatten().any(|program| program.uses_reward(self.state_dim))
    }

    /// An error that says which sizes differ, if the data do not belong to this task.
    pub fn check_data(&self, data: &Transitions) -> Result<()> {
        if (data.state_dim(), data.action_dim()) != (self.state_dim, self.action_dim) {
            return Err(Error::Mismatch(format!(
                "task {} has states of {} and actions of {} dimensions, the data {} and {}",
                self.name,
                self.state_dim,
                self.action_dim,
                data.state_dim(),
                data.action_dim()
            )));
        }
        Ok(())
    }
}
