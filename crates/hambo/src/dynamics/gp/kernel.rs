//! Covariance functions k(x, x').

use crate::{Error, Result};
use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

/// The families, each of the distance r = ‖(x − x') / ℓ‖ but for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// v xᵀx', without length scales.
    Linear,
    /// v exp(−r²/2)
    Rbf,
    /// v (1 + √3 r) exp(−√3 r)
    Matern32,
    /// v (1 + √5 r + 5r²/3) exp(−√5 r)
    Matern52,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 4] = [Family::Linear, Family::Rbf, Family::Matern32, Family::Matern52];

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Linear => "linear",
            Family::Rbf => "rbf",
            Family::Matern32 => "matern32",
            Family::Matern52 => "matern52",
        }
    }
}

impl std::str::FromStr for Family {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Family::ALL.into_iter().find(|f| f.name() == text).ok_or_else(|| {
            Error::setting(
                "kernel",
                text,
                format!("one of {}", Family::ALL.map(Family::name).join(", ")),
            )
        })
    }
}

/// A kernel with its hyper-parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Which function it is.
    pub family: Family,
    /// v; k(x, x) of all but the linear kernel.
    pub variance: f64,
    /// ℓ: one for all inputs, or one each; one that is not used for the linear kernel.
    pub length_scales: Vec<f64>,
}

impl Kernel {
    /// Checks the numbers, for inputs of that width.
    pub fn validate(&self, width: usize) -> Result<()> {
        let real = |x: f64| x > 0.0 && x.is_finite();
        if !real(self.variance) {
            return Err(Error::setting("variance", self.variance, "a positive, finite number"));
        }
        if let Some(&scale) = self.length_scales.iter().find(|&&l| !real(l)) {
            return Err(Error::setting("length_scales", scale, "positive, finite numbers"));
        }
        if ![1, width].contains(&self.length_scales.len())
            || (self.is_linear() && self.length_scales.len() != 1)
        {
            let expected = match self.is_linear() {
                true => "one for the linear kernel, which does not use it".to_owned(),
                false => format!("one, or {width}: one an input"),
            };
            return Err(Error::setting(
                "length_scales",
                format!("{} numbers", self.length_scales.len()),
                expected,
            ));
        }
        Ok(())
    }

    fn is_linear(&self) -> bool {
        self.family == Family::Linear
    }

    /// ℓ of input `d`.
    pub fn length_scale(&self, d: usize) -> f64 {
        match self.is_linear() {
            true => 1.0,
            false => self.length_scales[d % self.length_scales.len()],
        }
    }

    /// x / ℓ of rows `[n, width]`.
    pub(super) fn scaled(&self, x: &[f64], width: usize) -> Vec<f64> {
        x.iter().enumerate().map(|(i, x)| x / self.length_scale(i % width)).collect()
    }

    /// k(x, x) of a scaled row.
    pub(super) fn prior(&self, x: &[f64]) -> f64 {
        match self.is_linear() {
            true => self.variance * x.iter().map(|x| x * x).sum::<f64>(),
            false => self.variance,
        }
    }

    /// k(xᵢ, q_c) of scaled rows `[n, width]` and several others, whose coordinates come one after another: `queries`
    /// `[width, columns]`, into `values` `[n, columns]`. Where `slopes` is not empty also dk/d(r²), or dk/d(xᵀx') for the
    /// linear kernel.
    pub(super) fn rows(
        &self,
        x: &[f64],
        queries: &[f64],
        values: &mut [f64],
        slopes: &mut [f64],
        width: usize,
    ) {
        pulp::Arch::new().dispatch(Rows { kernel: self, x, queries, values, slopes, width });
    }
}

/// [`Kernel::rows`], compiled for the processor at hand.
struct Rows<'a> {
    kernel: &'a Kernel,
    x: &'a [f64],
    queries: &'a [f64],
    values: &'a mut [f64],
    slopes: &'a mut [f64],
    width: usize,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows { kernel, x, queries, values, slopes, width } = self;
        let columns = queries.len() / width;
        let mut slopes = slopes.chunks_exact_mut(columns);
        for (x, values) in x.chunks_exact(width).zip(values.chunks_exact_mut(columns)) {
            let slopes = slopes.next().unwrap_or_default();
            let mut at = 0;
            while at < columns {
                let end = columns.min(at + S::F64_LANES);
                let mut sum = simd.splat_f64s(0.0);
                for (&x, queries) in x.iter().zip(queries.chunks_exact(columns)) {
                    let (x, query) =
                        (simd.splat_f64s(x), simd.partial_load_f64s(&queries[at..end]));
                    let apart = if kernel.is_linear() { query } else { simd.sub_f64s(x, query) };
                    let other = if kernel.is_linear() { x } else { apart };
                    sum = simd.mul_add_e_f64s(other, apart, sum);
                }
                let (k, slope) = kernel.of(simd, sum);
                simd.partial_store_f64s(&mut values[at..end], k);
                if !slopes.is_empty() {
                    simd.partial_store_f64s(&mut slopes[at..end], slope);
                }
                at = end;
            }
        }
    }
}

