//! Logged data: as a user holds them, and as a reader gives them before they are checked.

use super::copies::{Values, copies, remark};
use super::episodes::{pair_rows, split_rows};
use super::{Columns, Transitions};
use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// How a data file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HDF5, one row a step, as D4RL has it.
    D4rl,
    /// HDF5, one group an episode, as Minari has it.
    Minari,
    /// NPZ with one row a step, episodes one after another.
    NpzRows,
    /// NPZ with one episode, which has one observation more than actions.
    NpzEpisode,
    /// Text with a header line, one row a step.
    Csv,
    /// Parquet, one row a step.
    Parquet,
    /// Parquet, one row an episode, with lists in it.
    ParquetEpisodes,
    /// Arrow's own files (Feather), one row a step.
    Arrow,
    /// A folder of Parquet files with `meta/info.json`, as LeRobot has it.
    LeRobot,
    /// A folder of Parquet or Arrow files, one an episode, as Minari has it.
    MinariFolder,
    /// NPZ with arrays `[episodes, steps, width]`.
    NpzStack,
    /// NPZ with the ends of episodes in `indices`, as `imitation` has it.
    NpzTrajectories,
    /// HDF5, one group a demonstration, as robomimic has it.
    Demos,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::D4rl => "D4RL HDF5",
            Format::Minari => "Minari HDF5",
            Format::NpzRows => "NPZ, one row a step",
            Format::NpzEpisode => "NPZ, one episode",
            Format::Csv => "CSV",
            Format::Parquet => "Parquet",
            Format::ParquetEpisodes => "Parquet, one row an episode",
            Format::LeRobot => "LeRobot data set",
            Format::Arrow => "Arrow",
            Format::MinariFolder => "Minari, one file an episode",
            Format::NpzStack => "NPZ, arrays of episodes",
            Format::NpzTrajectories => "NPZ, trajectories of `imitation`",
            Format::Demos => "HDF5, one group a demonstration",
        })
    }
}

/// Logged data: the transitions, the files they came from, and what was noticed while reading them.
///
/// [`Logs::read`] reads files; transitions that are already in memory become logs by `Logs::from`. Copies of episodes are
/// left out, and told of in the notes.
#[derive(Clone, Debug)]
pub struct Logs {
    /// The transitions.
    pub transitions: Transitions,
    /// The files they came from; empty if they came from none.
    pub paths: Vec<PathBuf>,
    /// How the first of the files is laid out.
    pub format: Option<Format>,
    /// What a user should know about how the files were read, such as how many rows were left out.
    pub notes: Vec<String>,
    /// The [`digest`](super::digest) of the files.
    pub sha256: Option<String>,
}

impl From<Transitions> for Logs {
    fn from(transitions: Transitions) -> Self {
        let copies = transitions.copies();
        let kept: Vec<usize> = (0..copies.len()).filter(|&episode| !copies[episode]).collect();
        let (transitions, notes) =
            match remark(&copies).map(|note| (transitions.of_episodes(&kept), note)) {
                Some((Ok(rest), note)) => (rest, vec![note]),
                _ => (transitions, Vec::new()),
            };
        Logs { transitions, paths: Vec::new(), format: None, notes, sha256: None }
    }
}

impl Logs {
    /// The same error with the name of the (first) file, if it is about data that came from one.
    pub fn name_file(&self, error: Error) -> Error {
        match (self.paths.first(), error) {
            (Some(path), Error::Data(problem) | Error::Mismatch(problem)) => {
                Error::file(path, problem)
            }
            (_, other) => other,
        }
    }
}

/// One file as it was read: complete transitions that nobody has checked yet, possibly none at all.
pub(crate) struct Log {
    pub(crate) format: Format,
    pub(crate) columns: Columns,
    pub(crate) notes: Vec<String>,
    /// Rows in the file, before any were left out.
    pub(crate) rows: usize,
    /// Whether the reader has seen that all numbers are finite.
    pub(crate) finite: bool,
}

impl Log {
    /// From rows of episodes one after another: finds the episodes, and the next states where none are stored.
    pub(crate) fn of_rows(format: Format, mut columns: Columns, mut notes: Vec<String>) -> Log {
        let rows = columns.rewards.len();
        match columns.next_states.is_empty() {
            true => pair_rows(&mut columns, &mut notes),
            false => split_rows(&mut columns, &mut notes),
        }
        Log { format, columns, notes, rows, finite: false }
    }

    /// The checked transitions; an error names `path` and what was left out on the way.
    pub(crate) fn check(self, path: &Path) -> Result<Logs> {
        let Log { format, columns, notes, rows, finite } = self;
        let transitions =
            if finite { Transitions::of_finite(columns) } else { Transitions::new(columns) };
        let transitions = transitions.map_err(|e| match e {
            Error::Data(problem) => {
                let remarks: String = notes.iter().map(|n| format!("; {n}")).collect();
                Error::file(path, format!("{problem} ({rows} rows in the file{remarks})"))
            }
            other => other,
        })?;
        let paths = vec![path.to_owned()];
        Ok(Logs { transitions, paths, format: Some(format), notes, sha256: None })
    }

