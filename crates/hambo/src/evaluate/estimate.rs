//! From returns to numbers that can be acted on.

use super::budget::Budget;
use super::risk::Risk;
use crate::adversary::SearchReport;
use crate::confidence::{Evidence, Replay};
use crate::rollout::Returns;
use crate::stats::{Mean, empirical_quantile};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Particles above which DAinf takes the δ-quantile of their values instead of the minimum.
pub const QUANTILE_ABOVE: usize = 20;

/// The estimators of the paper that exist here.
///
/// ```
/// use hambo::Method;
/// assert_eq!(Method::parse_list("ca,ds")?, [Method::Ca, Method::Ds]);
/// assert!(Method::Ca.is_conservative() && !Method::Ds.is_conservative());
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// HAMBO-CA: a continuous adversary in the confidence set.
    Ca,
    /// HAMBO-DA1: an adversary that chooses a particle at every step.
    Da1,
    /// HAMBO-DAinf: the worst particle, committed to for the whole trajectory.
    DaInf,
    /// OPE-DS: one Gaussian of the mixture's moments.
    Ds,
    /// OPE-TS1: a particle drawn anew at every step.
    Ts1,
    /// OPE-TSinf: a particle drawn once a trajectory.
    TsInf,
    /// The particles' mean, without noise.
    Mean,
}

impl Method {
    /// All of them, conservative ones first.
    pub const ALL: [Method; 7] = [
        Method::Ca,
        Method::Da1,
        Method::DaInf,
        Method::Ds,
        Method::Ts1,
        Method::TsInf,
        Method::Mean,
    ];

    /// Those that a question asks unless told otherwise: all but DA1, whose adversary learns for long.
    pub const USUAL: [Method; 6] =
        [Method::Ca, Method::DaInf, Method::Ds, Method::Ts1, Method::TsInf, Method::Mean];

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Ca => "ca",
            Method::Da1 => "da1",
            Method::DaInf => "dainf",
            Method::Ds => "ds",
            Method::Ts1 => "ts1",
            Method::TsInf => "tsinf",
            Method::Mean => "mean",
        }
    }

    /// Whether it is meant to lie below the truth; a neutral estimate has no lower bound.
    pub fn is_conservative(self) -> bool {
        matches!(self, Method::Ca | Method::Da1 | Method::DaInf)
    }

    /// Whether it follows or chooses single particles, which only networks are.
    pub fn needs_particles(self) -> bool {
        matches!(self, Method::Da1 | Method::DaInf | Method::Ts1 | Method::TsInf)
    }

    /// A list such as `dainf,ds` or `all`.
    pub fn parse_list(text: &str) -> Result<Vec<Method>> {
        if text == "all" {
            return Ok(Method::ALL.to_vec());
        }
        let mut methods: Vec<Method> = Vec::new();
        for name in text.split(',') {
            let method = name.parse()?;
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        Ok(methods)
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Method::ALL.into_iter().find(|m| m.name() == text).ok_or_else(|| {
            let names = Method::ALL.map(Method::name).join(", ");
            Error::setting("method", text, format!("all, or some of {names}"))
        })
    }
}

/// One method's answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The method.
    pub method: Method,
    /// Its estimate of the return.
    pub value: f64,
    /// Monte-Carlo standard error of `value`.
    pub std_error: f64,
    /// `value` less the Monte-Carlo margin, `subtracted` and `starts_margin`; none for neutral methods, which bound nothing.
    pub lower_bound: Option<f64>,
    /// The neutral estimate on the same starts that it is held against; none where that was not needed.
    pub neutral: Option<f64>,
    /// How returns spread under the adversary, in the model; none for neutral methods.
    pub risk: Option<Risk>,
    /// What the model overstates on held-out episodes and no confidence set covers.
    pub subtracted: f64,
    /// The sampling error of initial states that were drawn from the log; 0 where they were not.
    pub starts_margin: f64,
    /// The least return that is known of: the worst reward, logged or declared, at every step.
    pub floor: f64,
    /// What the data say about the bound; none for neutral methods.
    pub evidence: Option<Evidence>,
    /// Whether that is enough to decide by: the data support the bound, or extrapolations are accepted.
    pub enough_evidence: bool,
    /// Whether the adversary found its minimum; none where nothing was searched for.
    pub converged: Option<bool>,
    /// Trajectories that left the finite numbers.
    pub diverged_rollouts: usize,
    /// Trajectories that left the range of the logs, and got the worst reward from there on.
    pub left_rollouts: usize,
    /// Trajectories that ended far from the data.
    pub far_rollouts: usize,
    /// Trajectories, L.
    pub rollouts: usize,
    /// DAinf: the value of each particle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub particles: Vec<f64>,
}

