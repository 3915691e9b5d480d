//! Settings of a grid: flags of `hambo evaluate`, of which lists are axes.

use super::written::{Settings, Written};
use crate::args::{Acting, Arguments, Command, Evaluate};
use crate::commands::evaluation_config;
use clap::CommandFactory;
use hambo::{Error, Result};
use hambo_engine::files::{sha256, sha256_of};
use hambo_engine::spelling::edit_distance;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::{Spanned, Value};

/// Flags that the grid or the sweep itself sets.
const OWN: [&str; 12] = [
    "config", "data", "device", "env", "fitted", "json", "markdown", "out", "policy", "seed",
    "task", "threads",
];
/// Flags whose values are files.
const FILES: [&str; 3] = ["model-config", "normalizer", "search-config"];

/// One value for each setting.
pub struct Combination {
    /// Names and values, for the table.
    pub settings: Vec<(String, String)>,
    /// The same for `hambo evaluate`.
    pub flags: Vec<String>,
    /// How the policy takes its actions.
    pub acting: Acting,
    /// A digest of all that the settings decide, defaults and files among them.
    pub content: String,
}

/// A flag with its values and its place in the file.
struct Axis {
    name: String,
    values: Vec<String>,
    at: Range<usize>,
}

/// All combinations of the grid's settings, and the plan's where the grid has none of that name.
pub fn combinations(
    written: &Written,
    grid: &Settings,
    at: Range<usize>,
) -> Result<Vec<Combination>> {
    let mut axes: BTreeMap<String, Axis> = BTreeMap::new();
    for (name, value) in written.file.settings.iter().chain(grid) {
        let axis = axis(written, name, value)?;
        axes.insert(axis.name.clone(), axis);
    }
    if !axes.contains_key("horizon") {
        return Err(written.problem(at, "expected `horizon` among the settings"));
    }
    let axes: Vec<Axis> = axes.into_values().collect();
    let mut chosen: Vec<Vec<&str>> = vec![Vec::new()];
    for axis in &axes {
        let with = |value| {
            chosen.iter().map(move |values| [&values[..], &[value]].concat()).collect::<Vec<_>>()
        };
        chosen = axis.values.iter().flat_map(|value| with(value)).collect();
    }
    chosen.iter().map(|values| combination(written, &axes, values, at.clone())).collect()
}

fn axis(written: &Written, name: &str, value: &Spanned<Value>) -> Result<Axis> {
    let (flag, at) = (name.replace('_', "-"), value.span());
    let problem = |problem: String| written.problem(at.clone(), format!("{name}: {problem}"));
    let command = Arguments::command();
    let known =
        command.find_subcommand("evaluate").into_iter().flat_map(clap::Command::get_arguments);
    let known: Vec<(&str, bool)> = known
        .filter_map(|arg| Some((arg.get_long()?, arg.get_action().takes_values())))
        .filter(|(flag, _)| *flag != "help")
        .collect();
    if OWN.contains(&flag.as_str()) || flag == "policies" {
        return Err(problem(
            "not a setting: the grid or the command line of the sweep says it".to_owned(),
        ));
    }
    let Some(&(_, takes_value)) = known.iter().find(|(known, _)| *known == flag) else {
        let settings = known.iter().filter(|(flag, _)| !OWN.contains(flag));
        let near = settings.min_by_key(|(known, _)| edit_distance(known, &flag));
        let near = near.map_or("", |(near, _)| near);
        return Err(problem(format!("no flag of hambo evaluate: did you mean `{near}`?")));
    };
    let values = match value.get_ref() {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    if values.is_empty() {
        return Err(problem("expected at least one value".to_owned()));
    }
    let text = |value: &Value| match value {
        Value::Boolean(on) if !takes_value => Ok(on.to_string()),
        Value::String(text) if takes_value => Ok(text.clone()),
        Value::Integer(number) if takes_value => Ok(number.to_string()),
        Value::Float(number) if takes_value => Ok(number.to_string()),
        _ if takes_value => {
            Err(problem("expected a text or a number, or a list of them".to_owned()))
        }
        _ => Err(problem("expected true or false".to_owned())),
    };
    let values: Vec<String> = values.iter().map(text).collect::<Result<_>>()?;
    if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        return Err(problem(format!("{} is there twice", twice.1)));
    }
    Ok(Axis { name: flag, values, at })
}

fn combination(
    written: &Written,
    axes: &[Axis],
    values: &[&str],
    grid: Range<usize>,
) -> Result<Combination> {
    let (mut flags, mut digests) = (Vec::new(), Vec::new());
    for (axis, &value) in axes.iter().zip(values) {
        let name = &axis.name;
        match (name.as_str(), value) {
            (_, "true") => flags.push(format!("--{name}")),
            (_, "false") => {}
            ("columns", names) => {
                flags.extend(names.split_whitespace().map(|names| format!("--columns={names}")));
            }
            (file, path) if FILES.contains(&file) && path != "none" => {
                let path = written.path_of(path);
                let problem = |e| written.problem(axis.at.clone(), format!("{name}: {e}"));
                digests.push(format!("{name} {}", sha256(&path).map_err(problem)?));
                flags.push(format!("--{name}={}", path.display()));
            }
            _ => flags.push(format!("--{name}={value}")),
        }
    }
    let place = |name: &str| {
        let own = axes.iter().find(|axis| axis.name == name);
        own.map_or(grid.clone(), |axis| axis.at.clone())
    };
    let named = |text: &str| {
        let is_named = |axis: &&Axis| text.contains(&format!("--{} ", axis.name));
        axes.iter().find(is_named).map_or(grid.clone(), |axis| axis.at.clone())
    };
    let words: Vec<String> = ["--data=.", "--policy=.", "--out=."]
        .map(str::to_owned)
        .into_iter()
        .chain(flags.clone())
        .collect();
    let mut arguments =
        evaluate_arguments(&words).map_err(|text| written.problem(named(&text), text))?;
    let config = evaluation_config(&arguments).and_then(|c| c.validate().map(|()| c));
    let config = config.map_err(|e| match &e {
        Error::Setting { name, .. } => written.problem(place(&name.replace('_', "-")), e),
        _ => written.problem(place("model-config"), e),
    })?;
    // What is in the files counts, not where they are; nor how often unfinished work is saved.
    let normalizer = arguments.acting.normalizer.normalizer.take();
    (arguments.model_config, arguments.search_config, arguments.save_every) = (None, None, 0.0);
    let content = format!("{arguments:?}{config:?}{digests:?}");
    arguments.acting.normalizer.normalizer = normalizer;
    let settings = axes.iter().zip(values);
    Ok(Combination {
        settings: settings.map(|(axis, value)| (axis.name.clone(), (*value).to_owned())).collect(),
        flags,
        acting: arguments.acting,
        content: sha256_of(content.as_bytes()),
    })
}

/// What `hambo evaluate` makes of these flags, or what is wrong with them in one line.
pub fn evaluate_arguments(flags: &[String]) -> std::result::Result<Box<Evaluate>, String> {
    match Arguments::of("evaluate", flags)? {
        Command::Evaluate(arguments) => Ok(arguments),
        _ => Err("flags of another command".to_owned()),
    }
}
