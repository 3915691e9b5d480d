//! The policies of a data set in the order of their bounds.

use super::plan::{Job, Plan};
use super::record::Record;
use crate::output::number;

/// A data set with one combination of settings.
pub struct Ranking {
    pub title: String,
    /// A row for each policy, the best first: name, mean and lowest bound over the seeds, jobs with an answer, evidence,
    /// verdicts, problem.
    pub rows: Vec<Vec<String>>,
    /// Rows with a job that failed, or whose gate did.
    pub bad: Vec<bool>,
}

/// The names of the cells.
pub const HEAD: [&str; 7] =
    ["policy", "mean bound", "lowest bound", "jobs", "supported", "gates passed", "problem"];

/// One for each data set, task and combination of settings, in the plan's order.
pub fn rankings(plan: &Plan, records: &[(&Job, Option<Record>)]) -> Vec<Ranking> {
    type Entry<'a> = (&'a Job, Option<&'a Record>);
    let mut sets: Vec<(String, Vec<(String, Vec<Entry<'_>>)>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (job, record) in records {
        let title = title(plan, job);
        let place = *places.entry(title.clone()).or_insert_with(|| {
            sets.push((title, Vec::new()));
            sets.len() - 1
        });
        let (policies, name) = (&mut sets[place].1, &plan.policy(job).name);
        let entry = (*job, record.as_ref());
        match policies.iter_mut().find(|(policy, _)| policy == name) {
            Some((_, entries)) => entries.push(entry),
            None => policies.push((name.clone(), vec![entry])),
        }
    }
    let ranking = |(title, mut policies): (String, Vec<(String, Vec<Entry<'_>>)>)| {
        policies.sort_by(|(_, a), (_, b)| mean(b).total_cmp(&mean(a)));
        let bad =
            |entries: &[Entry<'_>]| entries.iter().any(|(_, r)| r.is_some_and(|r| !r.is_good()));
        Ranking {
            title,
            bad: policies.iter().map(|(_, entries)| bad(entries)).collect(),
            rows: policies.iter().map(|(name, entries)| cells(name, entries)).collect(),
        }
    };
    sets.into_iter().map(ranking).collect()
}

fn title(plan: &Plan, job: &Job) -> String {
    let parts = [plan.grid(job).name.clone(), plan.data(job).name.clone()];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.chain(plan.choices(job)).collect::<Vec<_>>().join(", ")
}

/// Over those that have ended; one that failed counts as −∞: what is not known is not good.
fn mean(entries: &[(&Job, Option<&Record>)]) -> f64 {
    let bounds: Vec<f64> = entries.iter().filter_map(|(_, r)| r.map(Record::bound)).collect();
    match bounds.len() {
        0 => f64::NEG_INFINITY,
        count => bounds.iter().sum::<f64>() / count as f64,
    }
}

fn cells(name: &str, entries: &[(&Job, Option<&Record>)]) -> Vec<String> {
    let records: Vec<&Record> = entries.iter().filter_map(|(_, record)| *record).collect();
    let answered = records.iter().filter(|record| record.error.is_none()).count();
    let lowest = records.iter().map(|record| record.bound()).fold(f64::INFINITY, f64::min);
    let of = |count: usize| format!("{count} of {}", entries.len());
    let supported = records.iter().filter(|record| record.level.is_some()).count();
    let gated = records.iter().any(|record| record.verdict.is_some());
    let passed = records.iter().filter(|r| r.verdict.is_some() && r.is_good()).count();
    let problem = records.iter().find_map(|record| record.error.clone()).unwrap_or_default();
    let bound = |value: f64| if records.is_empty() { "–".to_owned() } else { number(value) };
    vec![
        name.to_owned(),
        bound(mean(entries)),
        bound(lowest),
        of(answered),
        of(supported),
        if gated { of(passed) } else { "–".to_owned() },
        problem,
    ]
}
