//! Many policies on one model: which of them to take, and how well their order was told where the truth is known.

use super::budget::Budget;
use super::estimate::{Estimate, Method};
use super::evaluation::Evaluation;
use super::problem::Problem;
use super::truth::Truth;
use crate::Result;
use crate::policy::Policy;
use crate::run::Run;
use serde::Serialize;

/// One of several policies.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// Its place in the list that was asked about.
    pub index: usize,
    /// What was found.
    pub evaluation: Evaluation,
    /// Its true return, where it is known.
    pub truth: Option<Truth>,
}

impl Problem<'_> {
    /// Bounds of several policies, the best first. δ is shared by all (union bound): they hold together.
    ///
    /// `truths` has the true return of each policy, or nothing.
    pub fn rank(
        &self,
        policies: &[Policy],
        truths: &[Truth],
        run: &Run<'_>,
    ) -> Result<Vec<Ranked>> {
        let budget = Budget::new(self.config.delta)?.shared_by(policies.len());
        let mut ranked = Vec::with_capacity(policies.len());
        for (index, policy) in policies.iter().enumerate() {
            let evaluation =
                self.evaluate_within(budget, policy, &run.part(&format!("policy-{index}")))?;
            ranked.push(Ranked { index, evaluation, truth: truths.get(index).cloned() });
            run.report("policies", index + 1, policies.len(), "");
        }
        ranked.sort_by(|a, b| key(&b.evaluation).total_cmp(&key(&a.evaluation)));
        Ok(ranked)
    }
}

/// What policies are ordered by: the bound of the method asked for first, or its estimate where it has none.
fn key(evaluation: &Evaluation) -> f64 {
    evaluation.estimates.first().map_or(f64::NEG_INFINITY, told)
}

/// The number that a method tells of a policy.
fn told(estimate: &Estimate) -> f64 {
    estimate.lower_bound.unwrap_or(estimate.value)
}

/// How well a method told the policies apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The method.
    pub method: Method,
    /// Spearman's correlation of its numbers with the true returns; none where either are all the same.
    pub spearman: Option<f64>,
    /// The best true return less that of the policy which it puts first.
    pub regret_at_1: f64,
    /// Share of the policies whose number is above the true return.
    pub violation_rate: f64,
    /// Mean of the true return less the number.
    pub gap: f64,
}

/// Scores of all methods; none where the truth of a policy is not known.
pub fn scores(ranked: &[Ranked]) -> Vec<Score> {
    let truths: Option<Vec<f64>> =
        ranked.iter().map(|r| r.truth.as_ref().map(|t| t.value)).collect();
    let (Some(truths), Some(first)) = (truths, ranked.first()) else { return Vec::new() };
    let methods = first.evaluation.estimates.iter().map(|e| e.method).enumerate();
    methods
        .map(|(i, method)| {
            let numbers: Vec<f64> =
                ranked.iter().map(|r| told(&r.evaluation.estimates[i])).collect();
            score(method, &numbers, &truths)
        })
        .collect()
}

fn score(method: Method, numbers: &[f64], truths: &[f64]) -> Score {
    let n = truths.len() as f64;
    let best = truths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let chosen = (0..numbers.len()).max_by(|&i, &j| numbers[i].total_cmp(&numbers[j])).unwrap_or(0);
    let pairs = || numbers.iter().zip(truths);
    Score {
        method,
        spearman: spearman(numbers, truths),
        regret_at_1: best - truths[chosen],
        violation_rate: pairs().filter(|(number, truth)| number > truth).count() as f64 / n,
        gap: pairs().map(|(number, truth)| truth - number).sum::<f64>() / n,
    }
}

/// Spearman's rank correlation; none where a list does not vary.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    correlation(&ranks(x), &ranks(y))
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |x: &f64| {
        let below = values.iter().filter(|y| *y < x).count() as f64;
        let equal = values.iter().filter(|y| *y == x).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Pearson's correlation; none where a list does not vary.
fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(x), mean(y));
    let sum =
        |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(a, b)| f(a - mx, b - my)).sum::<f64>();
    let size = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (size > 0.0).then(|| sum(&|a, b| a * b) / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy.stats.spearmanr (SciPy 1.17) of the same lists gives 0.7714285714285715, and 0.632455532033676 with ties.
    #[test]
    fn spearman_works_like_scipy() {
        let spearman = |x: &[f64], y: &[f64]| spearman(x, y).unwrap();
        let truths = [-205.0, -222.0, -179.0, -210.0, -170.0, -193.0];
        let found = spearman(&[-300.0, -290.0, -200.0, -310.0, -210.0, -250.0], &truths);
        assert!((found - 0.7714285714285715).abs() < 1e-15, "{found}");
        let found = spearman(&[1.0, 2.0, 2.0, 3.0], &[2.0, 1.0, 3.0, 4.0]);
        assert!((found - 0.632455532033676).abs() < 1e-15, "{found}");
        assert_eq!(correlation(&ranks(&[1.0, 1.0]), &ranks(&[1.0, 2.0])), None);
    }

    #[test]
    fn scores_of_known_lists() {
        let found = score(Method::Ca, &[-5.0, -1.0, -3.0], &[-2.0, -4.0, -1.0]);
        assert_eq!((found.regret_at_1, found.violation_rate), (3.0, 1.0 / 3.0));
        assert!((found.gap - (3.0 - 3.0 + 2.0) / 3.0).abs() < 1e-15);
        let endless = score(Method::Ca, &[f64::NEG_INFINITY, -1.0], &[-2.0, 0.0]);
        assert_eq!((endless.regret_at_1, endless.gap), (0.0, f64::INFINITY));
        assert_eq!(endless.spearman, Some(1.0));
    }
}
