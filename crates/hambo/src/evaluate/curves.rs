//! What the bound would be with another horizon, another size of the confidence set, or less data.
//!
//! Every point has a search of its own: an adversary that was found for one question need not be the worst of another.

use super::config::EvaluationConfig;
use super::estimate::{Estimate, Method};
use super::problem::Problem;
use crate::confidence::Beta;
use crate::policy::Policy;
use crate::run::Run;
use crate::{Error, Result};
use hambo_engine::rng::Stream;
use serde::Serialize;

/// Parts of the horizon and of the data, and multiples of β.
const HORIZONS: [f64; 4] = [0.125, 0.25, 0.5, 0.75];
const PARTS: [f64; 3] = [0.125, 0.25, 0.5];
const BETAS: [f64; 5] = [0.0, 0.25, 0.5, 2.0, 4.0];
/// Trajectories of a point, at the most.
const ROLLOUTS: usize = 2000;

/// The bound as a function of what was asked; the point that was asked for is in each of them.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// The method: the first conservative one that was asked for.
    pub method: Method,
    /// By the horizon, in steps.
    pub horizon: Vec<Point>,
    /// By β; HAMBO-CA only.
    pub beta: Vec<Point>,
    /// By the number of logged transitions.
    pub data: Vec<Point>,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Where it is.
    pub at: f64,
    /// The bound there.
    pub lower_bound: Option<f64>,
    /// A neutral estimate there.
    pub neutral: Option<f64>,
    /// Whether the adversary's search had converged.
    pub converged: Option<bool>,
}

/// The point that all curves go through: what was found for what was asked.
pub(super) struct Through<'a> {
    pub estimates: &'a [Estimate],
    /// The size of CA's set, where one number tells it.
    pub beta: Option<f64>,
    /// The failure probability of a bound.
    pub delta_each: f64,
    /// Whether the model was fitted with the settings at hand, so that one of fewer data is of the same kind.
    pub fitted: bool,
}

/// The curves; none where there is no conservative method.
pub(super) fn curves(
    problem: &Problem<'_>,
    policy: &Policy,
    through: &Through<'_>,
    run: &Run<'_>,
) -> Result<Option<Curves>> {
    let (data, question) = (problem.data, problem.config);
    let evaluate = |config: &EvaluationConfig, run: &Run<'_>| {
        Problem { config, constraints: &[], ..*problem }.evaluate(policy, run)
    };
    let methods = question.methods_for(problem.model);
    let Some(method) = methods.iter().copied().find(|m| m.is_conservative()) else {
        return Ok(None);
    };
    let neutral = methods.iter().copied().find(|m| !m.is_conservative()).unwrap_or(Method::Ds);
    let asked = EvaluationConfig {
        methods: vec![method, neutral],
        rollouts: question.rollouts.min(ROLLOUTS),
        delta: through.delta_each,
        explain: false,
        ..question.clone()
    };
    let point = |at: f64, estimates: &[Estimate]| {
        let of = |method: Method| estimates.iter().find(|e| e.method == method);
        Point {
            at,
            lower_bound: of(method).and_then(|e| e.lower_bound),
            neutral: of(neutral).map(|e| e.value),
            converged: of(method).and_then(|e| e.converged),
        }
    };
    let total = HORIZONS.len() + BETAS.len() + PARTS.len();
    let (mut done, mut notes) = (0, Vec::new());
    let mut tell = |what: &str| {
        done += 1;
        run.report("curves", done, total, what);
    };

    let mut horizon = vec![point(question.horizon as f64, through.estimates)];
    for part in HORIZONS {
        let steps = (part * question.horizon as f64).round() as usize;
        if steps >= 1 && horizon.iter().all(|p| p.at != steps as f64) {
            let asked = EvaluationConfig { horizon: steps, ..asked.clone() };
            let found = evaluate(&asked, &run.part(&format!("horizon-{steps}")))?;
            horizon.push(point(steps as f64, &found.estimates));
        }
        tell("horizon");
    }

    let mut beta = Vec::new();
    match through.beta.filter(|&b| method == Method::Ca && b > 0.0) {
        None => notes.push(
            "there is no curve over β: the set of this run is not told by one number above 0"
                .to_owned(),
        ),
        Some(used) => {
            beta.push(point(used, through.estimates));
            for multiple in BETAS {
                let asked =
                    EvaluationConfig { beta: Beta::Fixed(multiple * used), ..asked.clone() };
                let found = evaluate(&asked, &run.part(&format!("beta-{multiple}")))?;
                beta.push(point(multiple * used, &found.estimates));
                tell("β");
            }
        }
    }

    let mut sizes = vec![point(data.len() as f64, through.estimates)];
    let mut order: Vec<usize> = (0..data.episodes().len()).collect();
    Stream::new(question.seed).child("curves").generator().shuffle(&mut order);
    if !through.fitted {
        notes.push("there is no curve over data: the model was not fitted in this run".to_owned());
    }
    for part in PARTS {
        let episodes = (part * order.len() as f64).round() as usize;
        tell("data");
        if episodes == 0 || !through.fitted {
            continue;
        }
        let less = data.of_episodes(&order[..episodes])?;
        let part = run.part(&format!("episodes-{episodes}"));
        let found = question.fit_model(problem.device, &less, &part).and_then(|model| {
            let (data, model) = (&less, model.as_ref());
            let less = Problem { data, model, config: &asked, constraints: &[], ..*problem };
            less.evaluate(policy, &part)
        });
        match found {
            Ok(found) => sizes.push(point(less.len() as f64, &found.estimates)),
            Err(problem) if is_of_data(&problem) => {
                notes.push(format!("{} transitions, in {episodes} episodes: {problem}", less.len()))
            }
            Err(problem) => return Err(problem),
        }
    }
    for curve in [&mut horizon, &mut beta, &mut sizes] {
        curve.sort_by(|a, b| a.at.total_cmp(&b.at));
    }
    never_rising(&mut beta);
    if asked.rollouts < question.rollouts {
        notes.push(format!(
            "points other than the one that was asked for are of {} trajectories instead of {}",
            asked.rollouts, question.rollouts
        ));
    }
    Ok(Some(Curves { method, horizon, beta, data: sizes, notes }))
}

/// Whether the problem is that there are so few data; a disk, a device or a library that fails is another matter.
fn is_of_data(problem: &Error) -> bool {
    use Error::{Data, Mismatch, Numeric, Setting};
    matches!(problem, Data(_) | Mismatch(_) | Numeric(_) | Setting { .. })
}

/// What an adversary does in a small set it can do in a larger one, too: a bound that rises with β is one of a search
/// that found less.
fn never_rising(points: &mut [Point]) {
    let mut lowest = f64::INFINITY;
    for bound in points.iter_mut().filter_map(|point| point.lower_bound.as_mut()) {
        lowest = lowest.min(*bound);
        *bound = lowest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_set_never_raises_the_bound() {
        let point = |lower_bound| Point { at: 0.0, lower_bound, neutral: None, converged: None };
        let mut points = [3.0, 1.0, 2.0, -4.0].map(|x| point(Some(x)));
        never_rising(&mut points);
        assert_eq!(points.map(|p| p.lower_bound.unwrap()), [3.0, 1.0, 1.0, -4.0]);
    }
}
