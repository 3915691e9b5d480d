//! NPZ files, numpy's arrays in a zip archive: one row a step (D4RL's names or those of Stable-Baselines 2), or one
//! episode a file, with one observation more than actions. Those with many episodes are in `npz_episodes`.

use crate::data::formats::npy::{Header, Problem};
use crate::data::formats::{Entry, FREE_BYTES, LARGEST_EXPANSION};
use crate::data::log::{Format, Log};
use crate::data::{Columns, ReadOptions};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// Names under which an array is known, the best first.
pub(super) const OBSERVATIONS: &[&str] = &["observations", "obs", "observation", "states"];
pub(super) const ACTIONS: &[&str] = &["actions", "acts", "action"];
pub(super) const REWARDS: &[&str] = &["rewards", "rews", "reward"];
const NEXT: &[&str] = &["next_observations", "next_obs", "next_observation", "next_states"];
pub(super) const TERMINALS: &[&str] = &["terminals", "terminal", "terminations", "terminated"];
pub(super) const DONES: &[&str] = &["dones", "done"];
pub(super) const TIMEOUTS: &[&str] = &["timeouts", "timeout", "truncations", "truncated"];
const STARTS: &[&str] = &["episode_starts"];

/// The arrays of an NPZ file.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>> {
    let mut archive = Archive::open(path)?;
    let names: Vec<String> = archive.members.keys().cloned().collect();
    Ok(names
        .into_iter()
        .map(|name| match archive.header(&name) {
            Ok(header) => Entry { path: name, dtype: header.dtype(), shape: header.shape },
            Err(problem) => {
                Entry { path: name, dtype: format!("unreadable: {problem}"), shape: Vec::new() }
            }
        })
        .collect())
}

