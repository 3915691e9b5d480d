//! Logged transitions, checked once on construction so that nothing after has to.

use super::copies::copies;
use super::last_rows::LastRows;
use crate::{Error, Result};
use hambo_engine::files::Digest;

/// n logged transitions (s, a, r, s'), in the order of the log. All matrices are row-major, batch first.
///
/// ```
/// use hambo::Transitions;
/// use hambo::data::Columns;
/// let columns = Columns {
///     state_dim: 1,
///     action_dim: 1,
///     states: vec![0.0, 0.5],
///     actions: vec![0.5, 0.5],
///     rewards: vec![0.0, 1.0],
///     next_states: vec![0.5, 1.0],
///     terminals: vec![false, true],
///     timeouts: vec![false; 2],
///     episode_starts: vec![0],
///     ..Default::default()
/// };
/// assert_eq!(Transitions::new(columns)?.len(), 2);
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Transitions {
    state_dim: usize,
    action_dim: usize,
    states: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    next_states: Vec<f32>,
    terminals: Vec<bool>,
    timeouts: Vec<bool>,
    episode_starts: Vec<usize>,
    last_rows: LastRows,
    without_rewards: bool,
}

/// The columns of [`Transitions`] before they are checked.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Length of a state.
    pub state_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    /// s, `[n, state_dim]`.
    pub states: Vec<f32>,
    /// a, `[n, action_dim]`.
    pub actions: Vec<f32>,
    /// r, `[n]`.
    pub rewards: Vec<f32>,
    /// s', `[n, state_dim]`.
    pub next_states: Vec<f32>,
    /// Whether s' ended the episode for good (no reward can follow), `[n]`.
    pub terminals: Vec<bool>,
    /// Whether the log was cut after this transition (a time limit), `[n]`.
    pub timeouts: Vec<bool>,
    /// Rows at which an episode begins, ascending, the first 0.
    pub episode_starts: Vec<usize>,
    /// Last rows of episodes that are no transitions, if any.
    pub last_rows: LastRows,
    /// Whether no rewards were logged: those above are 0, and the task has to say them.
    pub without_rewards: bool,
}

impl Transitions {
    /// Checks sizes and values: every column has n rows, all numbers are finite, episodes are in order.
    pub fn new(columns: Columns) -> Result<Self> {
        let new = Self::of_finite(columns)?;
        check_finite("states", &new.states, new.state_dim)?;
        check_finite("actions", &new.actions, new.action_dim)?;
        check_finite("rewards", &new.rewards, 1)?;
        check_finite("next states", &new.next_states, new.state_dim)?;
        Ok(new)
    }

    /// From numbers that are known to be finite: as [`Transitions::new`], without looking at each of them again.
    pub(super) fn of_finite(columns: Columns) -> Result<Self> {
        let Columns { state_dim, action_dim, states, actions, rewards, next_states, .. } = columns;
        let n = rewards.len();
        if state_dim == 0 || action_dim == 0 {
            return Err(Error::Data(format!(
                "states have {state_dim} and actions {action_dim} dimensions: each needs at least one"
            )));
        }
        if n < 2 {
            return Err(Error::Data(format!(
                "{n} transitions: at least 2 are needed to learn anything"
            )));
        }
        let lengths = [
            ("states", states.len(), n * state_dim),
            ("actions", actions.len(), n * action_dim),
            ("next states", next_states.len(), n * state_dim),
            ("terminals", columns.terminals.len(), n),
            ("timeouts", columns.timeouts.len(), n),
        ];
        for (name, len, expected) in lengths {
            if len != expected {
                return Err(Error::Data(format!(
                    "{name} hold {len} values, but {n} rewards need {expected} (states {state_dim} wide, actions {action_dim} wide)"
                )));
            }
        }
        let starts = columns.episode_starts;
        if starts.first() != Some(&0)
            || starts.windows(2).any(|w| w[0] >= w[1])
            || starts.last().is_none_or(|&s| s >= n)
        {
            return Err(Error::Data(format!(
                "episode starts must ascend from row 0 and stay below {n}, the number of transitions"
            )));
        }
        let (last, dims) = (columns.last_rows, [state_dim, action_dim]);
        let ends: Vec<usize> = starts.iter().skip(1).chain([&n]).map(|end| end - 1).collect();
        let is_last = |after: &usize| ends.binary_search(after).is_ok();
        if last.after.windows(2).any(|w| w[0] >= w[1])
            || !last.after.iter().all(is_last)
            || [last.states.len(), last.actions.len()] != dims.map(|dim| dim * last.len())
            || [last.rewards.len(), last.terminals.len()] != [last.len(); 2]
        {
            return Err(Error::Data(
                "last rows must follow the last transitions of episodes, in their order, each with a state, an action, a \
                 reward and a flag"
                    .to_owned(),
            ));
        }
        let finite = last.finite(dims);
        let lost = |&i: &usize| last.terminals[i] && finite.following(last.after[i]).is_none();
        if let Some(i) = (0..last.len()).find(lost) {
            return Err(Error::Data(format!(
                "the last row of the episode that ends after transition {} is terminal, but not all of its numbers are \
                 finite: give them, or, if it only shows the last state, flag the row before it and leave it out",
                last.after[i]
            )));
        }
        Ok(Transitions {
            state_dim,
            action_dim,
            states,
            actions,
            rewards,
            next_states,
            terminals: columns.terminals,
            timeouts: columns.timeouts,
            episode_starts: starts,
            last_rows: finite,
            without_rewards: columns.without_rewards,
        })
    }

