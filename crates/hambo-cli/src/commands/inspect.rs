//! `hambo inspect`

use super::{Outcome, SCHEMA};
use crate::arguments::Inspect;
use crate::output::{number, print, table};
use hambo::data::{ColumnNames, Format, ReadOptions, Transitions, attributes, describe, digest, read};
use serde_json::{Value, json};
use std::process::ExitCode;

pub fn run(arguments: &Inspect) -> Outcome {
    let path = &arguments.path;
    let options =
        ReadOptions { columns: ColumnNames::parse(&arguments.columns.columns)?, ..ReadOptions::default() };
    let fields = describe(path)?;
    let loaded = read(path, &options)?;
    let data = &loaded.transitions;
    let columns: Vec<Column> = [
        ("state", data.states(), data.state_dim()),
        ("action", data.actions(), data.action_dim()),
        ("reward", data.rewards(), 1),
    ]
    .into_iter()
    .flat_map(|(name, values, width)| (0..width).map(move |c| Column::of(name, values, width, c)))
    .collect();
    let lengths: Vec<f64> = data.episodes().map(|e| e.len() as f64).collect();
    let returns: Vec<f64> =
        data.episodes().map(|e| data.rewards()[e].iter().map(|&r| f64::from(r)).sum()).collect();
    let count = |flags: &[bool]| flags.iter().filter(|&&f| f).count();
    let (terminals, timeouts) = (count(data.terminals()), count(data.timeouts()));

    if arguments.json {
        let mut result = json!({
            "schema": SCHEMA,
            "path": path.display().to_string(),
            "sha256": digest(&[path])?,
            "transitions": data.len(),
            "state_dim": data.state_dim(),
            "action_dim": data.action_dim(),
            "episodes": lengths.len(),
            "episode_length": summary(&lengths),
            "episode_return": summary(&returns),
            "terminals": terminals,
            "timeouts": timeouts,
            "columns": columns.iter().map(Column::json).collect::<Vec<_>>(),
            "fields": fields.iter().map(|f| json!({"path": f.path, "shape": f.shape, "dtype": f.dtype})).collect::<Vec<_>>(),
            "attributes": attributes(path)?.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "notes": loaded.notes,
        });
        if loaded.format != Format::D4rl {
            result["format"] = loaded.format.to_string().into();
        }
        print(&result.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let range = |v: &[f64]| {
        let s = summary(v);
        let part = |key: &str| number(s[key].as_f64().unwrap_or(f64::NAN));
        format!("{} (mean), {} to {}", part("mean"), part("min"), part("max"))
    };
    let mut lines = vec![
        format!("{}: {}", path.display(), sizes(data)),
        format!(
            "episodes     {}, of which {terminals} ended in a terminal state and {timeouts} by a time limit",
            lengths.len()
        ),
        format!("length       {}", range(&lengths)),
        format!("return       {}", range(&returns)),
    ];
    if loaded.format != Format::D4rl {
        lines.insert(1, format!("format       {}", loaded.format));
    }
    lines.extend(attributes(path)?.iter().map(|(name, value)| format!("{name:<12} {value}")));
    let rows: Vec<Vec<String>> = columns.iter().map(Column::row).collect();
    lines.extend([String::new(), table(&["column", "", "min", "mean", "max", "std"], &rows), String::new()]);
    let rows: Vec<Vec<String>> =
        fields.iter().map(|f| vec![f.path.clone(), f.dtype.to_string(), format!("{:?}", f.shape)]).collect();
    lines.push(table(&["field", "type", "shape"], &rows));
    lines.extend(loaded.notes.iter().map(|n| format!("note: {n}")));
    print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn sizes(data: &Transitions) -> String {
    format!(
        "{} transitions, states of {}, actions of {} dimensions",
        data.len(),
        data.state_dim(),
        data.action_dim()
    )
}

fn summary(values: &[f64]) -> Value {
    let (min, max) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    json!({"mean": values.iter().sum::<f64>() / values.len() as f64, "min": min, "max": max})
}

/// What one column of the data looks like.
struct Column {
    name: String,
    min: f64,
    mean: f64,
    max: f64,
    std: f64,
}

impl Column {
    fn of(name: &str, values: &[f32], width: usize, c: usize) -> Self {
        let column = || values.iter().skip(c).step_by(width).map(|&v| f64::from(v));
        let n = (values.len() / width) as f64;
        let mean = column().sum::<f64>() / n;
        Column {
            name: if width == 1 && name == "reward" { name.to_owned() } else { format!("{name} {c}") },
            min: column().fold(f64::INFINITY, f64::min),
            mean,
            max: column().fold(f64::NEG_INFINITY, f64::max),
            std: (column().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt(),
        }
    }

    fn constant(&self) -> bool {
        self.min == self.max
    }

    fn row(&self) -> Vec<String> {
        let flag = if self.constant() { "constant" } else { "" };
        let numbers = [self.min, self.mean, self.max, self.std].map(|v| format!("{v:.4}"));
        [vec![self.name.clone(), flag.to_owned()], numbers.to_vec()].concat()
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "min": self.min, "mean": self.mean, "max": self.max, "std": self.std,
            "constant": self.constant(),
        })
    }
}
