//! The verdict, and how it is worded.

use super::text::{number, percent};
use crate::evaluate::{ConstraintBound, Estimate, Evaluation};
use serde::Serialize;

/// Whether a policy reaches what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Its bounds show that it does.
    Meets,
    /// They do not.
    Fails,
}

/// A bound in words; one that is no number is −∞.
pub(super) fn bound_text(bound: Option<f64>) -> String {
    number(bound.unwrap_or(f64::NEG_INFINITY))
}

impl Verdict {
    /// Whether the bound and those of all constraints reach what was asked; none where nothing was.
    pub fn of(evaluation: &Evaluation, threshold: Option<f64>) -> Option<Self> {
        let reached = threshold.map(|threshold| evaluation.meets(threshold));
        let each = evaluation.constraints.iter().filter_map(|c| c.met).chain(reached);
        each.reduce(|all, one| all && one).map(Verdict::from)
    }

    /// The word for it, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Meets => "meets",
            Verdict::Fails => "fails",
        }
    }
}

impl From<bool> for Verdict {
    fn from(met: bool) -> Self {
        if met { Verdict::Meets } else { Verdict::Fails }
    }
}

/// What the verdict on a policy rests on.
pub(super) struct Found<'a> {
    /// The answer of the method asked for first.
    pub first: &'a Estimate,
    pub verdict: Option<Verdict>,
    pub bound: Option<f64>,
    pub threshold: Option<f64>,
    pub constraints: &'a [ConstraintBound],
    pub delta_each: f64,
}

impl Found<'_> {
    /// The verdict in one line.
    pub fn headline(&self) -> String {
        let first = self.first;
        let confidence = percent(1.0 - self.delta_each);
        if !first.method.is_conservative() {
            let (method, value) = (first.method.name(), number(first.value));
            return format!(
                "NO BOUND: {method} is a neutral estimate, {value}, and may be too high"
            );
        }
        let bound = bound_text(self.bound);
        let broken = self.constraints.iter().find(|c| c.met == Some(false));
        let threshold = self.threshold.map(|threshold| {
            let reached = self.bound.is_some_and(|bound| bound >= threshold);
            (reached, number(threshold))
        });
        match (self.verdict, threshold, broken) {
            (Some(Verdict::Meets), Some((_, threshold)), _) => {
                format!(
                    "MEETS the threshold: bound {bound} against {threshold}, confidence {confidence}"
                )
            }
            (Some(Verdict::Meets), None, _) => {
                format!("MEETS every constraint: bound {bound}, confidence {confidence}")
            }
            (Some(Verdict::Fails), Some((false, threshold)), _) => {
                format!(
                    "FAILS the threshold: bound {bound} against {threshold}, confidence {confidence}"
                )
            }
            (Some(Verdict::Fails), Some((true, threshold)), None)
                if first.converged == Some(false) =>
            {
                format!(
                    "NOT SHOWN: the adversary had not converged, so that the bound {bound} says nothing about {threshold}"
                )
            }
            (Some(Verdict::Fails), _, Some(constraint)) => format!(
                "FAILS constraint {}: bound {} against {}, confidence {confidence}",
                constraint.name,
                bound_text(constraint.lower_bound),
                bound_text(constraint.threshold)
            ),
            _ => format!("BOUND {bound}, confidence {confidence}"),
        }
    }
}
