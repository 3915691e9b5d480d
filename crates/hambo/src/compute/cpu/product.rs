//! Products of matrices.
//!
//! What comes out in a row does not depend on how many rows there are: threads share them out.

use pulp::{Arch, Simd, WithSimd};
use std::cell::RefCell;
use std::marker::PhantomData;

/// Inner size from which tiles are faster than vectors.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const DEEP: usize = 32;
/// Columns from which on a product is a wide one.
pub const WIDE: usize = 32;
/// Rows that `gemm` gets of a wide product at least: it takes other ways for up to 256 elements, and for one row.
const FEWEST: usize = 9;
const _: () = assert!(FEWEST * WIDE > 256);

/// Whether deep, wide products are computed by tiles.
fn by_tiles() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return super::amx::available();
    #[allow(unreachable_code)]
    false
}

/// What products are computed by, on which their rounding depends.
pub fn instructions() -> String {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    if by_tiles() { "AMX".to_owned() } else { format!("vectors of {}", Arch::new().dispatch(Lanes)) }
}

/// A view of a row-major matrix, or of its transpose.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "matrix size");
        Matrix { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    pub fn transposed(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn is_within(&self) -> bool {
        let last = |n: usize, stride: usize| n.saturating_sub(1) * stride;
        last(self.rows, self.row_stride) + last(self.columns, self.column_stride) < self.data.len()
            || self.rows == 0
    }

    pub fn columns(self, first: usize, n: usize) -> Self {
        assert!(first + n <= self.columns, "column range");
        Matrix { data: &self.data[first * self.column_stride..], columns: n, ..self }
    }
}

/// A patch of a product: some columns of some rows.
pub struct Patch<'a> {
    /// Its first row and column.
    pub first: [usize; 2],
    size: [usize; 2],
    stride: usize,
    data: *mut f32,
    lifetime: PhantomData<&'a mut [f32]>,
}

impl<'a> Patch<'a> {
    /// # Safety
    /// `data` must be valid for reads and writes at row · stride + column for all of its rows and columns, and
    /// nobody else may use these elements meanwhile.
    pub unsafe fn new(first: [usize; 2], size: [usize; 2], data: *mut f32, stride: usize) -> Self {
        Patch { first, size, stride, data, lifetime: PhantomData }
    }

    /// All rows of a row-major matrix.
    pub fn all(data: &'a mut [f32], columns: usize) -> Self {
        // SAFETY: as many whole rows as there are.
        unsafe { Patch::new([0, 0], [data.len() / columns, columns], data.as_mut_ptr(), columns) }
    }

    /// Its rows: their numbers in the product, and their elements.
    #[inline(always)]
    pub fn rows(&mut self) -> impl Iterator<Item = (usize, &mut [f32])> {
        let Patch { first, size, stride, data, .. } = *self;
        // SAFETY: rows do not overlap; the elements are ours by the promise made to `new`.
        let row = move |r: usize| unsafe { std::slice::from_raw_parts_mut(data.add(r * stride), size[1]) };
        (0..size[0]).map(move |r| (first[0] + r, row(r)))
    }
}

