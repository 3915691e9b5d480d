//! Cholesky's factor K = L Lᵀ in f64: its blocks are matrix products.
//!
//! Nothing is inverted, not even the small blocks on the diagonal, which are solved by substitution: without noise K is
//! nearly singular, and the posterior variance is a difference of nearly equal numbers.

use super::strips::Strips;
use rayon::prelude::*;

/// Rows of a block.
const BLOCK: usize = 48;
/// Rows that a thread takes at a time where they do not depend on each other.
const SHARE: usize = 192;

/// L, in the order in which solves read it.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    lower: Strips,
    log_det: f64,
}

/// A matrix within a slice.
#[derive(Clone, Copy)]
struct View<'a> {
    data: &'a [f64],
    rows: usize,
    columns: usize,
    /// Steps from a row to the next, and from a column to the next.
    strides: [usize; 2],
}

impl<'a> View<'a> {
    /// Rows that lie `stride` apart.
    fn new(data: &'a [f64], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(
            rows == 0 || columns == 0 || data.len() >= (rows - 1) * stride + columns,
            "view too large"
        );
        View { data, rows, columns, strides: [stride, 1] }
    }

    fn transposed(self) -> Self {
        let [row, column] = self.strides;
        View { rows: self.columns, columns: self.rows, strides: [column, row], ..self }
    }
}

