//! What the reader of a bound must know before trusting it.

use crate::adversary::{NO_GRADIENT, Optimisers, SearchReport, SetReport, TOO_FEW_EPISODES};
use crate::dynamics::{Dynamics, FitReport, GpReport, ModelReport};
use crate::estimate::{Estimate, Method};
use crate::rollout::FAR;

/// Of a model: what its training found, and what its calibration rests on.
pub(crate) fn of_model(model: &dyn Dynamics) -> Vec<String> {
    let mut warnings = match model.fit_report() {
        ModelReport::Bnn(report) => of_networks(&report),
        ModelReport::Gp(report) => of_gp(&report),
    };
    let held_out = model.held_out();
    if !held_out.by_episode && !held_out.calibration.is_empty() {
        warnings.push(
            "the data have fewer than 10 episodes, so single transitions were held out: their neighbours were \
             trained on, and the calibration may be optimistic"
                .to_owned(),
        );
    }
    warnings
}

fn of_networks(report: &FitReport) -> Vec<String> {
    let mut warnings = Vec::new();
    if !report.broken_particles.is_empty() {
        warnings.push(format!(
            "particles {:?} predict held-out data far worse than the others (NLL {:.2?}): DAinf follows the worst \
             particle; train longer, or with another seed",
            report.broken_particles, report.validation_nll
        ));
    }
    if report.validation_nll.len() == 1 {
        warnings
            .push("one particle knows no epistemic uncertainty: its DAinf is a neutral estimate".to_owned());
    }
    warnings
}

fn of_gp(report: &GpReport) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.subset {
        warnings.push(format!(
            "the Gaussian process is conditioned on {} rows that cover the {} of the data: the exact theory of all data \
             no longer applies, and the bound is looser than theirs would be",
            report.rows, report.data_rows
        ));
    }
    if report.jitter > 0.0 {
        warnings.push(format!(
            "the kernel matrix needed a jitter of {:.1e} on its diagonal to be positive definite: rows of the data are \
             copies of each other, or nearly so",
            report.jitter
        ));
    }
    if !report.constant_targets.is_empty() {
        warnings.push(format!(
            "dimensions {:?} never change in the data: nothing is known of how they could",
            report.constant_targets
        ));
    }
    warnings
}

/// Of estimates: trajectories that left numbers or data, and searches that did not end.
pub(crate) fn of_estimates(model: &dyn Dynamics, estimates: &[Estimate]) -> Vec<String> {
    let mut warnings = Vec::new();
    if model.members() == 1 && estimates.iter().any(|e| e.method == Method::Da1) {
        warnings.push("one particle leaves nothing to choose: DA1 was not trained, and is DAinf".to_owned());
    }
    let neutral = estimates.iter().filter(|e| e.lower_bound.is_none() && e.method != Method::Mean);
    let lowest = neutral.min_by(|a, b| a.value.total_cmp(&b.value));
    for e in estimates {
        if let (Some(bound), Some(lowest)) = (e.lower_bound, lowest)
            && bound > lowest.value
        {
            warnings.push(format!(
                "{}: its bound is above the neutral estimate of {}, {:.2}, which draws from more uncertainty than this \
                 adversary may use; rely on the lower of the two",
                e.method.name(),
                lowest.method.name(),
                lowest.value
            ));
        }
        if e.diverged_rollouts > 0 {
            warnings.push(format!(
                "{}: {} trajectories left the finite numbers, so there is no bound: each counts as −∞; the model is asked about \
                 places far from the data, or the reward is not defined everywhere",
                e.method.name(),
                e.diverged_rollouts
            ));
        }
        if e.far_rollouts > 0 {
            warnings.push(format!(
                "{}: {} of {} trajectories ended more than {FAR} standard deviations away from the data, where the \
                 model knows nothing; collect data there, or train longer",
                e.method.name(),
                e.far_rollouts,
                e.rollouts.max(e.rollouts * e.particles.len())
            ));
        }
        if e.converged == Some(false) {
            warnings.push(format!(
                "{}: the adversary had not converged: a longer search may find a lower return, so the bound shows nothing yet",
                e.method.name()
            ));
        }
    }
    warnings
}

/// Of the search for CA's adversary: that it was not the one asked for.
pub(crate) fn of_search(report: &SearchReport, asked: Optimisers) -> Option<String> {
    let instead = asked != Optimisers::Sac && report.by_sac_alone();
    instead.then(|| {
        "ca: returns change in steps alone (by the reward, or by what ends an episode), so that there is no gradient to \
         descend along: the adversary was searched for by SAC, which takes longer and may find less; in a reward a slope \
         helps, such as clamp((x - 7) / 0.1, 0, 1) in place of x > 7"
            .to_owned()
    })
}

/// Of a confidence set: what it was measured on.
pub(crate) fn of_set(set: &SetReport, delta: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(t) = &set.trajectory else {
        if set.rule.ends_with(NO_GRADIENT) {
            warnings.push(
                "ca: without a gradient the confidence set cannot be measured on trajectories: β is 1 as in the paper, or the \
                 task's if that is larger, which nothing here checks"
                    .to_owned(),
            );
        } else if set.rule == TOO_FEW_EPISODES {
            warnings.push(
                "ca: too few held-out episodes to measure the confidence set on trajectories, so β = 1 as in the \
                 paper, which nothing here checks"
                    .to_owned(),
            );
        }
        return warnings;
    };
    if t.level < 1.0 - delta {
        warnings.push(format!(
            "ca: {} held-out episodes can show a coverage of {:.0} % at the most, not {:.0} %: {} that any of their {} windows \
             asked for",
            t.episodes,
            100.0 * t.level,
            100.0 * (1.0 - delta),
            if set.beta == Some(t.beta) { "β is the largest" } else { "β is the task's, larger than" },
            t.windows
        ));
    }
    if set.beta == Some(0.0) {
        warnings.push(
            "ca: in nearly all held-out windows the model overstates nothing, so β is 0: the bound is the neutral \
             estimate less its Monte-Carlo margin; --beta 1 asks for more"
                .to_owned(),
        );
    }
    if t.uncovered > 0 {
        warnings.push(format!(
            "ca: {} of {} held-out windows did worse than any β up to 64 explains: the model is wrong there",
            t.uncovered, t.windows
        ));
    }
    warnings
}