impl Log {
    /// Reads an NPZ file in one of the known layouts.
    pub(crate) fn read_npz(path: &Path, options: &ReadOptions) -> Result<Log> {
        let keep_not_finite = options.keep_not_finite;
        let mut archive = Archive { keep_not_finite, ..Archive::open(path)? };
        if archive.members.contains_key("indices") {
            return Log::read_trajectories(archive, options);
        }
        if archive.rank(OBSERVATIONS) == Some(3) {
            return Log::read_stack(archive, options);
        }
        let (observations, state_rows, state_dim, states) = archive.required(OBSERVATIONS)?;
        let (actions_name, n, action_dim, actions) = archive.required(ACTIONS)?;
        let without_rewards = options.without_rewards && archive.find(REWARDS).is_none();
        let (rewards_name, _, reward_width, rewards) = match without_rewards {
            true => ("rewards", n, 1, vec![0.0; n]),
            false => archive.required(REWARDS)?,
        };
        if reward_width != 1 || rewards.len() != n {
            return Err(archive.problem(format!(
                "`{actions_name}` has {n} rows, `{rewards_name}` has shape [{}, {reward_width}]: expected [{n}]",
                rewards.len() / reward_width
            )));
        }
        let one_episode = state_rows == n + 1;
        if state_rows != n && !one_episode {
            return Err(archive.problem(format!(
                "`{observations}` has {state_rows} rows, `{actions_name}` has {n}: expected {n}, or {} of one whole \
                 episode",
                n + 1
            )));
        }
        let mut terminals = archive.flags(TERMINALS, n)?;
        let dones = archive.flags(DONES, n)?;
        let mut timeouts = archive.flags(TIMEOUTS, n)?;
        let mut columns = Columns {
            state_dim,
            action_dim,
            states,
            actions,
            rewards,
            without_rewards,
            ..Columns::default()
        };
        let mut notes = Vec::new();
        if one_episode {
            if let (None, None, Some((name, _))) = (&terminals, &timeouts, &dones) {
                notes.push(format!(
                    "`{name}` marks where the log ends, which is taken for a time limit; give `terminals` if no reward \
                     can follow its last state"
                ));
            } else if terminals.is_none() {
                notes.push(NO_TERMINALS.into());
            }
            archive.note_unused(&mut notes);
            columns.next_states = columns.states.split_off(state_dim);
            // The first row alone is left in `states`: all but the last row of `next_states` follow it.
            columns.states.extend_from_slice(&columns.next_states[..(n - 1) * state_dim]);
            columns.terminals = terminals.map_or_else(|| vec![false; n], |(_, flags)| flags);
            columns.timeouts = timeouts.map_or_else(|| vec![false; n], |(_, flags)| flags);
            let ended = |i: usize| columns.terminals[i] || columns.timeouts[i];
            if let Some(row) = (0..n - 1).find(|&i| ended(i)) {
                return Err(archive.problem(format!(
                    "an episode ends in row {row}, but with {state_rows} rows in `{observations}` and {n} in \
                     `{actions_name}` the file holds one episode of {n} steps: store `next_observations`"
                )));
            }
            columns.timeouts[n - 1] = !columns.terminals[n - 1];
            columns.episode_starts = vec![0];
            return Ok(Log { format: Format::NpzEpisode, columns, notes, rows: n, finite: false });
        }

        if let Some((name, rows, width, next)) = archive.optional(NEXT)? {
            if (rows, width) != (n, state_dim) {
                return Err(archive.problem(format!(
                    "`{observations}` has shape [{n}, {state_dim}], `{name}` has [{rows}, {width}]"
                )));
            }
            columns.next_states = next;
        }
        terminals = terminals.or(dones);
        // The row before each start is the last of its episode.
        if let Some((_, starts)) = archive.flags(STARTS, n)? {
            let flags = &mut timeouts.get_or_insert_with(|| ("episode_starts", vec![false; n])).1;
            for i in 0..n {
                let terminal = terminals.as_ref().is_some_and(|(_, t)| t[i]);
                flags[i] |= !terminal && starts.get(i + 1).copied().unwrap_or(true);
            }
        }
        archive.note_unused(&mut notes);
        if terminals.is_none() {
            notes.push(NO_TERMINALS.into());
        }
        columns.terminals = terminals.map_or_else(|| vec![false; n], |(_, flags)| flags);
        columns.timeouts = timeouts.map(|(_, flags)| flags).unwrap_or_default();
        Ok(Log::of_rows(Format::NpzRows, columns, notes))
    }
}

const NO_TERMINALS: &str = "no `terminals`: no transition is taken to end its episode for good";

