//! How far the model's uncertainty can be believed, on rows that it was not trained on; and how returns spread.

use crate::Result;
use crate::data::Transitions;
use crate::dynamics::Dynamics;
use crate::dynamics::calibration::empirical_frequency;
use crate::evaluate::Method;
use crate::rollout::Returns;
use crate::stats::empirical_quantile;
use hambo_engine::backend::Device;
use serde::Serialize;

/// Quantiles of the reliability diagram, β of the coverage curve, bars of a histogram.
const LEVELS: usize = 19;
const BETAS: usize = 60;
const BARS: usize = 48;
/// Returns of a method that are counted, at the most.
const COUNTED: usize = 100_000;
/// Share of all returns beyond either end of a histogram.
const BEYOND: f64 = 0.002;

/// A reliability diagram and the coverage of the confidence set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reliability {
    /// Predicted quantiles.
    pub levels: Vec<f64>,
    /// Share of calibration rows below each of them with τ = 1, `[dimensions][levels]`.
    pub before: Vec<Vec<f64>>,
    /// With the τ that was chosen on these rows.
    pub after: Vec<Vec<f64>>,
    /// With this τ on the validation rows, which neither trained the networks nor chose τ.
    pub check: Vec<Vec<f64>>,
    /// Rows of the two kinds.
    pub rows: [usize; 2],
    /// Sizes β of the confidence set β τ σ_e.
    pub betas: Vec<f64>,
    /// Share of all held-out steps within it in every dimension.
    pub coverage: Vec<f64>,
}

/// Asks the model about its held-out rows; none where it has none.
pub fn reliability(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
) -> Result<Option<Reliability>> {
    let held_out = model.held_out();
    let (calibration, validation) = (held_out.held_out_by_fold(), held_out.validation_by_fold());
    let count = |folds: &[&[u32]]| folds.iter().map(|rows| rows.len()).sum::<usize>();
    let rows = [count(&calibration), count(&validation)];
    if rows.contains(&0) {
        return Ok(None);
    }
    let levels: Vec<f64> = (1..=LEVELS).map(|i| i as f64 / (LEVELS + 1) as f64).collect();
    let tau: Vec<f64> = model.tau().iter().map(|&tau| tau.into()).collect();
    let frequencies = |residuals: &[Vec<f32>], tau: &dyn Fn(usize) -> f64| -> Vec<Vec<f64>> {
        let of = |(d, z): (usize, &Vec<f32>)| {
            levels.iter().map(|&level| empirical_frequency(z, tau(d), level)).collect()
        };
        residuals.iter().enumerate().map(of).collect()
    };
    let mut needed = Vec::new(); // the β at which the set holds the row
    for rows in [&calibration, &validation] {
        let z = model.epistemic_residuals(device, data, rows)?;
        let of = |row: usize| z.iter().zip(&tau).map(move |(z, tau)| f64::from(z[row].abs()) / tau);
        needed.extend((0..count(rows)).map(|row| of(row).fold(0.0, f64::max)));
    }
    let calibration = model.standardized_residuals(device, data, &calibration)?;
    let validation = model.standardized_residuals(device, data, &validation)?;
    needed.sort_by(f64::total_cmp);
    let last = empirical_quantile(&needed, 0.99).clamp(1.0, 1e3);
    let betas: Vec<f64> = (0..=BETAS).map(|i| last * i as f64 / BETAS as f64).collect();
    let share = |beta: &f64| needed.partition_point(|x| x <= beta) as f64 / needed.len() as f64;
    Ok(Some(Reliability {
        before: frequencies(&calibration, &|_| 1.0),
        after: frequencies(&calibration, &|d| tau[d]),
        check: frequencies(&validation, &|d| tau[d]),
        rows,
        coverage: betas.iter().map(share).collect(),
        betas,
        levels,
    }))
}

/// Histograms of the returns of all methods over the same bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distributions {
    /// Edges of the bars.
    pub edges: Vec<f64>,
    /// One for each method.
    pub methods: Vec<Distribution>,
}

/// The returns of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The method.
    pub method: Method,
    /// Returns that were counted: the first 100,000 where there are more.
    pub counted: usize,
    /// Share of them in each bar.
    pub shares: Vec<f64>,
    /// Share of them below the first bar and above the last.
    pub beyond: [f64; 2],
}

impl Distributions {
    /// Of the returns of each method.
    pub fn of(returns: &[(Method, Vec<f32>)]) -> Self {
        let finite = returns.iter().flat_map(|(_, r)| r).filter(|r| r.is_finite());
        let mut all: Vec<f64> = finite.map(|&r| r.into()).collect();
        all.sort_by(f64::total_cmp);
        if all.is_empty() {
            return Distributions { edges: Vec::new(), methods: Vec::new() };
        }
        let [low, high] = [BEYOND, 1.0 - BEYOND].map(|p| empirical_quantile(&all, p));
        let width = match high - low {
            width if width > 0.0 => width / BARS as f64,
            _ => 1e-3 * low.abs().max(1e-3) / BARS as f64, // all returns are the same
        };
        let from = if high > low { low } else { low - 0.5 * width * BARS as f64 };
        let edges: Vec<f64> = (0..=BARS).map(|i| from + width * i as f64).collect();
        let distribution = |(method, returns): &(Method, Vec<f32>)| {
            let (mut shares, mut beyond) = (vec![0.0; BARS], [0.0; 2]);
            let one = 1.0 / returns.len().max(1) as f64;
            for r in returns.iter().map(|&r| f64::from(r)) {
                match (r - from) / width {
                    place if place < 0.0 => beyond[0] += one,
                    // The largest return that is shown belongs to the last bar.
                    place if place >= BARS as f64 && r > high => beyond[1] += one,
                    place => shares[(place as usize).min(BARS - 1)] += one,
                }
            }
            Distribution { method: *method, counted: returns.len(), shares, beyond }
        };
        Distributions { methods: returns.iter().map(distribution).collect(), edges }
    }

    /// The returns that are kept to be counted.
    pub fn keep(returns: &Returns) -> Vec<f32> {
        returns.values.iter().take(COUNTED).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_everything_once() {
        let few: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let many = vec![-1e30f32, 500.0, 500.0, f32::INFINITY];
        let found = Distributions::of(&[(Method::Ca, few), (Method::Ds, many)]);
        for method in &found.methods {
            let sum = method.shares.iter().chain(&method.beyond).sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-9, "{method:?}");
        }
        assert_eq!(found.methods[1].beyond, [0.25, 0.25]);
        assert_eq!(found.edges.len(), BARS + 1);
        assert!(found.edges.iter().all(|x| x.is_finite()));
    }

    #[test]
    fn equal_returns_stand_in_the_middle() {
        let found = Distributions::of(&[(Method::Ca, vec![-3.0; 10])]);
        assert!((found.methods[0].shares[BARS / 2] - 1.0).abs() < 1e-12);
        assert!(Distributions::of(&[]).edges.is_empty());
    }
}
