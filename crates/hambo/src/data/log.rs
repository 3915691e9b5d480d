//! Logged data: as a user holds them, and as a reader gives them before they are checked.

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
        })
    }
}

/// Logged data: the transitions, the files they came from, and what was noticed while reading them.
///
/// [`Logs::read`] reads files; transitions that are already in memory become logs by `Logs::from`.
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
        Logs { transitions, paths: Vec::new(), format: None, notes: Vec::new(), sha256: None }
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
        Ok(Logs {
            paths: vec![path.to_owned()],
            format: Some(format),
            notes,
            ..Logs::from(transitions)
        })
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
        ours.states.extend(other.states);
        ours.actions.extend(other.actions);
        ours.rewards.extend(other.rewards);
        ours.next_states.extend(other.next_states);
        ours.terminals.extend(other.terminals);
        ours.timeouts.extend(other.timeouts);
        ours.episode_starts.extend(other.episode_starts.iter().map(|start| n + start));
    }
}
