//! The worst share of episodes in place of their mean.

use super::Returns;
use serde::Serialize;

/// CVaR_α of the return J, the mean over the worst share α of episodes, as a mean: for every z,
/// CVaR_α ≥ E[z − max(z − J, 0) / α], with equality where z is the α-quantile of J (Rockafellar and Uryasev, 2000). For a z
/// that is fixed beforehand a lower bound on that mean is one on CVaR, so all that is known of means holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// α, the share of episodes.
    pub share: f64,
    /// z, the return below which an episode is among the worst.
    pub below: f64,
}

impl Tail {
    /// The worst share of episodes, where returns are like these.
    pub fn of(returns: impl Iterator<Item = f64>, share: f64) -> Self {
        let mut sorted: Vec<f64> = returns.collect();
        sorted.sort_by(f64::total_cmp);
        let rank = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len().max(1));
        Tail { share, below: sorted.get(rank - 1).copied().unwrap_or(f64::NAN) }
    }

    /// What a return counts for: z − max(z − J, 0) / α.
    pub fn value(self, value: f64) -> f64 {
        self.below - (self.below - value).max(0.0) / self.share
    }
}

/// What a return counts for, where the worst episodes are asked about, or all.
pub(crate) fn valued(tail: Option<Tail>, value: f64) -> f64 {
    tail.map_or(value, |tail| tail.value(value))
}

impl Returns {
    /// The same with what each return counts for.
    pub(crate) fn valued(&self, tail: Option<Tail>) -> Returns {
        let values = self.values.iter().map(|&r| valued(tail, f64::from(r)) as f32).collect();
        Returns { values, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_mean_is_that_of_the_worst_share_or_lower() {
        let values: Vec<f32> = (0..1000).rev().map(|i| i as f32).collect();
        let none = vec![false; values.len()];
        let returns =
            Returns { values, diverged: none.clone(), left: none.clone(), far: none, folds: 1 };
        let mean = |tail: Tail| {
            let values = returns.valued(Some(tail)).values;
            values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
        };
        for (share, expected) in [(0.05, 24.5), (0.2, 99.5), (1.0, 499.5)] {
            let tail = Tail::of(returns.values.iter().map(|&r| f64::from(r)), share);
            assert!((mean(tail) - expected).abs() < 1e-3, "{tail:?}: {}", mean(tail));
            for off in [-20.0, 20.0] {
                assert!(mean(Tail { below: tail.below + off, ..tail }) <= expected + 1e-3);
            }
        }
        let tail = Tail { share: 0.1, below: 5.0 };
        assert_eq!([tail.value(7.0), tail.value(4.0)], [5.0, -5.0]);
        assert_eq!(tail.value(f64::NEG_INFINITY), f64::NEG_INFINITY, "no number, no bound");
    }
}
