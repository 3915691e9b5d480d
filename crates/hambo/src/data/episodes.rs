//! From rows of a log to transitions: where an episode ends, and which rows have a next state.
//!
//! A model that learns one transition across a reset believes that the system can jump back to its start.
//! So a pair is left out wherever the log does not show that both rows belong to the same episode.

use super::Columns;
use super::last_rows::LastRows;
use super::memory::room;
use rayon::prelude::*;
use std::ops::Range;

/// Change of state, in typical changes (root mean square over the columns), from which two rows are not taken
/// for neighbors if the log does not mark time limits. Resets in the D4RL files lie at 4.5 to 17, the
/// largest changes within their episodes at 2.7.
const RESET_JUMP: f64 = 4.0;
/// Pairs of rows for which another thread is worthwhile.
const PAIRS_FOR_A_THREAD: usize = 1 << 16;

/// Completes rows that have no stored next states: s' is the state of the next row of the same episode.
///
/// The last row of an episode has no s', which was never logged, and is no transition. What it paid and whether it ended
/// the episode is kept apart (the row before it did not). `columns.timeouts` may be empty: the log does not mark time
/// limits, and a pair is also left out where the state jumps as in a reset.
pub(crate) fn pair_rows(columns: &mut Columns, notes: &mut Vec<String>) {
    let mut last = columns.terminals.clone();
    if columns.timeouts.is_empty() {
        let jumps = mark_jumps(&columns.states, columns.state_dim, &mut last);
        columns.timeouts = vec![false; last.len()];
        notes.push(format!(
            "no `timeouts` field: the log does not mark where a time limit cut an episode; {jumps} pairs of rows whose \
             state changes by more than {RESET_JUMP} typical changes were left out, as they may cross a reset (add \
             `timeouts` or `next_observations` to keep all real ones)"
        ));
    }
    let kept = RowSelection::with_next_row(last, &columns.terminals, &columns.timeouts, notes);
    kept.keep_last(columns);
    let (runs, width) = (&kept.runs, columns.state_dim);
    let mut next = room(runs.iter().map(Range::len).sum::<usize>() * width);
    let states = &mut columns.states;
    // Both in one pass over what is too large for a processor's own memory.
    for run in runs {
        let to = next.len();
        next.extend_from_slice(&states[(run.start + 1) * width..(run.end + 1) * width]);
        states.copy_within(run.start * width..run.end * width, to);
    }
    states.truncate(next.len());
    columns.next_states = next;
    keep_runs(&mut columns.actions, columns.action_dim, runs);
    keep_runs(&mut columns.rewards, 1, runs);
    kept.mark(columns);
}

/// Finds the episodes of rows whose next states are stored.
///
/// Besides `terminals` and `timeouts` a boundary is where the next row is not the stored next state. Where an
/// episode is marked as over, yet the stored next state is the first state of the next one, it was logged after
/// the reset: such a row is left out.
pub(crate) fn split_rows(columns: &mut Columns, notes: &mut Vec<String>) {
    let n = columns.rewards.len();
    let width = columns.state_dim;
    if columns.timeouts.is_empty() {
        columns.timeouts = vec![false; n];
        notes.push(
            "no `timeouts` field: a time limit is noticed only if the next row is not the stored next state"
                .into(),
        );
    }
    let mut last: Vec<bool> =
        columns.terminals.iter().zip(&columns.timeouts).map(|(a, b)| a | b).collect();
    let mut after_reset = vec![false; n];
    let mut unmarked = 0;
    let next = |i: usize| &columns.next_states[i * width..][..width];
    let following = |i: usize| &columns.states[(i + 1) * width..][..width];
    let pairs = (0..n.saturating_sub(1)).into_par_iter().with_min_len(PAIRS_FOR_A_THREAD);
    let same: Vec<bool> = pairs.map(|i| next(i) == following(i)).collect();
    for (i, same) in same.into_iter().enumerate() {
        if last[i] {
            after_reset[i] = same;
        } else if !same && !nearly_equal(next(i), following(i)) {
            last[i] = true;
            unmarked += 1;
        }
    }
    if unmarked > 0 {
        notes.push(format!(
            "{unmarked} ends of episodes are not marked by a flag: the next row is not the stored next state"
        ));
    }
    let (left_out, terminal) = count(&after_reset, &columns.terminals);
    if left_out > 0 {
        notes.push(format!(
            "last rows of episodes are no transitions, {left_out} in all ({terminal} of them terminal): their stored next state is \
             the first state of the next episode; what they paid counts in returns"
        ));
    }
    let keep: Vec<bool> = after_reset.iter().map(|l| !l).collect();
    let kept = RowSelection::new(&keep, &last, &columns.terminals);
    kept.keep_last(columns);
    keep_runs(&mut columns.next_states, width, &kept.runs);
    keep_runs(&mut columns.states, width, &kept.runs);
    keep_runs(&mut columns.actions, columns.action_dim, &kept.runs);
    keep_runs(&mut columns.rewards, 1, &kept.runs);
    kept.mark(columns);
}

