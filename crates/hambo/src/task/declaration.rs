//! Tasks as their users write them: a TOML file, of which every part may be left out.
//!
//! ```toml
//! name = "cart-pole"                    # default: the name of the file
//! env = "pendulum"                      # a built-in environment that gives what is not said here
//! reward = "1 - 0.1*a[0]^2"             # an expression of s, a, n (next state) and r (learned reward), or "learned"
//! termination = "abs(n[0]) > 2.4"       # an expression, "learned" from terminal flags, or "none"
//! angles = [2]                          # entries of the state that are angles, in radians
//!
//! [actions]                             # the system limits actions to these bounds; a number stands for all entries
//! low = -1.0
//! high = [1.0]
//!
//! [initial]                             # "episode-starts" (of the log), "fixed", "box" or "gaussian"
//! kind = "gaussian"
//! mean = [0.0, 0.0, 3.14, 0.0]          # fixed: state; box: low, high
//! std = [0.1, 0.1, 0.1, 0.1]
//!
//! [[constraint]]                        # further rewards, each with a bound of its own
//! name = "stays on the track"
//! expression = "-(abs(s[0]) > 2)"
//! threshold = -0.5                      # optional: the sum over an episode that the bound has to reach
//! ```
//!
//! Without an environment the reward is learned unless given, termination is learned where the log has terminal
//! flags, initial states are those of the log, and actions have no bounds.

use super::termination::{LearnedTermination, learn};
use super::{Initial, Task};
use crate::data::{Transitions, edit_distance};
use crate::expression::{Program, Scope};
use crate::{Error, Result};
use serde::Serialize;
use std::path::Path;
use toml::{Table, Value};

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

const LEARNED: &str = "learned";
const NONE: &str = "none";
/// Larger files are no tasks.
const LARGEST_FILE: u64 = 1 << 20;

type Read<T> = std::result::Result<T, String>;

impl Declaration {
    /// Reads a task file; errors name the file, the key and what was expected.
    pub fn read(path: &Path) -> Result<Self> {
        let read = |e| Error::io(path, "read", e);
        let size = std::fs::metadata(path).map_err(read)?.len();
        if size > LARGEST_FILE {
            return Err(Error::file(path, format!("{size} bytes: a task has at most {LARGEST_FILE}")));
        }
        let bytes = std::fs::read(path).map_err(read)?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::file(path, "not a text file (UTF-8) in TOML"))?;
        let mut declaration = Declaration::parse(&text).map_err(|e| Error::file(path, e))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        declaration.name = declaration.name.or(stem.map(str::to_owned));
        Ok(declaration)
    }

    fn parse(text: &str) -> Read<Self> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let before = e.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
            format!("line {}: {}", before.matches('\n').count() + 1, e.message().replace('\n', " "))
        })?;
        let all = Keys { table: &table, place: String::new() };
        all.check(&["name", "env", "reward", "termination", "angles", "actions", "initial", "constraint"])?;
        let actions = all.table("actions")?;
        if let Some(actions) = &actions {
            actions.check(&["low", "high"])?;
        }
        let bound = |key| actions.as_ref().map_or(Ok(None), |actions| actions.numbers(key));
        Ok(Declaration {
            name: all.text("name")?,
            env: all.text("env")?,
            reward: all.text("reward")?,
            termination: all.text("termination")?,
            angles: all.indices("angles")?,
            actions: [bound("low")?, bound("high")?],
            initial: all.table("initial")?.map(|keys| initial(&keys)).transpose()?,
            constraints: all.tables("constraint")?.iter().map(constraint).collect::<Read<_>>()?,
        })
    }

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
        let reward = program("constraint", &self.expression, task.state_dim, task.action_dim)
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

/// The keys of a table, and where it stands in the file.
struct Keys<'a> {
    table: &'a Table,
    place: String,
}

impl<'a> Keys<'a> {
    /// An error that names the nearest known key, if one is not known.
    fn check(&self, known: &[&str]) -> Read<()> {
        let Some(unknown) = self.table.keys().find(|key| !known.contains(&key.as_str())) else {
            return Ok(());
        };
        let near = known.iter().min_by_key(|key| edit_distance(key, unknown)).copied().unwrap_or_default();
        Err(format!("unknown key `{}{unknown}`: did you mean `{}{near}`?", self.place, self.place))
    }

