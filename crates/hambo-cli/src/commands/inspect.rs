//! `hambo inspect`

use super::{Outcome, SCHEMA, device, read_policy};
use crate::args::Inspect;
use crate::output::{number, print, table};
use hambo::Error;
use hambo::data::{
    ColumnNames, ColumnSurvey, Contents, Entry, Format, Range, ReadOptions, Survey, attributes,
    contents, describe, digest, locate, survey,
};
use hambo::policy::{Coverage, Description, Policy, coverage};
use hambo_engine::files::sha256;
use hambo_engine::rng::Stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Share of covered pairs below which a policy is far from the data: for the policy that made them it is 95 %.
const LITTLE: f64 = 0.8;

pub fn run(arguments: &Inspect) -> Outcome {
    print(&inspect(arguments)?)?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to tell, as text or JSON.
pub fn inspect(arguments: &Inspect) -> hambo::Result<String> {
    let Some(first) = arguments.paths.first() else {
        return Err(Error::Data("no file was given".into()));
    };
    let text = first.to_string_lossy();
    let options = ReadOptions {
        columns: ColumnNames::parse(&arguments.columns.columns)?,
        without_rewards: true,
        ..ReadOptions::default()
    };
    // A file that holds no data may be a policy; if it is neither, the error is about what it seems to be.
    let single = arguments.paths.len() == 1;
    let (data, policy) = match read_data(&arguments.paths, &options) {
        Ok(data) if data.survey.format == Format::D4rl && single => {
            (Some(data), read_policy(&text, &arguments.reading).ok())
        }
        Ok(data) => (Some(data), None),
        Err(as_data) if !single => return Err(as_data),
        Err(Error::File { path, .. }) if path == *first && first.is_dir() => {
            return folder(first, arguments.json);
        }
        Err(as_data) => match read_policy(&text, &arguments.reading) {
            Ok(policy) => (None, Some(policy)),
            Err(as_policy) => return Err(if is_policy(&text) { as_policy } else { as_data }),
        },
    };
    let covered = match (&arguments.policy, &data) {
        (None, _) => None,
        (Some(_), None) => {
            return Err(Error::Mismatch(format!(
                "{text} holds no data: --policy is compared with data"
            )));
        }
        (Some(spec), Some(data)) => {
            let policy = read_policy(spec, &arguments.reading)?;
            let known =
                data.survey.usable.as_ref().map_err(|problem| Error::Data(problem.clone()))?;
            let stream = Stream::new(0).child("inspection");
            Some((
                policy.spec.clone(),
                coverage(&device(&arguments.machine)?, &policy, known, stream)?,
            ))
        }
    };
    if arguments.json {
        let mut result = match &data {
            Some(data) => data.json(&arguments.paths)?,
            None => json!({"schema": SCHEMA, "path": text}),
        };
        if let Some(policy) = &policy {
            result["policy"] = policy_json(policy, &text)?;
        }
        if let Some((spec, covered)) = &covered {
            result["coverage"] = json!({"policy": spec, "of": covered});
        }
        return Ok(result.to_string());
    }
    let mut lines = Vec::new();
    if let Some(data) = &data {
        lines.extend(data.lines(&arguments.paths)?);
    }
    if let Some(policy) = &policy {
        lines.extend(policy_lines(policy, &text, data.is_some())?);
    }
    if let Some((spec, covered)) = &covered {
        lines.extend(coverage_lines(spec, covered));
    }
    Ok(lines.join("\n"))
}

/// What is in a folder that is no data set by itself.
fn folder(path: &Path, as_json: bool) -> hambo::Result<String> {
    let Contents { entries, more, .. } = &contents(path)?;
    let remark = contents(path)?.remark();
    if as_json {
        let entries: Vec<Value> =
            entries.iter().map(|(name, what)| json!({"name": name, "what": what})).collect();
        let path = path.display().to_string();
        let listed = json!({"schema": SCHEMA, "path": path, "folder": entries, "more": more, "notes": [remark]});
        return Ok(listed.to_string());
    }
    let rows: Vec<Vec<String>> =
        entries.iter().map(|(name, what)| vec![name.clone(), what.clone()]).collect();
    let mut lines = vec![format!("{}: {remark}", path.display())];
    if !rows.is_empty() {
        lines.push(table(&["in it", "what it is"], &rows));
    }
    lines.extend((*more > 0).then(|| format!("and {more} more")));
    Ok(lines.join("\n"))
}

/// Whether a user who gives this name means a policy.
fn is_policy(text: &str) -> bool {
    text.starts_with("builtin:")
        || [".zip", ".onnx", ".safetensors", ".pt", ".pth", ".d3"]
            .iter()
            .any(|ending| text.ends_with(ending))
}

struct Data {
    survey: Survey,
    /// Of the first file; so are the attributes.
    fields: Vec<Entry>,
    attributes: BTreeMap<String, String>,
}

fn read_data(paths: &[PathBuf], options: &ReadOptions) -> hambo::Result<Data> {
    Ok(Data {
        survey: survey(paths, options)?,
        fields: describe(&paths[0])?,
        attributes: attributes(&paths[0])?.into_iter().collect(),
    })
}

/// One path, or the first of several and how many more there are.
fn title(paths: &[PathBuf]) -> String {
    match paths {
        [first, others @ ..] if !others.is_empty() => {
            format!("{} and {} more", first.display(), others.len())
        }
        _ => paths.iter().map(|path| path.display().to_string()).collect(),
    }
}

impl Data {
    fn json(&self, paths: &[PathBuf]) -> hambo::Result<Value> {
        let Data { survey, fields, attributes } = self;
        let mut result = json!({
            "schema": SCHEMA,
            "path": paths[0].display().to_string(),
            "sha256": digest(paths)?,
            "transitions": survey.transitions,
            "state_dim": survey.state_dim,
            "action_dim": survey.action_dim,
            "episodes": survey.episodes,
            "episode_length": survey.lengths,
            "episode_return": survey.returns,
            "single_step_episodes": survey.single_step_episodes,
            "terminals": survey.terminals,
            "timeouts": survey.timeouts,
            "columns": survey.columns,
            "fields": fields.iter().map(|f| json!({"path": f.path, "shape": f.shape, "dtype": f.dtype})).collect::<Vec<_>>(),
            "attributes": attributes,
            "notes": survey.notes,
            "problem": survey.usable.as_ref().err(),
        });
        if survey.format != Format::D4rl {
            result["format"] = survey.format.to_string().into();
        }
        if paths.len() > 1 {
            result["paths"] = paths.iter().map(|path| path.display().to_string()).collect();
        }
        Ok(result)
    }

    fn lines(&self, paths: &[PathBuf]) -> hambo::Result<Vec<String>> {
        let Data { survey, fields, attributes } = self;
        let range = |r: &Range| {
            format!("{} (mean), {} to {}", number(r.mean), number(r.min), number(r.max))
        };
        let mut lines = vec![format!(
            "{}: {} transitions, states of {}, actions of {} dimensions",
            title(paths),
            survey.transitions,
            survey.state_dim,
            survey.action_dim
        )];
        if survey.format != Format::D4rl {
            lines.push(format!("format       {}", survey.format));
        }
        lines.extend([
            format!(
                "episodes     {}, of which {} ended in a terminal state and {} by a time limit",
                survey.episodes, survey.terminals, survey.timeouts
            ),
            format!("length       {}", range(&survey.lengths)),
            match survey.returns.mean.is_nan() {
                true => "return       unknown: there are no rewards in it".to_owned(),
                false => format!("return       {}", range(&survey.returns)),
            },
            format!("sha256       {}", digest(paths)?),
        ]);
        lines.extend(attributes.iter().map(|(name, value)| format!("{name:<12} {value}")));
        let rows: Vec<Vec<String>> = survey.columns.iter().map(column_row).collect();
        lines.extend([
            String::new(),
            table(&["column", "", "min", "mean", "max", "std"], &rows),
            String::new(),
        ]);
        let rows: Vec<Vec<String>> = fields
            .iter()
            .map(|f| vec![f.path.clone(), f.dtype.to_string(), format!("{:?}", f.shape)])
            .collect();
        let field = if paths.len() > 1 { "field of the first" } else { "field" };
        lines.push(table(&[field, "type", "shape"], &rows));
        lines.extend(survey.notes.iter().map(|n| format!("note: {n}")));
        if survey.single_step_episodes > 0 {
            lines.push(format!(
                "note: {} episodes have a single transition: they say nothing about what follows a step",
                survey.single_step_episodes
            ));
        }
        lines.extend(
            survey.usable.as_ref().err().map(|p| format!("problem: the data cannot be used: {p}")),
        );
        Ok(lines)
    }
}

fn column_row(column: &ColumnSurvey) -> Vec<String> {
    let flag = match column.not_finite {
        0 if column.constant => "constant".to_owned(),
        0 => String::new(),
        n => format!("{n} not finite"),
    };
    let Range { mean, min, max } = column.range;
    let numbers = [min, mean, max, column.std].map(|v| format!("{v:.4}"));
    [vec![column.name.clone(), flag], numbers.to_vec()].concat()
}

fn policy_json(policy: &Policy, text: &str) -> hambo::Result<Value> {
    let mut result = json!(policy.describe());
    result["spec"] = policy.spec.clone().into();
    result["stochastic"] = policy.has_distribution().into();
    if !text.starts_with("builtin:") {
        result["sha256"] = sha256(&locate(Path::new(text))?)?.into();
    }
    Ok(result)
}

fn policy_lines(policy: &Policy, text: &str, beside_data: bool) -> hambo::Result<Vec<String>> {
    let Description { kind, layers, activation, parameters, normalized_to, output, .. } =
        policy.describe();
    let Description { action_low, action_high, distribution, expressions, .. } = policy.describe();
    let title = if beside_data { "policy in it".to_owned() } else { policy.spec.clone() };
    let mut lines = vec![format!(
        "{title}: {kind}, states of {}, actions of {} dimensions",
        policy.state_dim(),
        policy.action_dim()
    )];
    if let Some(activation) = activation {
        let widths: Vec<String> = layers.iter().map(usize::to_string).collect();
        lines.push(format!(
            "layers       {}, {activation}, {parameters} parameters",
            widths.join(" → ")
        ));
        lines.push(match normalized_to {
            Some(limit) if limit.is_finite() => {
                format!("observations normalized, within ± {limit}")
            }
            Some(_) => "observations normalized".to_owned(),
            None => "observations as they are".to_owned(),
        });
        lines.push(format!("output       {}", output.unwrap_or_default()));
        lines.push(format!("actions      {action_low:?} to {action_high:?}"));
    }
    lines.extend(expressions.iter().enumerate().map(|(i, text)| format!("action {i}     {text}")));
    lines.push(match distribution {
        Some(distribution) => format!("stochastic   {distribution}: --stochastic samples from it"),
        None => "stochastic   no: it is deterministic".to_owned(),
    });
    if !beside_data && !text.starts_with("builtin:") {
        lines.push(format!("sha256       {}", sha256(&locate(Path::new(text))?)?));
    }
    Ok(lines)
}

fn coverage_lines(spec: &str, c: &Coverage) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{spec} in {} logged states, against {} logged pairs of state and action (in standard deviations):",
            c.states, c.pairs
        ),
        format!(
            "covered      {:.1} % of its pairs are as near to one of another episode as 95 % of the logged ones are",
            100.0 * c.covered
        ),
        format!(
            "distance     {:.3} to the nearest logged pair (median), {:.3} between logged ones",
            c.policy_distance, c.logged_distance
        ),
    ];
    let states = c.distance_shares.len().saturating_sub(c.action_difference.len());
    let mut worst: Vec<usize> = (0..c.distance_shares.len()).collect();
    worst.sort_by(|&i, &j| c.distance_shares[j].total_cmp(&c.distance_shares[i]));
    let named = worst.iter().take(3).map(|&i| {
        let (what, number) = if i < states { ("state", i) } else { ("action", i - states) };
        format!("{what} {number} ({:.0} %)", 100.0 * c.distance_shares[i])
    });
    if !worst.is_empty() {
        let named: Vec<String> = named.collect();
        lines.push(format!(
            "far away     the rest, most of all in {} of the squared distance",
            named.join(", ")
        ));
    }
    if c.covered < LITTLE {
        lines.push(
            "note: a bound extrapolates where the policy is not covered: log episodes in which such actions are tried"
                .to_owned(),
        );
    }
    let rows: Vec<Vec<String>> = (0..c.action_difference.len())
        .map(|i| {
            let outside = format!("{:.1} %", 100.0 * c.outside_range[i]);
            vec![
                format!("action {i}"),
                String::new(),
                format!("{:.3}", c.action_difference[i]),
                outside,
            ]
        })
        .collect();
    lines.push(table(
        &["", "", "difference to the logged action (rms)", "outside the logged range"],
        &rows,
    ));
    lines.extend(
        c.log_density
            .map(|d| format!("density      ln π(a | s) of logged actions is {d:.3} (mean)")),
    );
    lines
}
