//! A task as the user specifies it, and what it becomes for given data.
//!
//! Without an environment the reward is learned unless given, termination is learned where the log has terminal
//! flags, initial states are those of the log, and actions have no bounds.

use super::remarks::{broken, compare, short_episodes, time_limits, unknown_rewards};
use super::termination::{LearnedTermination, learn};
use super::{Initial, Task};
use crate::data::Transitions;
use crate::{Error, Result};
use hambo_engine::expression::{Function, Program, Scope};
use serde::Serialize;

/// A task as the user specifies it; what is left out comes from an environment or from the data.
///
/// ```
/// use hambo::{Logs, TaskSpec};
///
/// let path = std::env::temp_dir().join(format!("hambo-spec-{}.csv", std::process::id()));
/// std::fs::write(&path, "ep,s0,a0,reward\n1,0.0,1.0,0.0\n1,0.5,1.0,0.1\n1,1.0,1.0,0.2\n")?;
/// let logs = Logs::read(&path)?;
/// let learned = TaskSpec::default().resolve(&logs.transitions, None)?; // nothing is given: the reward is learned
/// assert!(learned.learns_reward());
/// let given = TaskSpec { reward: Some("-s[0]^2".to_owned()), ..TaskSpec::default() };
/// assert!(!given.resolve(&logs.transitions, None)?.learns_reward());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskSpec {
    /// Name for the report.
    pub name: Option<String>,
    /// A built-in environment that supplies what is not specified here.
    pub env: Option<String>,
    /// An expression, or `learned`.
    pub reward: Option<String>,
    /// An expression, `learned`, or `none`.
    pub termination: Option<String>,
    /// Entries of the state that are angles.
    pub angles: Vec<usize>,
    /// Smallest and largest action; one number stands for all entries.
    pub actions: [Option<Vec<f32>>; 2],
    /// The distribution of initial states.
    pub initial: Option<Initial>,
    /// What a step pays at the least, see [`Task::worst_reward`].
    pub worst_reward: Option<f64>,
    /// Additional rewards, each with a bound of its own.
    pub constraints: Vec<ConstraintSpec>,
    /// Functions in place of expressions.
    pub functions: TaskFunctions,
}

/// Functions on batches of transitions, on the host, which come before expressions.
#[derive(Clone, Debug, Default)]
pub struct TaskFunctions {
    /// r(s, a, s')
    pub reward: Option<Function>,
    /// Not 0 if s' ends the episode for good.
    pub termination: Option<Function>,
}

/// A constraint as the user specifies it.
#[derive(Clone, Debug)]
pub struct ConstraintSpec {
    /// Name for the report.
    pub name: String,
    /// The expression of its reward.
    pub expression: String,
    /// The sum over an episode that the bound has to reach.
    pub threshold: Option<f64>,
    /// What a step pays at the least, see [`Task::worst_reward`].
    pub worst_reward: Option<f64>,
}

/// A task for given data, with its constraints.
#[derive(Clone, Debug)]
pub struct ResolvedTask {
    /// The task.
    pub task: Task,
    /// Additional rewards.
    pub constraints: Vec<Constraint>,
    /// Entries of the state that are angles.
    pub angles: Vec<usize>,
    /// The task in words, for the result.
    pub declared: TaskSummary,
    /// Remarks for the reader of the result.
    pub notes: Vec<String>,
}

impl ResolvedTask {
    /// Whether the task or one of its constraints needs the reward that is learned from the logs.
    pub fn learns_reward(&self) -> bool {
        self.constraints.iter().map(|c| &c.task).chain([&self.task]).any(Task::learns_reward)
    }
}

/// An additional reward, which is a task of its own.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// The task, which has the constraint's name.
    pub task: Task,
    /// The sum over an episode that the bound has to reach.
    pub threshold: Option<f64>,
}

/// A task in words, as results show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSummary {
    /// `learned`, or the expression.
    pub reward: String,
    /// What ends an episode.
    pub termination: Termination,
    /// Where episodes begin.
    pub initial: String,
    /// Smallest action, null where there is no bound.
    pub action_low: Vec<f32>,
    /// Largest action.
    pub action_high: Vec<f32>,
    /// Entries of the state that are angles.
    pub angles: Vec<usize>,
    /// The worst reward of a step, declared or logged: what trajectories get that leave the range of the logs.
    pub worst_reward: f32,
}

