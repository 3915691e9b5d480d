//! The verdict, and how it is worded.

use super::text::{number, percent};
use crate::confidence::Evidence;
use crate::evaluate::{ConstraintBound, Estimate, Evaluation};
use serde::Serialize;

/// Whether a policy reaches what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Its bounds show that it does.
    Meets,
    /// They do not: the policy may still be good.
    Fails,
    /// They would, but rest on too little: nothing in the data supports them, or a search had not converged.
    #[serde(rename = "not enough evidence")]
    NotEnoughEvidence,
}

/// A bound in words; one that is no number is −∞.
pub(super) fn bound_text(bound: Option<f64>) -> String {
    number(bound.unwrap_or(f64::NEG_INFINITY))
}

impl Verdict {
    /// Whether the bound and those of all constraints reach what was asked; none where nothing was.
    pub fn of(evaluation: &Evaluation, threshold: Option<f64>) -> Option<Self> {
        let own = evaluation.estimates.first().zip(threshold);
        let constraints = evaluation.constraints.iter();
        let constraints = constraints.filter_map(|c| c.estimates.first().zip(c.threshold));
        let one = |(estimate, threshold): (&Estimate, f64)| match (
            estimate.meets(threshold),
            estimate.lower_bound,
        ) {
            (true, _) => Verdict::Meets,
            (false, Some(bound)) if bound >= threshold => Verdict::NotEnoughEvidence,
            _ => Verdict::Fails,
        };
        let worse = |a: Verdict, b: Verdict| match (a, b) {
            (Verdict::Fails, _) | (_, Verdict::Fails) => Verdict::Fails,
            (Verdict::Meets, other) | (other, _) => other,
        };
        own.into_iter().chain(constraints).map(one).reduce(worse)
    }

    /// Whether a gate may pass.
    pub fn passes(self) -> bool {
        self == Verdict::Meets
    }

    /// The word for it, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Meets => "meets",
            Verdict::Fails => "fails",
            Verdict::NotEnoughEvidence => "not enough evidence",
        }
    }

    /// The same for a style sheet.
    pub(super) fn class(self) -> &'static str {
        if self == Verdict::NotEnoughEvidence { "open" } else { self.name() }
    }
}

/// What a bound may be called: a confidence where its level was shown, an extrapolation otherwise.
pub(super) fn standing(estimate: &Estimate, delta: f64) -> String {
    match estimate.evidence {
        Some(Evidence::Supported) => format!("confidence {}", percent(1.0 - delta)),
        Some(evidence) => format!("an extrapolation ({evidence})"),
        None => "neutral".to_owned(),
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
        let confidence = standing(first, self.delta_each);
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
                format!("MEETS the threshold: bound {bound} against {threshold}, {confidence}")
            }
            (Some(Verdict::Meets), None, _) => {
                format!("MEETS every constraint: bound {bound}, {confidence}")
            }
            (Some(Verdict::Fails), Some((false, threshold)), _) => {
                format!("FAILS the threshold: bound {bound} against {threshold}, {confidence}")
            }
            (Some(Verdict::NotEnoughEvidence), Some((true, threshold)), _)
                if first.converged == Some(false) =>
            {
                format!(
                    "NOT ENOUGH EVIDENCE: the adversary had not converged, so that the bound {bound} says nothing about \
                     {threshold}"
                )
            }
            (Some(Verdict::NotEnoughEvidence), Some((true, threshold)), _)
                if !first.enough_evidence =>
            {
                format!("NOT ENOUGH EVIDENCE: bound {bound} against {threshold}, {confidence}")
            }
            (Some(Verdict::NotEnoughEvidence), _, _) => {
                let open = self.constraints.iter().find(|c| c.met == Some(false));
                let name = open.map_or("", |c| c.name.as_str());
                format!("NOT ENOUGH EVIDENCE for constraint {name}: bound {bound}, {confidence}")
            }
            (Some(Verdict::Fails), _, Some(constraint)) => format!(
                "FAILS constraint {}: bound {} against {}, {confidence}",
                constraint.name,
                bound_text(constraint.lower_bound),
                bound_text(constraint.threshold)
            ),
            _ => format!("BOUND {bound}, {confidence}"),
        }
    }
}
