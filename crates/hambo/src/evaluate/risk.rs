//! How returns spread under the adversary: what single episodes may do, where a bound speaks of their mean.

use crate::rollout::Returns;
use crate::stats::clopper_pearson;
use serde::Serialize;

/// Level of the intervals.
const LEVEL: f64 = 0.95;

/// Risk under the adversary, in the model: of the rollouts that a bound was measured on. It is no bound on what happens in
/// the world; its intervals are about the Monte-Carlo error alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Risk {
    /// Rollouts.
    pub rollouts: usize,
    /// Level of the intervals.
    pub level: f64,
    /// The probability of a return below the threshold, with its Clopper–Pearson interval; none without a threshold.
    pub below_threshold: Option<Interval>,
    /// CVaR at 5 %: the mean return of the worst 5 % of episodes.
    pub cvar_5: Interval,
    /// CVaR at 20 %.
    pub cvar_20: Interval,
}

/// A figure within its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Risk {
    /// Of rollouts whose returns are not below `floor`, as far as is known.
    pub(super) fn of(returns: &Returns, threshold: Option<f64>, floor: f64) -> Self {
        let mut sorted: Vec<f64> = returns.values.iter().map(|&r| f64::from(r)).collect();
        sorted.sort_by(f64::total_cmp);
        Risk {
            rollouts: sorted.len(),
            level: LEVEL,
            below_threshold: threshold.map(|threshold| {
                let below = sorted.iter().filter(|&&r| r < threshold).count();
                let [low, high] = clopper_pearson(below, sorted.len(), LEVEL);
                Interval { value: below as f64 / sorted.len() as f64, low, high }
            }),
            cvar_5: cvar(&sorted, 0.05, floor),
            cvar_20: cvar(&sorted, 0.2, floor),
        }
    }
}

/// CVaR_α = 1/α ∫₀^α Q(u) du, the mean of the lowest share α of returns, for a sorted sample.
///
/// Its interval is free of assumptions on the distribution: by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart
/// the true distribution function is within ε = √(ln(2 / δ) / 2n) of the sample's everywhere. At the worst, a share ε of
/// returns that were not drawn lies at `floor`, or at the lowest that was drawn if that is lower; at the best, the lowest
/// share ε of the sample is too many.
fn cvar(sorted: &[f64], alpha: f64, floor: f64) -> Interval {
    let n = sorted.len() as f64;
    let epsilon = ((2.0 / (1.0 - LEVEL)).ln() / (2.0 * n)).sqrt();
    let lowest = sorted.first().copied().unwrap_or(f64::NAN);
    let highest = sorted.last().copied().unwrap_or(f64::NAN);
    let unseen = epsilon.min(alpha);
    // ∫ Q(u) du from 0 to x.
    let below = |x: f64| {
        let whole = ((x * n).floor() as usize).min(sorted.len());
        let rest = (x - whole as f64 / n).max(0.0);
        let next = sorted.get(whole).copied().unwrap_or(highest);
        sorted[..whole].iter().sum::<f64>() / n + if rest > 0.0 { rest * next } else { 0.0 }
    };
    Interval {
        value: below(alpha) / alpha,
        low: (unseen * floor.min(lowest) + below(alpha - unseen)) / alpha,
        high: (below(alpha + epsilon) - below(epsilon)) / alpha,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::rng::Stream;

    fn risk(values: Vec<f32>, threshold: f64) -> Risk {
        let none = vec![false; values.len()];
        let returns =
            Returns { values, diverged: none.clone(), left: none.clone(), far: none, folds: 1 };
        Risk::of(&returns, Some(threshold), -1.0)
    }

    #[test]
    fn the_worst_share_of_known_returns() {
        let found = risk((0..1000).rev().map(|i| i as f32).collect(), 100.0);
        assert!((found.cvar_5.value - 24.5).abs() < 1e-9, "{found:?}"); // the mean of 0 to 49
        assert!((found.cvar_20.value - 99.5).abs() < 1e-9, "{found:?}");
        let below = found.below_threshold.unwrap();
        assert_eq!(below.value, 0.1, "100 itself is not below");
        assert!(
            (below.low - 0.082_1).abs() < 1e-4 && (below.high - 0.120_3).abs() < 1e-4,
            "{below:?}"
        );
        let fraction = risk(vec![0.0, 10.0, 20.0], 5.0); // a third of the returns is 0, and 5 % of them are
        assert_eq!(fraction.cvar_5.value, 0.0);
        assert_eq!(fraction.cvar_5.low, -1.0, "three rollouts know nothing of what is rare");
        assert!(fraction.cvar_20.high >= fraction.cvar_20.value);
    }

    #[test]
    fn a_diverged_rollout_leaves_no_figure_that_looks_like_one() {
        let mut values = vec![0.0; 100];
        values[3] = f32::NEG_INFINITY;
        let found = risk(values, -5.0);
        assert_eq!(found.cvar_5.value, f64::NEG_INFINITY);
        assert_eq!(found.cvar_5.low, f64::NEG_INFINITY);
        assert_eq!(found.below_threshold.unwrap().value, 0.01);
    }

    /// Uniform returns on [−1, 1]: CVaR_α = α − 1. The intervals are about a band that holds everywhere, and are wide.
    #[test]
    fn intervals_hold_the_truth() {
        let mut generator = Stream::new(3).generator();
        let mut outside = 0;
        for _ in 0..300 {
            let values = (0..400).map(|_| (2.0 * generator.uniform() - 1.0) as f32).collect();
            let found = risk(values, -0.5);
            let figures = [
                (found.cvar_5, -0.95),
                (found.cvar_20, -0.8),
                (found.below_threshold.unwrap(), 0.25),
            ];
            let missed = |(i, truth): &(Interval, f64)| i.low > *truth || i.high < *truth;
            outside += usize::from(figures.iter().any(missed));
        }
        assert!(outside <= 30, "{outside} of 300");
    }
}
