//! The verdict, and how it is worded.

use super::text::{number, percent};
use crate::confidence::Evidence;
use crate::evaluate::{ConstraintBound, Estimate, Evaluation};
use serde::Serialize;

/// Whether a policy reaches what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Its bounds show that it does.
    #[serde(rename = "meets")]
    Meets,
    /// They are below what was asked: the policy may still be good.
    #[serde(rename = "fails")]
    NotShown,
    /// They rest on too little to say: nothing in the data supports them, or a search had not converged.
    #[serde(rename = "not enough evidence")]
    NotEnoughEvidence,
}

/// The episodes that CVaR is about.
pub(super) fn worst_share(share: f64) -> String {
    format!("the worst {} of episodes (CVaR)", percent(share))
}

/// A bound in words; one that is no number is −∞.
pub(super) fn bound_text(bound: Option<f64>) -> String {
    number(bound.unwrap_or(f64::NEG_INFINITY))
}

impl Verdict {
    /// Whether the bound and those of all constraints reach what was asked; none where nothing was.
    pub fn of(evaluation: &Evaluation, threshold: Option<f64>) -> Option<Self> {
        let own = evaluation.estimates.first().zip(threshold);
        let own = own.map(|(estimate, threshold)| Verdict::of_one(estimate, threshold));
        let constraints = evaluation.constraints.iter().filter_map(Verdict::of_constraint);
        let worse = |a: Verdict, b: Verdict| match (a, b) {
            (Verdict::NotShown, _) | (_, Verdict::NotShown) => Verdict::NotShown,
            (Verdict::Meets, other) | (other, _) => other,
        };
        own.into_iter().chain(constraints).reduce(worse)
    }

    /// Whether one bound reaches a threshold.
    pub fn of_one(estimate: &Estimate, threshold: f64) -> Self {
        match estimate.lower_bound {
            Some(_) if estimate.meets(threshold) => Verdict::Meets,
            Some(_) if !estimate.shows_something() => Verdict::NotEnoughEvidence,
            _ => Verdict::NotShown,
        }
    }

    /// Whether a constraint reaches its threshold; none where it has none.
    pub(super) fn of_constraint(constraint: &ConstraintBound) -> Option<Self> {
        let first = constraint.estimates.first().zip(constraint.threshold);
        first.map(|(estimate, threshold)| Verdict::of_one(estimate, threshold))
    }

    /// Whether a gate may pass.
    pub fn passes(self) -> bool {
        self == Verdict::Meets
    }

    /// The word for it, as in the field `verdict` of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Meets => "meets",
            Verdict::NotShown => "fails",
            Verdict::NotEnoughEvidence => "not enough evidence",
        }
    }

    /// The words that people read, as in the headline, and in the field `outcome` of the JSON.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Meets => "MEETS",
            Verdict::NotShown => "NOT SHOWN",
            Verdict::NotEnoughEvidence => "NOT ENOUGH EVIDENCE",
        }
    }

    /// What it means, for those who have not read the manual.
    pub(super) fn meaning(self, evidence: Option<Evidence>) -> &'static str {
        match self {
            Verdict::Meets if evidence != Some(Evidence::Supported) => {
                "the bound reaches what was asked, but the logs do not show that it holds: it was accepted as an extrapolation"
            }
            Verdict::Meets => "the logs show that the policy reaches what was asked",
            Verdict::NotShown => {
                "the bound is below what was asked: the policy may still be good, but these logs do not show it"
            }
            Verdict::NotEnoughEvidence => {
                "nothing is shown either way: the logs, or the search, say too little about this policy"
            }
        }
    }

    /// The same for a style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Verdict::Meets => "meets",
            Verdict::NotShown => "not-shown",
            Verdict::NotEnoughEvidence => "open",
        }
    }
}

/// A verdict in a table.
pub(super) fn verdict_text(verdict: Option<Verdict>) -> String {
    verdict.map_or("–".to_owned(), |verdict| verdict.words().to_lowercase())
}

/// What a bound may be called: a confidence only where its level was shown.
pub(super) fn standing(estimate: &Estimate, delta: f64) -> String {
    match estimate.evidence {
        None => "neutral".to_owned(),
        Some(_) if estimate.is_vacuous() => {
            format!(
                "vacuous: no better than the worst reward at every step, {}",
                number(estimate.floor)
            )
        }
        Some(Evidence::Supported) if estimate.converged == Some(false) => {
            "not shown: the search had not converged".to_owned()
        }
        Some(Evidence::Supported) => format!("confidence {}", percent(1.0 - delta)),
        Some(evidence) => format!("an extrapolation ({evidence})"),
    }
}

/// What the verdict on a policy rests on.
pub(super) struct Found<'a> {
    /// The answer of the method asked for first.
    pub first: &'a Estimate,
    pub verdict: Option<Verdict>,
    pub threshold: Option<f64>,
    pub constraints: &'a [ConstraintBound],
    pub delta_each: f64,
    /// The worst share of episodes that it is about; none: their mean.
    pub risk: Option<f64>,
}

impl Found<'_> {
    /// The verdict in one line.
    pub fn headline(&self) -> String {
        let first = self.first;
        if !first.method.is_conservative() {
            let (method, value) = (first.method.name(), number(first.value));
            return format!(
                "NO BOUND: {method} is a neutral estimate, {value}, and may be too high"
            );
        }
        let bound = bound_text(first.lower_bound) + &self.about();
        let standing = standing(first, self.delta_each);
        let Some(verdict) = self.verdict else { return format!("BOUND {bound}, {standing}") };
        let words = verdict.words();
        let own = self.threshold.map(|threshold| (Verdict::of_one(first, threshold), threshold));
        match (verdict, own) {
            (Verdict::Meets, Some((_, threshold))) => {
                let threshold = number(threshold);
                format!("{words} the threshold: bound {bound} against {threshold}, {standing}")
            }
            (Verdict::Meets, None) => {
                format!("{words} every constraint: bound {bound}, {standing}")
            }
            (_, Some((own, threshold))) if own == verdict => {
                format!("{words}: bound {bound} against {}, {standing}", number(threshold))
            }
            _ => self.of_constraints(verdict),
        }
    }

    /// What a bound is on, where that is not the mean return.
    fn about(&self) -> String {
        self.risk.map_or(String::new(), |share| format!(" on {}", worst_share(share)))
    }

    /// The same where it is a constraint that decides.
    fn of_constraints(&self, verdict: Verdict) -> String {
        let words = verdict.words();
        let open = |c: &&ConstraintBound| Verdict::of_constraint(c) == Some(verdict);
        let Some(constraint) = self.constraints.iter().find(open) else { return words.to_owned() };
        let standing =
            constraint.estimates.first().map_or(String::new(), |e| standing(e, self.delta_each));
        format!(
            "{words} for constraint {}: bound {} against {}, {standing}",
            constraint.name,
            bound_text(constraint.lower_bound) + &self.about(),
            bound_text(constraint.threshold)
        )
    }
}