/// Marks rows after which the state jumps; returns how many were not marked before.
fn mark_jumps(states: &[f32], width: usize, last: &mut [bool]) -> usize {
    let changes = |i: usize| {
        states[i * width..][..width]
            .iter()
            .zip(&states[(i + 1) * width..][..width])
            .map(|(a, b)| f64::from(b - a))
    };
    let mut squares = vec![0.0; width];
    let mut pairs = 0.0;
    let candidates: Vec<usize> = (0..last.len().saturating_sub(1)).filter(|&i| !last[i]).collect();
    for &i in &candidates {
        squares.iter_mut().zip(changes(i)).for_each(|(s, c)| *s += c * c);
        pairs += 1.0;
    }
    let moving = squares.iter().filter(|s| **s > 0.0).count() as f64;
    let mut marked = 0;
    for i in candidates {
        let jump: f64 = changes(i)
            .zip(&squares)
            .filter(|(_, s)| **s > 0.0)
            .map(|(c, s)| c * c * pairs / s)
            .sum();
        if jump > RESET_JUMP * RESET_JUMP * moving {
            last[i] = true;
            marked += 1;
        }
    }
    marked
}

/// Equal up to what storing one of the two in another precision can change.
fn nearly_equal(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + a.abs()))
}

/// How many rows are chosen, and how many of these are terminal.
fn count(chosen: &[bool], terminals: &[bool]) -> (usize, usize) {
    let both = chosen.iter().zip(terminals).filter(|(c, t)| **c && **t).count();
    (chosen.iter().filter(|c| **c).count(), both)
}

/// Which rows of a file become transitions.
pub(crate) struct RowSelection {
    /// Their rows in the file, those that follow each other in one run.
    pub(crate) runs: Vec<Range<usize>>,
    /// Which of them begin an episode, and after which of them the log is cut.
    starts: Vec<usize>,
    cuts: Vec<usize>,
    /// Rows of the file that follow the last row kept of their episode, and end it; and which row kept that is.
    pub(crate) last: Vec<usize>,
    after: Vec<usize>,
}

impl RowSelection {
    /// All rows but the `last` ones of episodes, also those marked as `timeouts`: s' is the state of the next row.
    pub(crate) fn with_next_row(
        mut last: Vec<bool>,
        terminals: &[bool],
        timeouts: &[bool],
        notes: &mut Vec<String>,
    ) -> RowSelection {
        last.iter_mut().zip(timeouts).for_each(|(l, &t)| *l |= t);
        if let Some(l) = last.last_mut() {
            *l = true;
        }
        let (left_out, terminal) = count(&last, terminals);
        notes.push(format!(
            "last rows of episodes are no transitions, {left_out} in all: their next state is not stored; what they paid counts \
             in returns"
        ));
        if terminal > 0 {
            notes.push(format!(
                "{terminal} of them are terminal: what ends an episode cannot be learned from this file; give the task a \
                 termination rule"
            ));
        }
        let keep: Vec<bool> = last.iter().map(|l| !l).collect();
        RowSelection::new(&keep, &last, terminals)
    }

