//! A lower triangular matrix in f64 and solves with it, for many right-hand sides.
//!
//! Its rows lie in strips of eight, column after column, so that a solve reads it once from front to back, and what a
//! strip has to do with some columns of the right-hand side stays in vector registers from its first column to its last.
//! With recursive blocks over `gemm`, which packs both sides of every product anew, a solve took a fifth longer with 2000
//! rows and more than twice as long with 160.

#![allow(clippy::needless_range_loop)] // ranges that the compiler knows are what keeps tiles in registers

use pulp::{Simd, WithSimd};

/// Rows of a strip.
const HEIGHT: usize = 8;
/// Rows of a block: what is known of some hundred columns there, and its part of a strip, stay in the caches of a core.
const BLOCK: usize = 256;
/// Numbers in the widest vectors that there are.
const WIDEST_VECTOR: usize = 8;

/// The matrix.
#[derive(Clone, Debug)]
pub(crate) struct Strips {
    rows: usize,
    /// Strip after strip, and in a strip column after column up to the diagonal: the eight entries of a column. The
    /// diagonal is kept as its reciprocal; rows that the last strip has too many are those of the unit matrix.
    entries: Vec<f64>,
}

impl Strips {
    /// Of a matrix `[n, n]`, row after row, of which the lower half is read; nothing on its diagonal is 0.
    pub fn new(matrix: &[f64], n: usize) -> Self {
        let mut entries = vec![0.0; start(n.next_multiple_of(HEIGHT))];
        for first in (0..n).step_by(HEIGHT) {
            let strip = &mut entries[start(first)..start(first + HEIGHT)];
            let rows = &matrix[first * n..n * n.min(first + HEIGHT)];
            for (k, column) in strip.chunks_exact_mut(HEIGHT).enumerate() {
                for (i, entry) in column.iter_mut().enumerate().skip(k.saturating_sub(first)) {
                    let x = if first + i < n {
                        rows[i * n + k]
                    } else {
                        f64::from(u8::from(first + i == k))
                    };
                    *entry = if first + i == k { 1.0 / x } else { x };
                }
            }
        }
        Strips { rows: n, entries }
    }

    /// Rows, and columns.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows of a right-hand side that is solved where it is; the last of them are to be 0.
    pub fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(HEIGHT)
    }

    /// rhs ← L⁻¹ rhs, for `columns` right-hand sides side by side, `[n, columns]` or, without a copy where `columns` is a
    /// multiple of eight, `[padded_rows, columns]`.
    pub fn solve(&self, rhs: &mut [f64], columns: usize) {
        self.run(rhs, columns, false);
    }

    /// rhs ← L⁻ᵀ rhs
    pub fn solve_transposed(&self, rhs: &mut [f64], columns: usize) {
        self.run(rhs, columns, true);
    }

    fn run(&self, rhs: &mut [f64], columns: usize, transposed: bool) {
        let (tall, wide) = (self.padded_rows(), columns.next_multiple_of(WIDEST_VECTOR));
        if rhs.len() == tall * wide {
            return pulp::Arch::new().dispatch(Solve { lower: self, rhs, columns, transposed });
        }
        let mut padded = vec![0.0; tall * wide];
        for (padded, row) in padded.chunks_exact_mut(wide).zip(rhs.chunks_exact(columns)) {
            padded[..columns].copy_from_slice(row);
        }
        self.run(&mut padded, wide, transposed);
        for (padded, row) in padded.chunks_exact(wide).zip(rhs.chunks_exact_mut(columns)) {
            row.copy_from_slice(&padded[..columns]);
        }
    }

    /// An entry on or below the diagonal.
    #[cfg(test)]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        let strip = &self.entries[start(row - row % HEIGHT)..];
        let entry = strip[column * HEIGHT + row % HEIGHT];
        if row == column { 1.0 / entry } else { entry }
    }
}

/// Where the strip of this first row starts: after strips of 8, 16, … columns.
fn start(first: usize) -> usize {
    first * (first + HEIGHT) / 2
}

/// A solve, compiled for the processor at hand.
struct Solve<'a> {
    lower: &'a Strips,
    rhs: &'a mut [f64],
    columns: usize,
    transposed: bool,
}

impl WithSimd for Solve<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.transposed {
            false => self.forward(simd),
            true => self.backward(simd),
        }
    }
}

/// How many vectors of the columns that are left are taken together: eight rows by three vectors take 24 of 32 registers;
/// where there are 16, eight by one.
#[inline(always)]
fn vectors<S: Simd>(left: usize) -> usize {
    (left / S::F64_LANES).min(if S::REGISTER_COUNT >= 32 { 3 } else { 1 })
}

