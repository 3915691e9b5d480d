//! How far from the logs a model may be asked: beyond that it can say anything.

use super::layout::Layout;
use crate::data::{Standardizer, Transitions};

/// By this share of its logged range an entry may leave it, on either side.
pub const WIDENED: f32 = 0.5;
/// And at least by so many deviations of what a step changes, lest noise alone should end trajectories where an entry
/// has few values (a flag that is 0 or 1) or one.
const DEVIATIONS: f32 = 5.0;
/// And at least by this share of its largest magnitude: large numbers that hardly differ are rounded.
const ROUNDING: f32 = 1e-3;

/// The widened range of what trajectories carry: of the values of each entry of the state, and of what is paid in a step
/// where the reward is learned. Angles have none: they start anew, and the model sees their cosine and sine.
pub(super) fn widened_range(
    layout: &Layout,
    data: &Transitions,
    targets: &Standardizer,
) -> Vec<Option<[f32; 2]>> {
    let none = [f32::INFINITY, f32::NEG_INFINITY];
    let mut ranges = vec![none; layout.carried()];
    let rows = data.states().chunks_exact(layout.observed);
    for state in rows.chain(data.next_states().chunks_exact(layout.observed)) {
        ranges.iter_mut().zip(state).for_each(|(range, &x)| include(range, x));
    }
    if layout.reward {
        data.rewards().iter().for_each(|&r| include(&mut ranges[layout.observed], r));
    }
    let is_angle = |index: usize| layout.angles.iter().any(|angle| angle.index == index);
    let widened = |(index, [low, high]): (usize, [f32; 2])| {
        let magnitude = low.abs().max(high.abs());
        let by =
            (WIDENED * (high - low)).max(DEVIATIONS * targets.std[index]).max(ROUNDING * magnitude);
        // What overflows is no limit.
        let range = [low - by, high + by];
        (!is_angle(index) && range.iter().all(|x| x.is_finite())).then_some(range)
    };
    ranges.into_iter().enumerate().map(widened).collect()
}

fn include([low, high]: &mut [f32; 2], x: f32) {
    (*low, *high) = (low.min(x), high.max(x));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;

    #[test]
    fn ranges_are_those_of_all_rows_widened() {
        let data = Transitions::new(Columns {
            state_dim: 4,
            action_dim: 1,
            // A position, a flag, an angle, and what never changes.
            states: vec![0.0, 0.0, 3.0, -1e6, 4.0, 1.0, -3.0, -1e6],
            next_states: vec![4.0, 1.0, -3.0, -1e6, 10.0, 0.0, 1.0, -1e6],
            actions: vec![0.0; 2],
            rewards: vec![-2.0, 6.0],
            terminals: vec![false; 2],
            timeouts: vec![false; 2],
            episode_starts: vec![0],
            ..Default::default()
        })
        .unwrap();
        let layout = Layout::of(&data, &[2], true);
        let targets = Standardizer { mean: vec![0.0; 5], std: vec![0.5, 1.0, 0.1, 1.0, 0.1] };
        assert_eq!(
            widened_range(&layout, &data, &targets),
            [
                Some([-5.0, 15.0]),
                Some([-5.0, 6.0]),
                None,
                Some([-1_001_000.0, -999_000.0]),
                Some([-6.0, 10.0])
            ]
        );
    }
}