/// What ends an episode before its horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Termination {
    /// Nothing.
    None,
    /// A rule of the user or of the environment.
    Expression {
        /// The expression.
        rule: String,
    },
    /// A rule learned from the log's terminal flags.
    Learned(LearnedTermination),
}

impl std::fmt::Display for Termination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Termination::None => f.write_str("none"),
            Termination::Expression { rule } => f.write_str(rule),
            Termination::Learned(learned) => write!(f, "learned: {}", learned.rule),
        }
    }
}

pub(super) const LEARNED: &str = "learned";
const NONE: &str = "none";

impl TaskSpec {
    /// The task for these data. `env` is the task of the environment that supplies what is not specified.
    pub fn resolve(&self, data: &Transitions, env: Option<Task>) -> Result<ResolvedTask> {
        env.as_ref().map_or(Ok(()), |env| env.check_data(data))?;
        let (ds, da) = (data.state_dim(), data.action_dim());
        let mut angles = self.angles.clone();
        angles.sort_unstable();
        angles.dedup();
        if let Some(index) = angles.iter().find(|&&index| index >= ds) {
            let expected = format!("entries of the state, which are 0 to {}", ds - 1);
            return Err(Error::setting("angles", index, expected));
        }
        let mut notes = Vec::new();
        let known = env.is_some();
        let mut task = match env {
            Some(env) => env,
            None => Task::new("logged reward", [ds, da], "r")?,
        };
        if let Some(name) = &self.name {
            task.name = name.clone();
        }
        if let Some(reward) = &self.reward {
            task.reward = program("reward", if reward == LEARNED { "r" } else { reward }, ds, da)?;
        }
        if let Some(function) = &self.functions.reward {
            task.reward = Program::of_function(function.clone(), ds, da);
        }
        let names = ["actions.low", "actions.high"];
        for ((bound, declared), name) in
            [&mut task.action_low, &mut task.action_high].into_iter().zip(&self.actions).zip(names)
        {
            if let Some(declared) = declared {
                *bound = sized(name, declared, da)?;
            }
        }
        if let Some(d) = (0..da).find(|&d| task.action_low[d] > task.action_high[d]) {
            let expected = format!("at least actions.low, which is {}", task.action_low[d]);
            return Err(Error::setting("actions.high", task.action_high[d], expected));
        }
        if let Some(initial) = &self.initial {
            task.initial = initial.sized(ds)?;
        }
        task.worst_reward = self.worst_reward.or(task.worst_reward);
        let worst_reward = task.lowest_reward(data)?;
        notes.extend(task.worst_reward.and_then(|declared| broken(declared, worst_reward)));
        let (paid, _) = Task { termination: None, ..task.clone() }.logged(data)?;
        notes.extend(compare(&task, &paid, data));
        notes.extend(unknown_rewards(&task, data));

        let flags = data.terminals().iter().any(|&t| t);
        let limits = time_limits(data);
        let last = data.last_rows();
        let ended_last = last.terminals.iter().filter(|&&t| t).count();
        if let Some(function) = &self.functions.termination {
            task.termination = Some(Program::of_function(function.clone(), ds, da));
        }
        let given = self.functions.termination.is_some();
        let learns = match (self.termination.as_deref(), known) {
            _ if given => false,
            (Some(LEARNED), _) => true,
            (Some(NONE), _) => {
                task.termination = None;
                false
            }
            (Some(text), _) => {
                task.termination = Some(program("termination", text, ds, da)?);
                false
            }
            (None, true) => false,
            (None, false) => (flags || ended_last > 0) && limits.is_none(),
        };
        notes.extend(limits);
        let mut termination = match &task.termination {
            None => Termination::None,
            Some(program) => Termination::Expression { rule: program.to_string() },
        };
        if learns && ended_last > 0 {
            return Err(Error::Data(format!(
                "termination cannot be learned: {ended_last} episodes end in a terminal state that was not logged (the file \
                 has no next states); give the rule (--termination EXPRESSION), or --termination none if the flags are \
                 time limits"
            )));
        }
        if learns && !flags {
            return Err(Error::Data(
                "termination = learned: no transition of the log is flagged as terminal; give an expression, or none"
                    .to_owned(),
            ));
        }
        if learns {
            let (program, learned) = learn(data, &paid)?;
            if learned.explained < learned.terminals {
                notes.push(format!(
                    "the learned termination `{}` recognizes {} of the {} terminal states in the log",
                    learned.rule, learned.explained, learned.terminals
                ));
            }
            task.termination = Some(program);
            termination = Termination::Learned(learned);
        }
        let declared = TaskSummary {
            reward: if task.reward.texts() == ["r"] {
                LEARNED.to_owned()
            } else {
                task.reward.to_string()
            },
            termination,
            initial: task.initial.describe(data),
            action_low: task.action_low.clone(),
            action_high: task.action_high.clone(),
            angles: angles.clone(),
            worst_reward,
        };
        let constraints = self
            .constraints
            .iter()
            .map(|c| c.resolve(&task, learns, data))
            .collect::<Result<_>>()?;
        notes.extend(short_episodes(data));
        Ok(ResolvedTask { task, constraints, angles, declared, notes })
    }
}