    /// The transitions of these episodes, by their numbers, in the order of the log.
    pub fn of_episodes(&self, chosen: &[usize]) -> Result<Self> {
        let mut columns = Columns {
            state_dim: self.state_dim,
            action_dim: self.action_dim,
            without_rewards: self.without_rewards,
            ..Columns::default()
        };
        let mut keep = vec![false; self.episode_starts.len()];
        chosen.iter().for_each(|&index| keep[index] = true);
        let mut number = vec![None; self.len()];
        for (rows, _) in self.episodes().zip(keep).filter(|(_, keep)| *keep) {
            let wide = |width: usize| rows.start * width..rows.end * width;
            columns.episode_starts.push(columns.rewards.len());
            number[rows.end - 1] = Some(columns.rewards.len() + rows.len() - 1);
            columns.states.extend_from_slice(&self.states[wide(self.state_dim)]);
            columns.next_states.extend_from_slice(&self.next_states[wide(self.state_dim)]);
            columns.actions.extend_from_slice(&self.actions[wide(self.action_dim)]);
            columns.rewards.extend_from_slice(&self.rewards[rows.clone()]);
            columns.terminals.extend_from_slice(&self.terminals[rows.clone()]);
            columns.timeouts.extend_from_slice(&self.timeouts[rows]);
        }
        let dims = [self.state_dim, self.action_dim];
        columns.last_rows = self.last_rows.renumbered(dims, |after| number[after]);
        Transitions::new(columns)
    }

    /// For each episode whether it is a copy of an earlier one.
    pub(super) fn copies(&self) -> Vec<bool> {
        let values = [
            (&self.rewards[..], 1),
            (&self.states[..], self.state_dim),
            (&self.actions[..], self.action_dim),
            (&self.next_states[..], self.state_dim),
        ];
        copies(&self.episode_starts, values)
    }

    /// The SHA-256 of all rows in their order, with where episodes begin and how they end. It ties a model to
    /// the data it was fitted to.
    pub fn digest(&self) -> String {
        let mut digest = Digest::default();
        digest.add(
            &[self.state_dim as u64, self.action_dim as u64, self.len() as u64],
            u64::to_le_bytes,
        );
        for column in [&self.states, &self.actions, &self.rewards, &self.next_states] {
            digest.add(column, f32::to_le_bytes);
        }
        for flags in [&self.terminals, &self.timeouts] {
            digest.add(flags, |flag| [u8::from(flag)]);
        }
        digest.add(&self.episode_starts, |start| (start as u64).to_le_bytes());
        let last = &self.last_rows;
        digest.add(&last.after, |after| (after as u64).to_le_bytes());
        for column in [&last.states, &last.actions, &last.rewards] {
            digest.add(column, f32::to_le_bytes);
        }
        digest.add(&last.terminals, |flag| [u8::from(flag)]);
        digest.finish()
    }

