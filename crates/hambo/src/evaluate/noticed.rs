//! What is noticed of a model, of estimates, of a search and of a confidence set.

use super::estimate::{Estimate, Method};
use super::warning::Warning;
use crate::adversary::{Optimizers, SearchReport};
use crate::confidence::{Evidence, Replay, SetReport};
use crate::dynamics::{Dynamics, FitReport, GpReport, ModelReport};
use hambo_engine::expression::Program;

/// Of a model: what its training found, and what its calibration rests on.
pub(super) fn of_model(model: &dyn Dynamics) -> Vec<Warning> {
    let mut warnings = match model.fit_report() {
        ModelReport::Bnn(report) => of_networks(&report),
        ModelReport::Gp(report) => of_gp(&report),
        ModelReport::Custom(_) => Vec::new(),
    };
    let held_out = model.held_out();
    if !held_out.by_episode && !held_out.held_out().is_empty() {
        warnings.push(Warning::SingleRowsHeldOut);
    }
    warnings
}

fn of_networks(report: &FitReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !report.broken_particles.is_empty() {
        let (particles, nll) = (report.broken_particles.clone(), report.validation_nll.clone());
        warnings.push(Warning::BrokenParticles { particles, nll });
    }
    if report.validation_nll.len() == 1 {
        warnings.push(Warning::OneParticle);
    }
    warnings
}

fn of_gp(report: &GpReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if report.subset {
        warnings.push(Warning::SubsetOfRows { rows: report.rows, of: report.data_rows });
    }
    if report.jitter > 0.0 {
        warnings.push(Warning::Jitter(report.jitter));
    }
    if !report.constant_targets.is_empty() {
        warnings.push(Warning::ConstantTargets(report.constant_targets.clone()));
    }
    warnings
}

/// Of estimates: trajectories that left numbers or data, and searches that did not end.
pub(super) fn of_estimates(model: &dyn Dynamics, estimates: &[Estimate]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if model.members() == 1 && estimates.iter().any(|e| e.method == Method::Da1) {
        warnings.push(Warning::NothingToChoose);
    }
    let neutral = estimates.iter().filter(|e| e.lower_bound.is_none() && e.method != Method::Mean);
    let lowest = neutral.min_by(|a, b| a.value.total_cmp(&b.value));
    for e in estimates {
        let method = e.method;
        if let (Some(bound), Some(lowest)) = (e.lower_bound, lowest)
            && bound > lowest.value
        {
            warnings.push(Warning::AboveNeutral {
                method,
                neutral: lowest.method,
                value: lowest.value,
            });
        }
        if e.diverged_rollouts > 0 {
            warnings.push(Warning::Diverged { method, trajectories: e.diverged_rollouts });
        }
        let of = e.rollouts.max(e.rollouts * e.particles.len());
        if e.left_rollouts > 0 {
            warnings.push(Warning::Left { method, trajectories: e.left_rollouts, of });
        }
        if e.far_rollouts > 0 {
            warnings.push(Warning::Far { method, trajectories: e.far_rollouts, of });
        }
        if e.converged == Some(false) {
            warnings.push(Warning::NotConverged(method));
        }
    }
    warnings
}

/// Of the search for CA's adversary: that it was not the one asked for.
pub(super) fn of_search(
    report: &SearchReport,
    asked: Optimizers,
    has_gradient: bool,
    reward: &Program,
) -> Option<Warning> {
    let why = match has_gradient {
        false => Warning::ModelWithoutGradient,
        true if reward.is_function() => Warning::RewardWithoutGradient(reward.to_string()),
        true => Warning::SearchedBySac,
    };
    (asked != Optimizers::Sac && report.by_sac_alone()).then_some(why)
}

/// Of a confidence set: what it was measured on.
pub(super) fn of_set(set: &SetReport) -> Vec<Warning> {
    let Some(replay) = &set.trajectory else { return vec![Warning::GivenBeta] };
    let mut warnings = Vec::new();
    let Replay { episodes, near, whole, beta, deviation, .. } = *replay;
    match replay.evidence {
        Evidence::Supported if set.beta == Some(0.0) => warnings.push(Warning::ZeroBeta),
        Evidence::Supported => {}
        Evidence::Extrapolated => warnings.push(Warning::Extrapolated { near, whole }),
        Evidence::Unsupported => {
            let deviation = deviation[0];
            warnings.push(Warning::Unsupported { episodes, near, deviation });
        }
    }
    if replay.subtracted > 0.0 {
        warnings.push(Warning::Subtracted { amount: replay.subtracted, beta });
    }
    warnings
}