    /// Keeps these rows; an episode is cut, and marked so, where the next row is gone.
    pub(super) fn keep(&mut self, keep: &[bool]) {
        let old = std::mem::take(&mut self.columns);
        let mut starts = old.episode_starts.iter().copied().peekable();
        let new = &mut self.columns;
        (new.state_dim, new.action_dim) = (old.state_dim, old.action_dim);
        new.without_rewards = old.without_rewards;
        let mut number = vec![None; keep.len()];
        let mut fresh = true; // the next row kept begins an episode
        for row in 0..keep.len() {
            fresh |= starts.next_if_eq(&row).is_some();
            if !keep[row] {
                fresh = true;
                continue;
            }
            if fresh {
                new.episode_starts.push(new.rewards.len());
            }
            fresh = false;
            number[row] = Some(new.rewards.len());
            new.states.extend_from_slice(&old.states[row * old.state_dim..][..old.state_dim]);
            new.next_states
                .extend_from_slice(&old.next_states[row * old.state_dim..][..old.state_dim]);
            new.actions.extend_from_slice(&old.actions[row * old.action_dim..][..old.action_dim]);
            new.rewards.push(old.rewards[row]);
            new.terminals.push(old.terminals[row]);
            let cut = keep.get(row + 1) == Some(&false) && !old.terminals[row];
            new.timeouts.push(old.timeouts[row] || cut);
        }
        let dims = [old.state_dim, old.action_dim];
        new.last_rows = old.last_rows.renumbered(dims, |after| number[after]);
    }

    /// Leaves out copies of episodes, and tells of them.
    pub(crate) fn drop_copies(&mut self) {
        let c = &self.columns;
        let values: Values<'_> = [
            (&c.rewards, 1),
            (&c.states, c.state_dim),
            (&c.actions, c.action_dim),
            (&c.next_states, c.state_dim),
        ];
        let copies = copies(&c.episode_starts, values);
        let Some(note) = remark(&copies) else { return };
        let mut keep = vec![true; c.rewards.len()];
        for (episode, _) in copies.iter().enumerate().filter(|(_, copy)| **copy) {
            let end = c.episode_starts.get(episode + 1).copied().unwrap_or(keep.len());
            keep[c.episode_starts[episode]..end].fill(false);
        }
        self.keep(&keep);
        self.notes.push(note);
    }

    /// Appends the transitions of another file of the same sizes.
    pub(crate) fn append(&mut self, other: Log) {
        self.rows += other.rows;
        self.finite &= other.finite;
        let other = other.columns;
        let ours = &mut self.columns;
        let n = ours.rewards.len();
        if let (Some(timeout), Some(false)) = (ours.timeouts.last_mut(), ours.terminals.last()) {
            *timeout = true; // the log is cut where its file ends
        }
        ours.without_rewards |= other.without_rewards;
        ours.states.extend(other.states);
        ours.actions.extend(other.actions);
        ours.rewards.extend(other.rewards);
        ours.next_states.extend(other.next_states);
        ours.terminals.extend(other.terminals);
        ours.timeouts.extend(other.timeouts);
        ours.episode_starts.extend(other.episode_starts.iter().map(|start| n + start));
        ours.last_rows.append(other.last_rows, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes of these lengths and first states, each of which counts up.
    fn log(episodes: &[(usize, f32)]) -> Columns {
        let mut c = Columns { state_dim: 1, action_dim: 1, ..Columns::default() };
        for &(length, first) in episodes {
            c.episode_starts.push(c.rewards.len());
            for step in 0..length {
                c.states.push(first + step as f32);
                c.next_states.push(first + 1.0 + step as f32);
                c.actions.push(1.0);
                c.rewards.push(-first);
            }
        }
        c.terminals = vec![false; c.rewards.len()];
        c.timeouts = c.terminals.clone();
        c
    }

    #[test]
    fn copies_are_found_whatever_lies_between_them() {
        let c = log(&[(5, 0.0), (4, 0.0), (5, 0.0), (2, 1.0), (2, 1.0), (5, 0.0), (4, 2.0)]);
        let left = |columns: Columns| {
            let rows = columns.rewards.len();
            let mut log = Log { format: Format::Csv, columns, notes: vec![], rows, finite: true };
            log.drop_copies();
            (log.columns.episode_starts, log.columns.rewards.len(), log.notes)
        };
        let (starts, rows, notes) = left(c.clone());
        assert_eq!((starts, rows), (vec![0, 5, 9, 11, 13], 17));
        assert!(notes[0].starts_with("2 of 7 episodes are copies of earlier ones"), "{notes:?}");
        // One number of each of the copies.
        let mut c = c;
        c.rewards[13] = 1e-9;
        c.next_states[22] += 0.5;
        let (starts, rows, notes) = left(c);
        assert_eq!((starts.len(), rows, notes.len()), (7, 27, 0));
    }

    #[test]
    fn transitions_in_memory_lose_their_copies_too() {
        let logs = Logs::from(Transitions::new(log(&[(3, 0.0), (3, 0.0), (3, 1.0)])).unwrap());
        assert_eq!(logs.transitions.episodes().len(), 2);
        assert_eq!(logs.transitions.states(), [0.0, 1.0, 2.0, 1.0, 2.0, 3.0]);
        assert!(logs.notes[0].starts_with("1 of 3 episodes"), "{:?}", logs.notes);
    }
}
