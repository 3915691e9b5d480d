//! D4RL's layout: one HDF5 file, one row a step, episodes one after another.

use crate::data::episodes::RowSelection;
use crate::data::formats::hdf5::{Field, Source, words};
use crate::data::log::{Format, Log, Logs};
use crate::data::{Columns, Transitions};
use crate::{Error, Result};
use hambo_engine::files::write_atomically;
use rust_hdf5::format::messages::datatype::EnumMember;
use rust_hdf5::types::HBool;
use rust_hdf5::{DatatypeMessage, H5File, Hdf5Error};
use std::path::Path;

/// Compression level of written files. After the shuffle filter level 1 makes smaller files than level 4 without,
/// four times as fast (Hopper, 400 000 rows: 34 MB in 0.5 s, 38 MB in 1.9 s).
const DEFLATE: u32 = 1;
/// Numbers in a chunk of a written file.
const CHUNK: usize = 1 << 16;

/// Reads a file in D4RL's layout.
///
/// `observations` `[n, state]`, `actions` `[n, action]` and `rewards` `[n]` or `[n, 1]` must be there, in
/// float32, float64 or integers. `terminals` and `timeouts` `[n]` (bool, or numbers 0 and 1) mark the last
/// rows of episodes. With `next_observations` every row is a transition, save those whose stored next state
/// is the first state after a reset. Without, s' is the next row of the same episode, and its last row is left
/// out. [`Logs::notes`] says what was missing and how many rows were left out. Unlike [`Logs::read`] it does
/// not compute the digest of the file.
pub fn read_d4rl(path: &Path) -> Result<Logs> {
    Log::read_d4rl(&Source::open(path)?, false)?.check(path)
}

impl Log {
    /// Reads an HDF5 file in D4RL's layout.
    pub(crate) fn read_d4rl(source: &Source, without_rewards: bool) -> Result<Log> {
        let optional = |name| Ok(if source.has(name)? { Some(source.column(name)?) } else { None });
        let states = source.matrix("observations")?;
        let actions = source.matrix("actions")?;
        let without_rewards = without_rewards && !source.has("rewards")?;
        let rewards = if without_rewards { None } else { Some(source.column("rewards")?) };
        let terminals: Option<Field<'_>> = optional("terminals")?;
        let timeouts: Option<Field<'_>> = optional("timeouts")?;
        let next_states = if source.has("next_observations")? {
            Some(source.matrix("next_observations")?)
        } else {
            None
        };

        let n = states.rows;
        let others = [
            Some(&actions),
            rewards.as_ref(),
            terminals.as_ref(),
            timeouts.as_ref(),
            next_states.as_ref(),
        ];
        if let Some(field) = others.into_iter().flatten().find(|f| f.rows != n) {
            return Err(source.problem(format!(
                "`observations` has {n} rows, `{}` has {}",
                field.name, field.rows
            )));
        }
        if let Some(next) = next_states.as_ref().filter(|f| f.width != states.width) {
            return Err(source.problem(format!(
                "`observations` is {} wide, `next_observations` is {}",
                states.width, next.width
            )));
        }

        let mut notes = Vec::new();
        if terminals.is_none() {
            notes.push(
                "no `terminals` field: no transition is taken to end its episode for good"
                    .to_owned(),
            );
        }
        let mut columns = Columns {
            state_dim: states.width,
            action_dim: actions.width,
            terminals: terminals.map_or_else(|| Ok(vec![false; n]), |f| f.read_flags())?,
            timeouts: timeouts.as_ref().map_or(Ok(Vec::new()), Field::read_flags)?,
            without_rewards,
            ..Columns::default()
        };
        let finite = !source.keep_not_finite;
        if timeouts.is_some() && next_states.is_none() {
            // The flags alone say which rows are paired, so each number goes to its place at once.
            let last = columns.terminals.clone();
            let kept = RowSelection::with_next_row(
                last,
                &columns.terminals,
                &columns.timeouts,
                &mut notes,
            );
            let next: Vec<_> = kept.runs.iter().map(|run| run.start + 1..run.end + 1).collect();
            let last: Vec<_> = kept.last.iter().map(|&row| row..row + 1).collect();
            let mut ends = kept.last_rows(&columns.terminals);
            [columns.states, columns.next_states, ends.states] =
                states.read_runs([&kept.runs, &next, &last])?;
            [columns.actions, ends.actions] = actions.read_runs([&kept.runs, &last])?;
            [columns.rewards, ends.rewards] = match &rewards {
                Some(rewards) => rewards.read_runs([&kept.runs, &last])?,
                None => {
                    [&kept.runs, &last].map(|rows| vec![0.0; rows.iter().map(|r| r.len()).sum()])
                }
            };
            columns.last_rows = ends;
            kept.mark(&mut columns);
            return Ok(Log { format: Format::D4rl, columns, notes, rows: n, finite });
        }
        columns.states = states.read()?;
        columns.actions = actions.read()?;
        columns.rewards = rewards.as_ref().map_or_else(|| Ok(vec![0.0; n]), Field::read)?;
        columns.next_states = next_states.as_ref().map_or(Ok(Vec::new()), Field::read)?;
        Ok(Log { finite, ..Log::of_rows(Format::D4rl, columns, notes) })
    }
}