/// out = a · b, out row-major; `finish` is called on each patch that is done, while it is in the cache. Where it need not
/// be `precise`, 16 bits of the factors may be taken.
pub fn product(a: Matrix<'_>, b: Matrix<'_>, out: &mut [f32], precise: bool, finish: impl Fn(Patch<'_>)) {
    assert_eq!(out.len(), a.rows * b.columns, "product size");
    // SAFETY: `out` holds all rows and columns and is borrowed mutably.
    unsafe { strided_product(a, b, out.as_mut_ptr(), b.columns, precise, finish) }
}

/// The same with `stride` elements from one row of out to the next.
///
/// # Safety
/// `out` must be valid for reads and writes at row · stride + column for all rows of `a` and columns of `b`, and
/// nobody else may use these elements meanwhile.
pub unsafe fn strided_product(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: *mut f32,
    stride: usize,
    precise: bool,
    finish: impl Fn(Patch<'_>),
) {
    assert!(a.columns == b.rows && a.columns > 0, "inner sizes of a product");
    assert!(a.is_within() && b.is_within(), "matrices within their data");
    if a.rows == 0 {
        return;
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if a.columns >= DEEP && b.columns >= WIDE && by_tiles() {
        // SAFETY: available; `out` by the caller's promise.
        return unsafe { super::amx::product(a, b, out, stride, precise, finish) };
    }
    // SAFETY: by the caller's promise.
    unsafe {
        vector_product(a, b, out, stride);
        finish(Patch::new([0, 0], [a.rows, b.columns], out, stride));
    }
}

thread_local! {
    /// A copy of a factor, and of what comes out; grow once, then are reused.
    static COPIES: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// The same by vector instructions.
///
/// # Safety
/// As for [`strided_product`].
pub unsafe fn vector_product(a: Matrix<'_>, b: Matrix<'_>, out: *mut f32, stride: usize) {
    let (by_rows, wide) = (a.column_stride == 1, b.columns >= WIDE);
    match (by_rows, wide, a.rows < FEWEST) {
        // SAFETY: by the caller's promise.
        (true, false, _) => unsafe { narrow_product(a, b, out, stride) },
        (true, true, true) => COPIES.with_borrow_mut(|[rows, results]| {
            rows.clear();
            (0..a.rows).for_each(|r| rows.extend_from_slice(&a.data[r * a.row_stride..][..a.columns]));
            rows.resize(FEWEST * a.columns, 0.0);
            results.resize(results.len().max(FEWEST * b.columns), 0.0);
            let enough = Matrix::new(rows, FEWEST, a.columns);
            // SAFETY: there is room for that many rows; then by the caller's promise.
            unsafe {
                gemm_product(enough, b, results.as_mut_ptr(), b.columns);
                let mut patch = Patch::new([0, 0], [a.rows, b.columns], out, stride);
                patch.rows().for_each(|(r, to)| to.copy_from_slice(&results[r * b.columns..][..b.columns]));
            }
        }),
        // SAFETY: by the caller's promise.
        _ => unsafe { gemm_product(a, b, out, stride) },
    }
}

/// The same by `gemm`, in pieces of the inner size that it does not cut further: where it would depends on the rows.
///
/// # Safety
/// As for [`strided_product`].
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
/// As for [`strided_product`]; `a` lies by rows.
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
        let columns: [_; AT_ONCE] =
            std::array::from_fn(|c| S::as_simd_f32s(&columns[c.min(n - 1) * a.columns..][..a.columns]));
        let mut sums = [[simd.splat_f32s(0.0); AT_ONCE]; ROWS];
        let (of_rows, of_columns) = (rows.map(|r| &r.0[..vectors]), columns.map(|c| &c.0[..vectors]));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_the_others() {
        let numbers = |n: usize, seed| {
            let mut generator = crate::rng::Stream::new(seed).generator();
            (0..n).map(|_| generator.normal() as f32).collect::<Vec<_>>()
        };
        let rows = 300;
        for (depth, columns) in [
            (1, 1),
            (2, 40),
            (3, 256),
            (4, 6),
            (17, 31),
            (33, 4),
            (140, 33),
            (256, 1),
            (256, 6),
            (256, 256),
            (600, 64),
        ] {
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            let view = |first: usize, n: usize| Matrix::new(&a[first * depth..(first + n) * depth], n, depth);
            let weights = [Matrix::new(&b, depth, columns), Matrix::new(&b, columns, depth).transposed()];
            enum Way {
                Precise,
                Fast,
                Vectors,
            }
            let ways = [(Way::Precise, 2e-6), (Way::Fast, 2e-5), (Way::Vectors, 2e-6)];
            for (b, (way, error)) in weights.iter().flat_map(|&b| ways.iter().map(move |way| (b, way))) {
                let multiply = |a: Matrix<'_>| {
                    let mut out = vec![f32::NAN; a.rows * columns];
                    match way {
                        Way::Precise => product(a, b, &mut out, true, |_| ()),
                        Way::Fast => product(a, b, &mut out, false, |_| ()),
                        Way::Vectors => unsafe { vector_product(a, b, out.as_mut_ptr(), columns) },
                    }
                    out
                };
                let all = multiply(view(0, rows));
                for (i, value) in all.iter().enumerate() {
                    let at = |k: usize| b.data[k * b.row_stride + i % columns * b.column_stride];
                    let terms = (0..depth).map(|k| f64::from(a[i / columns * depth + k]) * f64::from(at(k)));
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
                    assert!(
                        (f64::from(*value) - sum).abs() <= error * size,
                        "{depth} {columns}: {value} {sum}"
                    );
                }
                for n in [1, 2, 5, 9, 16, 43, 100, 257] {
                    let some = multiply(view(7, n));
                    assert!(some == all[7 * columns..(7 + n) * columns], "{n} rows of {depth} × {columns}");
                }
            }
        }
    }
}
