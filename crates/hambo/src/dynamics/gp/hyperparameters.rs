//! Hyper-parameters by marginal likelihood, climbed with L-BFGS-B from several starts.

use super::factor::Factor;
use super::kernel::{Family, Kernel};
use super::posterior::Posterior;
use crate::run::Run;
use crate::{Error, Result};
use hambo_engine::rng::Stream;
use lbfgsb_rs_pure::{IterationControl, IterationInfo, LBFGSB};
use serde::{Deserialize, Serialize};

/// Where variances and length scales are looked for: scikit-learn's bounds.
const BOUNDS: [f64; 2] = [1e-5, 1e5];
/// And the variance of the noise. Below, a kernel matrix without noise is so near to singular that rounding changes ln p by
/// more than 1e-3, and a search climbs that instead (`tests/reference/make_gp.py` has the figures).
const NOISE_BOUNDS: [f64; 2] = [1e-7, 1e5];
/// Random starts are drawn from this range of variances and length scales, and of noise variances.
const STARTS: [[f64; 2]; 2] = [[0.1, 10.0], [1e-6, 0.3]];
/// Corrections that L-BFGS-B keeps, and its iterations at the most.
const MEMORY: usize = 10;
const ITERATIONS: usize = 100;
/// A search ends after that many iterations in which ln p rose by less than this, and starts over with an empty memory
/// where it stands as long as that gains something: a likelihood has long, flat ridges. A few of Newton's steps end it.
const PATIENCE: usize = 3;
const GAIN: f64 = 1e-6;
const ROUNDS: usize = 10;
const NEWTON_STEPS: usize = 3;
/// What a point counts where the likelihood is no number.
const IMPOSSIBLE: f64 = 1e25;

/// What a GP knows before the data, in standardized units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hyperparameters {
    /// The kernel.
    pub kernel: Kernel,
    /// σ_ε, the deviation of the noise.
    pub noise_std: f64,
}

/// What is to be learned, and how hard.
#[derive(Clone, Copy, Debug)]
pub struct LikelihoodSearch {
    /// The kernel's family.
    pub family: Family,
    /// Whether every input has a length scale of its own.
    pub ard: bool,
    /// σ_ε where it is known.
    pub noise_std: Option<f64>,
    /// Starts, the first of them at 1.
    pub starts: usize,
}

