//! Cuts factors into the squares that tiles are loaded from, each number into parts of 8 significant bits.

use super::matrix::Matrix;
use std::arch::x86_64::*;

/// Rows and columns of the squares that factors are cut into: two tiles high, two wide.
pub const SIDE: usize = 32;
/// Parts of a number that are taken: all of it, or the first 16 bits.
pub const PRECISE: usize = 3;
pub const FAST: usize = 2;

/// A square of a factor: its parts h, m and l, each in two tiles of 16 × 16 pairs of numbers that are neighbors along
/// the inner size.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Square([[[u32; 256]; 2]; PRECISE]);

const _: () = assert!(size_of::<Square>() == 6144, "the steps of `multiply` through memory");

impl Square {
    pub const ZERO: Square = Square([[[0; 256]; 2]; PRECISE]);
}

/// The square of `matrix` whose first row is `row` and whose first column, along the inner size, is `column`; 0 beyond
/// its edges. A tile has a line for each row of `matrix`, or, of the right factor, for each pair along the inner size.
#[target_feature(enable = "avx512f,avx512bw")]
pub fn pack<const PARTS: usize>(
    matrix: Matrix<'_>,
    [row, column]: [usize; 2],
    pairs_down: bool,
    square: &mut Square,
) {
    let Matrix { data, row_stride, column_stride, .. } = matrix;
    let [rows, columns] = [SIDE.min(matrix.rows - row), SIDE.min(matrix.columns - column)];
    let data = &data[row * row_stride + column * column_stride..];
    assert!(
        (rows - 1) * row_stride + (columns - 1) * column_stride < data.len(),
        "a square of the matrix"
    );
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
                let (first, second) =
                    (split(load(16 * tile + i, 0)), split(load(16 * tile + i, 1)));
                std::array::from_fn(|part| {
                    _mm512_permutex2var_epi16(first[part], upper_halves, second[part])
                })
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
                unsafe {
                    _mm512_store_si512(part[tile][16 * i..][..16].as_mut_ptr().cast(), pairs)
                };
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
        choices[step][line][i] =
            (if i & block == 0 { i } else { 16 + i - block } + line * block) as u32;
        at += 1;
    }
    choices
};

/// Exchanges rows and columns of 16 × 16 words, by exchanging blocks of 8, 4, 2 and 1.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(tile: &mut [u32; 256]) {
    // SAFETY: 16 words from a multiple of 16 on.
    let mut lines: [__m512i; 16] = std::array::from_fn(|i| unsafe {
        _mm512_loadu_si512(tile[16 * i..][..16].as_ptr().cast())
    });
    for (step, block) in [8, 4, 2, 1].into_iter().enumerate() {
        // SAFETY: 16 words each.
        let [first, second] =
            [0, 1].map(|i| unsafe { _mm512_loadu_si512(CHOICES[step][i].as_ptr().cast()) });
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
