//! What a user says of a task, and the task that it is for some data.
//!
//! Without an environment the reward is learned unless given, termination is learned where the log has terminal
//! flags, initial states are those of the log, and actions have no bounds.

use super::termination::{LearnedTermination, learn};
use super::{Initial, Task};
use crate::data::Transitions;
use crate::expression::{Program, Scope};
use crate::{Error, Result};
use serde::Serialize;

/// What a user says of a task.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// Name for the report.
    pub name: Option<String>,
    /// A built-in environment that gives what is not said.
    pub env: Option<String>,
    /// An expression, or `learned`.
    pub reward: Option<String>,
    /// An expression, `learned`, or `none`.
    pub termination: Option<String>,
    /// Entries of the state that are angles.
    pub angles: Vec<usize>,
    /// Smallest and largest action; one number stands for all entries.
    pub actions: [Option<Vec<f32>>; 2],
    /// p₀
    pub initial: Option<Initial>,
    /// Further rewards.
    pub constraints: Vec<ConstraintText>,
}

/// A further reward as it is written.
#[derive(Clone, Debug)]
pub struct ConstraintText {
    /// Name for the report.
    pub name: String,
    /// Its reward.
    pub expression: String,
    /// The sum over an episode that has to be reached.
    pub threshold: Option<f64>,
}

/// A task for some data, with what else was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The task.
    pub task: Task,
    /// Further rewards.
    pub constraints: Vec<Constraint>,
    /// Entries of the state that are angles.
    pub angles: Vec<usize>,
    /// What the result says of it.
    pub declared: Declared,
    /// What the reader of the result must know.
    pub notes: Vec<String>,
}

/// A further reward, which is a task of its own.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// The task, which has the constraint's name.
    pub task: Task,
    /// The sum over an episode that has to be reached.
    pub threshold: Option<f64>,
}

/// What was asked, in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declared {
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
}

/// What ends an episode before its horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Termination {
    /// Nothing.
    None,
    /// What the user or the environment says.
    Expression {
        /// The expression.
        rule: String,
    },
    /// What the log's terminal flags say.
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

impl Declaration {
    /// The task for these data. `env` is the task of the environment that gives what is not declared.
    pub fn resolve(&self, data: &Transitions, env: Option<Task>) -> Result<Asked> {
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
            None => Task {
                name: "logged reward".to_owned(),
                state_dim: ds,
                action_dim: da,
                action_low: vec![f32::NEG_INFINITY; da],
                action_high: vec![f32::INFINITY; da],
                reward: program("reward", "r", ds, da)?,
                termination: None,
                initial: Initial::EpisodeStarts,
            },
        };
        if let Some(name) = &self.name {
            task.name = name.clone();
        }
        if let Some(reward) = &self.reward {
            task.reward = program("reward", if reward == LEARNED { "r" } else { reward }, ds, da)?;
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
        let (paid, _) = Task { termination: None, ..task.clone() }.logged(data)?;
        notes.extend(compare(&task, &paid, data));

        let flags = data.terminals().iter().any(|&t| t);
        let limits = time_limits(data);
        let learns = match (self.termination.as_deref(), known) {
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
            (None, false) => flags && limits.is_none(),
        };
        notes.extend(limits);
        let mut termination = match &task.termination {
            None => Termination::None,
            Some(program) => Termination::Expression { rule: program.to_string() },
        };
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
                    "the learned termination `{}` tells {} of {} terminal states of the log",
                    learned.rule, learned.explained, learned.terminals
                ));
            }
            task.termination = Some(program);
            termination = Termination::Learned(learned);
        }
        let declared = Declared {
            reward: if task.reward.texts() == ["r"] { LEARNED.to_owned() } else { task.reward.to_string() },
            termination,
            initial: task.initial.describe(data),
            action_low: task.action_low.clone(),
            action_high: task.action_high.clone(),
            angles: angles.clone(),
        };
        let constraints =
            self.constraints.iter().map(|c| c.resolve(&task, learns, data)).collect::<Result<_>>()?;
        notes.extend(short_episodes(data));
        Ok(Asked { task, constraints, angles, declared, notes })
    }
}

