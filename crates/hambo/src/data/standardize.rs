//! Mean and standard deviation of columns: networks see inputs and targets of unit size.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Mean and standard deviation of each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standardizer {
    /// Mean of each column.
    pub mean: Vec<f32>,
    /// Standard deviation of each column; 1 where the column is constant.
    pub std: Vec<f32>,
}

impl Standardizer {
    /// Of the rows that `row` yields, each `width` long: one pass for the means, one for the deviations.
    pub fn fit<I: Iterator<Item = usize>>(
        width: usize,
        rows: impl Fn() -> I,
        mut row: impl FnMut(usize, &mut [f32]),
    ) -> Self {
        let mut values = vec![0.0; width];
        let (mut mean, mut n) = (vec![0.0f64; width], 0.0);
        for i in rows() {
            row(i, &mut values);
            mean.iter_mut().zip(&values).for_each(|(m, &v)| *m += f64::from(v));
            n += 1.0;
        }
        mean.iter_mut().for_each(|m| *m /= n);
        let mut variance = vec![0.0f64; width];
        for i in rows() {
            row(i, &mut values);
            for ((s, m), &v) in variance.iter_mut().zip(&mean).zip(&values) {
                *s += (f64::from(v) - m).powi(2);
            }
        }
        let std = mean.iter().zip(&variance).map(|(m, s)| {
            let std = (s / n).sqrt();
            // Rounding of a constant column is no signal.
            if std > 1e-6 * (m.abs() + 1e-6) { std as f32 } else { 1.0 }
        });
        let std = std.collect();
        Standardizer { mean: mean.iter().map(|&m| m as f32).collect(), std }
    }

    /// (x − mean) / std, in place, over rows.
    pub fn apply(&self, values: &mut [f32]) {
        for row in values.chunks_exact_mut(self.mean.len()) {
            for ((v, m), s) in row.iter_mut().zip(&self.mean).zip(&self.std) {
                *v = (*v - m) / s;
            }
        }
    }
}

/// An error that names the first column of `values` `[rows, width]` that never changes.
pub fn refuse_constant_columns(name: &str, values: &[f32], width: usize) -> Result<()> {
    let first = &values[..width];
    let changes = |c: usize| values.iter().skip(c).step_by(width).any(|&v| v != first[c]);
    match (0..width).find(|&c| !changes(c)) {
        None => Ok(()),
        Some(c) => Err(Error::Data(format!(
            "{name}: column {c} is {} in every row, so its influence cannot be learned; remove the column, or \
             allow it with --allow-constant if it never changes under the evaluated policy either",
            first[c]
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(data: &[[f32; 2]]) -> Standardizer {
        Standardizer::fit(2, || 0..data.len(), |i, out| out.copy_from_slice(&data[i]))
    }

    #[test]
    fn columns_get_zero_mean_and_unit_variance() {
        let data = [[1.0, 10.0], [3.0, 30.0], [5.0, 20.0]];
        let s = of(&data);
        assert_eq!(s.mean, [3.0, 20.0]);
        let mut all: Vec<f32> = data.concat();
        s.apply(&mut all);
        for c in 0..2 {
            let column: Vec<f32> = all.iter().skip(c).step_by(2).copied().collect();
            assert!(column.iter().sum::<f32>().abs() < 1e-6);
            assert!((column.iter().map(|x| x * x).sum::<f32>() / 3.0 - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_constant_column_keeps_its_unit_and_is_refused_by_name() {
        let s = of(&[[0.1, 1.0], [0.1, 2.0], [0.1, 4.0]]);
        assert_eq!(s.std[0], 1.0);
        let error =
            refuse_constant_columns("states", &[0.1, 1.0, 0.1, 2.0], 2).unwrap_err().to_string();
        assert!(error.contains("column 0 is 0.1"), "{error}");
        assert!(refuse_constant_columns("states", &[0.1, 1.0, 0.2, 2.0], 2).is_ok());
    }
}