/// Name, rows, width and numbers of an array.
pub(super) type Array = (&'static str, usize, usize, Vec<f32>);

/// An open file, and how many more bytes its arrays may take.
pub(super) struct Archive {
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
    /// Places of the arrays in the archive.
    members: BTreeMap<String, usize>,
    used: BTreeSet<&'static str>,
    bytes_left: u64,
    pub(super) keep_not_finite: bool,
}

impl Archive {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        let size = file.metadata().map_err(|e| Error::io(path, "read", e))?.len();
        let zip = ZipArchive::new(BufReader::new(file))
            .map_err(|e| Error::file(path, format!("a damaged zip archive: {e}")))?;
        let members: BTreeMap<_, _> = (0..zip.len())
            .filter_map(|i| Some((zip.name_for_index(i)?.strip_suffix(".npy")?.to_owned(), i)))
            .collect();
        if members.is_empty() {
            return Err(Error::file(
                path,
                "a zip archive without arrays (.npy): expected an NPZ file",
            ));
        }
        let bytes_left = size.saturating_mul(LARGEST_EXPANSION).saturating_add(FREE_BYTES);
        Ok(Archive {
            path: path.to_owned(),
            zip,
            members,
            used: BTreeSet::new(),
            bytes_left,
            keep_not_finite: false,
        })
    }

    pub(super) fn problem(&self, problem: String) -> Error {
        Error::file(&self.path, problem)
    }

    /// Calls `read` on the header and the numbers of an array, once its size fits what the archive says.
    pub(super) fn with<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Header, &mut dyn Read) -> std::result::Result<T, Problem>,
    ) -> std::result::Result<T, Problem> {
        let index = self.members.get(name).copied().ok_or("is not there")?;
        let mut member = self.zip.by_index(index).map_err(|e| format!("cannot be read: {e}"))?;
        let declared = member.size();
        let header = Header::read(&mut member)?;
        match header.bytes()? {
            Some(bytes) if bytes == declared && bytes <= self.bytes_left => {
                self.bytes_left -= bytes
            }
            _ => {
                return Err(format!(
                    "declares {} of shape {:?}, which does not fit the {declared} bytes of its entry or is more than \
                     a file of this size can hold: it is damaged",
                    header.dtype(),
                    header.shape
                ));
            }
        }
        let array = read(&header, &mut (&mut member).take(declared))?;
        // The checksum is compared where the entry ends.
        match member.read(&mut [0]) {
            Ok(0) => Ok(array),
            Ok(_) => Err("is longer than its entry declares: it is damaged".into()),
            Err(e) => Err(format!("is damaged: {e}")),
        }
    }

    /// What the header of an array says, whatever its type.
    fn header(&mut self, name: &str) -> std::result::Result<Header, Problem> {
        let index = self.members.get(name).copied().ok_or("is not there")?;
        Header::read(&mut self.zip.by_index(index).map_err(|e| e.to_string())?)
    }

    /// Number of dimensions of the first of these that is there.
    fn rank(&mut self, names: &[&'static str]) -> Option<usize> {
        let name = names.iter().find(|name| self.members.contains_key(**name))?;
        self.header(name).ok().map(|header| header.shape.len())
    }

    /// The first of these names that is there.
    pub(super) fn find(&mut self, names: &[&'static str]) -> Option<&'static str> {
        let found = names.iter().find(|name| self.members.contains_key(**name)).copied();
        self.used.extend(found);
        found
    }

    pub(super) fn optional(&mut self, names: &[&'static str]) -> Result<Option<Array>> {
        let Some(name) = self.find(names) else { return Ok(None) };
        let keep = self.keep_not_finite;
        let array = self.with(name, |header, mut reader| {
            let (rows, width) = header.extent()?;
            Ok((name, rows, width, header.read_numbers(&mut reader, keep)?))
        });
        array.map(Some).map_err(|problem| self.problem(format!("`{name}` {problem}")))
    }

    pub(super) fn required(&mut self, names: &[&'static str]) -> Result<Array> {
        match self.optional(names)? {
            Some(array) => Ok(array),
            None => {
                let held: Vec<_> = self.members.keys().take(12).map(|n| format!("`{n}`")).collect();
                Err(self.problem(format!("no array `{}`: it holds {}", names[0], held.join(", "))))
            }
        }
    }

    /// Flags `[n]` or `[n, 1]` with their name.
    fn flags(
        &mut self,
        names: &[&'static str],
        n: usize,
    ) -> Result<Option<(&'static str, Vec<bool>)>> {
        let Some(name) = self.find(names) else { return Ok(None) };
        let flags = self.with(name, |header, mut reader| match header.extent()? {
            (rows, 1) if rows == n => header.read_flags(&mut reader),
            _ => Err(format!("has shape {:?}: expected [{n}], as many as actions", header.shape)),
        });
        flags
            .map(|flags| Some((name, flags)))
            .map_err(|problem| self.problem(format!("`{name}` {problem}")))
    }

    /// Names the arrays that nothing was taken from: one may be what the user meant.
    pub(super) fn note_unused(&self, notes: &mut Vec<String>) {
        let unused: Vec<_> =
            self.members.keys().filter(|name| !self.used.contains(name.as_str())).collect();
        if !unused.is_empty() {
            let names: Vec<_> = unused.iter().take(12).map(|name| format!("`{name}`")).collect();
            notes.push(format!(
                "arrays not used: {}{}",
                names.join(", "),
                if unused.len() > 12 { ", …" } else { "" }
            ));
        }
    }
}
