//! β: how large the confidence set is.

use super::trajectory::{TrajectoryBeta, trajectory_beta};
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::hallucination::ConfidenceSet;
use crate::progress::Progress;
use crate::rollout::World;
use crate::stats::{empirical_quantile, normal_quantile};
use crate::theory;
use crate::{Error, Result};
use serde::Serialize;
use std::str::FromStr;

/// What the rule of a set says where its trajectories could not be measured.
pub(crate) const NO_GRADIENT: &str = "(no gradient for trajectory)";
pub(crate) const TOO_FEW_EPISODES: &str = "1 (too few episodes for trajectory)";

/// How the size of the confidence set is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beta {
    /// From held-out trajectories, see [`TrajectoryBeta`]; 1 where the data have too few episodes or
    /// returns have no gradient.
    Trajectory {
        /// What it must not be below: a set that further rewards share with a first one covers that one, too.
        least: f64,
    },
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
            Beta::Trajectory { .. } => f.write_str("trajectory"),
            Beta::Gaussian => f.write_str("gaussian"),
            Beta::Conformal => f.write_str("conformal"),
            Beta::Literal => f.write_str("literal"),
            Beta::Theory { norm_bound } => write!(f, "theory, B = {norm_bound}"),
            Beta::Fixed(beta) => beta.fmt(f),
        }
    }
}

impl FromStr for Beta {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "trajectory" => Ok(Beta::Trajectory { least: 0.0 }),
            "gaussian" => Ok(Beta::Gaussian),
            "conformal" => Ok(Beta::Conformal),
            "literal" => Ok(Beta::Literal),
            "theory" => Err(Error::setting(
                "beta",
                text,
                "theory:B, where B bounds the norm of the dynamics (--norm-bound)",
            )),
            number => match number.strip_prefix("theory:").unwrap_or(number).parse() {
                Ok(norm_bound)
                    if number.starts_with("theory:") && norm_bound >= 0.0 && f64::is_finite(norm_bound) =>
                {
                    Ok(Beta::Theory { norm_bound })
                }
                Ok(beta) if beta >= 0.0 && f64::is_finite(beta) => Ok(Beta::Fixed(beta)),
                _ => Err(Error::setting(
                    "beta",
                    text,
                    "trajectory, gaussian, conformal, literal, theory (with --norm-bound), or a number that is not negative",
                )),
            },
        }
    }
}

/// The set that was chosen, and what it covers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetReport {
    /// Which rule chose it.
    pub rule: String,
    /// β, where one number says it.
    pub beta: Option<f64>,
    /// Reach per dimension in units of σ_e: β τ.
    pub reach: Vec<f32>,
    /// Share of held-out single steps that lie within the set in every dimension.
    pub one_step_coverage: f64,
    /// The trajectories that it was measured on.
    pub trajectory: Option<TrajectoryBeta>,
}

/// Chooses the set for a failure probability δ of the model.
pub(crate) fn confidence_set(
    world: &World<'_>,
    data: &Transitions,
    beta: Beta,
    delta: f64,
    progress: &dyn Progress,
) -> Result<(ConfidenceSet, SetReport)> {
    let model: &dyn Dynamics = world.model;
    let ratios = model.epistemic_residuals(world.device, data, &model.held_out().calibration);
    let mut trajectory = None;
    let (rule, beta, set) = match beta {
        Beta::Fixed(beta) => ("fixed".to_owned(), Some(beta), ConfidenceSet::new(model, beta)?),
        Beta::Literal => ("literal".to_owned(), None, ConfidenceSet::literal(model)),
        Beta::Gaussian => {
            let beta = normal_quantile(1.0 - delta / (2.0 * model.state_dim() as f64));
            ("gaussian".to_owned(), Some(beta), ConfidenceSet::new(model, beta)?)
        }
        Beta::Theory { norm_bound } => {
            let beta = theory::beta_of(model, norm_bound, delta)?;
            ("theory".to_owned(), Some(beta), ConfidenceSet::new(model, beta)?)
        }
        Beta::Conformal => {
            if model.held_out().calibration.is_empty() {
                return Err(Error::setting("beta", "conformal", "another rule: no data were held out"));
            }
            let n = model.held_out().calibration.len() as f64;
            let level = ((1.0 - delta / model.state_dim() as f64) * (n + 1.0) / n).min(1.0);
            let quantile = |z: &Vec<f32>| {
                let mut sorted: Vec<f64> = z.iter().map(|z| f64::from(z.abs())).collect();
                sorted.sort_by(f64::total_cmp);
                empirical_quantile(&sorted, level) as f32
            };
            let set = ConfidenceSet {
                reach: ratios.iter().map(quantile).collect(),
                ..ConfidenceSet::new(model, 1.0)?
            };
            ("conformal".to_owned(), None, set)
        }
        // Shifts that lower a return are found along its gradient.
        Beta::Trajectory { least } if world.pays_in_steps() => {
            let beta = least.max(1.0);
            let rule = format!("{beta} {NO_GRADIENT}");
            (rule, Some(beta), ConfidenceSet::new(model, beta)?)
        }
        Beta::Trajectory { least } => {
            trajectory = trajectory_beta(world, data, &ConfidenceSet::new(model, 1.0)?, delta, progress)?;
            let beta = trajectory.as_ref().map_or(1.0, |t| t.beta).max(least);
            let rule = if trajectory.is_some() { "trajectory" } else { TOO_FEW_EPISODES };
            (rule.to_owned(), Some(beta), ConfidenceSet::new(model, beta)?)
        }
    };
    let n = ratios[0].len();
    let literal = set.power == crate::compute::Power::Variance;
    let inside = |i: usize| ratios.iter().zip(&set.reach).all(|(z, reach)| z[i].abs() <= *reach);
    let covered = (0..n).filter(|&i| !literal && inside(i)).count() as f64;
    let one_step_coverage = if literal { f64::NAN } else { covered / n as f64 };
    let report = SetReport { rule, beta, reach: set.reach.clone(), one_step_coverage, trajectory };
    Ok((set, report))
}