impl Solve<'_> {
    #[inline(always)]
    fn forward<S: Simd>(self, simd: S) {
        let Solve { lower, rhs, columns, .. } = self;
        let rows = rhs.len() / columns;
        let mut packed = vec![0.0; if rows > BLOCK { BLOCK * columns } else { 0 }];
        for block in (0..rows).step_by(BLOCK) {
            let end = rows.min(block + BLOCK);
            for first in (block..rows).step_by(HEIGHT) {
                if first == end {
                    pack::<S>(&rhs[block * columns..end * columns], columns, &mut packed);
                }
                let strip = &lower.entries[start(first)..start(first + HEIGHT)];
                let (above, own) = rhs.split_at_mut(first * columns);
                let mut at = 0;
                while at < columns {
                    let vectors = vectors::<S>(columns - at);
                    // What is known of the block: where it was found or, for the rows below, in the order of its use.
                    let known = match first < end {
                        true => SolvedRows { rows: &above[block * columns..], stride: columns, at },
                        false => SolvedRows {
                            rows: &packed[at * BLOCK..],
                            stride: vectors * S::F64_LANES,
                            at: 0,
                        },
                    };
                    let l = &strip[block * HEIGHT..first.min(end) * HEIGHT];
                    let corner = (first < end).then(|| &strip[first * HEIGHT..]);
                    match vectors {
                        3 => lower_tile::<S, 3>(simd, l, known, corner, own, columns, at),
                        2 => lower_tile::<S, 2>(simd, l, known, corner, own, columns, at),
                        _ => lower_tile::<S, 1>(simd, l, known, corner, own, columns, at),
                    }
                    at += vectors * S::F64_LANES;
                }
            }
        }
    }

    #[inline(always)]
    fn backward<S: Simd>(self, simd: S) {
        let Solve { lower, rhs, columns, .. } = self;
        for first in (0..rhs.len() / columns).step_by(HEIGHT).rev() {
            let strip = &lower.entries[start(first)..start(first + HEIGHT)];
            let mut at = 0;
            while at < columns {
                let vectors = vectors::<S>(columns - at);
                match vectors {
                    3 => upper_tile::<S, 3>(simd, strip, rhs, columns, at),
                    2 => upper_tile::<S, 2>(simd, strip, rhs, columns, at),
                    _ => upper_tile::<S, 1>(simd, strip, rhs, columns, at),
                }
                at += vectors * S::F64_LANES;
            }
        }
    }
}

/// Columns that are taken together, row after row, from rows of a block; those from `at` on start at `at` · [`BLOCK`].
#[inline(always)]
fn pack<S: Simd>(rows: &[f64], columns: usize, packed: &mut [f64]) {
    let mut at = 0;
    while at < columns {
        let width = vectors::<S>(columns - at) * S::F64_LANES;
        let to = packed[at * BLOCK..].chunks_exact_mut(width);
        to.zip(rows.chunks_exact(columns))
            .for_each(|(to, row)| to.copy_from_slice(&row[at..][..width]));
        at += width;
    }
}

/// Solved rows, `stride` apart, of which the columns from `at` on are used.
#[derive(Clone, Copy)]
struct SolvedRows<'a> {
    rows: &'a [f64],
    stride: usize,
    at: usize,
}

/// Rows of a strip by V vectors.
type Tile<S, const V: usize> = [[<S as Simd>::f64s; V]; HEIGHT];

/// b_i ← b_i − Σ L_ik x_k for the rows i of a strip; x_i ← L_ii⁻¹ b_i where their corner of L is given.
#[inline(always)]
fn lower_tile<S: Simd, const V: usize>(
    simd: S,
    l: &[f64],
    known: SolvedRows<'_>,
    corner: Option<&[f64]>,
    own: &mut [f64],
    columns: usize,
    at: usize,
) {
    let mut sums: Tile<S, V> = load_tile(simd, own, columns, at);
    for (l, x) in l.chunks_exact(HEIGHT).zip(known.rows.chunks_exact(known.stride)) {
        let x = load::<S, V>(simd, x, known.at);
        for i in 0..HEIGHT {
            let l = simd.splat_f64s(l[i]);
            for v in 0..V {
                sums[i][v] = simd.negate_mul_add_e_f64s(l, x[v], sums[i][v]);
            }
        }
    }
    let mut tile = sums; // a copy: what is done to it below must not keep the sums from their registers
    if let Some(corner) = corner {
        for k in 0..HEIGHT {
            let diagonal = simd.splat_f64s(corner[k * HEIGHT + k]);
            for v in 0..V {
                tile[k][v] = simd.mul_f64s(tile[k][v], diagonal);
            }
            for i in k + 1..HEIGHT {
                let l = simd.splat_f64s(corner[k * HEIGHT + i]);
                for v in 0..V {
                    tile[i][v] = simd.negate_mul_add_e_f64s(l, tile[k][v], tile[i][v]);
                }
            }
        }
    }
    store_tile(simd, own, columns, at, &tile);
}

