//! Everything that is told of one policy.

use super::setup::{Setup, policy_digest};
use super::text::{brief, number, percent, two_sided};
use super::verdict::{Found, Verdict, bound_text, standing};
use super::waterfall::{Step, waterfall};
use crate::Result;
use crate::adversary::SearchReport;
use crate::confidence::theory::TheoryReport;
use crate::confidence::{Evidence, SetReport};
use crate::evaluate::Curves;
use crate::evaluate::{ConstraintBound, Evaluation, LoggedReturn, Truth, Why};
use crate::evaluate::{Estimate, Method};
use crate::evaluate::{Rank, Warning, by_rank};
use crate::explain::regions::Side;
use crate::explain::support::SupportReport;
use crate::explain::trace::{Region, Span, Trace, Worst};
use crate::policy::Policy;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was found out about a policy; its JSON is what `hambo evaluate --json` prints.
///
/// ```no_run
/// use hambo::report::{Answer, html, markdown};
///
/// fn publish(answer: &Answer) -> std::io::Result<()> {
///     println!("{answer}"); // as in a terminal
///     if let Some(bound) = answer.lower_bound {
///         println!("{} earns at least {bound}", answer.policy);
///     }
///     std::fs::write("report.html", html(answer))?;
///     std::fs::write("summary.md", markdown(answer))
/// }
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was asked, of which data, with which settings.
    #[serde(flatten)]
    pub setup: Setup,
    /// The policy, as the user named it.
    pub policy: String,
    /// SHA-256 of its file, and of its normalizer's; none for a built-in one.
    pub policy_sha256: Option<String>,
    /// The file of the observation normalizer that was applied; none where there is none, or it is in the policy's file.
    pub policy_normalizer: Option<PathBuf>,
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// The bound of the method asked for first; none if that method is neutral.
    pub lower_bound: Option<f64>,
    /// What the data say about it.
    pub evidence: Option<Evidence>,
    /// The level at which it was shown; none where it was not.
    pub level: Option<f64>,
    /// From the neutral estimate to the bound, in steps that add up; empty where there is no finite bound.
    pub waterfall: Vec<Step>,
    /// What the logged behavior earned over the same horizon.
    pub logged_return: LoggedReturn,
    /// The largest threshold that would be met: the bound, where it rests on enough; none elsewhere.
    pub largest_threshold: Option<f64>,
    /// The failure probability of each bound.
    pub delta_each: f64,
    /// Bounds of further rewards.
    pub constraints: Vec<ConstraintBound>,
    /// Whether all thresholds are reached; none where there are none.
    pub verdict: Option<Verdict>,
    /// The verdict in the words of the headline.
    pub outcome: Option<&'static str>,
    /// Whether the bound says nothing: it is no better than the worst reward at every step.
    pub vacuous: bool,
    /// The true return, where it was simulated.
    pub truth: Option<Truth>,
    /// What the theory says, where the model is a Gaussian process.
    pub theory: Option<TheoryReport>,
    /// How far the policy leaves the data.
    pub support: SupportReport,
    /// The confidence set that CA's adversary chose from.
    pub confidence_set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub adversary: Option<SearchReport>,
    /// And DA1's.
    pub adversary_da1: Option<SearchReport>,
    /// Where the bound comes from, in numbers.
    pub explanation: Option<Explanation>,
    /// The bound by horizon, β and data.
    pub curves: Option<Curves>,
    /// What the reader of the numbers must know, what matters most first.
    pub warnings: Vec<Warning>,
    /// How much each of them matters.
    pub warning_ranks: Vec<Rank>,
    /// The verdict in one line, [`Answer::headline`].
    pub summary: String,
    /// Where the bound comes from, with trajectories: for the page.
    #[serde(skip)]
    pub why: Option<Why>,
}

/// Where a bound comes from: the numbers of a [`Trace`], without its trajectories.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The method whose adversary was followed.
    pub method: Method,
    /// Trajectories followed.
    pub trajectories: usize,
    /// Their mean return without the adversary.
    pub neutral: f64,
    /// And with it.
    pub hallucinated: f64,
    /// The difference.
    pub loss: f64,
    /// The coordinates of `loss_alone`.
    pub dimensions: Vec<usize>,
    /// What the pushes between two steps cost; the losses add up to the whole.
    pub spans: Vec<Span>,
    /// What the same adversary costs if it may push in one dimension alone.
    pub loss_alone: Vec<f64>,
    /// The trajectories that ended worst, the worst first.
    pub worst: Vec<Worst>,
    /// Where data would help.
    pub regions: Vec<Region>,
}

