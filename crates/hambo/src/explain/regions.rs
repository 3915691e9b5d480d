//! Boxes of a space in which something costs most: a small regression tree (CART, Breiman et al. 1984), of which the
//! costliest leaves are kept.

use serde::Serialize;

/// Depth of the tree, and the smallest share of the points in a leaf.
const DEPTH: usize = 3;
const SMALLEST: f64 = 0.02;
/// Boxes kept, and the share of the whole cost that a box must have.
const KEPT: usize = 3;
const WORTH: f64 = 0.1;

/// The sides of an axis-parallel box.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// The coordinates that it limits; all others are free.
    pub sides: Vec<Side>,
}

/// low ≤ x ≤ high in one coordinate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Which coordinate.
    pub coordinate: usize,
    /// Lower limit, none: −∞.
    pub low: Option<f32>,
    /// Upper limit, none: ∞.
    pub high: Option<f32>,
}

impl Bounds {
    /// Whether a point is inside.
    pub fn holds(&self, point: impl Iterator<Item = f32>) -> bool {
        let point: Vec<f32> = point.collect();
        self.sides.iter().all(|side| {
            let x = point[side.coordinate];
            side.low.is_none_or(|low| x >= low) && side.high.is_none_or(|high| x <= high)
        })
    }

    fn cut(&self, coordinate: usize, threshold: f32, above: bool) -> Bounds {
        let mut cut = self.clone();
        let place =
            cut.sides.iter().position(|side| side.coordinate == coordinate).unwrap_or_else(|| {
                cut.sides.push(Side { coordinate, low: None, high: None });
                cut.sides.len() - 1
            });
        let side = &mut cut.sides[place];
        *(if above { &mut side.low } else { &mut side.high }) = Some(threshold);
        cut.sides.sort_by_key(|side| side.coordinate);
        cut
    }
}

/// The costliest boxes with the points inside them, the costliest first; none where nothing costs anything, or where
/// the cost is everywhere the same.
///
/// `points` is `[points, width]`, `costs` has one number a point.
pub fn costly_boxes(points: &[f32], width: usize, costs: &[f64]) -> Vec<(Bounds, Vec<usize>)> {
    let whole: f64 = costs.iter().sum();
    let least = ((SMALLEST * costs.len() as f64) as usize).max(1);
    let mut leaves = vec![(Bounds::default(), (0..costs.len()).collect::<Vec<usize>>())];
    for _ in 0..DEPTH {
        leaves =
            leaves.into_iter().flat_map(|leaf| split(points, width, costs, leaf, least)).collect();
    }
    let cost = |inside: &[usize]| inside.iter().map(|&i| costs[i]).sum::<f64>();
    leaves.retain(|(bounds, inside)| {
        whole > 0.0 && !bounds.sides.is_empty() && cost(inside) >= WORTH * whole
    });
    leaves.sort_by(|a, b| cost(&b.1).total_cmp(&cost(&a.1)));
    leaves.truncate(KEPT);
    leaves
}

/// The leaf, or the two parts of it whose costs differ most: those with the smallest sum of squared deviations.
fn split(
    points: &[f32],
    width: usize,
    costs: &[f64],
    (bounds, inside): (Bounds, Vec<usize>),
    least: usize,
) -> Vec<(Bounds, Vec<usize>)> {
    let n = inside.len();
    let sum: f64 = inside.iter().map(|&i| costs[i]).sum();
    // n₁ m₁² + n₂ m₂² − n m² is what a split takes off the squared deviations.
    let mut best = (1e-9 * inside.iter().map(|&i| costs[i] * costs[i]).sum::<f64>(), None);
    for coordinate in 0..width {
        let at = |i: usize| points[i * width + coordinate];
        let mut order = inside.clone();
        order.sort_by(|&i, &j| at(i).total_cmp(&at(j)));
        let mut below = 0.0;
        for (count, pair) in (1..).zip(order.windows(2)) {
            below += costs[pair[0]];
            if count < least || n - count < least || at(pair[0]) == at(pair[1]) {
                continue;
            }
            let above = sum - below;
            let gain = below * below / count as f64 + above * above / (n - count) as f64
                - sum * sum / n as f64;
            if gain > best.0 {
                best = (gain, Some((coordinate, 0.5 * (at(pair[0]) + at(pair[1])))));
            }
        }
    }
    let Some((coordinate, threshold)) = best.1 else { return vec![(bounds, inside)] };
    let (above, below): (Vec<usize>, Vec<usize>) =
        inside.into_iter().partition(|&i| points[i * width + coordinate] > threshold);
    let half = |above: bool| bounds.cut(coordinate, threshold, above);
    vec![(half(false), below), (half(true), above)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use hambo_engine::rng::Stream;

    /// Costs in one corner of a square alone: the box is that corner, and has the cost.
    #[test]
    fn the_corner_that_costs_is_found() {
        let mut generator = Stream::new(1).generator();
        let points: Vec<f32> = (0..4000).map(|_| generator.range(0.0, 1.0) as f32).collect();
        let costs: Vec<f64> = points
            .chunks_exact(2)
            .map(|p| f64::from(u8::from(p[0] > 0.7 && p[1] <= 0.4)))
            .collect();
        let boxes = costly_boxes(&points, 2, &costs);
        let (bounds, inside) = &boxes[0];
        // The first cut is greedy, and may leave out a point or two.
        assert!(inside.iter().map(|&i| costs[i]).sum::<f64>() > 0.98 * costs.iter().sum::<f64>());
        let [x, y] = &bounds.sides[..] else { panic!("{bounds:?}") };
        assert!((x.low.unwrap() - 0.7).abs() < 0.02 && x.high.is_none(), "{bounds:?}");
        assert!((y.high.unwrap() - 0.4).abs() < 0.02 && y.low.is_none(), "{bounds:?}");
        assert!(inside.iter().all(|&i| bounds.holds(points[2 * i..2 * i + 2].iter().copied())));
        assert_eq!(boxes.len(), 1, "nothing else costs anything");
    }

    #[test]
    fn equal_costs_or_none_single_out_nothing() {
        let points: Vec<f32> = (0..100).map(|i| i as f32).collect();
        assert_eq!(costly_boxes(&points, 1, &[1.0; 100]), []);
        assert_eq!(costly_boxes(&points, 1, &[0.0; 100]), []);
        assert_eq!(costly_boxes(&[], 1, &[]), []);
        assert_eq!(costly_boxes(&[3.0; 50], 1, &[1.0; 50]), []);
    }
}