/// x_i ← L_ii⁻ᵀ b_i for the rows i of a strip, and b_k ← b_k − L_ikᵀ x_i for the rows k above them.
#[inline(always)]
fn upper_tile<S: Simd, const V: usize>(
    simd: S,
    strip: &[f64],
    rhs: &mut [f64],
    columns: usize,
    at: usize,
) {
    let first = strip.len() / HEIGHT - HEIGHT;
    let (above, own) = rhs.split_at_mut(first * columns);
    let (left, corner) = strip.split_at(first * HEIGHT);
    let mut tile: Tile<S, V> = load_tile(simd, own, columns, at);
    for k in (0..HEIGHT).rev() {
        for i in k + 1..HEIGHT {
            let l = simd.splat_f64s(corner[k * HEIGHT + i]);
            for v in 0..V {
                tile[k][v] = simd.negate_mul_add_e_f64s(l, tile[i][v], tile[k][v]);
            }
        }
        let diagonal = simd.splat_f64s(corner[k * HEIGHT + k]);
        for v in 0..V {
            tile[k][v] = simd.mul_f64s(tile[k][v], diagonal);
        }
    }
    store_tile(simd, own, columns, at, &tile);
    for (l, b) in left.chunks_exact(HEIGHT).zip(above.chunks_exact_mut(columns)) {
        let mut sums = load::<S, V>(simd, b, at);
        for i in 0..HEIGHT {
            let l = simd.splat_f64s(l[i]);
            for v in 0..V {
                sums[v] = simd.negate_mul_add_e_f64s(l, tile[i][v], sums[v]);
            }
        }
        store(simd, b, at, &sums);
    }
}

/// V vectors of a row.
#[inline(always)]
fn load<S: Simd, const V: usize>(simd: S, row: &[f64], at: usize) -> [S::f64s; V] {
    let mut vectors = [simd.splat_f64s(0.0); V];
    vectors.copy_from_slice(S::as_simd_f64s(&row[at..][..V * S::F64_LANES]).0);
    vectors
}

#[inline(always)]
fn store<S: Simd, const V: usize>(_: S, row: &mut [f64], at: usize, vectors: &[S::f64s; V]) {
    S::as_mut_simd_f64s(&mut row[at..][..V * S::F64_LANES]).0.copy_from_slice(vectors);
}

/// V vectors of each row of a strip.
#[inline(always)]
fn load_tile<S: Simd, const V: usize>(
    simd: S,
    rows: &[f64],
    columns: usize,
    at: usize,
) -> Tile<S, V> {
    let mut tile = [[simd.splat_f64s(0.0); V]; HEIGHT];
    for i in 0..HEIGHT {
        tile[i] = load(simd, &rows[i * columns..], at);
    }
    tile
}

#[inline(always)]
fn store_tile<S: Simd, const V: usize>(
    simd: S,
    rows: &mut [f64],
    columns: usize,
    at: usize,
    tile: &Tile<S, V>,
) {
    for i in 0..HEIGHT {
        store(simd, &mut rows[i * columns..], at, &tile[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::rng::Stream;

    /// Sizes within a strip, of several and of more than a block; columns less than a vector, and of every remainder.
    #[test]
    fn solves_undo_products() {
        let mut generator = Stream::new(1).generator();
        for n in [1, 7, 8, 9, 40, 255, 256, 257, 530] {
            let entry =
                |at: usize, x: f64| if at / n == at % n { 2.0 + x.abs() } else { x / n as f64 };
            let matrix: Vec<f64> = (0..n * n).map(|at| entry(at, generator.normal())).collect();
            let strips = Strips::new(&matrix, n);
            for columns in [1, 3, 8, 16, 20, 24, 40, 61] {
                let x: Vec<f64> = (0..n * columns).map(|_| generator.normal()).collect();
                let product = |i: usize, c: usize, transposed: bool| -> f64 {
                    match transposed {
                        false => (0..=i).map(|k| matrix[i * n + k] * x[k * columns + c]).sum(),
                        true => (i..n).map(|k| matrix[k * n + i] * x[k * columns + c]).sum(),
                    }
                };
                for transposed in [false, true] {
                    let of = |at: usize| product(at / columns, at % columns, transposed);
                    let mut solved: Vec<f64> = (0..n * columns).map(of).collect();
                    match transposed {
                        false => strips.solve(&mut solved, columns),
                        true => strips.solve_transposed(&mut solved, columns),
                    }
                    let error =
                        solved.iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(
                        error < 1e-12,
                        "{n} rows, {columns} columns, transposed {transposed}: {error}"
                    );
                }
            }
        }
    }

    /// A column's solution does not depend on its neighbors, to the last bit: work can be cut anywhere.
    #[test]
    fn columns_are_solved_alone_as_together() {
        let mut generator = Stream::new(2).generator();
        let n = 300;
        let entry = |at: usize, x: f64| if at / n == at % n { 1.0 } else { 0.1 * x };
        let matrix: Vec<f64> = (0..n * n).map(|at| entry(at, generator.normal())).collect();
        let strips = Strips::new(&matrix, n);
        let rhs: Vec<f64> = (0..n * 50).map(|_| generator.normal()).collect();
        let mut together = rhs.clone();
        strips.solve(&mut together, 50);
        for c in [0, 23, 24, 47, 49] {
            let mut alone: Vec<f64> = rhs.iter().skip(c).step_by(50).copied().collect();
            strips.solve(&mut alone, 1);
            assert!(alone.iter().eq(together.iter().skip(c).step_by(50)), "column {c}");
        }
    }
}