impl LikelihoodSearch {
    /// The hyper-parameters of the highest ln p(y | x) that was found, for inputs `[n, width]` and targets
    /// `[n, outputs]`, and that likelihood.
    pub fn run(
        &self,
        x: &[f64],
        y: &[f64],
        width: usize,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<(Hyperparameters, f64)> {
        let scales = match (self.family, self.ard) {
            (Family::Linear, _) => 0,
            (_, true) => width,
            (_, false) => 1,
        };
        let mut generator = stream.generator();
        let ln = |range: [f64; 2]| range.map(f64::ln);
        let mut best: Option<(f64, Hyperparameters)> = None;
        for start in 0..self.starts {
            let mut draw = |range: [f64; 2], first: f64| match start {
                0 => first.ln(),
                _ => generator.range(ln(range)[0], ln(range)[1]),
            };
            let mut theta: Vec<f64> = (0..=scales).map(|_| draw(STARTS[0], 1.0)).collect();
            let mut bounds = vec![ln(BOUNDS); scales + 1];
            let noise = draw(STARTS[1], 1e-2);
            if self.noise_std.is_none() {
                theta.push(noise);
                bounds.push(ln(NOISE_BOUNDS));
            }
            let mut loss = |theta: &[f64]| {
                let Hyperparameters { kernel, noise_std } = self.at(theta, scales);
                match Posterior::new(kernel, noise_std * noise_std, x, y, width) {
                    Ok(p) if p.log_likelihood.is_finite() => {
                        let mut gradient = p.likelihood_gradient();
                        gradient.truncate(theta.len());
                        gradient.iter_mut().for_each(|g| *g = -*g);
                        (-p.log_likelihood, gradient)
                    }
                    _ => (IMPOSSIBLE, vec![0.0; theta.len()]),
                }
            };
            let [low, high] = [0, 1].map(|i| bounds.iter().map(|b| b[i]).collect::<Vec<f64>>());
            let value = -descend(&mut theta, &low, &high, &mut loss);
            if value > -IMPOSSIBLE && best.as_ref().is_none_or(|(highest, _)| value > *highest) {
                best = Some((value, self.at(&theta, scales)));
            }
            let note =
                best.as_ref().map_or(String::new(), |(highest, _)| format!("ln p = {highest:.2}"));
            run.report("hyper-parameters", start + 1, self.starts, &note);
        }
        let (likelihood, found) = best.ok_or_else(|| {
            Error::Numeric(
                "no hyper-parameters were found at which the likelihood of the data is a finite number: give them in \
                 the settings of the model"
                    .to_owned(),
            )
        })?;
        Ok((found, likelihood))
    }

    /// From logarithms of variance, length scales and, where it is learned, noise variance.
    fn at(&self, theta: &[f64], scales: usize) -> Hyperparameters {
        let length_scales = match scales {
            0 => vec![1.0],
            _ => theta[1..=scales].iter().map(|l| l.exp()).collect(),
        };
        let kernel = Kernel { family: self.family, variance: theta[0].exp(), length_scales };
        let noise_std = self.noise_std.unwrap_or_else(|| (0.5 * theta[scales + 1]).exp());
        Hyperparameters { kernel, noise_std }
    }
}

/// Moves to a minimum within the bounds; gives what the loss is there.
///
/// A parameter at a bound that the loss pushes it against is left out of a round: with one in it the solver's steps
/// become so short that it stops far from the minimum.
fn descend(
    theta: &mut Vec<f64>,
    low: &[f64],
    high: &[f64],
    loss: &mut impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> f64 {
    let (mut lowest, mut slope) = loss(theta);
    for _ in 0..ROUNDS {
        let before = lowest;
        let free = free(theta, &slope, low, high);
        let of = |values: &[f64]| free.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        let whole = |part: &[f64]| {
            let mut whole = theta.clone();
            free.iter().zip(part).for_each(|(&i, x)| whole[i] = *x);
            whole
        };
        let mut moved = of(theta);
        let (mut last, mut idle) = (lowest, 0);
        let mut watch = |info: &IterationInfo, _: &[f64]| {
            idle = if last - info.f < GAIN { idle + 1 } else { 0 };
            last = info.f;
            if idle < PATIENCE {
                IterationControl::Continue
            } else {
                IterationControl::StopConverged
            }
        };
        let mut of_free = |part: &[f64]| {
            let (value, slope) = loss(&whole(part));
            (value, of(&slope))
        };
        let mut solver = LBFGSB::new(MEMORY).with_max_iter(ITERATIONS).with_pgtol(1e-6);
        // A search that broke off has still found a point.
        let found = solver.minimize_with_callback(
            &mut moved,
            &of(low),
            &of(high),
            &mut of_free,
            &mut watch,
        );
        let moved = whole(&found.map_or(moved, |solution| solution.x));
        let (value, slope_there) = loss(&moved);
        if value < lowest {
            (lowest, *theta, slope) = (value, moved, slope_there);
        }
        if before - lowest < 10.0 * GAIN {
            break;
        }
    }
    for _ in 0..NEWTON_STEPS {
        let free = free(theta, &slope, low, high);
        let Some(mut moved) = newton(theta, &slope, &free, loss) else { break };
        moved
            .iter_mut()
            .zip(low.iter().zip(high))
            .for_each(|(x, (low, high))| *x = x.clamp(*low, *high));
        let (value, slope_there) = loss(&moved);
        if value >= lowest {
            break;
        }
        (lowest, *theta, slope) = (value, moved, slope_there);
    }
    lowest
}

/// Parameters that are not at a bound that the loss pushes them against.
fn free(theta: &[f64], slope: &[f64], low: &[f64], high: &[f64]) -> Vec<usize> {
    let held = |i: &usize| {
        (theta[*i] <= low[*i] && slope[*i] >= 0.0) || (theta[*i] >= high[*i] && slope[*i] <= 0.0)
    };
    (0..theta.len()).filter(|i| !held(i)).collect()
}

/// Where one of Newton's steps leads, with second derivatives from differences of the slope: along a flat ridge it goes on
/// where rounding hides what little the loss still falls. None if the loss does not bend upwards everywhere.
fn newton(
    theta: &[f64],
    slope: &[f64],
    free: &[usize],
    loss: &mut impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> Option<Vec<f64>> {
    const APART: f64 = 1e-3;
    let mut bends = Vec::with_capacity(free.len() * free.len());
    for &i in free {
        let mut beside = theta.to_vec();
        beside[i] += APART;
        let (_, there) = loss(&beside);
        bends.extend(free.iter().map(|&j| (there[j] - slope[j]) / APART));
    }
    let mut step: Vec<f64> = free.iter().map(|&i| -slope[i]).collect();
    let factor = Factor::new(bends, free.len())?;
    factor.solve_lower(&mut step, 1);
    factor.solve_upper(&mut step, 1);
    let mut moved = theta.to_vec();
    free.iter().zip(step).for_each(|(&i, step)| moved[i] += step);
    Some(moved)
}
