//! Products of single-precision matrices on the tiles of AMX (Intel Xeons since 2023), which multiply bfloat16 sixteen
//! times as fast as vector instructions multiply single precision.
//!
//! A number of 24 significant bits is the sum of three of 8 bits, x = h + m + l. Of the nine products of two such sums six
//! are taken, hh + hm + mh + mm + hl + lh; those left out are below the rounding of single precision, in which the tiles
//! add (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
//! computations"). At the ends of the range less is kept: below 2⁻¹⁰² the last bits of a number are lost, and infinities, as
//! well as the largest numbers (from 3.39e38 on), come out as NaN.
//!
//! Where 16 bits will do, x = h + m and three products, hh + hm + mh: half of the work.

use super::matrix::{Matrix, Patch};
use super::pack::{FAST, PRECISE, SIDE, Square, pack};
use std::arch::{asm, x86_64::__cpuid_count};
use std::cell::RefCell;
use std::sync::OnceLock;

/// Squares of a strip, along the inner size, which are multiplied before the next ones are packed: few, so that a packed
/// strip of `a` is still close by, but enough not to fetch the result often.
const SQUARES: usize = 8;
/// Strips of `b` that are packed at a time: they stay in the second cache.
const STRIPS: usize = 8;

/// What `ldtilecfg` reads: eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

const CONFIGURATION: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

thread_local! {
    /// A packed strip of `a`, then those of `b`.
    static PACKED: RefCell<Vec<Square>> = const { RefCell::new(Vec::new()) };
}

/// Whether this processor has the tiles, the system lets this process use them, and nobody said HAMBO_AMX=off.
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let wanted = std::env::var_os("HAMBO_AMX").is_none_or(|value| value != "off");
        let vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
        #[allow(unused_unsafe)] // safe since Rust 1.94
        // SAFETY: where there is AVX-512, there is this leaf.
        let tiles = || unsafe { __cpuid_count(7, 0) }.edx & BF16_AND_TILES == BF16_AND_TILES;
        wanted && vectors && tiles() && permitted()
    })
}