impl Kernel {
    /// From r² or xᵀx' to the kernel and its slope.
    #[inline(always)]
    fn of<S: Simd>(&self, simd: S, sum: S::f64s) -> (S::f64s, S::f64s) {
        let number = |x: f64| simd.splat_f64s(x);
        let times = |x: f64, y: S::f64s| simd.mul_f64s(number(x), y);
        let v = self.variance;
        match self.family {
            Family::Linear => (times(v, sum), number(v)),
            Family::Rbf => {
                let k = times(v, exp(simd, times(-0.5, sum)));
                (k, times(-0.5, k))
            }
            Family::Matern32 => {
                let r = simd.sqrt_f64s(times(3.0, sum));
                let decay = times(v, exp(simd, simd.neg_f64s(r)));
                (simd.mul_f64s(simd.add_f64s(number(1.0), r), decay), times(-1.5, decay))
            }
            Family::Matern52 => {
                let r = simd.sqrt_f64s(times(5.0, sum));
                let decay = times(v, exp(simd, simd.neg_f64s(r)));
                let linear = simd.add_f64s(number(1.0), r);
                let k = simd.mul_add_e_f64s(times(1.0 / 3.0, r), r, linear);
                (simd.mul_f64s(k, decay), times(-5.0 / 6.0, simd.mul_f64s(linear, decay)))
            }
        }
    }
}

/// eˣ for x ≤ 0; correct to two units in the last place, and 0 below e⁻⁷⁰⁸.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    const LN2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10]; // high and low part
    // Adding and subtracting 1.5 · 2⁵² rounds to an integer, which is left in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let number = |x: f64| simd.splat_f64s(x);
    let within = simd.max_f64s(x, number(-708.0));
    let shifted = simd.mul_add_e_f64s(within, number(std::f64::consts::LOG2_E), number(ROUND));
    let k = simd.sub_f64s(shifted, number(ROUND));
    let r = simd.negate_mul_add_e_f64s(k, number(LN2[0]), within);
    let r = simd.negate_mul_add_e_f64s(k, number(LN2[1]), r);
    // Taylor's series: |r| ≤ ln 2 / 2, so that the first term left out is below 2⁻⁵³.
    let mut sum = number(1.0 / 6_227_020_800.0);
    for inverse_factorial in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = simd.mul_add_e_f64s(sum, r, number(inverse_factorial));
    }
    // 2ᵏ: the integer goes to the bits of the exponent.
    let exponent = simd.mul_u64s(simd.transmute_u64s_f64s(shifted), simd.splat_u64s(1 << 52));
    let power = simd.transmute_f64s_u64s(simd.add_u64s(exponent, simd.splat_u64s(1023 << 52)));
    simd.select_f64s(simd.less_than_f64s(x, number(-708.0)), number(0.0), simd.mul_f64s(sum, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp(f64);

    impl WithSimd for Exp {
        type Output = f64;
        fn with_simd<S: Simd>(self, simd: S) -> f64 {
            let mut all = vec![0.0; S::F64_LANES];
            simd.partial_store_f64s(&mut all, exp(simd, simd.splat_f64s(self.0)));
            all[S::F64_LANES - 1]
        }
    }

    #[test]
    fn exponentials_are_exact_to_the_last_places() {
        let exp = |x: f64| pulp::Arch::new().dispatch(Exp(x));
        for i in 0..200_000 {
            let x = -f64::from(i) * 0.003_541_1;
            let (ours, exact) = (exp(x), x.exp());
            assert!(
                (ours - exact).abs() <= 2.0 * f64::EPSILON * exact + 1e-307,
                "e^{x}: {ours}, {exact}"
            );
        }
        assert_eq!((exp(0.0), exp(-709.0), exp(f64::NEG_INFINITY)), (1.0, 0.0, 0.0));
    }

    /// dk/d(r²) against central differences, for every kernel and also near 0.
    #[test]
    fn slopes_are_those_of_finite_differences() {
        for family in [Family::Rbf, Family::Matern32, Family::Matern52] {
            let kernel = Kernel { family, variance: 1.7, length_scales: vec![1.0] };
            let at = |r2: f64| {
                let (mut k, mut slope) = ([0.0], [0.0]);
                kernel.rows(&[r2.sqrt()], &[0.0], &mut k, &mut slope, 1);
                (k[0], slope[0])
            };
            for r2 in [0.01, 0.3, 1.0, 4.0, 20.0] {
                let h = 1e-4 * r2;
                let difference = (at(r2 + h).0 - at(r2 - h).0) / (2.0 * h);
                assert!(
                    (at(r2).1 - difference).abs() < 1e-6,
                    "{family:?} at {r2}: {} {difference}",
                    at(r2).1
                );
            }
        }
    }

    #[test]
    fn bad_numbers_are_refused() {
        let kernel = |variance: f64, length_scales: &[f64]| {
            let kernel =
                Kernel { family: Family::Rbf, variance, length_scales: length_scales.to_vec() };
            kernel.validate(3).map_err(|e| e.to_string())
        };
        assert_eq!(kernel(1.0, &[1.0, 2.0, 3.0]), Ok(()));
        assert_eq!(
            kernel(1.0, &[0.0]).unwrap_err(),
            "length_scales = 0: expected positive, finite numbers"
        );
        assert_eq!(
            kernel(1.0, &[1.0, f64::INFINITY, 1.0]).unwrap_err(),
            "length_scales = inf: expected positive, finite numbers"
        );
        assert!(kernel(f64::NAN, &[1.0]).unwrap_err().starts_with("variance = NaN"));
        assert!(kernel(1.0, &[1.0, 1.0]).unwrap_err().contains("expected one, or 3"));
    }
}