/// out ← out − a b, where rows of `out` lie `stride` apart.
fn subtract(out: &mut [f64], stride: usize, a: View<'_>, b: View<'_>) {
    assert_eq!(a.columns, b.rows, "inner sizes of a product");
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    assert!(out.len() >= (a.rows - 1) * stride + b.columns, "product too large");
    // SAFETY: `out` holds the product and the views are within their slices, as checked above and in `View::new`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            out.as_mut_ptr(),
            1,
            stride as isize,
            true,
            a.data.as_ptr(),
            a.strides[1] as isize,
            a.strides[0] as isize,
            b.data.as_ptr(),
            b.strides[1] as isize,
            b.strides[0] as isize,
            1.0,
            -1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

impl Factor {
    /// Of a symmetric matrix `[n, n]` of which the lower half is read; none if it is not positive definite.
    pub fn new(mut matrix: Vec<f64>, n: usize) -> Option<Self> {
        let mut panel = vec![0.0; n * BLOCK];
        for first in (0..n).step_by(BLOCK) {
            let width = BLOCK.min(n - first);
            let end = first + width;
            factor_block(&mut matrix[first * n + first..], n, width)?;
            // Below the block: L_ib = A_ib L_bb⁻ᵀ.
            let (above, below) = matrix.split_at_mut(end * n);
            let block = &above[first * n + first..];
            let panel = &mut panel[..(n - end) * width];
            let rows = below.par_chunks_mut(SHARE * n).zip(panel.par_chunks_mut(SHARE * width));
            rows.for_each(|(rows, panel)| {
                let height = rows.len() / n;
                let mut columns = vec![0.0; width * height]; // A_ibᵀ, so that substitution runs along rows
                for (i, row) in rows.chunks_exact(n).enumerate() {
                    (0..width).for_each(|k| columns[k * height + i] = row[first + k]);
                }
                substitute(block, n, width, &mut columns, height);
                let solved = rows.chunks_exact_mut(n).zip(panel.chunks_exact_mut(width));
                for (i, (row, panel)) in solved.enumerate() {
                    (0..width).for_each(|k| panel[k] = columns[k * height + i]);
                    row[first..end].copy_from_slice(panel);
                }
            });
            // What is left: A_ij − L_ib L_jbᵀ, for j ≤ i.
            let panel = &*panel;
            below.par_chunks_mut(BLOCK * n).enumerate().for_each(|(i, rows)| {
                let (height, columns) = (rows.len() / n, ((i + 1) * BLOCK).min(n - end));
                let own = View::new(&panel[i * BLOCK * width..], height, width, width);
                let others = View::new(panel, columns, width, width);
                subtract(&mut rows[end..], n, own, others.transposed());
            });
        }
        let log_det = 2.0 * matrix.iter().step_by(n + 1).map(|d| d.ln()).sum::<f64>();
        Some(Factor { lower: Strips::new(&matrix, n), log_det })
    }

    /// ln det K
    pub fn log_det(&self) -> f64 {
        self.log_det
    }

    /// Rows of a right-hand side that is solved where it is, see [`Strips::solve`].
    pub fn padded_rows(&self) -> usize {
        self.lower.padded_rows()
    }

    /// rhs ← L⁻¹ rhs, for `columns` right-hand sides side by side, `[n, columns]`.
    pub fn solve_lower(&self, rhs: &mut [f64], columns: usize) {
        self.lower.solve(rhs, columns);
    }

    /// rhs ← L⁻ᵀ rhs
    pub fn solve_upper(&self, rhs: &mut [f64], columns: usize) {
        self.lower.solve_transposed(rhs, columns);
    }

    /// K⁻¹ `[n, n]`, which is symmetric.
    pub fn inverse(&self) -> Vec<f64> {
        let n = self.lower.rows();
        let mut inverse = vec![0.0; n * n];
        inverse.par_chunks_mut(BLOCK * n).enumerate().for_each(|(block, rows)| {
            let columns = rows.len() / n;
            let mut rhs = vec![0.0; n * columns];
            (0..columns).for_each(|c| rhs[(block * BLOCK + c) * columns + c] = 1.0);
            self.solve_lower(&mut rhs, columns);
            self.solve_upper(&mut rhs, columns);
            for (c, row) in rows.chunks_exact_mut(n).enumerate() {
                row.iter_mut()
                    .zip(rhs.iter().skip(c).step_by(columns))
                    .for_each(|(x, solved)| *x = *solved);
            }
        });
        inverse
    }
}

/// The factor of a small block whose rows lie `stride` apart, in place; none if it is not positive definite.
fn factor_block(a: &mut [f64], stride: usize, width: usize) -> Option<()> {
    for j in 0..width {
        let (above, row) = a.split_at_mut(j * stride);
        for i in 0..j {
            let known = &above[i * stride..];
            let sum: f64 = row[..i].iter().zip(known).map(|(x, y)| x * y).sum();
            row[i] = (row[i] - sum) / known[i];
        }
        let pivot = row[j] - row[..j].iter().map(|x| x * x).sum::<f64>();
        if !(pivot > 0.0 && pivot.is_finite()) {
            return None;
        }
        row[j] = pivot.sqrt();
    }
    Some(())
}

/// rhs ← L⁻¹ rhs for a small block whose rows lie `stride` apart, rhs `[width, columns]`.
fn substitute(l: &[f64], stride: usize, width: usize, rhs: &mut [f64], columns: usize) {
    pulp::Arch::new().dispatch(|| {
        for i in 0..width {
            let (done, rest) = rhs.split_at_mut(i * columns);
            let (row, own) = (&l[i * stride..], &mut rest[..columns]);
            for (factor, done) in row.iter().zip(done.chunks_exact(columns)) {
                own.iter_mut().zip(done).for_each(|(x, y)| *x -= factor * y);
            }
            own.iter_mut().for_each(|x| *x /= row[i]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::rng::Stream;

    /// A Aᵀ + n I for a random A.
    fn positive(n: usize) -> Vec<f64> {
        let mut generator = Stream::new(n as u64).generator();
        let a: Vec<f64> = (0..n * n).map(|_| generator.normal()).collect();
        let dot = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum::<f64>();
        (0..n * n)
            .map(|at| dot(at / n, at % n) + if at / n == at % n { n as f64 } else { 0.0 })
            .collect()
    }

    fn largest(values: impl Iterator<Item = f64>) -> f64 {
        values.map(f64::abs).fold(0.0, f64::max)
    }

    /// Sizes below, at and beyond a block, and several blocks.
    #[test]
    fn factors_multiply_to_the_matrix_and_solves_undo_it() {
        for n in [1, 2, 63, 64, 65, 200, 300] {
            let matrix = positive(n);
            let factor = Factor::new(matrix.clone(), n).unwrap();
            let product = |i: usize, j: usize| {
                (0..=i.min(j)).map(|k| factor.lower.at(i, k) * factor.lower.at(j, k)).sum::<f64>()
            };
            let error = largest((0..n * n).map(|at| product(at / n, at % n) - matrix[at]));
            assert!(error < 1e-11 * n as f64, "{n}: {error}");
            let x: Vec<f64> = (0..3 * n).map(|i| (i as f64).sin()).collect();
            let mut b: Vec<f64> = (0..3 * n)
                .map(|at| (0..n).map(|k| matrix[at / 3 * n + k] * x[3 * k + at % 3]).sum())
                .collect();
            factor.solve_lower(&mut b, 3);
            factor.solve_upper(&mut b, 3);
            let error = largest(b.iter().zip(&x).map(|(b, x)| b - x));
            assert!(error < 1e-10, "{n}: {error}");
            let inverse = factor.inverse();
            let unit = |i: usize, j: usize| {
                (0..n).map(|k| inverse[i * n + k] * matrix[k * n + j]).sum::<f64>()
            };
            let error =
                largest((0..n).map(|i| unit(i, n - 1 - i) - f64::from(u8::from(2 * i + 1 == n))));
            assert!(error < 1e-10, "{n}: {error}");
        }
    }

    #[test]
    fn what_is_not_positive_definite_is_seen() {
        let mut matrix = positive(130);
        matrix[129 * 131] = -1.0;
        assert!(Factor::new(matrix, 130).is_none());
        assert!(Factor::new(vec![f64::NAN], 1).is_none());
    }
}
