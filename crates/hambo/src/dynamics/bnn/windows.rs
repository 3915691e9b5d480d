//! Windows of validation episodes, of which networks predict several steps.

use crate::data::{Split, Transitions};
use crate::dynamics::frame::Frame;

/// Steps of a prediction, the longest that the episodes are long enough for.
const STEPS: [usize; 4] = [20, 10, 5, 1];
/// Windows of each fold, at the most.
const MOST: usize = 200;
/// Errors are counted up to this many deviations of the data: beyond, a prediction is lost, however far.
const LOST: f64 = 10.0;

/// First rows of windows, as many of each fold.
pub(super) struct Windows {
    /// Steps of each.
    pub steps: usize,
    /// Windows of a fold.
    pub each: usize,
    first: Vec<usize>,
}

impl Windows {
    /// None where some fold has no validation episode.
    pub fn of(held_out: &Split, data: &Transitions) -> Option<Self> {
        if !held_out.by_episode {
            return None;
        }
        let folds = held_out.validation_by_fold();
        let (steps, windows) = STEPS.iter().find_map(|&steps| {
            let windows: Vec<Vec<usize>> =
                folds.iter().map(|rows| windows(data, rows, steps)).collect();
            windows.iter().all(|w| !w.is_empty()).then_some((steps, windows))
        })?;
        let each = windows.iter().map(Vec::len).min()?.min(MOST);
        let some = |w: &Vec<usize>| {
            w.iter().step_by(w.len() / each).take(each).copied().collect::<Vec<usize>>()
        };
        Some(Windows { steps, each, first: windows.iter().flat_map(some).collect() })
    }

    /// First rows of all windows, fold by fold.
    pub fn first(&self) -> &[usize] {
        &self.first
    }

    /// Those of one fold.
    pub fn of_fold(&self, fold: usize) -> &[usize] {
        &self.first[fold * self.each..][..self.each]
    }
}

/// Predictions that are under way from the rows where they began.
pub(super) struct Prediction<'a> {
    frame: &'a Frame,
    data: &'a Transitions,
    rows: Vec<usize>,
    states: Vec<f32>,
    time: usize,
}

impl<'a> Prediction<'a> {
    pub fn new(frame: &'a Frame, data: &'a Transitions, rows: Vec<usize>) -> Self {
        let states = rows.iter().flat_map(|&row| data.state(row)).copied().collect();
        Prediction { frame, data, rows, states, time: 0 }
    }

    /// Predicted states with the logged actions, as the networks see them.
    pub fn inputs(&self) -> Vec<f32> {
        self.frame.standardized_inputs(&self.states, &self.actions())
    }

    /// Goes on to what is predicted for an entry of the state in a row, in standardized units.
    pub fn step(&mut self, mut predicted: impl FnMut(usize, usize) -> f32) {
        let frame = self.frame;
        for (i, row) in self.states.chunks_exact_mut(frame.layout.observed).enumerate() {
            for (d, s) in row.iter_mut().enumerate() {
                let from = if frame.relative() { *s } else { 0.0 };
                *s = from + frame.targets.mean[d] + frame.targets.std[d] * predicted(i, d);
            }
        }
        self.time += 1;
    }

    /// Predicted and logged states, standardized, `[rows, input]`; compared with [`Prediction::distance`].
    pub fn and_logged(&self) -> [Vec<f32>; 2] {
        let logged = self.rows.iter().flat_map(|row| self.data.next_state(row + self.time - 1));
        let logged: Vec<f32> = logged.copied().collect();
        let actions = vec![0.0; self.rows.len() * self.frame.action_dim];
        [&self.states, &logged].map(|states| self.frame.standardized_inputs(states, &actions))
    }

    /// Distance of two standardized states, in deviations of the data.
    pub fn distance(&self, p: &[f32], q: &[f32]) -> f64 {
        let features = self.frame.layout.features();
        let pairs = p[..features].iter().zip(q);
        let square = pairs.map(|(p, q)| f64::from(p - q).powi(2)).sum::<f64>();
        let distance = (square / features as f64).sqrt();
        if distance < LOST { distance } else { LOST }
    }

    fn actions(&self) -> Vec<f32> {
        let actions = self.rows.iter().flat_map(|row| self.data.action(row + self.time));
        actions.copied().collect()
    }
}

/// First rows of windows of that many steps, one after the other, in episodes that begin in `rows`.
fn windows(data: &Transitions, rows: &[u32], steps: usize) -> Vec<usize> {
    let of = |episode: std::ops::Range<usize>| {
        let count = episode.len() / steps;
        (0..count).map(move |i| episode.start + i * steps)
    };
    let begins =
        |episode: &std::ops::Range<usize>| rows.binary_search(&(episode.start as u32)).is_ok();
    data.episodes().filter(begins).flat_map(of).collect()
}