    fn wrong<T>(&self, key: &str, expected: &str) -> Read<T> {
        let value = self.table.get(key).map(|v| v.to_string().replace('\n', " ")).unwrap_or_default();
        Err(format!("{}{key} = {value}: expected {expected}", self.place))
    }

    fn text(&self, key: &str) -> Read<Option<String>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
            Some(_) => self.wrong(key, "text in quotes"),
        }
    }

    fn numbers(&self, key: &str) -> Read<Option<Vec<f32>>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let numbers: Option<Vec<f32>> = values.iter().map(|v| finite(v).map(|x| x as f32)).collect();
        match numbers.filter(|n| !n.is_empty() && n.iter().all(|x| x.is_finite())) {
            Some(numbers) => Ok(Some(numbers)),
            None => self.wrong(key, "a finite number, or a list of them"),
        }
    }

    fn needed(&self, key: &str) -> Read<Vec<f32>> {
        self.numbers(key)?
            .ok_or_else(|| format!("no `{}{key}`: expected a number, or a list of them", self.place))
    }

    fn indices(&self, key: &str) -> Read<Vec<usize>> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let index = |v: &Value| v.as_integer().and_then(|i| usize::try_from(i).ok());
        let indices = value.as_array().and_then(|values| values.iter().map(index).collect());
        indices.map_or_else(|| self.wrong(key, "a list of entries of the state, as [0, 2]"), Ok)
    }

    fn table(&self, key: &str) -> Read<Option<Keys<'a>>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Keys { table, place: format!("{}{key}.", self.place) })),
            Some(_) => self.wrong(key, &format!("a table, [{key}]")),
        }
    }

    fn tables(&self, key: &str) -> Read<Vec<Keys<'a>>> {
        let tables = match self.table.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values.iter().map(Value::as_table).collect::<Option<Vec<_>>>(),
            Some(_) => None,
        };
        let Some(tables) = tables else { return self.wrong(key, &format!("tables, [[{key}]]")) };
        let keys = |(i, table)| Keys { table, place: format!("{key} {}: ", i + 1) };
        Ok(tables.into_iter().enumerate().map(keys).collect())
    }
}

fn finite(value: &Value) -> Option<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
    number.filter(|x| x.is_finite())
}

fn initial(keys: &Keys<'_>) -> Read<Initial> {
    keys.check(&["kind", "state", "low", "high", "mean", "std"])?;
    let kind =
        keys.text("kind")?.ok_or("no `initial.kind`: expected episode-starts, fixed, box or gaussian")?;
    let (used, initial): (&[&str], _) = match kind.as_str() {
        "episode-starts" => (&[], Initial::EpisodeStarts),
        "fixed" => (&["state"], Initial::Fixed(keys.needed("state")?)),
        "box" => {
            let (low, high) = (keys.needed("low")?, keys.needed("high")?);
            if let Some((low, high)) = low.iter().zip(&high).find(|(low, high)| low > high) {
                return Err(format!("initial.low = {low} is above initial.high = {high}"));
            }
            (&["low", "high"], Initial::Box { low, high, map: None })
        }
        "gaussian" => {
            let (mean, std) = (keys.needed("mean")?, keys.needed("std")?);
            if std.iter().any(|&s| s < 0.0) {
                return keys.wrong("std", "deviations that are not negative");
            }
            (&["mean", "std"], Initial::Gaussian { mean, std })
        }
        _ => return keys.wrong("kind", "episode-starts, fixed, box or gaussian"),
    };
    if let Some(key) = keys.table.keys().find(|key| *key != "kind" && !used.contains(&key.as_str())) {
        return Err(format!("initial.{key} does not belong to the kind {kind:?}"));
    }
    Ok(initial)
}

fn constraint(keys: &Keys<'_>) -> Read<ConstraintText> {
    keys.check(&["name", "expression", "threshold"])?;
    let needed = |key: &str| {
        keys.text(key)?.ok_or_else(|| format!("no `{key}` in {}expected text in quotes", keys.place))
    };
    let threshold = match keys.table.get("threshold") {
        None => None,
        Some(value) => match finite(value) {
            Some(x) => Some(x),
            None => return keys.wrong("threshold", "a finite number"),
        },
    };
    let expression = needed("expression")?;
    let expression = if expression == LEARNED { "r".to_owned() } else { expression };
    Ok(ConstraintText { name: needed("name")?, expression, threshold })
}