impl ConstraintText {
    fn resolve(&self, task: &Task, learns_termination: bool, data: &Transitions) -> Result<Constraint> {
        let reward = program("expression", &self.expression, task.state_dim, task.action_dim)
            .map_err(|e| Error::Mismatch(format!("constraint {:?}: {e}", self.name)))?;
        let mut task = Task { name: self.name.clone(), reward, ..task.clone() };
        let (paid, _) = Task { termination: None, ..task.clone() }.logged(data)?;
        if learns_termination {
            task.termination = Some(learn(data, &paid)?.0); // what is worse in doubt is its own question
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
            other => other.clone(),
        })
    }

    fn describe(&self, data: &Transitions) -> String {
        match self {
            Initial::Fixed(state) => format!("fixed at {state:?}"),
            Initial::Box { low, high, .. } => format!("uniform from {low:?} to {high:?}"),
            Initial::Gaussian { mean, std } => format!("Gaussian with mean {mean:?} and deviation {std:?}"),
            Initial::EpisodeStarts => {
                format!("the first states of {} logged episodes", data.episodes().len())
            }
        }
    }
}

/// An expression, with the name of what it is for in errors.
fn program(name: &'static str, text: &str, ds: usize, da: usize) -> Result<Program> {
    Program::parse(&[text], ds, da, Scope::REWARD).map_err(|e| Error::Mismatch(format!("{name}: {e}")))
}

/// One number for every entry, from as many or from one for all.
fn sized(name: &'static str, values: &[f32], len: usize) -> Result<Vec<f32>> {
    match values {
        [one] => Ok(vec![*one; len]),
        all if all.len() == len => Ok(all.to_vec()),
        all => Err(Error::setting(name, format!("{all:?}"), format!("{len} numbers, or one for all"))),
    }
}

/// Remarks on what the task pays for the log beside what was logged.
fn compare(task: &Task, paid: &[f32], data: &Transitions) -> Option<String> {
    let logged = data.rewards();
    if task.learns_reward() {
        let constant = logged.iter().all(|&r| r == logged[0]);
        return constant
            .then(|| format!("every logged reward is {}: that is all there is to learn of it", logged[0]));
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / logged.len() as f64;
    let difference = mean(&mut paid.iter().zip(logged).map(|(&p, &l)| f64::from((p - l).abs())));
    let size = mean(&mut logged.iter().map(|&l| f64::from(l.abs())));
    (size > 0.0 && difference > 1e-2 * size).then(|| {
        format!(
            "the task's reward differs from the logged one by {difference:.4} a step (logged: {size:.4}); it is the \
             task's that is bounded"
        )
    })
}

/// A remark where terminal flags look like time limits: all episodes end in one, after equally many steps.
fn time_limits(data: &Transitions) -> Option<String> {
    let mut lengths = data.episodes().map(|e| e.len());
    let (count, first) = (data.episodes().len(), lengths.next()?);
    let all = data.episodes().all(|e| data.terminals()[e.end - 1]);
    (count > 1 && first > 1 && all && lengths.all(|l| l == first)).then(|| {
        format!(
            "all {count} episodes end in a terminal state after exactly {first} steps: that is taken for a time limit \
             unless a termination is given; flag time limits as timeouts"
        )
    })
}

/// A remark where episodes are too short to tell anything of trajectories.
fn short_episodes(data: &Transitions) -> Option<String> {
    let (count, short) = (data.episodes().len(), data.episodes().filter(|e| e.len() == 1).count());
    (2 * short > count).then(|| {
        format!(
            "{short} of {count} episodes have one step: their states count as initial ones, and the confidence set \
             cannot be measured on them; keep the order of the log, and flag the ends of episodes"
        )
    })
}
