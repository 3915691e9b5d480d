//! Cholesky's factor K = L Lᵀ in f64, and solves with it, cut into blocks so that the work is matrix products.
//!
//! Only the small blocks on the diagonal are inverted, never L or K: the posterior variance is a difference of nearly
//! equal numbers where the data are dense, and an inverse of K would lose it.

use rayon::prelude::*;

/// Rows of a block.
const BLOCK: usize = 64;
/// Rows that a thread takes at a time where they do not depend on each other.
const SHARE: usize = 256;

/// L, row after row; what lies above its diagonal is not used.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    n: usize,
    lower: Vec<f64>,
    /// Inverses of the blocks on the diagonal, `[blocks, BLOCK, BLOCK]`.
    inverses: Vec<f64>,
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
        assert!(rows == 0 || columns == 0 || data.len() >= (rows - 1) * stride + columns, "view too large");
        View { data, rows, columns, strides: [stride, 1] }
    }

    fn transposed(self) -> Self {
        let [row, column] = self.strides;
        View { rows: self.columns, columns: self.rows, strides: [column, row], ..self }
    }
}

/// out ← keep · out + factor · a b, where rows of `out` lie `stride` apart.
fn multiply(keep: f64, out: &mut [f64], stride: usize, factor: f64, a: View<'_>, b: View<'_>) {
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
            keep != 0.0,
            a.data.as_ptr(),
            a.strides[1] as isize,
            a.strides[0] as isize,
            b.data.as_ptr(),
            b.strides[1] as isize,
            b.strides[0] as isize,
            keep,
            factor,
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
        let mut inverses = vec![0.0; n.div_ceil(BLOCK) * BLOCK * BLOCK];
        let mut panel = vec![0.0; n * BLOCK];
        for (first, inverse) in (0..n).step_by(BLOCK).zip(inverses.chunks_exact_mut(BLOCK * BLOCK)) {
            let width = BLOCK.min(n - first);
            let end = first + width;
            factor_block(&mut matrix[first * n + first..], n, width)?;
            invert_block(&matrix[first * n + first..], n, width, inverse);
            let inverse = View::new(inverse, width, width, BLOCK);
            let panel = &mut panel[..(n - end) * width];
            // Below the block: L_ib = A_ib L_bb⁻ᵀ.
            let rows = matrix[end * n..].par_chunks_mut(SHARE * n);
            rows.zip(panel.par_chunks_mut(SHARE * width)).for_each(|(rows, panel)| {
                let a = View::new(&rows[first..], panel.len() / width, width, n);
                multiply(0.0, panel, width, 1.0, a, inverse.transposed());
                for (row, solved) in rows.chunks_exact_mut(n).zip(panel.chunks_exact(width)) {
                    row[first..end].copy_from_slice(solved);
                }
            });
            // What is left: A_ij − L_ib L_jbᵀ, for j ≤ i.
            let panel = &*panel;
            matrix[end * n..].par_chunks_mut(BLOCK * n).enumerate().for_each(|(i, rows)| {
                let (height, columns) = (rows.len() / n, ((i + 1) * BLOCK).min(n - end));
                let own = View::new(&panel[i * BLOCK * width..], height, width, width);
                let others = View::new(panel, columns, width, width);
                multiply(1.0, &mut rows[end..], n, -1.0, own, others.transposed());
            });
        }
        Some(Factor { n, lower: matrix, inverses })
    }

    /// ln det K
    pub fn log_det(&self) -> f64 {
        2.0 * self.lower.iter().step_by(self.n + 1).map(|d| d.ln()).sum::<f64>()
    }

    /// rhs ← L⁻¹ rhs, for `columns` right-hand sides side by side, `[n, columns]`.
    pub fn solve_lower(&self, rhs: &mut [f64], columns: usize) {
        let mut solved = vec![0.0; BLOCK * columns];
        for (first, inverse) in (0..self.n).step_by(BLOCK).zip(self.inverses.chunks_exact(BLOCK * BLOCK)) {
            let width = BLOCK.min(self.n - first);
            let (done, rest) = rhs.split_at_mut(first * columns);
            let rest = &mut rest[..width * columns];
            if first > 0 {
                let left = View::new(&self.lower[first * self.n..], width, first, self.n);
                multiply(1.0, rest, columns, -1.0, left, View::new(done, first, columns, columns));
            }
            let inverse = View::new(inverse, width, width, BLOCK);
            multiply(0.0, &mut solved, columns, 1.0, inverse, View::new(rest, width, columns, columns));
            rest.copy_from_slice(&solved[..width * columns]);
        }
    }

    /// rhs ← L⁻ᵀ rhs
    pub fn solve_upper(&self, rhs: &mut [f64], columns: usize) {
        let mut solved = vec![0.0; BLOCK * columns];
        let blocks = (0..self.n).step_by(BLOCK).zip(self.inverses.chunks_exact(BLOCK * BLOCK));
        for (first, inverse) in blocks.rev() {
            let width = BLOCK.min(self.n - first);
            let end = first + width;
            let (rest, done) = rhs.split_at_mut(end * columns);
            let rest = &mut rest[first * columns..];
            if end < self.n {
                let below = View::new(&self.lower[end * self.n + first..], self.n - end, width, self.n);
                let done = View::new(done, self.n - end, columns, columns);
                multiply(1.0, rest, columns, -1.0, below.transposed(), done);
            }
            let inverse = View::new(inverse, width, width, BLOCK);
            let right = View::new(rest, width, columns, columns);
            multiply(0.0, &mut solved, columns, 1.0, inverse.transposed(), right);
            rest.copy_from_slice(&solved[..width * columns]);
        }
    }

    /// K⁻¹ `[n, n]`, which is symmetric.
    pub fn inverse(&self) -> Vec<f64> {
        let n = self.n;
        let mut inverse = vec![0.0; n * n];
        inverse.par_chunks_mut(BLOCK * n).enumerate().for_each(|(block, rows)| {
            let columns = rows.len() / n;
            let mut rhs = vec![0.0; n * columns];
            (0..columns).for_each(|c| rhs[(block * BLOCK + c) * columns + c] = 1.0);
            self.solve_lower(&mut rhs, columns);
            self.solve_upper(&mut rhs, columns);
            for (c, row) in rows.chunks_exact_mut(n).enumerate() {
                row.iter_mut().zip(rhs.iter().skip(c).step_by(columns)).for_each(|(x, solved)| *x = *solved);
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

/// The inverse of a small lower triangle, into `[BLOCK, BLOCK]`.
fn invert_block(l: &[f64], stride: usize, width: usize, inverse: &mut [f64]) {
    for i in 0..width {
        for j in 0..=i {
            let unit = f64::from(u8::from(i == j));
            let sum: f64 = (j..i).map(|k| l[i * stride + k] * inverse[k * BLOCK + j]).sum();
            inverse[i * BLOCK + j] = (unit - sum) / l[i * stride + i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// A Aᵀ + n I for a random A.
    fn positive(n: usize) -> Vec<f64> {
        let mut generator = Stream::new(n as u64).generator();
        let a: Vec<f64> = (0..n * n).map(|_| generator.normal()).collect();
        let dot = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum::<f64>();
        (0..n * n).map(|at| dot(at / n, at % n) + if at / n == at % n { n as f64 } else { 0.0 }).collect()
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
                (0..=i.min(j)).map(|k| factor.lower[i * n + k] * factor.lower[j * n + k]).sum::<f64>()
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
            let unit =
                |i: usize, j: usize| (0..n).map(|k| inverse[i * n + k] * matrix[k * n + j]).sum::<f64>();
            let error = largest((0..n).map(|i| unit(i, n - 1 - i) - f64::from(u8::from(2 * i + 1 == n))));
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
