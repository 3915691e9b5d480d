//! How sure a count is, and how well an order was told.

pub use hambo::stats::clopper_pearson;
use serde::Serialize;

/// A share, with its Clopper–Pearson interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    pub count: usize,
    pub of: usize,
    pub low: f64,
    pub high: f64,
}

impl Share {
    /// How many of these are true, with an interval of 95 %.
    pub fn of(values: impl Iterator<Item = bool>) -> Self {
        let (mut count, mut of) = (0, 0);
        for value in values {
            count += usize::from(value);
            of += 1;
        }
        let [low, high] = clopper_pearson(count, of, 0.95);
        Share { count, of, low, high }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Share { count, of, low, high } = *self;
        match of {
            0 => f.write_str("–"),
            _ => write!(f, "{count} of {of} [{:.1}, {:.1}] %", 100.0 * low, 100.0 * high),
        }
    }
}

/// The quantile of a sample by linear interpolation; infinite values may be among them. None of an empty one.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = p * (sorted.len().checked_sub(1)? as f64);
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(if low == high { low } else { low + (place - place.floor()) * (high - low) })
}

/// What is lost by taking the policy with the largest number, as a share of the range of the true returns. None where
/// they are all the same.
pub fn regret_at_1(numbers: &[f64], truths: &[f64]) -> Option<f64> {
    let chosen = (0..numbers.len()).max_by(|&i, &j| numbers[i].total_cmp(&numbers[j]))?;
    let best = truths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let worst = truths.iter().copied().fold(f64::INFINITY, f64::min);
    (best > worst).then(|| (best - truths[chosen]) / (best - worst))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of tests/reference/validate_statistics.py (SciPy 1.17).
    #[test]
    fn clopper_pearson_works_like_scipy() {
        for (count, of, low, high) in REFERENCE {
            let found = clopper_pearson(count, of, 0.95);
            assert!((found[0] - low).abs() < 1e-10, "{count} of {of}: {found:?}");
            assert!((found[1] - high).abs() < 1e-10, "{count} of {of}: {found:?}");
        }
        assert_eq!(clopper_pearson(0, 0, 0.95), [0.0, 1.0]);
    }

    const REFERENCE: [(usize, usize, f64, f64); 5] = [
        (0, 40, 0.0, 0.08809730287880237),
        (1, 37, 0.0006840310246946647, 0.14160309561115805),
        (5, 101, 0.016267215110638195, 0.11175505863466603),
        (20, 20, 0.8315665290169146, 1.0),
        (3, 1000, 0.0006190999316495713, 0.008742023238478303),
    ];

    /// Values of numpy.quantile in the same script.
    #[test]
    fn quantiles_work_like_numpy() {
        let sample = [3.0, -1.0, 7.5, 2.0, 2.0, 11.0];
        for (p, expected) in [(0.1, 0.5), (0.5, 2.5), (0.9, 9.25)] {
            assert!((quantile(&sample, p).unwrap() - expected).abs() < 1e-12);
        }
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, f64::INFINITY], 0.0), Some(1.0));
        assert_eq!(quantile(&[1.0, f64::INFINITY, f64::INFINITY], 0.9), Some(f64::INFINITY));
    }

    #[test]
    fn regret_is_a_share_of_the_range() {
        assert_eq!(regret_at_1(&[1.0, 3.0, 2.0], &[-10.0, -5.0, 0.0]), Some(0.5));
        assert_eq!(regret_at_1(&[1.0, 2.0, 3.0], &[-10.0, -5.0, 0.0]), Some(0.0));
        assert_eq!(regret_at_1(&[f64::NEG_INFINITY, -1e9], &[0.0, -1.0]), Some(1.0));
        assert_eq!(regret_at_1(&[1.0, 2.0], &[3.0, 3.0]), None);
        assert_eq!(regret_at_1(&[], &[]), None);
    }
}
