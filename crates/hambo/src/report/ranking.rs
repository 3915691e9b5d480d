//! Everything that is told of several policies.

use super::setup::{Setup, policy_digest};
use super::text::number;
use super::verdict::{Verdict, bound_text, standing};
use crate::Result;
use crate::adversary::SearchReport;
use crate::confidence::SetReport;
use crate::evaluate::Estimate;
use crate::evaluate::{ConstraintBound, Rank, Truth, Warning, by_rank};
use crate::evaluate::{Ranked, Score, scores};
use crate::explain::support::SupportReport;
use crate::policy::Policy;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Several policies on one model, the best bound first; its JSON is what `hambo rank --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// What was asked, of which data, with which settings.
    #[serde(flatten)]
    pub setup: Setup,
    /// The policies, the best first.
    pub policies: Vec<RankedPolicy>,
    /// How well each method ranked them; empty where the truth is not known.
    pub scores: Vec<Score>,
    /// The failure probability of each bound.
    pub delta_each: Option<f64>,
    /// Whether one of them reaches what was asked: one is enough to go on with.
    pub verdict: Option<Verdict>,
    /// The verdict in the words of the headline.
    pub outcome: Option<&'static str>,
    /// What the reader of the numbers must know, what matters most first; what is about some policies alone has their names.
    pub warnings: Vec<Warning>,
    /// How much each of them matters.
    pub warning_ranks: Vec<Rank>,
    /// The outcome in one line, [`Ranking::headline`].
    pub summary: String,
}

/// What was found out about one of them.
#[derive(Clone, Debug, Serialize)]
pub struct RankedPolicy {
    /// The policy, as the user named it.
    pub policy: String,
    /// What tells it from the others.
    pub name: String,
    /// SHA-256 of its file, and of its normalizer's; none for a built-in one.
    pub policy_sha256: Option<String>,
    /// The file of the observation normalizer that was applied.
    pub policy_normalizer: Option<PathBuf>,
    /// The bound of the method asked for first; none if that method is neutral.
    pub lower_bound: Option<f64>,
    /// Whether all thresholds are reached; none where there are none.
    pub verdict: Option<Verdict>,
    /// The true return, where it was simulated.
    pub truth: Option<Truth>,
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// Bounds of further rewards.
    pub constraints: Vec<ConstraintBound>,
    /// How far the policy leaves the data.
    pub support: SupportReport,
    /// The confidence set that CA's adversary chose from.
    pub confidence_set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub adversary: Option<SearchReport>,
    /// And DA1's.
    pub adversary_da1: Option<SearchReport>,
    /// What the reader of the numbers must know.
    pub warnings: Vec<Warning>,
}

impl Ranking {
    /// Puts together what was found; `policies` are those that were asked about, in their order.
    pub fn new(setup: Setup, policies: &[Policy], ranked: Vec<Ranked>) -> Result<Self> {
        let delta_each = ranked.first().map(|best| best.evaluation.delta_each);
        let scores = scores(&ranked);
        let specs: Vec<&str> = policies.iter().map(|policy| policy.spec.as_str()).collect();
        let names = short_names(&specs);
        let one = |r: Ranked| RankedPolicy::new(r, policies, &names, setup.threshold);
        let policies = ranked.into_iter().map(one).collect::<Result<Vec<_>>>()?;
        let each: Vec<(&str, &[Warning])> =
            policies.iter().map(|p| (p.name.as_str(), p.warnings.as_slice())).collect();
        let notes = setup.notes.iter().cloned().chain(unsure_truth(&policies)).map(Warning::Note);
        let warnings = by_rank(warnings_of_several(&each).into_iter().chain(notes));
        // One that meets is enough; of the others, one that lacks evidence alone says the most.
        let best = [Verdict::Meets, Verdict::NotEnoughEvidence, Verdict::NotShown];
        let verdicts: Vec<Verdict> = policies.iter().filter_map(|p| p.verdict).collect();
        let verdict = best.into_iter().find(|verdict| verdicts.contains(verdict));
        let mut ranking = Ranking {
            verdict,
            outcome: verdict.map(Verdict::words),
            warning_ranks: warnings.iter().map(Warning::rank).collect(),
            warnings,
            policies,
            scores,
            delta_each,
            setup,
            summary: String::new(),
        };
        ranking.summary = ranking.headline();
        Ok(ranking)
    }

    /// Whether the bounds of all of them are shown.
    pub(super) fn all_are_shown(&self) -> bool {
        self.policies.iter().all(|p| p.first().is_some_and(Estimate::is_shown))
    }

    /// The outcome in one line.
    pub fn headline(&self) -> String {
        let policies = &self.policies;
        let Some(best) = policies.first() else { return "NO POLICIES".to_owned() };
        let name = &best.name;
        if let Some(first) = best.first().filter(|first| !first.method.is_conservative()) {
            return format!("NO BOUND: highest neutral estimate: {name}, {}", number(first.value));
        }
        let bound = best.bound_text();
        let standing =
            best.first().map_or(String::new(), |first| standing(first, self.setup.delta));
        let for_whom = match (best.first().is_some_and(Estimate::is_shown), self.all_are_shown()) {
            (false, _) => "",
            (true, true) => " for all together",
            (true, false) => " for all that are shown together",
        };
        let best = format!("best bound: {name}, {bound}, {standing}{for_whom}");
        let Some(verdict) = self.verdict else {
            return format!("RANKED {} policies: {best}", policies.len());
        };
        let word = verdict.words();
        let good = policies.iter().filter(|p| p.verdict == Some(Verdict::Meets)).count();
        let threshold = self.setup.threshold.map_or("what was asked".to_owned(), number);
        format!("{word}: {good} of {} policies reach {threshold}; {best}", policies.len())
    }
}

impl RankedPolicy {
    fn new(
        ranked: Ranked,
        policies: &[Policy],
        names: &[String],
        threshold: Option<f64>,
    ) -> Result<Self> {
        let Ranked { index, evaluation, truth } = ranked;
        Ok(RankedPolicy {
            policy: policies[index].spec.clone(),
            name: names[index].clone(),
            policy_sha256: policy_digest(&policies[index])?,
            policy_normalizer: policies[index].normalizer_file().map(Path::to_owned),
            lower_bound: evaluation.lower_bound(),
            verdict: Verdict::of(&evaluation, threshold),
            truth,
            warnings: evaluation.warnings,
            estimates: evaluation.estimates,
            constraints: evaluation.constraints,
            support: evaluation.support,
            confidence_set: evaluation.set,
            adversary: evaluation.search,
            adversary_da1: evaluation.search_members,
        })
    }

    /// The answer of the method asked for first, which the bound is of.
    pub fn first(&self) -> Option<&Estimate> {
        self.estimates.first()
    }

    /// Whether the method asked for first bounds the return.
    pub fn is_conservative(&self) -> bool {
        self.first().is_some_and(|first| first.method.is_conservative())
    }

    /// The true return, where it is known and a number.
    pub(super) fn finite_truth(&self) -> Option<f64> {
        self.truth.as_ref().map(|truth| truth.value).filter(|value| value.is_finite())
    }

    /// The bound in words; one that is no number is −∞.
    pub(super) fn bound_text(&self) -> String {
        bound_text(self.lower_bound)
    }
}

/// Scores against a truth that is hardly known say little.
fn unsure_truth(policies: &[RankedPolicy]) -> Option<String> {
    let unsure = |p: &&RankedPolicy| match (&p.truth, p.lower_bound) {
        (Some(truth), Some(bound)) => (truth.value - bound).abs() < 2.0 * truth.std_error,
        _ => false,
    };
    let count = policies.iter().filter(unsure).count();
    let truth = policies.first()?.truth.as_ref()?;
    (count > 0).then(|| {
        format!(
            "{count} of {} bounds are within two standard errors of the simulated truth ({} episodes): violations and \
             gaps say little there; give more --truth-episodes",
            policies.len(),
            truth.episodes
        )
    })
}

/// Warnings about several policies, what matters most first: what holds for all of them once, what holds for some with their
/// names.
pub fn warnings_of_several(each: &[(&str, &[Warning])]) -> Vec<Warning> {
    let told = each.iter().flat_map(|(name, warnings)| {
        warnings.iter().map(|warning| {
            let common = each.iter().all(|(_, others)| others.contains(warning));
            if common { warning.clone() } else { warning.clone().about(name) }
        })
    });
    by_rank(told)
}

/// Policies by what tells them apart: their paths without the folders and file names that all have in common.
fn short_names(specs: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = specs.iter().map(|spec| spec.split('/').collect()).collect();
    let spare = parts.iter().map(Vec::len).min().unwrap_or(1) - 1; // parts that can be left out of each
    let common = |nth: &dyn Fn(&Vec<&str>, usize) -> usize, most: usize| {
        let same = |i: &usize| parts.iter().all(|p| p[nth(p, *i)] == parts[0][nth(&parts[0], *i)]);
        (0..most).take_while(same).count()
    };
    let first = common(&|_, i| i, spare);
    let last = common(&|p, i| p.len() - 1 - i, spare - first);
    parts.iter().map(|p| p[first..p.len() - last].join("/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_tells_policies_apart() {
        let names = |specs: &[&str]| short_names(specs).join(" ");
        assert_eq!(names(&["zoo/sac/p.zip", "zoo/a2c/p.zip"]), "sac a2c");
        assert_eq!(names(&["zoo/sac.zip", "zoo/old/sac.zip"]), "sac.zip old/sac.zip");
        assert_eq!(names(&["a.zip", "builtin:swing-up,gain=2"]), "a.zip builtin:swing-up,gain=2");
        assert_eq!(names(&["zoo/p.zip", "zoo/p.zip"]), "p.zip p.zip");
        assert_eq!(names(&["/zoo/p.zip"]), "p.zip");
    }

    #[test]
    fn what_holds_for_all_is_told_once_and_the_rest_with_its_name() {
        let notes = |texts: [&str; 3]| texts.map(|text| Warning::Note(text.to_owned()));
        let [a, b, c] =
            [["far", "slow", "odd"], ["far", "broken", "odd"], ["far", "slow", "new"]].map(notes);
        let told = warnings_of_several(&[("a", &a), ("b", &b), ("c", &c)]);
        let told: Vec<String> = told.iter().map(Warning::to_string).collect();
        assert_eq!(told, ["far", "a, c: slow", "a, b: odd", "b: broken", "c: new"]);
    }
}
