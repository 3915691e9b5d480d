//! Steps along orthogonal matrices, see [`crate::backend::Muon`].

use crate::backend::Muon;
use crate::backend::cpu::product::{Matrix, product};
use crate::backend::cpu::{Cpu, Parts, vectorized};
use crate::backend::optimize::HiddenWeights;
use crate::backend::shape::Layer;
use std::cell::RefCell;

/// A direction shorter than that is none.
const NOTHING: f32 = 1e-20;

thread_local! {
    /// The matrix that becomes orthogonal, the next one, and the two products in between.
    static ROOM: RefCell<[Vec<f32>; 4]> = const { RefCell::new([const { Vec::new() }; 4]) };
}

impl Cpu {
    /// params ← params − rate · the nearest orthogonal matrix to each matrix of `directions`, of all members.
    pub(super) fn orthogonal_step(
        &self,
        hidden: &HiddenWeights,
        rate: f32,
        members: usize,
        params: &Parts<'_, f32>,
        directions: &Parts<'_, f32>,
    ) {
        let (n, layers) = (params.len / members, &hidden.layers);
        self.parallel(members * layers.len(), |unit| {
            let layer = &layers[unit % layers.len()];
            let start = unit / layers.len() * n + layer.offset;
            let range = start..start + layer.inputs * layer.outputs;
            // SAFETY: each unit has its own member and layer.
            let (weights, direction) =
                unsafe { (params.take(range.clone()), directions.take(range)) };
            let rate = rate * Muon::factor(layer);
            ROOM.with_borrow_mut(|room| {
                let orthogonal = orthogonalize(layer, hidden.muon.iterations, direction, room);
                vectorized(|| {
                    weights.iter_mut().zip(orthogonal).for_each(|(w, o)| *w -= rate * o);
                });
            });
        });
    }
}

/// What Newton–Schulz iterations make of a matrix `[inputs, outputs]`.
fn orthogonalize<'r>(
    layer: &Layer,
    iterations: u32,
    matrix: &[f32],
    room: &'r mut [Vec<f32>; 4],
) -> &'r [f32] {
    let [a, b, c] = Muon::POLYNOMIAL;
    let (rows, columns) = (layer.inputs, layer.outputs);
    let small = rows.min(columns);
    let [x, next, gram, polynomial] = room;
    for (part, len) in
        [(&mut *next, matrix.len()), (gram, small * small), (polynomial, small * small)]
    {
        part.resize(len, 0.0); // all of it is written
    }
    let norm = matrix.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt() as f32;
    x.clear();
    x.extend(matrix.iter().map(|v| v / norm.max(NOTHING)));
    for _ in 0..iterations {
        let tall = rows >= columns;
        let of = |x| Matrix::new(x, rows, columns);
        let (left, right) = match tall {
            true => (of(x).transposed(), of(x)),
            false => (of(x), of(x).transposed()),
        };
        product(left, right, gram, false, |_| ());
        let square = Matrix::new(gram, small, small);
        product(square, square, polynomial, false, |_| ());
        vectorized(|| polynomial.iter_mut().zip(&*gram).for_each(|(p, g)| *p = b * g + c * *p));
        let p = Matrix::new(polynomial, small, small);
        match tall {
            true => product(of(x), p, next, false, |_| ()),
            false => product(p, of(x), next, false, |_| ()),
        }
        vectorized(|| next.iter_mut().zip(&*x).for_each(|(n, x)| *n += a * x));
        std::mem::swap(x, next);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Activation;
    use crate::rng::Stream;

    /// Of a matrix with singular values far apart comes one whose singular values are all about 1, with the same singular
    /// vectors: XᵀX is about 1, and the product with the matrix is symmetric and positive.
    #[test]
    fn a_matrix_becomes_orthogonal() {
        for [inputs, outputs] in [[48, 48], [64, 40], [33, 70]] {
            let mut generator = Stream::new(3).generator();
            let matrix: Vec<f32> =
                (0..inputs * outputs).map(|_| 1e-3 * generator.normal() as f32).collect();
            let layer = Layer { inputs, outputs, offset: 0, activation: Activation::Linear };
            let mut room = Default::default();
            let x = orthogonalize(&layer, 8, &matrix, &mut room);
            let at = |m: &[f32], i: usize, j: usize| f64::from(m[i * outputs + j]);
            let small = inputs.min(outputs);
            for i in 0..small {
                let row = |m: &[f32], k: usize, i: usize| {
                    if inputs < outputs { at(m, i, k) } else { at(m, k, i) }
                };
                let long = inputs.max(outputs);
                let squared: f64 = (0..long).map(|k| row(x, k, i).powi(2)).sum();
                assert!((0.4..1.6).contains(&squared), "{squared}");
                let along: f64 = (0..long).map(|k| row(x, k, i) * row(&matrix, k, i)).sum();
                assert!(along > 0.0);
            }
        }
    }

    /// No direction, no step; and a diagonal matrix follows the polynomial by hand.
    #[test]
    fn a_diagonal_matrix_follows_the_polynomial() {
        let layer = Layer { inputs: 2, outputs: 2, offset: 0, activation: Activation::Linear };
        let mut room = Default::default();
        assert_eq!(orthogonalize(&layer, 3, &[0.0; 4], &mut room), [0.0; 4]);
        let [a, b, c] = Muon::POLYNOMIAL;
        let by_hand = |mut x: f32, n: u32| {
            (0..n).for_each(|_| x = a * x + b * x.powi(3) + c * x.powi(5));
            x
        };
        let x = orthogonalize(&layer, 3, &[3.0, 0.0, 0.0, 4.0], &mut room);
        for (got, expected) in x.iter().zip([by_hand(0.6, 3), 0.0, 0.0, by_hand(0.8, 3)]) {
            assert!((got - expected).abs() < 1e-4, "{got} {expected}");
        }
    }
}
