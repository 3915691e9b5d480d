//! The policies of a data set in the order of their bounds.

use super::plan::{Job, Plan};
use super::record::Record;
use crate::output::number;
use std::collections::HashMap;

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

/// The policies of a ranking, each with what came out of its jobs, one for each seed.
type Policies<'a> = Vec<(&'a str, Vec<Option<&'a Record>>)>;

/// One for each data set, task and combination of settings, in the plan's order.
pub fn rankings(plan: &Plan, records: &[(&Job, Option<Record>)]) -> Vec<Ranking> {
    let mut sets: Vec<(String, Policies<'_>)> = Vec::new();
    let (mut of_fit, mut of_policy) = (HashMap::new(), HashMap::new());
    for (job, record) in records {
        let [place @ .., _seed] = job.fit();
        let set = *of_fit.entry(place).or_insert_with(|| {
            sets.push((title(plan, job), Vec::new()));
            sets.len() - 1
        });
        let name = plan.policy(job).name.as_str();
        let policies = &mut sets[set].1;
        let policy = *of_policy.entry((set, name)).or_insert_with(|| {
            policies.push((name, Vec::new()));
            policies.len() - 1
        });
        policies[policy].1.push(record.as_ref());
    }
    sets.into_iter().map(|(title, policies)| ranking(title, policies)).collect()
}

fn ranking(title: String, mut policies: Policies<'_>) -> Ranking {
    policies.sort_by(|(_, a), (_, b)| mean(b).total_cmp(&mean(a)));
    let is_bad = |jobs: &[Option<&Record>]| jobs.iter().flatten().any(|record| !record.is_good());
    Ranking {
        title,
        bad: policies.iter().map(|(_, jobs)| is_bad(jobs)).collect(),
        rows: policies.iter().map(|(name, jobs)| cells(name, jobs)).collect(),
    }
}

fn title(plan: &Plan, job: &Job) -> String {
    let parts = [plan.grid(job).name.clone(), plan.data(job).name.clone()];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.chain(plan.choices(job)).collect::<Vec<_>>().join(", ")
}

/// Over those that have ended; one that failed counts as −∞: what is not known is not good.
fn mean(jobs: &[Option<&Record>]) -> f64 {
    let bounds: Vec<f64> = jobs.iter().flatten().map(|record| record.bound()).collect();
    match bounds.len() {
        0 => f64::NEG_INFINITY,
        count => bounds.iter().sum::<f64>() / count as f64,
    }
}

fn cells(name: &str, jobs: &[Option<&Record>]) -> Vec<String> {
    let records: Vec<&Record> = jobs.iter().copied().flatten().collect();
    let answered = records.iter().filter(|record| record.error.is_none()).count();
    let lowest = records.iter().map(|record| record.bound()).fold(f64::INFINITY, f64::min);
    let of = |count: usize| format!("{count} of {}", jobs.len());
    let supported = records.iter().filter(|record| record.level.is_some()).count();
    let gated = records.iter().any(|record| record.verdict.is_some());
    let passed = records.iter().filter(|r| r.verdict.is_some() && r.is_good()).count();
    let problem = records.iter().find_map(|record| record.error.clone()).unwrap_or_default();
    let bound = |value: f64| if records.is_empty() { "–".to_owned() } else { number(value) };
    vec![
        name.to_owned(),
        bound(mean(jobs)),
        bound(lowest),
        of(answered),
        of(supported),
        if gated { of(passed) } else { "–".to_owned() },
        problem,
    ]
}
