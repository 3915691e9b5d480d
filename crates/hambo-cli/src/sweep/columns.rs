//! One table of all jobs, column by column: a row for each method of a job that has an answer, one for each other job.

use super::board::Board;
use super::plan::{Job, Plan};
use super::record::Record;
use crate::validate::Number;
use hambo::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// A column of the table.
pub struct Column {
    pub name: String,
    pub cells: Cells,
}

/// What is in a column; cells may be empty.
pub enum Cells {
    Text(Vec<Option<String>>),
    Number(Vec<Option<f64>>),
    Count(Vec<Option<i64>>),
    Flag(Vec<Option<bool>>),
}

impl Cells {
    /// The cell as text; a number has all the digits that it needs.
    fn text(&self, row: usize) -> String {
        fn shown<T: ToString>(cells: &[Option<T>], row: usize) -> Option<String> {
            cells.get(row)?.as_ref().map(T::to_string)
        }
        let text = match self {
            Cells::Text(cells) => shown(cells, row),
            Cells::Number(cells) => shown(cells, row),
            Cells::Count(cells) => shown(cells, row),
            Cells::Flag(cells) => shown(cells, row),
        };
        text.unwrap_or_default()
    }

    fn len(&self) -> usize {
        match self {
            Cells::Text(cells) => cells.len(),
            Cells::Number(cells) => cells.len(),
            Cells::Count(cells) => cells.len(),
            Cells::Flag(cells) => cells.len(),
        }
    }
}

/// A row: a job, what came out, and one of its estimates.
struct Row<'a> {
    job: &'a Job,
    record: Option<&'a Record>,
    estimate: Option<&'a Number>,
}

/// The jobs with their records, in the plan's order.
pub fn records<'a>(plan: &'a Plan, board: &Board) -> Result<Vec<(&'a Job, Option<Record>)>> {
    let seen = board.look()?;
    plan.jobs.iter().map(|job| Ok((job, board.record(&seen, &job.id)?))).collect()
}

/// The table. Nothing in it depends on who did a job, when, or in which order.
pub fn columns(plan: &Plan, records: &[(&Job, Option<Record>)]) -> Vec<Column> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (job, record) in records {
        let record = record.as_ref();
        let estimates = record.map_or(&[][..], |record| &record.estimates);
        rows.extend(estimates.iter().map(|e| Row { job, record, estimate: Some(e) }));
        rows.extend(estimates.is_empty().then_some(Row { job, record, estimate: None }));
    }
    let names: BTreeSet<&str> = plan
        .grids
        .iter()
        .flat_map(|grid| &grid.combinations)
        .flat_map(|settings| settings.settings.iter().map(|(name, _)| name.as_str()))
        .collect();
    let mut found = vec![
        text("job", &rows, |row| Some(row.job.id.clone())),
        text("state", &rows, |row| {
            let ended = |record: &Record| if record.error.is_some() { "failed" } else { "done" };
            Some(row.record.map_or("waiting", ended).to_owned())
        }),
        text("grid", &rows, |row| Some(plan.grid(row.job).name.clone())),
        text("env", &rows, |row| plan.world(row.job).env.clone()),
        text("task", &rows, |row| plan.world(row.job).task.clone()),
        text("data", &rows, |row| Some(plan.data(row.job).name.clone())),
        text("data_sha256", &rows, |row| Some(plan.data(row.job).digest.clone())),
        text("policy", &rows, |row| Some(plan.policy(row.job).name.clone())),
        text("policy_sha256", &rows, |row| plan.policy(row.job).digest.clone()),
        count("seed", &rows, |row| i64::try_from(row.job.seed).ok()),
    ];
    for name in names {
        let value = |row: &Row<'_>| {
            let settings = &plan.settings(row.job).settings;
            settings.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
        };
        found.push(match name {
            "horizon" => count(name, &rows, |row| value(row)?.parse().ok()),
            // What came out has a column `method` of its own.
            "method" => text("methods", &rows, value),
            _ => text(&name.replace('-', "_"), &rows, value),
        });
    }
    let of = |row: &Row<'_>, number: fn(&Number) -> Option<f64>| row.estimate.and_then(number);
    let told = |row: &Row<'_>, text: fn(&Record) -> Option<String>| row.record.and_then(text);
    found.extend([
        text("method", &rows, |row| Some(row.estimate?.method.name().to_owned())),
        number("value", &rows, |row| of(row, |e| e.value)),
        number("std_error", &rows, |row| of(row, |e| e.std_error)),
        number("lower_bound", &rows, |row| of(row, |e| e.lower_bound)),
        text("evidence", &rows, |row| row.estimate?.evidence.clone()),
        Column {
            name: "converged".to_owned(),
            cells: Cells::Flag(rows.iter().map(|row| row.estimate?.converged).collect()),
        },
        count("diverged_rollouts", &rows, |row| {
            i64::try_from(row.estimate?.diverged_rollouts).ok()
        }),
        count("left_rollouts", &rows, |row| i64::try_from(row.estimate?.left_rollouts).ok()),
        number("level", &rows, |row| row.record?.level),
        text("verdict", &rows, |row| told(row, |r| r.verdict.clone())),
        count("transitions", &rows, |row| i64::try_from(row.record?.transitions?).ok()),
        count("episodes", &rows, |row| i64::try_from(row.record?.episodes?).ok()),
        text("error", &rows, |row| told(row, |r| r.error.clone())),
        text("version", &rows, |row| told(row, |r| Some(r.version.clone()))),
        text("build", &rows, |row| told(row, |r| Some(r.build.clone()))),
        text("device", &rows, |row| told(row, |r| Some(r.device.clone()))),
    ]);
    found
}

fn text(name: &str, rows: &[Row<'_>], cell: impl Fn(&Row<'_>) -> Option<String>) -> Column {
    Column { name: name.to_owned(), cells: Cells::Text(rows.iter().map(cell).collect()) }
}

fn number(name: &str, rows: &[Row<'_>], cell: impl Fn(&Row<'_>) -> Option<f64>) -> Column {
    Column { name: name.to_owned(), cells: Cells::Number(rows.iter().map(cell).collect()) }
}

fn count(name: &str, rows: &[Row<'_>], cell: impl Fn(&Row<'_>) -> Option<i64>) -> Column {
    Column { name: name.to_owned(), cells: Cells::Count(rows.iter().map(cell).collect()) }
}

/// The table as CSV; `path` is for errors.
pub fn csv(columns: &[Column], path: &Path) -> Result<Vec<u8>> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let problem = |e: ::csv::Error| Error::file(path, e.to_string());
    writer.write_record(columns.iter().map(|column| &column.name)).map_err(problem)?;
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        writer.write_record(columns.iter().map(|c| c.cells.text(row))).map_err(problem)?;
    }
    writer.into_inner().map_err(|e| Error::file(path, e.to_string()))
}
