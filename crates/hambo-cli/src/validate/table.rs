//! What the runs of a suite say, beside the truth.

use super::record::{Number, Record, TruthRecord};
use super::statistics::{Share, quantile, regret_at_1};
use super::work::RESOLVED;
use hambo::evaluate::{Method, spearman};
use serde::Serialize;
use std::collections::BTreeMap;

/// A bound is above the truth if it is so by more than this many standard errors of the truth.
const STANDARD_ERRORS: f64 = 3.0;
/// Quantiles of the gap that are told.
pub const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];

/// Everything that is told.
#[derive(Serialize)]
pub struct Table {
    pub suite: String,
    pub about: String,
    /// Runs that are done, of those that were asked for.
    pub done: usize,
    pub asked: usize,
    pub builds: Vec<String>,
    pub devices: Vec<String>,
    /// By rule and conservative method.
    pub methods: Vec<Summary>,
    /// Of the first method: by evidence, and by environment, data, n and T.
    pub evidence: Vec<Summary>,
    pub groups: Vec<Summary>,
    pub levels: Vec<Level>,
    pub rankings: Vec<Ranking>,
    pub rows: Vec<Row>,
    pub errors: Vec<Failure>,
    /// Seconds of all runs and truths together.
    pub seconds: f64,
}

/// A bound beside the truth.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub case: String,
    pub env: String,
    pub policy: String,
    pub data: String,
    pub n: usize,
    pub horizon: usize,
    pub seed: u64,
    pub variant: String,
    pub method: Method,
    /// Whether it is the method that was asked for first.
    pub first: bool,
    pub truth: f64,
    pub truth_std_error: f64,
    pub truth_episodes: usize,
    /// Whether the truth's standard error is below a tenth of the gap.
    pub truth_resolved: bool,
    pub value: Option<f64>,
    /// None of a conservative method is −∞.
    pub bound: Option<f64>,
    /// The first neutral estimate of the same run.
    pub neutral: Option<f64>,
    /// (truth − bound) / |truth|; none where the bound is −∞.
    pub gap: Option<f64>,
    pub violated: bool,
    /// Whether the bound before its Monte-Carlo margin is above the truth.
    pub value_above: bool,
    pub evidence: String,
    pub level: Option<f64>,
    pub beta: Option<f64>,
    pub converged: Option<bool>,
    pub seconds: f64,
}

/// Some rows together.
#[derive(Serialize)]
pub struct Summary {
    /// What they have in common, one word a column.
    pub of: Vec<String>,
    pub runs: usize,
    pub violations: Share,
    pub values_above: Share,
    /// Of the normalized gap, at 10, 50 and 90 %; none is infinite.
    pub gaps: [Option<f64>; 3],
    pub supported: usize,
    pub unresolved: usize,
    pub not_converged: usize,
    pub median_seconds: Option<f64>,
}

/// The claimed level against the attained one, of supported bounds.
#[derive(Serialize)]
pub struct Level {
    pub variant: String,
    pub method: Method,
    pub claimed: f64,
    pub attained: Share,
}

/// How well policies were told apart in an environment: means over data sets.
#[derive(Serialize)]
pub struct Ranking {
    pub of: Vec<String>,
    /// Data sets, and policies in each at the most.
    pub sets: usize,
    pub policies: usize,
    pub spearman_bound: Option<f64>,
    pub regret_bound: Option<f64>,
    pub spearman_neutral: Option<f64>,
    pub regret_neutral: Option<f64>,
}

/// A run without an answer.
#[derive(Serialize)]
pub struct Failure {
    pub case: String,
    pub error: String,
}

impl Table {
    /// Of these runs, each with the truth that belongs to it.
    pub fn of(runs: &[Record], truths: &dyn Fn(&str) -> Option<TruthRecord>) -> Self {
        let mut rows = Vec::new();
        let mut errors = Vec::new();
        for run in runs {
            match (&run.error, truths(&run.truth)) {
                (Some(error), _) => {
                    errors.push(Failure { case: run.case.clone(), error: error.clone() })
                }
                (None, None) => errors.push(Failure {
                    case: run.case.clone(),
                    error: "its truth is not known yet".to_owned(),
                }),
                (None, Some(truth)) => rows.extend(rows_of(run, &truth)),
            }
        }
        let main = |row: &&Row| row.first;
        let place = |r: &Row| {
            [
                r.variant.clone(),
                r.env.clone(),
                r.data.clone(),
                r.n.to_string(),
                r.horizon.to_string(),
            ]
            .to_vec()
        };
        let names = |of: &dyn Fn(&Record) -> String| {
            runs.iter().map(of).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
        };
        Table {
            suite: String::new(),
            about: String::new(),
            done: runs.len(),
            asked: runs.len(),
            builds: names(&|run| format!("hambo {} ({})", run.version, run.build)),
            devices: names(&|run| run.device.clone()),
            methods: grouped(rows.iter(), |r| vec![r.variant.clone(), r.method.name().to_owned()]),
            evidence: grouped(rows.iter().filter(main), |r| {
                vec![r.variant.clone(), r.evidence.clone()]
            }),
            groups: grouped(rows.iter().filter(main), place),
            levels: levels(&rows),
            rankings: rankings(&rows),
            errors,
            rows,
            seconds: 0.0,
        }
    }
}