/// Asks the system for the tiles' registers, once for all threads of the process.
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// out = a · b, with `stride` elements from one row of out to the next; `finish` is called on rows that are done. What
/// comes out in a row does not depend on the other rows. Where it need not be `precise`, 16 bits of the factors are taken.
///
/// # Safety
/// The tiles must be [`available`]; `out` must be valid for reads and writes at row · stride + column for all rows of `a` and
/// columns of `b`, and nobody else may use these elements meanwhile.
pub unsafe fn product(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: *mut f32,
    stride: usize,
    precise: bool,
    finish: impl Fn(Patch<'_>),
) {
    // SAFETY: by the caller's promise.
    unsafe {
        match precise {
            true => product_of::<PRECISE>(a, b, out, stride, finish),
            false => product_of::<FAST>(a, b, out, stride, finish),
        }
    }
}

/// The same with so many parts of the factors.
///
/// # Safety
/// As for [`product`].
unsafe fn product_of<const PARTS: usize>(
    a: Matrix<'_>,
    b: Matrix<'_>,
    out: *mut f32,
    stride: usize,
    finish: impl Fn(Patch<'_>),
) {
    let (rows, columns, depth) = (a.rows, b.columns, a.columns);
    PACKED.with_borrow_mut(|packed| {
        if packed.is_empty() {
            packed.resize((1 + STRIPS) * SQUARES, Square::ZERO);
        }
        let (left, right) = packed.split_at_mut(SQUARES);
        // SAFETY: they are available.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIGURATION, options(nostack, readonly)) };
        for inner in (0..depth).step_by(SQUARES * SIDE) {
            let squares = (depth - inner).min(SQUARES * SIDE).div_ceil(SIDE);
            let pack_strip = |factor: Matrix<'_>,
                              strip: usize,
                              pairs_down: bool,
                              to: &mut [Square]| {
                for (i, square) in to.iter_mut().enumerate() {
                    // SAFETY: AMX comes with AVX-512.
                    unsafe { pack::<PARTS>(factor, [strip, inner + i * SIDE], pairs_down, square) };
                }
            };
            for first in (0..columns).step_by(STRIPS * SIDE) {
                let block = first..columns.min(first + STRIPS * SIDE);
                let strips = || block.clone().step_by(SIDE);
                for (column, to) in strips().zip(right.chunks_exact_mut(squares)) {
                    pack_strip(b.transposed(), column, true, to);
                }
                for row in (0..rows).step_by(SIDE) {
                    pack_strip(a, row, false, &mut left[..squares]);
                    let high = SIDE.min(rows - row);
                    for (column, right) in strips().zip(right.chunks_exact(squares)) {
                        let size = [high, SIDE.min(columns - column)];
                        // SAFETY: these rows and columns are within out, by the caller's promise.
                        unsafe {
                            let out = out.add(row * stride + column);
                            square_of::<PARTS>(
                                [&left[..squares], right],
                                out,
                                stride,
                                size,
                                inner > 0,
                            );
                        }
                    }
                    if inner + squares * SIDE >= depth {
                        // Not square by square: what a tile has just written is slow to read.
                        // SAFETY: as above.
                        finish(unsafe {
                            Patch::new(
                                [row, first],
                                [high, block.len()],
                                out.add(row * stride + first),
                                stride,
                            )
                        });
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    });
}

/// One square of the result, or a part of one at its edges, added to what is there already where `add` says so.
///
/// # Safety
/// The tiles must be configured, and `out` valid for reads and writes of `size` rows and columns.
unsafe fn square_of<const PARTS: usize>(
    factors: [&[Square]; 2],
    out: *mut f32,
    stride: usize,
    [rows, columns]: [usize; 2],
    add: bool,
) {
    if [rows, columns] == [SIDE, SIDE] {
        // SAFETY: a whole square, by the caller's promise.
        return unsafe { multiply::<PARTS>(factors, out, stride, add) };
    }
    let mut whole = [[0.0f32; SIDE]; SIDE];
    let line = |row: usize| {
        // SAFETY: a row of the part, by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(out.add(row * stride), columns) }
    };
    if add {
        whole[..rows]
            .iter_mut()
            .enumerate()
            .for_each(|(r, to)| to[..columns].copy_from_slice(line(r)));
    }
    // SAFETY: a whole square.
    unsafe { multiply::<PARTS>(factors, whole.as_mut_ptr().cast(), SIDE, add) };
    whole[..rows]
        .iter()
        .enumerate()
        .for_each(|(r, from)| line(r).copy_from_slice(&from[..columns]));
}

/// Takes a part of `a` into tiles 4 and 5, or one of `b` into 6 and 7, and adds the products of the former with the
/// latter to tiles 0 to 3.
macro_rules! multiply_with {
    ($first:literal, $second:literal, $part:literal) => {
        concat!(
            "tileloadd ",
            $first,
            ", [",
            $part,
            " + {line}*1]\n",
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            "tileloadd ",
            $second,
            ", [",
            $part,
            " + {line}*1 + 1024]\n",
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            "tdpbf16ps tmm3, tmm5, tmm7\n",
        )
    };
}

/// The loop over squares, which begins with h of `a` in tiles 4 and 5: from one product to the next only one of the two
/// parts changes. It reads `a.len()` squares of 6144 bytes on both sides: h at 0, m at 2048, l at 4096.
macro_rules! sum_of_products {
    ($a:ident, $b:ident, $out:ident, $stride:ident, $add:ident, $($product:expr),*) => {
        asm!(
            "test {add}, {add}",
            "jnz 2f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 3f",
            "2:",
            "tileloadd tmm0, [{upper} + {stride}*1]",
            "tileloadd tmm1, [{upper} + {stride}*1 + 64]",
            "tileloadd tmm2, [{lower} + {stride}*1]",
            "tileloadd tmm3, [{lower} + {stride}*1 + 64]",
            "3:",
            "tileloadd tmm4, [{a} + {line}*1]",
            "tileloadd tmm5, [{a} + {line}*1 + 1024]",
            $($product,)*
            "add {a}, 6144",
            "add {b}, 6144",
            "dec {squares}",
            "jnz 3b",
            "tilestored [{upper} + {stride}*1], tmm0",
            "tilestored [{upper} + {stride}*1 + 64], tmm1",
            "tilestored [{lower} + {stride}*1], tmm2",
            "tilestored [{lower} + {stride}*1 + 64], tmm3",
            a = inout(reg) $a.as_ptr() => _,
            b = inout(reg) $b.as_ptr() => _,
            squares = inout(reg) $a.len() => _,
            upper = in(reg) $out,
            lower = in(reg) $out.add(SIDE / 2 * $stride),
            stride = in(reg) size_of::<f32>() * $stride,
            line = in(reg) 64usize,
            add = in(reg) usize::from($add),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// The sum of the products of squares of `a` with those of `b`.
///
/// # Safety
/// The tiles must be configured, and `out` valid for reads and writes of a whole square.
unsafe fn multiply<const PARTS: usize>(
    [a, b]: [&[Square]; 2],
    out: *mut f32,
    stride: usize,
    add: bool,
) {
    assert!(a.len() == b.len() && !a.is_empty(), "squares of both factors");
    // SAFETY: there are these squares; the rest by the caller's promise.
    unsafe {
        if PARTS == PRECISE {
            sum_of_products!(
                a,
                b,
                out,
                stride,
                add,
                multiply_with!("tmm6", "tmm7", "{b} + 4096"), // h · l
                multiply_with!("tmm6", "tmm7", "{b}"),        // h · h
                multiply_with!("tmm4", "tmm5", "{a} + 4096"), // l · h
                multiply_with!("tmm4", "tmm5", "{a} + 2048"), // m · h
                multiply_with!("tmm6", "tmm7", "{b} + 2048"), // m · m
                multiply_with!("tmm4", "tmm5", "{a}")         // h · m
            );
        } else {
            sum_of_products!(
                a,
                b,
                out,
                stride,
                add,
                multiply_with!("tmm6", "tmm7", "{b} + 2048"), // h · m
                multiply_with!("tmm6", "tmm7", "{b}"),        // h · h
                multiply_with!("tmm4", "tmm5", "{a} + 2048")  // m · h
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::product::vectors::vector_product;

    /// Numbers of both signs over several magnitudes.
    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut generator = crate::rng::Stream::new(u64::from(seed)).generator();
        let mut number =
            || (generator.uniform() - 0.5) * 10.0f64.powf(4.0 * generator.uniform() - 2.0);
        (0..n).map(|_| number() as f32).collect()
    }

    fn multiplied(a: Matrix<'_>, b: Matrix<'_>, precise: bool) -> Vec<f32> {
        let mut out = vec![f32::NAN; a.rows * b.columns];
        // SAFETY: `out` has as many numbers as the product.
        unsafe { product(a, b, out.as_mut_ptr(), b.columns, precise, |_| ()) };
        out
    }

    #[test]
    fn as_exact_as_single_precision_or_as_sixteen_bits() {
        if !available() {
            return eprintln!("SKIPPED: no AMX here");
        }
        let sizes = [
            (1, 32, 32),
            (33, 40, 47),
            (64, 256, 256),
            (600, 129, 300),
            (31, 1000, 33),
            (32, 31, 1),
        ];
        for (rows, depth, columns) in sizes {
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            for (a_turned, b_turned) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let view = |data, rows, columns, turned| match turned {
                    false => Matrix::new(data, rows, columns),
                    true => Matrix::new(data, columns, rows).transposed(),
                };
                let (a, b) = (view(&a, rows, depth, a_turned), view(&b, depth, columns, b_turned));
                let at =
                    |m: Matrix<'_>, r, c| f64::from(m.data[r * m.row_stride + c * m.column_stride]);
                let error = |out: Vec<f32>| {
                    let errors = out.into_iter().enumerate().map(|(i, value)| {
                        let terms =
                            (0..depth).map(|k| at(a, i / columns, k) * at(b, k, i % columns));
                        let (sum, size) = terms
                            .fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                        (f64::from(value) - sum).abs() / size
                    });
                    errors.fold(0.0, f64::max)
                };
                let mut by_vectors = vec![f32::NAN; rows * columns];
                // SAFETY: it has as many numbers as the product.
                unsafe { vector_product(a, b, by_vectors.as_mut_ptr(), columns) };
                let [precise, fast, vectors] =
                    [multiplied(a, b, true), multiplied(a, b, false), by_vectors].map(error);
                let case =
                    format!("{rows} × {depth} × {columns}: {precise:e} {fast:e} {vectors:e}");
                assert!(precise < 2.0f64.powi(-22).max(2.0 * vectors), "{case}");
                // Two factors, each off by 2⁻¹⁷ at the most, and m · m, at the most 2⁻¹⁶, which is left out.
                assert!(fast < 4.0 * 2.0f64.powi(-17), "{case}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        if !available() {
            return eprintln!("SKIPPED: no AMX here");
        }
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7fff_ffff)] {
            let (mut a, b) = (numbers(32 * 64, 5), numbers(64 * 32, 6));
            a[3 * 64 + 10] = value;
            for precise in [true, false] {
                let out = multiplied(Matrix::new(&a, 32, 64), Matrix::new(&b, 64, 32), precise);
                assert!(
                    out.iter().enumerate().all(|(i, v)| v.is_finite() == (i / 32 != 3)),
                    "{value}"
                );
            }
        }
    }
}
