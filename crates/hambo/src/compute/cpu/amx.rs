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

use super::product::{Matrix, Patch};
use std::arch::{asm, x86_64::*};
use std::cell::RefCell;
use std::sync::OnceLock;

/// Rows and columns of the squares that factors are cut into: two tiles high, two wide.
const SIDE: usize = 32;
/// Squares of a strip, along the inner size, which are multiplied before the next ones are packed: few, so that a packed
/// strip of `a` is still close by, but enough not to fetch the result often.
const SQUARES: usize = 8;
/// Strips of `b` that are packed at a time: they stay in the second cache.
const STRIPS: usize = 8;

/// Parts of a number that are taken: all of it, or the first 16 bits.
const PRECISE: usize = 3;
const FAST: usize = 2;

/// A square of a factor: its parts h, m and l, each in two tiles of 16 × 16 pairs of numbers that are neighbours along
/// the inner size.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Square([[[u32; 256]; 2]; PRECISE]);

const _: () = assert!(size_of::<Square>() == 6144, "the steps of `multiply` through memory");

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
            packed.resize((1 + STRIPS) * SQUARES, Square([[[0; 256]; 2]; PRECISE]));
        }
        let (left, right) = packed.split_at_mut(SQUARES);
        // SAFETY: they are available.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIGURATION, options(nostack, readonly)) };
        for inner in (0..depth).step_by(SQUARES * SIDE) {
            let squares = (depth - inner).min(SQUARES * SIDE).div_ceil(SIDE);
            let pack_strip = |factor: Matrix<'_>, strip: usize, pairs_down: bool, to: &mut [Square]| {
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
                            square_of::<PARTS>([&left[..squares], right], out, stride, size, inner > 0);
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
        whole[..rows].iter_mut().enumerate().for_each(|(r, to)| to[..columns].copy_from_slice(line(r)));
    }
    // SAFETY: a whole square.
    unsafe { multiply::<PARTS>(factors, whole.as_mut_ptr().cast(), SIDE, add) };
    whole[..rows].iter().enumerate().for_each(|(r, from)| line(r).copy_from_slice(&from[..columns]));
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
unsafe fn multiply<const PARTS: usize>([a, b]: [&[Square]; 2], out: *mut f32, stride: usize, add: bool) {
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

/// The square of `matrix` whose first row is `row` and whose first column, along the inner size, is `column`; 0 beyond
/// its edges. A tile has a line for each row of `matrix`, or, of the right factor, for each pair along the inner size.
#[target_feature(enable = "avx512f,avx512bw")]
fn pack<const PARTS: usize>(
    matrix: Matrix<'_>,
    [row, column]: [usize; 2],
    pairs_down: bool,
    square: &mut Square,
) {
    let Matrix { data, row_stride, column_stride, .. } = matrix;
    let [rows, columns] = [SIDE.min(matrix.rows - row), SIDE.min(matrix.columns - column)];
    let data = &data[row * row_stride + column * column_stride..];
    assert!((rows - 1) * row_stride + (columns - 1) * column_stride < data.len(), "a square of the matrix");
    // Numbers lie one after the other in lines, which are rows or columns.
    let by_rows = column_stride == 1;
    let (lines, numbers, stride) =
        if by_rows { (rows, columns, row_stride) } else { (columns, rows, column_stride) };
    assert!(by_rows || row_stride == 1, "a matrix that lies by rows or by columns");
    let masks = [0, 16].map(|first| ((1u32 << numbers.saturating_sub(first).min(16)) - 1) as u16);
    let load = |line: usize, half: usize| {
        if line >= lines {
            return _mm512_setzero_ps();
        }
        let from = data.as_ptr().wrapping_add(line * stride + 16 * half);
        // SAFETY: the mask lets those of 16 numbers be read that are within the square; a prefetch may go anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(SIDE * column_stride).cast());
            _mm512_maskz_loadu_ps(masks[half], from)
        }
    };
    let upper_halves: [u16; 32] = std::array::from_fn(|i| 2 * i as u16 + 1);
    // SAFETY: 32 half-words.
    let upper_halves = unsafe { _mm512_loadu_si512(upper_halves.as_ptr().cast()) };
    let upper_half = _mm512_set1_epi32(UPPER_HALF);
    for tile in 0..2 {
        for i in 0..16 {
            let pairs: [__m512i; PARTS] = if by_rows {
                let (first, second) = (split(load(16 * tile + i, 0)), split(load(16 * tile + i, 1)));
                std::array::from_fn(|part| _mm512_permutex2var_epi16(first[part], upper_halves, second[part]))
            } else {
                let (even, odd) = (split(load(2 * i, tile)), split(load(2 * i + 1, tile)));
                const AND_OR: i32 = 0b1110_1010; // a & b | c
                let join = |part: usize| {
                    let even = _mm512_srli_epi32(even[part], 16);
                    _mm512_ternarylogic_epi32::<AND_OR>(odd[part], upper_half, even)
                };
                std::array::from_fn(join)
            };
            for (part, pairs) in square.0.iter_mut().zip(pairs) {
                // SAFETY: a line of 16 words.
                unsafe { _mm512_store_si512(part[tile][16 * i..][..16].as_mut_ptr().cast(), pairs) };
            }
        }
        if by_rows == pairs_down {
            square.0[..PARTS].iter_mut().for_each(|part| transpose(&mut part[tile]));
        }
    }
}

