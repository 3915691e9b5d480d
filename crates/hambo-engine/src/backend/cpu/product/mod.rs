//! Products of matrices.
//!
//! What comes out in a row does not depend on how many rows there are: threads share them out.

mod matrix;
mod vectors;
// Tiles are multiplied by instructions that only these systems grant.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod pack;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles;

pub use matrix::{Matrix, Patch};
use pulp::{Arch, Simd, WithSimd};
pub use vectors::WIDE;
use vectors::vector_product;

/// Inner size from which tiles are faster than vectors.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const DEEP: usize = 32;

/// Whether deep, wide products are computed by tiles.
fn by_tiles() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return tiles::available();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    return false;
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
    if by_tiles() {
        "AMX".to_owned()
    } else {
        format!("vectors of {}", Arch::new().dispatch(Lanes))
    }
}

/// out = a · b, out row-major; `finish` is called on each patch that is done, while it is in the cache. Where it need not
/// be `precise`, 16 bits of the factors may be taken.
pub fn product(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: &mut [f32],
    precise: bool,
    finish: impl Fn(Patch<'_>),
) {
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
        return unsafe { tiles::product(a, b, out, stride, precise, finish) };
    }
    // SAFETY: by the caller's promise.
    unsafe {
        vector_product(a, b, out, stride);
        finish(Patch::new([0, 0], [a.rows, b.columns], out, stride));
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
            let view = |first: usize, n: usize| {
                Matrix::new(&a[first * depth..(first + n) * depth], n, depth)
            };
            let weights =
                [Matrix::new(&b, depth, columns), Matrix::new(&b, columns, depth).transposed()];
            enum Arithmetic {
                Precise,
                Fast,
                Vectors,
            }
            let kinds = [
                (Arithmetic::Precise, 2e-6),
                (Arithmetic::Fast, 2e-5),
                (Arithmetic::Vectors, 2e-6),
            ];
            for (b, (kind, error)) in
                weights.iter().flat_map(|&b| kinds.iter().map(move |kind| (b, kind)))
            {
                let multiply = |a: Matrix<'_>| {
                    let mut out = vec![f32::NAN; a.rows * columns];
                    match kind {
                        Arithmetic::Precise => product(a, b, &mut out, true, |_| ()),
                        Arithmetic::Fast => product(a, b, &mut out, false, |_| ()),
                        // SAFETY: `out` has as many numbers as the product.
                        Arithmetic::Vectors => unsafe {
                            vector_product(a, b, out.as_mut_ptr(), columns)
                        },
                    }
                    out
                };
                let all = multiply(view(0, rows));
                for (i, value) in all.iter().enumerate() {
                    let at = |k: usize| b.data[k * b.row_stride + i % columns * b.column_stride];
                    let terms = (0..depth)
                        .map(|k| f64::from(a[i / columns * depth + k]) * f64::from(at(k)));
                    let (sum, size) =
                        terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
                    assert!(
                        (f64::from(*value) - sum).abs() <= error * size,
                        "{depth} {columns}: {value} {sum}"
                    );
                }
                for n in [1, 2, 5, 9, 16, 43, 100, 257] {
                    let some = multiply(view(7, n));
                    assert!(
                        some == all[7 * columns..(7 + n) * columns],
                        "{n} rows of {depth} × {columns}"
                    );
                }
            }
        }
    }
}
