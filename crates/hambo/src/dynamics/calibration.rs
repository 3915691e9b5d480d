//! Recalibration of predicted uncertainty by temperature scaling (Kuleshov et al. 2018; the paper's
//! Algorithm 3, CalibrateBNN).

use crate::stats::normal_quantile;

/// The confidence levels A of the calibration error.
pub const LEVELS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99];

/// EmpFreq(α; τ): the share of targets below the predicted α-quantile, from their standardized residuals
/// z = (s' − μ) / σ. A target is below the quantile of N(μ, τ²σ²) exactly if z ≤ τ Φ⁻¹(α).
pub fn empirical_frequency(residuals: &[f32], tau: f64, level: f64) -> f64 {
    let bound = tau * normal_quantile(level);
    residuals.iter().filter(|&&z| f64::from(z) <= bound).count() as f64 / residuals.len() as f64
}

/// CalErr(τ) of one dimension: the mean of (EmpFreq(α; τ) − α)² over the levels.
pub fn calibration_error(residuals: &[f32], tau: f64) -> f64 {
    let squares = LEVELS.map(|level| (empirical_frequency(residuals, tau, level) - level).powi(2));
    squares.iter().sum::<f64>() / LEVELS.len() as f64
}

/// argmin over τ of [`calibration_error`], exactly.
///
/// The error is a step function of τ: it changes only where a residual crosses a quantile, at z / Φ⁻¹(α).
/// A sweep over these crossings in order finds the best interval, of which the midpoint is returned; of
/// equally good intervals the one of the largest τ, which trusts the model least. Infinite where a residual is not finite.
pub fn recalibrate(residuals: &[f32]) -> f64 {
    if residuals.iter().any(|z| !z.is_finite()) {
        return f64::INFINITY;
    }
    let n = residuals.len() as f64;
    let quantiles = LEVELS.map(normal_quantile);
    let below = residuals.iter().filter(|&&z| z < 0.0).count() as i64;
    let not_above = residuals.iter().filter(|&&z| z <= 0.0).count() as i64;
    // Counts of z ≤ τ q as τ → 0.
    let mut counts = quantiles.map(|q| if q < 0.0 { below } else { not_above });

    let mut crossings: Vec<(f32, u8)> = Vec::new();
    for (level, &q) in quantiles.iter().enumerate() {
        let crossing = |&z: &f32| {
            (z != 0.0 && q != 0.0 && (z > 0.0) == (q > 0.0)).then(|| (z / q as f32, level as u8))
        };
        crossings.extend(residuals.iter().filter_map(crossing));
    }
    crossings.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));

    let term = |counts: &[i64; 10], l: usize| (counts[l] as f64 / n - LEVELS[l]).powi(2);
    let (mut best, mut best_tau) = (f64::INFINITY, 1.0);
    let mut i = 0;
    while i < crossings.len() {
        let tau = crossings[i].0;
        while i < crossings.len() && crossings[i].0 == tau {
            let level = usize::from(crossings[i].1);
            counts[level] += if quantiles[level] > 0.0 { 1 } else { -1 };
            i += 1;
        }
        let error: f64 = (0..LEVELS.len()).map(|l| term(&counts, l)).sum();
        if error <= best + 1e-15 {
            let next = crossings.get(i).map_or(tau, |c| c.0);
            (best, best_tau) = (error.min(best), 0.5 * (f64::from(tau) + f64::from(next)));
        }
    }
    best_tau
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::rng::Stream;

    fn normals(n: usize, scale: f64) -> Vec<f32> {
        let mut g = Stream::new(5).child("calibration").generator();
        (0..n).map(|_| (scale * g.normal()) as f32).collect()
    }

    #[test]
    fn known_miscalibration_is_found() {
        for scale in [0.2, 1.0, 3.0] {
            let tau = recalibrate(&normals(20_000, scale));
            assert!((tau / scale - 1.0).abs() < 0.02, "residuals of scale {scale} gave τ = {tau}");
        }
    }

    #[test]
    fn no_grid_point_is_better_than_the_exact_minimiser() {
        let residuals = normals(157, 1.7);
        let best = calibration_error(&residuals, recalibrate(&residuals));
        for i in 1..5000 {
            let tau = f64::from(i) * 1e-3;
            assert!(best <= calibration_error(&residuals, tau) + 1e-12, "τ = {tau} is better");
        }
    }

    #[test]
    fn frequencies_count_ties_as_below() {
        assert_eq!(empirical_frequency(&[-1.0, 0.0, 1.0, 2.0], 1.0, 0.5), 0.5);
    }

    #[test]
    fn residuals_of_zero_keep_the_scale() {
        assert_eq!(recalibrate(&[0.0; 10]), 1.0);
        for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(recalibrate(&[0.3, -0.2, wrong, 1.0]), f64::INFINITY);
        }
    }
}
