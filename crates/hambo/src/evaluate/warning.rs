//! What the reader of a bound must know before trusting it.

use super::estimate::Method;
use crate::dynamics::WIDENED;
use crate::explain::support::LeavesData;
use crate::rollout::FAR;
use serde::{Serialize, Serializer};
use std::fmt;

/// Something that the reader of a bound must know, with advice. It serializes as its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// A remark of a reader of data, or of a task.
    Note(String),
    /// One that is about a single constraint or policy.
    About {
        /// Its name.
        name: String,
        /// What is to be known of it.
        warning: Box<Warning>,
    },
    /// The policy goes where the logs do not.
    LeavesData(LeavesData),
    /// The policy was learned from the logs that it is bounded on.
    LearnedFromLogs,
    /// Calibration on single rows, whose neighbors were trained on.
    SingleRowsHeldOut,
    /// Particles that are far worse than the others.
    BrokenParticles {
        /// Which.
        particles: Vec<usize>,
        /// Held-out negative log-likelihood of all particles.
        nll: Vec<f64>,
    },
    /// An ensemble of one.
    OneParticle,
    /// A Gaussian process that is conditioned on some of the rows.
    SubsetOfRows {
        /// Rows that it is conditioned on.
        rows: usize,
        /// Rows of the data.
        of: usize,
    },
    /// A kernel matrix that was not positive definite by itself.
    Jitter(f64),
    /// Dimensions that never change in the data.
    ConstantTargets(Vec<usize>),
    /// A model that computes on the processor while the rest computes elsewhere.
    ModelOnHost {
        /// Where the rest computes.
        device: String,
    },
    /// DA1 on an ensemble of one.
    NothingToChoose,
    /// A bound above a neutral estimate.
    AboveNeutral {
        /// Whose bound.
        method: Method,
        /// Whose estimate.
        neutral: Method,
        /// That estimate.
        value: f64,
    },
    /// Trajectories that left the finite numbers.
    Diverged {
        /// Of which method.
        method: Method,
        /// How many.
        trajectories: usize,
    },
    /// Trajectories that left the range of the logs.
    Left {
        /// Of which method.
        method: Method,
        /// How many.
        trajectories: usize,
        /// Of how many.
        of: usize,
    },
    /// Trajectories that ended far from the data.
    Far {
        /// Of which method.
        method: Method,
        /// How many.
        trajectories: usize,
        /// Of how many.
        of: usize,
    },
    /// A search that had not ended.
    NotConverged(Method),
    /// Returns that change in steps alone.
    SearchedBySac,
    /// A dynamics model without a gradient.
    ModelWithoutGradient,
    /// A reward that is a function, by its name.
    RewardWithoutGradient(String),
    /// A policy that is a function without a gradient.
    PolicyWithoutGradient {
        /// Its name.
        name: String,
        /// Whether SAC was asked for an adversary.
        by_sac: bool,
    },
    /// No logged episodes that are near the policy.
    Unsupported {
        /// Held-out episodes.
        episodes: usize,
        /// Those near the policy.
        near: usize,
        /// Median deviation from it, in half ranges of the action.
        deviation: f64,
    },
    /// Few episodes near the policy that last the horizon.
    Extrapolated {
        /// Those near the policy.
        near: usize,
        /// Those of them that last.
        whole: usize,
    },
    /// A size of the set that nothing here checks.
    GivenBeta,
    /// A set of size 0.
    ZeroBeta,
    /// A model that overstates more than any set covers.
    Subtracted {
        /// What was subtracted.
        amount: f64,
        /// The largest set.
        beta: f64,
    },
    /// What DAinf rests on.
    DaInf,
}