/// Writes transitions in D4RL's layout, whole or not at all, with `attributes` as text attributes of the root.
///
/// Numbers are float32, flags are bool as h5py writes and reads it, everything is chunked, shuffled and gzipped. The end
/// of an episode that no flag marks is written as a timeout (but for the last row of all), so that programs
/// that pair rows themselves see it. [`read_d4rl`] gives back what was written, save the last row of an episode
/// whose next state is the first state of the next one: in a file nothing tells it from one logged after a reset.
pub fn write_d4rl(
    path: &Path,
    transitions: &Transitions,
    attributes: &[(&str, String)],
) -> Result<()> {
    let mut timeouts = transitions.timeouts().to_vec();
    for end in transitions.episodes().map(|e| e.end).filter(|&end| end < transitions.len()) {
        timeouts[end - 1] |= !transitions.terminals()[end - 1];
    }
    write_atomically(path, |temporary| {
        write_file(temporary, transitions, &timeouts, attributes)
            .map_err(|e| Error::file(temporary, format!("cannot write: {}", words(&e))))
    })
}

fn write_file(
    path: &Path,
    transitions: &Transitions,
    timeouts: &[bool],
    attributes: &[(&str, String)],
) -> std::result::Result<(), Hdf5Error> {
    // A name of its own needs no lock, and some network file systems refuse them.
    let file = H5File::options().no_locking().create(path)?;
    let filled = fill(&file, transitions, timeouts, attributes);
    // Closed in any case: dropped open, it would complain on stderr of the disk that `filled` already names.
    // Putting it on the disk is left to `write_atomically`.
    let closed = file.close_no_sync();
    filled.and(closed)
}

fn fill(
    file: &H5File,
    transitions: &Transitions,
    timeouts: &[bool],
    attributes: &[(&str, String)],
) -> std::result::Result<(), Hdf5Error> {
    let n = transitions.len();
    for (name, width, values) in [
        ("observations", transitions.state_dim(), transitions.states()),
        ("actions", transitions.action_dim(), transitions.actions()),
        ("next_observations", transitions.state_dim(), transitions.next_states()),
    ] {
        let rows = (CHUNK / width).clamp(1, n);
        let matrix = file
            .new_dataset::<f32>()
            .shape([n, width])
            .chunk(&[rows, width])
            .shuffle_deflate(DEFLATE);
        matrix.create(name)?.write_raw(values)?;
    }
    let column =
        file.new_dataset::<f32>().shape([n]).chunk(&[CHUNK.min(n)]).shuffle_deflate(DEFLATE);
    column.create("rewards")?.write_raw(transitions.rewards())?;
    for (name, flags) in [("terminals", transitions.terminals()), ("timeouts", timeouts)] {
        let column =
            file.new_dataset::<HBool>().datatype(numpy_bool()).shape([n]).chunk(&[CHUNK.min(n)]);
        let values: Vec<HBool> = flags.iter().map(|&f| f.into()).collect();
        column.deflate(DEFLATE).create(name)?.write_raw(&values)?;
    }
    for (name, value) in attributes {
        file.set_attr_string(name, value)?;
    }
    Ok(())
}

/// numpy's bool as h5py stores it: an enumeration over int8 (the crate's own is over uint8).
fn numpy_bool() -> DatatypeMessage {
    let member = |name: &str, value| EnumMember { name: name.into(), value: vec![value] };
    DatatypeMessage::Enum {
        base: Box::new(DatatypeMessage::i8_type()),
        members: vec![member("FALSE", 0), member("TRUE", 1)],
    }
}