fn rows_of(run: &Record, truth: &TruthRecord) -> Vec<Row> {
    let neutral = run.estimates.iter().find(|e| !e.method.is_conservative()).and_then(|e| e.value);
    let conservative = run.estimates.iter().enumerate().filter(|(_, e)| e.method.is_conservative());
    let row = |(i, e): (usize, &Number)| {
        let gap = e.lower_bound.map(|bound| truth.value - bound);
        let evidence = e.evidence.clone().unwrap_or_default();
        Row {
            case: run.case.clone(),
            env: run.env.clone(),
            policy: run.policy.clone(),
            data: run.data.clone(),
            n: run.n,
            horizon: run.horizon,
            seed: run.seed,
            variant: run.variant.clone(),
            method: e.method,
            first: i == 0,
            truth: truth.value,
            truth_std_error: truth.std_error,
            truth_episodes: truth.episodes,
            truth_resolved: gap.is_none_or(|gap| truth.std_error <= RESOLVED * gap.abs()),
            value: e.value,
            bound: e.lower_bound,
            neutral,
            gap: gap.map(|gap| gap / truth.value.abs()),
            violated: e
                .lower_bound
                .is_some_and(|b| b > truth.value + STANDARD_ERRORS * truth.std_error),
            value_above: e.value.is_some_and(|value| value - e.subtracted > truth.value),
            level: (evidence == "supported").then_some(1.0 - run.delta),
            evidence,
            beta: run.beta,
            converged: e.converged,
            seconds: run.seconds,
        }
    };
    conservative.map(row).collect()
}

/// Summaries of the rows that have the same words, in the order in which they come.
fn grouped<'a>(
    rows: impl Iterator<Item = &'a Row>,
    words: impl Fn(&Row) -> Vec<String>,
) -> Vec<Summary> {
    let mut order: Vec<Vec<String>> = Vec::new();
    let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let words = words(row);
        if !groups.contains_key(&words) {
            order.push(words.clone());
        }
        groups.entry(words).or_default().push(row);
    }
    order.into_iter().map(|of| summary(of.clone(), &groups[&of])).collect()
}

fn summary(of: Vec<String>, rows: &[&Row]) -> Summary {
    let gaps: Vec<f64> = rows.iter().map(|r| r.gap.map_or(f64::INFINITY, f64::abs)).collect();
    let seconds: Vec<f64> = rows.iter().map(|r| r.seconds).collect();
    let count = |test: &dyn Fn(&Row) -> bool| rows.iter().filter(|r| test(r)).count();
    Summary {
        of,
        runs: rows.len(),
        violations: Share::of(rows.iter().map(|r| r.violated)),
        values_above: Share::of(rows.iter().map(|r| r.value_above)),
        gaps: QUANTILES.map(|p| quantile(&gaps, p).filter(|gap| gap.is_finite())),
        supported: count(&|r| r.evidence == "supported"),
        unresolved: count(&|r| !r.truth_resolved),
        not_converged: count(&|r| r.converged == Some(false)),
        median_seconds: quantile(&seconds, 0.5),
    }
}

fn levels(rows: &[Row]) -> Vec<Level> {
    let mut found: Vec<Level> = Vec::new();
    for row in rows {
        let Some(claimed) = row.level else { continue };
        let same =
            |r: &&Row| (r.level, &r.variant, r.method) == (row.level, &row.variant, row.method);
        let is_there = |l: &Level| {
            (Some(l.claimed), &l.variant, l.method) == (row.level, &row.variant, row.method)
        };
        if !found.iter().any(is_there) {
            let attained = Share::of(rows.iter().filter(same).map(|r| !r.violated));
            found.push(Level {
                variant: row.variant.clone(),
                method: row.method,
                claimed,
                attained,
            });
        }
    }
    found
}

/// How well numbers tell the order of the truths.
type Score = fn(&[f64], &[f64]) -> Option<f64>;

/// By rule, environment, data, n and T: each seed is a list of policies, the scores are means over seeds.
fn rankings(rows: &[Row]) -> Vec<Ranking> {
    let mut sets: BTreeMap<Vec<String>, BTreeMap<u64, Vec<&Row>>> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.first) {
        let of = [&r.variant, &r.env, &r.data].map(String::clone).into_iter();
        let of = of.chain([r.n.to_string(), r.horizon.to_string()]).collect();
        sets.entry(of).or_default().entry(r.seed).or_default().push(r);
    }
    let ranking = |(of, seeds): (Vec<String>, BTreeMap<u64, Vec<&Row>>)| {
        let lists: Vec<Vec<&Row>> = seeds.into_values().filter(|list| list.len() > 1).collect();
        let mean = |score: Score, number: &dyn Fn(&Row) -> f64| {
            let scores: Vec<f64> = lists
                .iter()
                .filter_map(|list| {
                    let numbers: Vec<f64> = list.iter().map(|r| number(r)).collect();
                    score(&numbers, &list.iter().map(|r| r.truth).collect::<Vec<f64>>())
                })
                .collect();
            (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
        };
        let bound = |r: &Row| r.bound.unwrap_or(f64::NEG_INFINITY);
        let neutral = |r: &Row| r.neutral.unwrap_or(f64::NEG_INFINITY);
        let has_neutral = lists.iter().flatten().all(|r| r.neutral.is_some());
        Ranking {
            of,
            sets: lists.len(),
            policies: lists.iter().map(Vec::len).max().unwrap_or(0),
            spearman_bound: mean(spearman, &bound),
            regret_bound: mean(regret_at_1, &bound),
            spearman_neutral: mean(spearman, &neutral).filter(|_| has_neutral),
            regret_neutral: mean(regret_at_1, &neutral).filter(|_| has_neutral),
        }
    };
    sets.into_iter().map(ranking).filter(|r| r.sets > 0).collect()
}