impl Warning {
    /// The same about one constraint or policy.
    pub fn about(self, name: &str) -> Self {
        Warning::About { name: name.to_owned(), warning: Box::new(self) }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Note(text) => f.write_str(text),
            Warning::About { name, warning } => write!(f, "{name}: {warning}"),
            Warning::LeavesData(found) => found.fmt(f),
            Warning::LearnedFromLogs => f.write_str(
                "the policy was learned from these logs, and is good where the models of them err in its favor: no episode here can \
                 show that its bound holds; evaluate it on logs that it was not learned from (hambo evaluate)",
            ),
            Warning::SingleRowsHeldOut => f.write_str(
                "the data have fewer than 10 episodes, so single transitions were held out: their neighbors were trained on, \
                 and the calibration may be optimistic",
            ),
            Warning::BrokenParticles { particles, nll } if particles.len() == 1 => write!(
                f,
                "1 of {} networks ({particles:?}) predicted validation episodes far worse than the others and was left out: the best \
                 other one of its model stands in for it; a longer training may help",
                nll.len()
            ),
            Warning::BrokenParticles { particles, nll } => write!(
                f,
                "{} of {} networks ({particles:?}) predicted validation episodes far worse than the others and were left out: the \
                 best other one of their model stands in for each; a longer training may help",
                particles.len(),
                nll.len()
            ),
            Warning::OneParticle => {
                f.write_str("one particle knows no epistemic uncertainty: its DAinf is a neutral estimate")
            }
            Warning::SubsetOfRows { rows, of } => write!(
                f,
                "the Gaussian process is conditioned on {rows} rows that cover the {of} of the data: the exact theory of all \
                 data no longer applies, and the bound is looser than theirs would be"
            ),
            Warning::Jitter(jitter) => write!(
                f,
                "the kernel matrix needed a jitter of {jitter:.1e} on its diagonal to be positive definite: rows of the data \
                 are copies of each other, or nearly so"
            ),
            Warning::ConstantTargets(dimensions) => write!(
                f,
                "dimensions {dimensions:?} never change in the data: nothing is known of how they could"
            ),
            Warning::ModelOnHost { device } => {
                write!(f, "the Gaussian process computes on the processor: every step on {device} waits for it")
            }
            Warning::NothingToChoose => {
                f.write_str("one particle leaves nothing to choose: DA1 was not trained, and is DAinf")
            }
            Warning::AboveNeutral { method, neutral, value } => write!(
                f,
                "{}: its bound is above the neutral estimate of {}, {value:.2}, which draws from more uncertainty than this \
                 adversary may use; rely on the lower of the two",
                method.name(),
                neutral.name()
            ),
            Warning::Diverged { method, trajectories } => write!(
                f,
                "{}: {trajectories} trajectories left the finite numbers, so there is no bound: each counts as −∞; the model \
                 is asked about places far from the data, or the reward is not defined everywhere",
                method.name()
            ),
            Warning::Left { method, trajectories, of } => write!(
                f,
                "{}: {trajectories} of {of} trajectories left the range of the logs, widened by {:.0} %, and got the worst \
                 reward from there on: the number rests on that reward, not on the model; log data where the policy goes, \
                 shorten the horizon, or say what a step can cost at the most (--worst-reward)",
                method.name(),
                100.0 * WIDENED
            ),
            Warning::Far { method, trajectories, of } => write!(
                f,
                "{}: {trajectories} of {of} trajectories ended more than {FAR} standard deviations away from the data, where \
                 the model knows nothing; collect data there, or train longer",
                method.name()
            ),
            Warning::NotConverged(method) => write!(
                f,
                "{}: the adversary had not converged: a longer search may find a lower return, so the bound shows nothing yet",
                method.name()
            ),
            Warning::SearchedBySac => f.write_str(
                "ca: returns change in steps alone (by the reward, or by what ends an episode), so that there is no gradient \
                 to descend along: the adversary was searched for by SAC, which takes longer and may find less; in a reward a \
                 slope helps, such as clamp((x - 7) / 0.1, 0, 1) in place of x > 7",
            ),
            Warning::ModelWithoutGradient => f.write_str(
                "ca: the dynamics model has no gradient to descend along: the adversary was searched for by SAC, which takes \
                 longer and may find less",
            ),
            Warning::RewardWithoutGradient(name) => write!(
                f,
                "ca: the reward {name} is a function without a gradient: the adversary was searched for by SAC, which takes longer \
                 and may find less; an expression (--reward) has one",
            ),
            Warning::PolicyWithoutGradient { name, by_sac } => {
                let how = match by_sac {
                    true => "SAC, which needs none, was asked for an adversary, too; it takes longer and may find less",
                    false => "the adversary was searched for along central differences of its actions, which see no jumps",
                };
                write!(f, "ca: the policy {name} is a function without a gradient: {how}")
            }
            Warning::Unsupported { episodes: 0, .. } => f.write_str(
                "ca: no whole episodes were held out, so nothing shows that the bound holds: it is that of a large set, an \
                 extrapolation; log at least 10 episodes, and flag their ends"
            ),
            Warning::Unsupported { episodes, deviation, .. } if deviation.is_nan() => write!(
                f,
                "ca: the {episodes} held-out episodes are too short to tell how near they are to this policy, so nothing in \
                 the data shows that the bound holds: it is that of a large set, an extrapolation; keep the order of the \
                 log, and flag the ends of episodes"
            ),
            Warning::Unsupported { episodes, near, deviation } => write!(
                f,
                "ca: {near} of {episodes} held-out episodes are near this policy (their actions differ from its by \
                 {deviation:.2} half ranges, in the median), so nothing in the data shows that the bound holds: it is \
                 that of a large set, an extrapolation; log episodes of this policy, or of one like it"
            ),
            Warning::Extrapolated { near, whole } => write!(
                f,
                "ca: {near} held-out episodes are near this policy in their actions, and {whole} of them last the horizon, \
                 but they are too few, or the policy goes where they did not: the bound is that of a large set, an \
                 extrapolation; log episodes of this policy, or of one like it, over the whole horizon"
            ),
            Warning::GivenBeta => f.write_str(
                "ca: the size of the confidence set was given, so nothing here shows that the bound holds; \
                 --beta trajectory measures it on held-out episodes",
            ),
            Warning::ZeroBeta => f.write_str(
                "ca: on held-out episodes near this policy the model overstates nothing, so β is 0: the bound is the \
                 neutral estimate less its Monte-Carlo margin; --beta 1 asks for more",
            ),
            Warning::Subtracted { amount, beta } => write!(
                f,
                "ca: on held-out episodes near this policy the model may overstate returns by {amount:.2} more than the \
                 largest confidence set (β = {beta}) explains, which is subtracted from the bound: the model is wrong in \
                 a way that it does not know of; more data, or a longer training, may help"
            ),
            Warning::DaInf => f.write_str(
                "DAinf takes the worst of the particles for the worst case; nothing guarantees that the truth is among them",
            ),
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