    /// The rows of `keep`, of episodes that end with the `last` rows.
    ///
    /// The log is cut after the last row kept of an episode if nothing marks it yet and rows follow it in the file.
    fn new(keep: &[bool], last: &[bool], terminals: &[bool]) -> RowSelection {
        let mut kept = 0;
        let mut last_kept = 0; // its row in the file
        let mut fresh = true; // the next row kept begins an episode
        let (mut runs, mut starts, mut cuts) = (Vec::<Range<usize>>::new(), Vec::new(), Vec::new());
        let (mut ends, mut after) = (Vec::new(), Vec::new());
        for row in 0..keep.len() {
            if keep[row] {
                if fresh {
                    starts.push(kept);
                    fresh = false;
                }
                match runs.last_mut() {
                    Some(run) if run.end == row => run.end += 1,
                    _ => runs.push(row..row + 1),
                }
                kept += 1;
                last_kept = row;
            }
            if last[row] {
                let cut = !keep[row] || row + 1 < keep.len();
                if cut && !fresh && !terminals[last_kept] {
                    cuts.push(kept - 1);
                }
                if !keep[row] && !fresh && last_kept + 1 == row {
                    ends.push(row);
                    after.push(kept - 1);
                }
                fresh = true;
            }
        }
        RowSelection { runs, starts, cuts, last: ends, after }
    }

    /// Keeps the last rows, of columns that still have all rows of the file.
    fn keep_last(&self, columns: &mut Columns) {
        let of = |values: &[f32], width: usize| -> Vec<f32> {
            self.last.iter().flat_map(|row| &values[row * width..][..width]).copied().collect()
        };
        columns.last_rows = LastRows {
            states: of(&columns.states, columns.state_dim),
            actions: of(&columns.actions, columns.action_dim),
            rewards: of(&columns.rewards, 1),
            ..self.last_rows(&columns.terminals)
        };
    }

    /// Which transitions the last rows follow, and which of them are terminal, by the flags of all rows of the file; the
    /// rest is to be filled in.
    pub(crate) fn last_rows(&self, terminals: &[bool]) -> LastRows {
        let terminals = self.last.iter().map(|&row| terminals[row]).collect();
        LastRows { after: self.after.clone(), terminals, ..LastRows::default() }
    }

    /// Keeps the flags of these rows, marks where the log is cut, and sets where episodes begin.
    pub(crate) fn mark(self, columns: &mut Columns) {
        keep_runs(&mut columns.terminals, 1, &self.runs);
        keep_runs(&mut columns.timeouts, 1, &self.runs);
        self.cuts.into_iter().for_each(|row| columns.timeouts[row] = true);
        columns.episode_starts = self.starts;
    }
}

