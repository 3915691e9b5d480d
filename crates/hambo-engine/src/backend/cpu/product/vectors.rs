//! Products by vector instructions.

use super::matrix::{Matrix, Patch};
use pulp::{Arch, Simd, WithSimd};
use std::cell::RefCell;

/// Columns from which on a product is a wide one.
pub const WIDE: usize = 32;
/// Rows that `gemm` gets of a wide product at least: it takes other ways for up to 256 elements, and for one row.
const FEWEST: usize = 9;
const _: () = assert!(FEWEST * WIDE > 256);

thread_local! {
    /// A copy of a factor, and of what comes out; grow once, then are reused.
    static COPIES: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// out = a · b, with `stride` elements from one row of out to the next.
///
/// # Safety
/// `out` must be valid for reads and writes at row · stride + column for all rows of `a` and columns of `b`, and
/// nobody else may use these elements meanwhile.
pub unsafe fn vector_product(a: Matrix<'_>, b: Matrix<'_>, out: *mut f32, stride: usize) {
    let (by_rows, wide) = (a.column_stride == 1, b.columns >= WIDE);
    match (by_rows, wide, a.rows < FEWEST) {
        // SAFETY: by the caller's promise.
        (true, false, _) => unsafe { narrow_product(a, b, out, stride) },
        (true, true, true) => COPIES.with_borrow_mut(|[rows, results]| {
            rows.clear();
            (0..a.rows)
                .for_each(|r| rows.extend_from_slice(&a.data[r * a.row_stride..][..a.columns]));
            rows.resize(FEWEST * a.columns, 0.0);
            results.resize(results.len().max(FEWEST * b.columns), 0.0);
            let enough = Matrix::new(rows, FEWEST, a.columns);
            // SAFETY: there is room for that many rows; then by the caller's promise.
            unsafe {
                gemm_product(enough, b, results.as_mut_ptr(), b.columns);
                let mut patch = Patch::new([0, 0], [a.rows, b.columns], out, stride);
                patch
                    .rows()
                    .for_each(|(r, to)| to.copy_from_slice(&results[r * b.columns..][..b.columns]));
            }
        }),
        // SAFETY: by the caller's promise.
        _ => unsafe { gemm_product(a, b, out, stride) },
    }
}

/// The same by `gemm`, in pieces of the inner size that it does not cut further: where it would depends on the rows.
///
/// # Safety
/// As for [`vector_product`].
unsafe fn gemm_product(a: Matrix<'_>, b: Matrix<'_>, out: *mut f32, stride: usize) {
    const DEPTH: usize = 512;
    for inner in (0..a.columns).step_by(DEPTH) {
        // SAFETY: the views are within their slices, as was checked; `out` by the caller's promise.
        unsafe {
            gemm::gemm(
                a.rows,
                b.columns,
                DEPTH.min(a.columns - inner),
                out,
                1,
                stride as isize,
                inner > 0,
                a.data.as_ptr().add(inner * a.column_stride),
                a.column_stride as isize,
                a.row_stride as isize,
                b.data.as_ptr().add(inner * b.row_stride),
                b.column_stride as isize,
                b.row_stride as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// The same for few columns: a sum of its own for each of them, over all lanes of a vector.
///
/// # Safety
/// As for [`vector_product`]; `a` lies by rows.
unsafe fn narrow_product(a: Matrix<'_>, b: Matrix<'_>, out: *mut f32, stride: usize) {
    COPIES.with_borrow_mut(|[columns, _]| {
        columns.clear();
        for c in 0..b.columns {
            let column = &b.data[c * b.column_stride..];
            columns.extend((0..b.rows).map(|r| column[r * b.row_stride]));
        }
        // SAFETY: by the caller's promise.
        let out = unsafe { Patch::new([0, 0], [a.rows, b.columns], out, stride) };
        Arch::new().dispatch(Narrow { a, columns, out });
    });
}

struct Narrow<'a> {
    a: Matrix<'a>,
    /// The columns of the right factor, one after the other.
    columns: &'a [f32],
    out: Patch<'a>,
}

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut rows = self.out.rows();
        while let Some(first) = rows.next() {
            match [rows.next(), rows.next(), rows.next()] {
                [Some(b), Some(c), Some(d)] => sums(simd, self.a, self.columns, [first, b, c, d]),
                some => {
                    for row in [Some(first)].into_iter().chain(some).flatten() {
                        sums(simd, self.a, self.columns, [row]);
                    }
                }
            }
        }
    }
}

/// Some rows of a narrow product.
#[inline(always)]
fn sums<S: Simd, const ROWS: usize>(
    simd: S,
    a: Matrix<'_>,
    columns: &[f32],
    mut out: [(usize, &mut [f32]); ROWS],
) {
    const AT_ONCE: usize = 4;
    let rows: [_; ROWS] =
        std::array::from_fn(|r| S::as_simd_f32s(&a.data[out[r].0 * a.row_stride..][..a.columns]));
    let vectors = a.columns / S::F32_LANES;
    for (group, columns) in columns.chunks(AT_ONCE * a.columns).enumerate() {
        let n = columns.len() / a.columns;
        // Where there are fewer, the last one is taken again.
        let columns: [_; AT_ONCE] = std::array::from_fn(|c| {
            S::as_simd_f32s(&columns[c.min(n - 1) * a.columns..][..a.columns])
        });
        let mut sums = [[simd.splat_f32s(0.0); AT_ONCE]; ROWS];
        let (of_rows, of_columns) =
            (rows.map(|r| &r.0[..vectors]), columns.map(|c| &c.0[..vectors]));
        for i in 0..vectors {
            for (sums, row) in sums.iter_mut().zip(&of_rows) {
                for (sum, column) in sums.iter_mut().zip(&of_columns) {
                    *sum = simd.mul_add_e_f32s(row[i], column[i], *sum);
                }
            }
        }
        for (sums, (row, (_, out))) in sums.iter().zip(rows.iter().zip(&mut out)) {
            let tail = simd.partial_load_f32s(row.1);
            for (c, (sum, column)) in sums.iter().zip(&columns).enumerate().take(n) {
                let sum = simd.mul_add_e_f32s(tail, simd.partial_load_f32s(column.1), *sum);
                out[group * AT_ONCE + c] = simd.reduce_sum_f32s(sum);
            }
        }
    }
}