impl Estimate {
    /// Whether the bound shows that the return reaches a threshold: one whose adversary had not converged, or that rests on
    /// too little evidence, shows nothing.
    pub fn meets(&self, threshold: f64) -> bool {
        self.shows_something() && self.lower_bound.is_some_and(|bound| bound >= threshold)
    }

    /// Whether the search had converged, and the evidence is enough.
    pub fn shows_something(&self) -> bool {
        self.converged != Some(false) && self.enough_evidence
    }

    /// Whether the bound holds at its confidence: the data support it, and its search had converged.
    pub fn is_shown(&self) -> bool {
        self.evidence == Some(Evidence::Supported) && self.converged != Some(false)
    }

    /// Whether it has a bound that says nothing: it is no better than the worst reward at every step. Where trajectories of the
    /// model earn less than that, the task can pay worse than was logged, and the bound says so.
    pub fn is_vacuous(&self) -> bool {
        let is_floor = self.value >= self.floor - 1e-6 * self.floor.abs();
        let of = |bound: f64| (bound <= self.floor && is_floor) || bound == f64::NEG_INFINITY;
        self.lower_bound.is_some_and(of)
    }

    /// The same with the least return that there can be.
    pub(super) fn above(self, floor: f64) -> Self {
        Estimate { floor, ..self }
    }

    /// The same where extrapolations are accepted, or not.
    pub(super) fn accepting(self, extrapolation: bool) -> Self {
        let supported = self.evidence == Some(Evidence::Supported);
        let bounds = self.lower_bound.is_some();
        Estimate { enough_evidence: bounds && (supported || extrapolation), ..self }
    }

    /// The same with what replaying held-out episodes showed.
    pub(super) fn shown_by(self, replay: Option<&Replay>) -> Self {
        let Some(replay) = replay else { return self };
        Estimate {
            lower_bound: self.lower_bound.map(|bound| bound - replay.subtracted),
            subtracted: replay.subtracted,
            evidence: Some(replay.evidence),
            ..self
        }
    }
}

/// Mean of returns with its standard error: their starts are drawn evenly, block by block.
pub fn mean_return(returns: &Returns) -> Mean {
    Mean::of_blocks(&returns.values, returns.folds)
}

/// A neutral estimate: Ĵ = 1/L Σ returns.
pub fn neutral(method: Method, returns: &Returns) -> Estimate {
    let mean = mean_return(returns);
    Estimate {
        method,
        value: mean.value,
        std_error: mean.std_error,
        lower_bound: None,
        neutral: None,
        risk: None,
        subtracted: 0.0,
        starts_margin: 0.0,
        floor: f64::NEG_INFINITY,
        evidence: None,
        enough_evidence: false,
        converged: None,
        diverged_rollouts: returns.diverged_count(),
        left_rollouts: returns.left_count(),
        far_rollouts: returns.far_count(),
        rollouts: returns.values.len(),
        particles: Vec::new(),
    }
}

/// HAMBO-CA, HAMBO-DA1: J̃ = Ĵ under the adversary that was found, measured on fresh trajectories.
///
/// The margin is one-sided at the budget's part for it, and no return is below `floor`. Where the search found trajectories that leave the finite numbers
/// there is no bound (−∞), even if none of the fresh ones does.
pub fn adversarial(
    method: Method,
    returns: &Returns,
    (budget, floor): (Budget, f64),
    search: &SearchReport,
) -> Estimate {
    let estimate = neutral(method, returns);
    let bound =
        mean_return(returns).lower_limit(returns.values.len(), floor, budget.monte_carlo(1));
    Estimate {
        lower_bound: Some(if search.lowest.is_finite() { bound } else { f64::NEG_INFINITY }),
        evidence: Some(Evidence::Unsupported),
        converged: Some(search.converged),
        ..estimate
    }
}