const UPPER_HALF: i32 = 0xffff_0000_u32 as i32;

/// Three numbers of 8 significant bits each whose sum is x, in the upper halves of words. They are rounded, not cut off: what is
/// left out of products is then smaller, and has either sign.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(x: __m512) -> [__m512i; PRECISE] {
    let (half, upper) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(UPPER_HALF));
    // NaN is not rounded up: with all its bits set it would become 0.
    let numbers = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x);
    let bits = _mm512_castps_si512(x);
    let h = _mm512_and_si512(_mm512_mask_add_epi32(bits, numbers, bits, half), upper);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(h));
    let m = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
    let l = _mm512_sub_ps(rest, _mm512_castsi512_ps(m));
    [h, m, _mm512_castps_si512(l)]
}

/// Of two lines, for blocks of 8, 4, 2 and 1: the words that stay in the first one and those that come up to it; then the
/// others.
const CHOICES: [[[u32; 16]; 2]; 4] = {
    let mut choices = [[[0; 16]; 2]; 4];
    let mut at = 0;
    while at < 4 * 2 * 16 {
        let (step, line, i) = (at / 32, at / 16 % 2, at % 16);
        let block = 8 >> step;
        choices[step][line][i] = (if i & block == 0 { i } else { 16 + i - block } + line * block) as u32;
        at += 1;
    }
    choices
};

/// Exchanges rows and columns of 16 × 16 words, by exchanging blocks of 8, 4, 2 and 1.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(tile: &mut [u32; 256]) {
    // SAFETY: 16 words from a multiple of 16 on.
    let mut lines: [__m512i; 16] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(tile[16 * i..][..16].as_ptr().cast()) });
    for (step, block) in [8, 4, 2, 1].into_iter().enumerate() {
        // SAFETY: 16 words each.
        let [first, second] = [0, 1].map(|i| unsafe { _mm512_loadu_si512(CHOICES[step][i].as_ptr().cast()) });
        for i in (0..16).filter(|i| i & block == 0) {
            let (a, b) = (lines[i], lines[i + block]);
            lines[i] = _mm512_permutex2var_epi32(a, first, b);
            lines[i + block] = _mm512_permutex2var_epi32(a, second, b);
        }
    }
    for (to, line) in tile.chunks_exact_mut(16).zip(lines) {
        // SAFETY: 16 words.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), line) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::cpu::product::vector_product;

    /// Numbers of both signs over several magnitudes.
    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut generator = crate::rng::Stream::new(u64::from(seed)).generator();
        let mut number = || (generator.uniform() - 0.5) * 10.0f64.powf(4.0 * generator.uniform() - 2.0);
        (0..n).map(|_| number() as f32).collect()
    }

    fn multiplied(a: Matrix<'_>, b: Matrix<'_>, precise: bool) -> Vec<f32> {
        let mut out = vec![f32::NAN; a.rows * b.columns];
        unsafe { product(a, b, out.as_mut_ptr(), b.columns, precise, |_| ()) };
        out
    }

    #[test]
    fn as_exact_as_single_precision_or_as_sixteen_bits() {
        if !available() {
            return eprintln!("SKIPPED: no AMX here");
        }
        let sizes = [(1, 32, 32), (33, 40, 47), (64, 256, 256), (600, 129, 300), (31, 1000, 33), (32, 31, 1)];
        for (rows, depth, columns) in sizes {
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            for (a_turned, b_turned) in [(false, false), (true, false), (false, true), (true, true)] {
                let view = |data, rows, columns, turned| match turned {
                    false => Matrix::new(data, rows, columns),
                    true => Matrix::new(data, columns, rows).transposed(),
                };
                let (a, b) = (view(&a, rows, depth, a_turned), view(&b, depth, columns, b_turned));
                let at = |m: Matrix<'_>, r, c| f64::from(m.data[r * m.row_stride + c * m.column_stride]);
                let error = |out: Vec<f32>| {
                    let errors = out.into_iter().enumerate().map(|(i, value)| {
                        let terms = (0..depth).map(|k| at(a, i / columns, k) * at(b, k, i % columns));
                        let (sum, size) =
                            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                        (f64::from(value) - sum).abs() / size
                    });
                    errors.fold(0.0, f64::max)
                };
                let mut by_vectors = vec![f32::NAN; rows * columns];
                unsafe { vector_product(a, b, by_vectors.as_mut_ptr(), columns) };
                let [precise, fast, vectors] =
                    [multiplied(a, b, true), multiplied(a, b, false), by_vectors].map(error);
                let case = format!("{rows} × {depth} × {columns}: {precise:e} {fast:e} {vectors:e}");
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
                assert!(out.iter().enumerate().all(|(i, v)| v.is_finite() == (i / 32 != 3)), "{value}");
            }
        }
    }
}
