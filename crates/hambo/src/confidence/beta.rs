//! β: how large the confidence set is.

use super::replay::Replay;
use super::set::ConfidenceSet;
use crate::confidence::theory;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::stats::{empirical_quantile, normal_quantile};
use crate::{Error, Result};
use hambo_engine::backend::Device;
use serde::Serialize;
use std::str::FromStr;

/// Held-out single steps that are looked at, at the most.
const MOST_ROWS: usize = 100_000;

/// How the size of the confidence set is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beta {
    /// From held-out episodes that are replayed in the model with the policy in the loop, see [`Replay`]; where too few are
    /// near the policy, a large set that covers single held-out steps, and 1 at the least.
    Trajectory,
    /// The normal quantile with a union bound over dimensions, as if errors were Gaussian.
    Gaussian,
    /// Per dimension from held-out single steps, by split-conformal prediction.
    Conformal,
    /// τ² σ²_e, the paper's Section 4.1 to the letter.
    Literal,
    /// β_n(δ) of the paper's Lemma 3.6, for Gaussian processes.
    Theory {
        /// B, a bound on the norm of the standardized dynamics in the kernel's Hilbert space.
        norm_bound: f64,
    },
    /// A number; 1 is the paper's choice.
    Fixed(f64),
}

impl std::fmt::Display for Beta {
    /// As the user writes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Beta::Trajectory => f.write_str("trajectory"),
            Beta::Gaussian => f.write_str("gaussian"),
            Beta::Conformal => f.write_str("conformal"),
            Beta::Literal => f.write_str("literal"),
            Beta::Theory { norm_bound } => write!(f, "theory, B = {norm_bound}"),
            Beta::Fixed(beta) => beta.fmt(f),
        }
    }
}

impl Beta {
    /// As the user writes it: a rule, or a number. The theory's needs a bound on the norm of the dynamics, which stands
    /// beside it, or in it as `theory:B`.
    pub fn parse(text: &str, norm_bound: Option<f64>) -> Result<Self> {
        let not_negative = |x: &f64| *x >= 0.0 && x.is_finite();
        match (text, text.strip_prefix("theory")) {
            ("trajectory", _) => Ok(Beta::Trajectory),
            ("gaussian", _) => Ok(Beta::Gaussian),
            ("conformal", _) => Ok(Beta::Conformal),
            ("literal", _) => Ok(Beta::Literal),
            (_, Some("")) => norm_bound.map(|norm_bound| Beta::Theory { norm_bound }).ok_or_else(|| {
                let expected =
                    "--norm-bound B beside it: a bound on the norm of the dynamics, which data cannot give";
                Error::setting("beta", text, expected)
            }),
            (_, within) => {
                let number = within.map_or(text, |bound| bound.strip_prefix(':').unwrap_or(""));
                match (number.parse().ok().filter(not_negative), within) {
                    (Some(norm_bound), Some(_)) => Ok(Beta::Theory { norm_bound }),
                    (Some(beta), None) => Ok(Beta::Fixed(beta)),
                    (None, _) => Err(Error::setting(
                        "beta",
                        text,
                        "trajectory, gaussian, conformal, literal, theory (with --norm-bound), or a number that is not negative",
                    )),
                }
            }
        }
    }
}

impl FromStr for Beta {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Beta::parse(text, None)
    }
}

/// The rule that sized a confidence set. It serializes as its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetRule {
    /// A number that was given.
    Fixed,
    /// The paper's Section 4.1 to the letter.
    Literal,
    /// As if errors were Gaussian.
    Gaussian,
    /// The paper's Lemma 3.6.
    Theory,
    /// Held-out single steps.
    Conformal,
    /// Held-out episodes, replayed.
    Trajectory,
    /// The same, but they do not support a small set: one that covers single held-out steps.
    Large,
}

impl std::fmt::Display for SetRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SetRule::Fixed => "fixed",
            SetRule::Literal => "literal",
            SetRule::Gaussian => "gaussian",
            SetRule::Theory => "theory",
            SetRule::Conformal => "conformal",
            SetRule::Trajectory => "trajectory",
            SetRule::Large => "large, as nothing supports a smaller one",
        })
    }
}