    /// Number of transitions, n ≥ 2.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.rewards.len()
    }
    /// Length of a state.
    pub fn state_dim(&self) -> usize {
        self.state_dim
    }
    /// Length of an action.
    pub fn action_dim(&self) -> usize {
        self.action_dim
    }
    /// s, `[n, state_dim]`.
    pub fn states(&self) -> &[f32] {
        &self.states
    }
    /// a, `[n, action_dim]`.
    pub fn actions(&self) -> &[f32] {
        &self.actions
    }
    /// Whether rewards were logged.
    pub fn has_rewards(&self) -> bool {
        !self.without_rewards
    }
    /// r, `[n]`; 0 where none were logged.
    pub fn rewards(&self) -> &[f32] {
        &self.rewards
    }
    /// s', `[n, state_dim]`.
    pub fn next_states(&self) -> &[f32] {
        &self.next_states
    }
    /// Whether s' ended the episode for good, `[n]`.
    pub fn terminals(&self) -> &[bool] {
        &self.terminals
    }
    /// Whether the log was cut after this transition, `[n]`.
    pub fn timeouts(&self) -> &[bool] {
        &self.timeouts
    }
    /// Last rows of episodes that are no transitions: their next states were not logged.
    pub fn last_rows(&self) -> &LastRows {
        &self.last_rows
    }
    /// Whether an episode, given by its rows, ended for good, by a flag on its last transition or on the row after it.
    pub fn ended(&self, episode: &std::ops::Range<usize>) -> bool {
        let last = self.last_rows.following(episode.end - 1);
        self.terminals[episode.end - 1] || last.is_some_and(|row| self.last_rows.terminals[row])
    }
    /// Row ranges of the episodes, in order; together they are all rows.
    pub fn episodes(&self) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.episode_starts.len()).map(|i| {
            self.episode_starts[i]..self.episode_starts.get(i + 1).copied().unwrap_or(self.len())
        })
    }
    /// State of row i.
    pub fn state(&self, row: usize) -> &[f32] {
        &self.states[row * self.state_dim..][..self.state_dim]
    }
    /// Action of row i.
    pub fn action(&self, row: usize) -> &[f32] {
        &self.actions[row * self.action_dim..][..self.action_dim]
    }
    /// Next state of row i.
    pub fn next_state(&self, row: usize) -> &[f32] {
        &self.next_states[row * self.state_dim..][..self.state_dim]
    }
}

/// Place of the first value that is not finite. Whole blocks are looked at without a branch, which is several times as
/// fast as value by value.
pub(super) fn first_not_finite(values: &[f32]) -> Option<usize> {
    const BLOCK: usize = 4096;
    let bad = |block: &[f32]| block.iter().fold(false, |bad, v| bad | !v.is_finite());
    let block = values.chunks(BLOCK).position(bad)? * BLOCK;
    values[block..].iter().position(|v| !v.is_finite()).map(|i| block + i)
}

/// Row and column of the first value that is not finite, as an error.
fn check_finite(name: &str, values: &[f32], width: usize) -> Result<()> {
    match first_not_finite(values) {
        None => Ok(()),
        Some(i) => Err(Error::Data(format!(
            "{name}: {} in row {}, column {}; remove or repair such rows",
            values[i],
            i / width,
            i % width
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        Columns {
            state_dim: 2,
            action_dim: 1,
            states: vec![0.0; 6],
            actions: vec![0.0; 3],
            rewards: vec![0.0; 3],
            next_states: vec![0.0; 6],
            terminals: vec![false; 3],
            timeouts: vec![false; 3],
            episode_starts: vec![0, 2],
            ..Columns::default()
        }
    }

    fn error(change: impl Fn(&mut Columns)) -> String {
        let mut c = columns();
        change(&mut c);
        Transitions::new(c).unwrap_err().to_string()
    }

    #[test]
    fn episodes_cover_all_rows_in_order() {
        let t = Transitions::new(columns()).unwrap();
        assert_eq!(t.episodes().collect::<Vec<_>>(), [0..2, 2..3]);
    }

    #[test]
    fn a_last_row_that_is_filled_up_is_no_row_unless_it_ended_the_episode() {
        let last = |terminal: bool| LastRows {
            after: vec![1],
            states: vec![0.0; 2],
            actions: vec![f32::NAN],
            rewards: vec![f32::NAN],
            terminals: vec![terminal],
        };
        let filled_up = Columns { last_rows: last(false), ..columns() };
        assert!(Transitions::new(filled_up).unwrap().last_rows().is_empty());
        let problem = error(|c| c.last_rows = last(true));
        assert!(problem.contains("ends after transition 1 is terminal"), "{problem}");
    }

    #[test]
    fn bad_columns_are_refused_with_their_place() {
        assert!(error(|c| c.states[3] = f32::NAN).contains("states: NaN in row 1, column 1"));
        assert!(
            error(|c| c.rewards[2] = f32::INFINITY).contains("rewards: inf in row 2, column 0")
        );
        assert!(
            error(|c| c.actions.truncate(2))
                .contains("actions hold 2 values, but 3 rewards need 3")
        );
        assert!(error(|c| c.episode_starts = vec![1]).contains("ascend from row 0"));
        assert!(error(|c| c.episode_starts = vec![0, 3]).contains("below 3"));
        assert!(error(|c| c.state_dim = 0).contains("at least one"));
        assert!(error(|c| { c.rewards.truncate(1) }).contains("at least 2"));
    }
}