/// Keeps these rows, in place.
fn keep_runs<T: Copy>(values: &mut Vec<T>, width: usize, runs: &[Range<usize>]) {
    let mut kept = 0;
    for run in runs {
        if run.start * width != kept {
            values.copy_within(run.start * width..run.end * width, kept);
        }
        kept += run.len() * width;
    }
    values.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 0, 1, 2, … with one-dimensional states, actions 10·i and rewards 100·i.
    fn rows(states: &[f32], terminal: &[usize], timeout: &[usize]) -> Columns {
        let n = states.len();
        let flags = |rows: &[usize]| (0..n).map(|i| rows.contains(&i)).collect::<Vec<_>>();
        Columns {
            state_dim: 1,
            action_dim: 1,
            states: states.to_vec(),
            actions: (0..n).map(|i| 10.0 * i as f32).collect(),
            rewards: (0..n).map(|i| 100.0 * i as f32).collect(),
            terminals: flags(terminal),
            timeouts: flags(timeout),
            ..Columns::default()
        }
    }

    #[test]
    fn pairs_never_cross_a_boundary() {
        let mut c = rows(&[0.0, 1.0, 2.0, 10.0, 11.0, 20.0, 30.0, 31.0], &[2], &[4, 5]);
        let mut notes = Vec::new();
        pair_rows(&mut c, &mut notes);
        assert_eq!(c.states, [0.0, 1.0, 10.0, 30.0]);
        assert_eq!(c.next_states, [1.0, 2.0, 11.0, 31.0]);
        assert_eq!(c.actions, [0.0, 10.0, 30.0, 60.0]);
        assert_eq!(c.rewards, [0.0, 100.0, 300.0, 600.0]);
        assert_eq!(c.episode_starts, [0, 2, 3]);
        assert_eq!(c.terminals, [false; 4]);
        assert_eq!(c.timeouts, [false, true, true, true], "the log is cut after the last row kept");
        assert!(
            notes[0].contains("no transitions, 4 in all:") && notes[1].starts_with("1 of them"),
            "{notes:?}"
        );
        // An episode of one row has no transition that its row could follow.
        let last = LastRows {
            after: vec![1, 2, 3],
            states: vec![2.0, 11.0, 31.0],
            actions: vec![20.0, 40.0, 70.0],
            rewards: vec![200.0, 400.0, 700.0],
            terminals: vec![true, false, false],
        };
        assert_eq!(c.last_rows, last);
    }

    #[test]
    fn without_timeouts_jumps_are_not_paired() {
        let states: Vec<f32> =
            (0..100).map(|i| (i % 50) as f32 * 0.1 + (i % 2) as f32 * 0.01).collect();
        let mut c = rows(&states, &[], &[]);
        c.timeouts.clear();
        let mut notes = Vec::new();
        pair_rows(&mut c, &mut notes);
        assert_eq!(c.rewards.len(), 98);
        assert_eq!(c.episode_starts, [0, 49]);
        assert!(
            notes[0].contains("no `timeouts` field") && notes[0].contains("1 pairs"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_state_that_never_moves_is_no_jump() {
        let mut c = rows(&[1.0; 5], &[], &[]);
        c.timeouts.clear();
        pair_rows(&mut c, &mut Vec::new());
        assert_eq!(c.rewards.len(), 4);
    }

    #[test]
    fn stored_next_states_show_unmarked_ends_and_resets() {
        // Row 1 is terminal with its own s'; row 3 ends unmarked; row 5 is a timeout with the reset state as s'.
        let mut c = rows(&[0.0, 1.0, 10.0, 11.0, 20.0, 21.0, 30.0], &[1], &[5]);
        c.next_states = vec![1.0, 2.0, 11.0, 12.0, 21.0, 30.0, 31.0];
        let mut notes = Vec::new();
        split_rows(&mut c, &mut notes);
        assert_eq!(c.states, [0.0, 1.0, 10.0, 11.0, 20.0, 30.0]);
        assert_eq!(c.next_states, [1.0, 2.0, 11.0, 12.0, 21.0, 31.0]);
        assert_eq!(c.episode_starts, [0, 2, 4, 5]);
        assert_eq!(c.terminals, [false, true, false, false, false, false]);
        assert_eq!(c.timeouts, [false, false, false, true, true, false]);
        assert!(notes[0].starts_with("1 ends of episodes are not marked"), "{notes:?}");
        assert!(
            notes[1].starts_with(
                "last rows of episodes are no transitions, 1 in all (0 of them terminal)"
            ),
            "{notes:?}"
        );
        assert_eq!((&c.last_rows.after[..], &c.last_rows.rewards[..]), (&[4][..], &[500.0][..]));
    }

    #[test]
    fn rounding_is_no_boundary() {
        let mut c = rows(&[0.1, 0.2, 0.3], &[], &[]);
        c.next_states = vec![0.2 + 1e-8, 0.3, 0.4];
        split_rows(&mut c, &mut Vec::new());
        assert_eq!(c.episode_starts, [0]);
    }
}