impl Serialize for SetRule {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The set that was chosen, and what it covers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetReport {
    /// Which rule chose it.
    pub rule: SetRule,
    /// β, where one number says it.
    pub beta: Option<f64>,
    /// Reach per dimension in units of σ_e: β τ.
    pub reach: Vec<f32>,
    /// Share of held-out single steps that lie within the set in every dimension.
    pub one_step_coverage: f64,
    /// The episodes that it was measured on; none where it was given.
    pub trajectory: Option<Replay>,
}

/// The set for a failure probability δ of the model; that of trajectories is [another's](replayed_set) work.
pub(crate) fn confidence_set(
    device: &Device,
    model: &dyn Dynamics,
    data: &Transitions,
    beta: Beta,
    delta: f64,
) -> Result<(ConfidenceSet, SetReport)> {
    let ratios = residuals(device, model, data)?;
    let (rule, beta) = match beta {
        Beta::Fixed(beta) => (SetRule::Fixed, Some(beta)),
        Beta::Literal => (SetRule::Literal, None),
        Beta::Gaussian => (
            SetRule::Gaussian,
            Some(normal_quantile(1.0 - delta / (2.0 * model.state_dim() as f64))),
        ),
        Beta::Theory { norm_bound } => {
            (SetRule::Theory, Some(theory::beta_of(model, norm_bound, delta)?))
        }
        Beta::Conformal => (SetRule::Conformal, None),
        Beta::Trajectory => (SetRule::Trajectory, Some(1.0)),
    };
    let set = match rule {
        SetRule::Literal => ConfidenceSet::literal(model),
        SetRule::Conformal => conformal(&ratios, model, delta)?,
        _ => ConfidenceSet::new(model, beta.unwrap_or(1.0))?,
    };
    let one_step_coverage = match rule {
        SetRule::Literal => f64::NAN,
        _ => coverage(&set, &ratios),
    };
    let reach = set.reach.clone();
    Ok((set, SetReport { rule, beta, reach, one_step_coverage, trajectory: None }))
}

/// The set that replaying held-out episodes asked for.
pub(crate) fn replayed_set(
    device: &Device,
    model: &dyn Dynamics,
    data: &Transitions,
    replay: Replay,
) -> Result<(ConfidenceSet, SetReport)> {
    let set = ConfidenceSet::new(model, replay.beta)?;
    let report = SetReport {
        rule: SetRule::Trajectory,
        beta: Some(replay.beta),
        reach: set.reach.clone(),
        one_step_coverage: coverage(&set, &residuals(device, model, data)?),
        trajectory: Some(replay),
    };
    Ok((set, report))
}

/// (s' − μ) / σ_e on held-out single steps, `[state][rows]`.
fn residuals(device: &Device, model: &dyn Dynamics, data: &Transitions) -> Result<Vec<Vec<f32>>> {
    let folds = model.held_out().held_out_by_fold();
    let most = (MOST_ROWS / folds.len().max(1)).max(1);
    let some = |rows: &[u32]| -> Vec<u32> {
        rows.iter().step_by(rows.len().div_ceil(most).max(1)).copied().collect()
    };
    let folds: Vec<Vec<u32>> = folds.into_iter().map(some).collect();
    let folds: Vec<&[u32]> = folds.iter().map(Vec::as_slice).collect();
    model.epistemic_residuals(device, data, &folds)
}

/// Share of single steps that lie within the set in every dimension.
fn coverage(set: &ConfidenceSet, ratios: &[Vec<f32>]) -> f64 {
    let n = ratios[0].len();
    let inside = |i: usize| ratios.iter().zip(&set.reach).all(|(z, reach)| z[i].abs() <= *reach);
    (0..n).filter(|&i| inside(i)).count() as f64 / n as f64
}

/// The set where nothing supports a smaller one: per dimension as large as single held-out steps ask for, and at least the
/// paper's.
pub(crate) fn large_set(
    device: &Device,
    model: &dyn Dynamics,
    data: &Transitions,
    replay: Replay,
    delta: f64,
) -> Result<(ConfidenceSet, SetReport)> {
    let some = !model.held_out().held_out().is_empty();
    let rule = if some { Beta::Conformal } else { Beta::Gaussian };
    let (mut set, report) = confidence_set(device, model, data, rule, delta)?;
    for (reach, least) in set.reach.iter_mut().zip(ConfidenceSet::new(model, 1.0)?.reach) {
        *reach = reach.max(least);
    }
    let reach = set.reach.clone();
    let (rule, trajectory) = (SetRule::Large, Some(replay));
    Ok((set, SetReport { rule, beta: None, reach, trajectory, ..report }))
}

/// Per dimension the split-conformal quantile of |s' − μ| / σ_e on held-out single steps, `ratios` `[state][rows]`.
fn conformal(ratios: &[Vec<f32>], model: &dyn Dynamics, delta: f64) -> Result<ConfidenceSet> {
    if ratios[0].is_empty() {
        return Err(Error::setting("beta", "conformal", "another rule: no data were held out"));
    }
    let n = ratios[0].len() as f64;
    let level = ((1.0 - delta / model.state_dim() as f64) * (n + 1.0) / n).min(1.0);
    let quantile = |z: &Vec<f32>| {
        let mut sorted: Vec<f64> = z.iter().map(|z| f64::from(z.abs())).collect();
        sorted.sort_by(f64::total_cmp);
        empirical_quantile(&sorted, level) as f32
    };
    Ok(ConfidenceSet {
        reach: ratios.iter().map(quantile).collect(),
        ..ConfidenceSet::new(model, 1.0)?
    })
}
