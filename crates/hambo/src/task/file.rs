//! Tasks as files: TOML, of which every part may be left out.
//!
//! ```toml
//! name = "cart-pole"                    # default: the name of the file
//! env = "pendulum"                      # a built-in environment that supplies what is left out here
//! reward = "1 - 0.1*a[0]^2"             # an expression of s, a, n (next state) and r (learned reward), or "learned"
//! termination = "abs(n[0]) > 2.4"       # an expression, "learned" from terminal flags, or "none"
//! angles = [2]                          # entries of the state that are angles, in radians
//! worst_reward = -2.5                   # no step pays less; default: than the worst that was logged
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
//! worst_reward = -1                     # optional, as above
//! ```

use super::Initial;
use super::spec::{ConstraintSpec, LEARNED, TaskFunctions, TaskSpec};
use crate::{Error, Result};
use hambo_engine::spelling::edit_distance;
use std::path::Path;
use toml::{Table, Value};

/// Bytes of a task file at the most.
const LARGEST_FILE: u64 = 1 << 20;

type Read<T> = std::result::Result<T, String>;

impl TaskSpec {
    /// Reads a task file; errors name the file, the key and what was expected.
    pub fn read(path: &Path) -> Result<Self> {
        let read = |e| Error::io(path, "read", e);
        let size = std::fs::metadata(path).map_err(read)?.len();
        if size > LARGEST_FILE {
            return Err(Error::file(
                path,
                format!("{size} bytes: expected a task of at most {LARGEST_FILE}"),
            ));
        }
        let bytes = std::fs::read(path).map_err(read)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::file(path, "not a text file (UTF-8) in TOML"))?;
        let mut spec = TaskSpec::parse(&text).map_err(|e| Error::file(path, e))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        spec.name = spec.name.or(stem.map(str::to_owned));
        Ok(spec)
    }

    fn parse(text: &str) -> Read<Self> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let before = e.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
            format!("line {}: {}", before.matches('\n').count() + 1, e.message().replace('\n', " "))
        })?;
        let all = Keys { table: &table, place: String::new() };
        all.check(&[
            "name",
            "env",
            "reward",
            "termination",
            "angles",
            "worst_reward",
            "actions",
            "initial",
            "constraint",
        ])?;
        let actions = all.table("actions")?;
        if let Some(actions) = &actions {
            actions.check(&["low", "high"])?;
        }
        let bound = |key| actions.as_ref().map_or(Ok(None), |actions| actions.numbers(key));
        Ok(TaskSpec {
            name: all.text("name")?,
            env: all.text("env")?,
            reward: all.text("reward")?,
            termination: all.text("termination")?,
            angles: all.indices("angles")?,
            actions: [bound("low")?, bound("high")?],
            initial: all.table("initial")?.map(|keys| initial(&keys)).transpose()?,
            worst_reward: all.number("worst_reward")?,
            constraints: all.tables("constraint")?.iter().map(constraint).collect::<Read<_>>()?,
            functions: TaskFunctions::default(),
        })
    }
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
        let near =
            known.iter().min_by_key(|key| edit_distance(key, unknown)).copied().unwrap_or_default();
        Err(format!("unknown key `{}{unknown}`: did you mean `{}{near}`?", self.place, self.place))
    }

    fn wrong<T>(&self, key: &str, expected: &str) -> Read<T> {
        let value =
            self.table.get(key).map(|v| v.to_string().replace('\n', " ")).unwrap_or_default();
        Err(format!("{}{key} = {value}: expected {expected}", self.place))
    }

    fn text(&self, key: &str) -> Read<Option<String>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => {
                Ok(Some(text.trim().to_owned()))
            }
            Some(_) => self.wrong(key, "text in quotes"),
        }
    }

    fn number(&self, key: &str) -> Read<Option<f64>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        finite(value).map_or_else(|| self.wrong(key, "a finite number"), |x| Ok(Some(x)))
    }

    fn numbers(&self, key: &str) -> Read<Option<Vec<f32>>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let numbers: Option<Vec<f32>> =
            values.iter().map(|v| finite(v).map(|x| x as f32)).collect();
        match numbers.filter(|n| !n.is_empty() && n.iter().all(|x| x.is_finite())) {
            Some(numbers) => Ok(Some(numbers)),
            None => self.wrong(key, "a finite number, or a list of them"),
        }
    }

    fn needed(&self, key: &str) -> Read<Vec<f32>> {
        self.numbers(key)?.ok_or_else(|| {
            format!("no `{}{key}`: expected a number, or a list of them", self.place)
        })
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
            Some(Value::Table(table)) => {
                Ok(Some(Keys { table, place: format!("{}{key}.", self.place) }))
            }
            Some(_) => self.wrong(key, &format!("a table, [{key}]")),
        }
    }

    fn tables(&self, key: &str) -> Read<Vec<Keys<'a>>> {
        let tables = match self.table.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => {
                values.iter().map(Value::as_table).collect::<Option<Vec<_>>>()
            }
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
    let kind = keys
        .text("kind")?
        .ok_or("no `initial.kind`: expected episode-starts, fixed, box or gaussian")?;
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
    if let Some(key) = keys.table.keys().find(|key| *key != "kind" && !used.contains(&key.as_str()))
    {
        return Err(format!("initial.{key} does not belong to the kind {kind:?}"));
    }
    Ok(initial)
}

fn constraint(keys: &Keys<'_>) -> Read<ConstraintSpec> {
    keys.check(&["name", "expression", "threshold", "worst_reward"])?;
    let needed = |key: &str| {
        keys.text(key)?
            .ok_or_else(|| format!("no `{key}` in {}expected text in quotes", keys.place))
    };
    let (threshold, worst_reward) = (keys.number("threshold")?, keys.number("worst_reward")?);
    let expression = needed("expression")?;
    let expression = if expression == LEARNED { "r".to_owned() } else { expression };
    Ok(ConstraintSpec { name: needed("name")?, expression, threshold, worst_reward })
}