impl ConstraintSpec {
    fn resolve(
        &self,
        task: &Task,
        learns_termination: bool,
        data: &Transitions,
    ) -> Result<Constraint> {
        let reward = program("expression", &self.expression, task.state_dim, task.action_dim)
            .map_err(|e| Error::Mismatch(format!("constraint {:?}: {e}", self.name)))?;
        let (name, worst_reward) = (self.name.clone(), self.worst_reward);
        let mut task = Task { name, reward, worst_reward, ..task.clone() };
        task.lowest_reward(data)?;
        let (paid, _) = Task { termination: None, ..task.clone() }.logged(data)?;
        if learns_termination {
            task.termination = Some(learn(data, &paid)?.0); // which is worse in doubt depends on the reward
        }
        Ok(Constraint { task, threshold: self.threshold })
    }
}

impl Initial {
    /// With one number for every entry of the state.
    fn sized(&self, ds: usize) -> Result<Initial> {
        Ok(match self {
            Initial::Fixed(state) => Initial::Fixed(sized("initial.state", state, ds)?),
            Initial::Box { low, high, map: None } => Initial::Box {
                low: sized("initial.low", low, ds)?,
                high: sized("initial.high", high, ds)?,
                map: None,
            },
            Initial::Gaussian { mean, std } => Initial::Gaussian {
                mean: sized("initial.mean", mean, ds)?,
                std: sized("initial.std", std, ds)?,
            },
            Initial::Drawn(states) => {
                if states.is_empty() || states.len() % ds != 0 {
                    let expected = format!("one or more states of {ds} numbers");
                    let given = format!("{} numbers", states.len());
                    return Err(Error::setting("initial states", given, expected));
                }
                if states.iter().any(|x| !x.is_finite()) {
                    return Err(Error::setting("initial states", "NaN", "finite numbers"));
                }
                self.clone()
            }
            other => other.clone(),
        })
    }

    fn describe(&self, data: &Transitions) -> String {
        match self {
            Initial::Fixed(state) => format!("fixed at {state:?}"),
            Initial::Box { low, high, .. } => format!("uniform from {low:?} to {high:?}"),
            Initial::Gaussian { mean, std } => {
                format!("Gaussian with mean {mean:?} and deviation {std:?}")
            }
            Initial::EpisodeStarts => {
                format!("the first states of {} logged episodes", data.episodes().len())
            }
            Initial::Drawn(states) => {
                format!("{} given states", states.len() / data.state_dim())
            }
        }
    }
}

/// An expression, with the name of what it is for in errors.
fn program(name: &'static str, text: &str, ds: usize, da: usize) -> Result<Program> {
    Program::parse(&[text], ds, da, Scope::REWARD)
        .map_err(|e| Error::Mismatch(format!("{name}: {e}{}", word_hint(name, text))))
}

/// For somebody who wrote a word where only some are known.
fn word_hint(name: &str, text: &str) -> &'static str {
    match (name, text.chars().all(char::is_alphabetic)) {
        ("termination", true) => "; the words that it may be are learned and none",
        ("reward", true) => "; the word that it may be is learned",
        _ => "",
    }
}

/// One number for every entry, from as many or from one for all.
fn sized(name: &'static str, values: &[f32], len: usize) -> Result<Vec<f32>> {
    match values {
        [one] => Ok(vec![*one; len]),
        all if all.len() == len => Ok(all.to_vec()),
        all => {
            Err(Error::setting(name, format!("{all:?}"), format!("{len} numbers, or one for all")))
        }
    }
}