impl Answer {
    /// Puts together what was found.
    pub fn new(setup: Setup, policy: &Policy, evaluation: Evaluation) -> Result<Self> {
        let notes = setup.notes.iter().cloned().map(Warning::Note);
        let warnings = by_rank(evaluation.warnings.iter().cloned().chain(notes));
        let first = evaluation.estimates.first();
        let verdict = Verdict::of(&evaluation, setup.threshold);
        let mut answer = Answer {
            policy: policy.spec.clone(),
            policy_sha256: policy_digest(policy)?,
            policy_normalizer: policy.normalizer_file().map(Path::to_owned),
            lower_bound: evaluation.lower_bound(),
            evidence: evaluation.evidence(),
            level: first.filter(|first| first.is_shown()).map(|_| 1.0 - evaluation.delta_each),
            waterfall: waterfall(&evaluation.estimates),
            logged_return: evaluation.logged.clone(),
            largest_threshold: first.filter(|e| e.shows_something()).and_then(|e| e.lower_bound),
            delta_each: evaluation.delta_each,
            verdict,
            outcome: verdict.map(Verdict::words),
            vacuous: first.is_some_and(Estimate::is_vacuous),
            truth: None,
            explanation: evaluation
                .why
                .as_ref()
                .and_then(|w| w.trace.as_ref())
                .map(Explanation::of),
            curves: None,
            warning_ranks: warnings.iter().map(Warning::rank).collect(),
            warnings,
            estimates: evaluation.estimates,
            constraints: evaluation.constraints,
            theory: evaluation.theory,
            support: evaluation.support,
            confidence_set: evaluation.set,
            adversary: evaluation.search,
            adversary_da1: evaluation.search_members,
            why: evaluation.why,
            setup,
            summary: String::new(),
        };
        answer.summary = answer.headline();
        Ok(answer)
    }

    /// The answer of the method asked for first, which the bound is of.
    pub fn first(&self) -> Option<&Estimate> {
        self.estimates.first()
    }

    /// Whether the method asked for first bounds the return.
    pub fn is_conservative(&self) -> bool {
        self.first().is_some_and(|first| first.method.is_conservative())
    }

    /// Whether the bound shows that the return reaches a threshold.
    pub fn meets(&self, threshold: f64) -> bool {
        self.first().is_some_and(|first| first.meets(threshold))
    }

    /// What its bound may be called: a confidence, an extrapolation, vacuous.
    pub(super) fn standing(&self) -> String {
        self.first().map_or(String::new(), |first| standing(first, self.delta_each))
    }

    /// The same where there is little room: without the reason.
    pub(super) fn short_standing(&self) -> String {
        self.standing().split(':').next().unwrap_or_default().to_owned()
    }

    /// The true return, where it is known and a number.
    pub(super) fn finite_truth(&self) -> Option<&Truth> {
        self.truth.as_ref().filter(|truth| truth.value.is_finite())
    }

    /// The bound, where it is a number.
    pub(super) fn finite_bound(&self) -> Option<f64> {
        self.lower_bound.filter(|bound| bound.is_finite())
    }

    /// The bound in words; one that is no number is −∞.
    pub(super) fn bound_text(&self) -> String {
        bound_text(self.lower_bound)
    }

    /// The verdict in one line, for people and for the log of a build.
    pub fn headline(&self) -> String {
        let Some(first) = self.first() else { return "NO METHODS".to_owned() };
        let Answer { verdict, delta_each, constraints, .. } = self;
        let threshold = self.setup.threshold;
        let (verdict, delta_each, risk) = (*verdict, *delta_each, self.setup.risk);
        Found { first, verdict, threshold, constraints, delta_each, risk }.headline()
    }

    /// Where data would help, a sentence or two for each region that costs more than the Monte-Carlo error.
    pub fn regions_in_words(&self) -> Vec<String> {
        let names = &self.setup.names;
        let side = |side: &Side| {
            let name = names.of_coordinate(side.coordinate);
            match (side.low.map(f64::from), side.high.map(f64::from)) {
                (Some(low), Some(high)) if brief(low) == brief(high) => {
                    format!("{name} is {}", brief(low))
                }
                (Some(low), Some(high)) => {
                    format!("{name} is between {} and {}", brief(low), brief(high))
                }
                (Some(low), None) => format!("{name} is above {}", brief(low)),
                (None, Some(high)) => format!("{name} is at most {}", brief(high)),
                (None, None) => format!("{name} is anything"),
            }
        };
        let region = |region: &Region| {
            let sides: Vec<String> = region.bounds.sides.iter().map(side).collect();
            let (dimension, uncertainty) = region.least_known;
            format!(
                "Log data where {}. Not knowing what happens there costs {} of the return ({} of the loss), though only {} of \
                 the steps are there. {} of the logged transitions ({}) are; the model knows {} least, {} times worse than usual.",
                sides.join(" and "),
                number(region.loss),
                percent(region.share),
                percent(region.visits),
                region.logged,
                percent(region.logged as f64 / self.setup.data.transitions as f64),
                names.of_state(dimension),
                brief(uncertainty),
            )
        };
        let error = self.first().map_or(0.0, |first| two_sided() * first.std_error);
        let regions = self.explanation.iter().flat_map(|e| &e.regions);
        regions.filter(|region| region.loss > error).map(region).collect()
    }
}

impl Explanation {
    /// The numbers of a trace.
    pub fn of(trace: &Trace) -> Self {
        Explanation {
            method: trace.method,
            trajectories: trace.trajectories,
            neutral: trace.neutral.value,
            hallucinated: trace.hallucinated.value,
            loss: trace.neutral.value - trace.hallucinated.value,
            dimensions: trace.dimensions.clone(),
            spans: trace.spans.clone(),
            loss_alone: trace.loss_alone.clone(),
            worst: trace.worst.clone(),
            regions: trace.regions.clone(),
        }
    }
}