/// HAMBO-DAinf: J̃ = min_k J_k, the δ-quantile of the J_k for more than 20 particles.
///
/// The margin is one-sided at the budget's part for it, shared among all particles, since the minimum looks
/// at each of them: the bound is the same rank of the particles' own lower bounds.
pub fn dainf(each_member: &Returns, members: usize, (budget, floor): (Budget, f64)) -> Estimate {
    let means: Vec<Mean> =
        (0..members).map(|k| mean_return(&each_member.of_member(k, members))).collect();
    let (rollouts, delta) = (each_member.values.len() / members, budget.monte_carlo(members));
    let rank = if members > QUANTILE_ABOVE { budget.total() } else { 0.0 };
    let lowest = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        empirical_quantile(&values, rank)
    };
    let particles: Vec<f64> = means.iter().map(|m| m.value).collect();
    let value = lowest(particles.clone());
    let std_error = means.iter().find(|m| m.value == value).map_or(f64::NAN, |m| m.std_error);
    Estimate {
        method: Method::DaInf,
        value,
        std_error,
        lower_bound: Some(lowest(
            means.iter().map(|m| m.lower_limit(rollouts, floor, delta)).collect(),
        )),
        neutral: Some(particles.iter().sum::<f64>() / members as f64),
        risk: None,
        subtracted: 0.0,
        starts_margin: 0.0,
        floor: f64::NEG_INFINITY,
        evidence: Some(Evidence::Unsupported),
        enough_evidence: false,
        converged: None,
        diverged_rollouts: each_member.diverged_count(),
        left_rollouts: each_member.left_count(),
        far_rollouts: each_member.far_count(),
        rollouts,
        particles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::student_quantile;

    fn returns(values: &[f32]) -> Returns {
        let none = vec![false; values.len()];
        Returns {
            values: values.to_vec(),
            diverged: none.clone(),
            left: none.clone(),
            far: none,
            folds: 1,
        }
    }

    #[test]
    fn dainf_is_not_above_any_particle() {
        let each = returns(&[1.0, 3.0, -5.0, 1.0, 0.0, 0.5]); // means 2, −2, 0.25
        let e = dainf(&each, 3, (Budget::new(0.05).unwrap(), 0.0));
        assert_eq!((e.value, e.particles.as_slice()), (-2.0, [2.0, -2.0, 0.25].as_slice()));
        assert_eq!(e.std_error, 3.0);
        let z = student_quantile(1.0 - 0.5 * 0.1 * 0.05 / 3.0, 1.0);
        assert!((e.lower_bound.unwrap() - (-2.0 - z * 3.0)).abs() < 1e-12, "a floor above is none");
    }

    #[test]
    fn many_particles_give_the_delta_quantile() {
        let each = returns(&(0..40).flat_map(|k| [k as f32, k as f32]).collect::<Vec<_>>());
        assert_eq!(
            dainf(&each, 40, (Budget::new(0.05).unwrap(), 0.0)).value,
            1.0,
            "second smallest of 40 at δ = 0.05"
        );
        let each = returns(&(0..20).flat_map(|k| [k as f32, k as f32]).collect::<Vec<_>>());
        assert_eq!(
            dainf(&each, 20, (Budget::new(0.5).unwrap(), 0.0)).value,
            0.0,
            "the minimum up to 20 particles"
        );
    }

    #[test]
    fn trajectory_sampling_takes_every_member_equally() {
        let each = returns(&[0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
        assert_eq!(each.one_member_each(2).values, [0.0, 11.0, 2.0, 13.0]);
    }

    #[test]
    fn lists_of_methods() {
        assert_eq!(Method::parse_list("all").unwrap(), Method::ALL);
        assert_eq!(Method::parse_list("ds,dainf,ds").unwrap(), [Method::Ds, Method::DaInf]);
        let error = Method::parse_list("da").unwrap_err().to_string();
        assert_eq!(
            error,
            "method = da: expected all, or some of ca, da1, dainf, ds, ts1, tsinf, mean"
        );
    }
}
