//! Minari's layout: one HDF5 file, one group an episode, which has one observation more than actions.

use crate::data::Columns;
use crate::data::formats::hdf5::Source;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use serde::Deserialize;
use std::path::Path;

/// Numbers and names of the groups `episode_N`, in the order of their numbers; by name 10 would precede 2.
///
/// Empty where there are observations at the root: such a file is in D4RL's layout.
pub(crate) fn episodes(source: &Source) -> Vec<(u64, &str)> {
    if source.contains("observations") {
        return Vec::new();
    }
    let number = |name: &'_ str| name.strip_prefix("episode_")?.parse::<u64>().ok();
    let groups =
        source.names().iter().filter_map(|name| name.split_once('/')).map(|(group, _)| group);
    let mut episodes: Vec<_> = groups.filter_map(|group| Some((number(group)?, group))).collect();
    episodes.sort_unstable();
    episodes.dedup();
    episodes
}

impl Log {
    /// Reads the `episodes` of a file in Minari's layout.
    pub(crate) fn read_minari(source: &Source, episodes: &[(u64, &str)]) -> Result<Log> {
        let mut all = Columns::default();
        for (i, (_, group)) in episodes.iter().enumerate() {
            let matrix = |name: &str| {
                let path = format!("{group}/{name}");
                refuse_spaces_of_spaces(source, &path)?;
                source.matrix(&path)
            };
            let (states, actions) = (matrix("observations")?, matrix("actions")?);
            let rewards = source.column(&format!("{group}/rewards"))?;
            let terminals = source.column(&format!("{group}/terminations"))?;
            let timeouts = source.column(&format!("{group}/truncations"))?;
            let n = actions.rows;
            for (field, expected) in
                [(&states, n + 1), (&rewards, n), (&terminals, n), (&timeouts, n)]
            {
                if field.rows != expected {
                    return Err(source.problem(format!(
                        "`{}` has {n} rows, `{}` has {}: expected {expected}",
                        actions.name, field.name, field.rows
                    )));
                }
            }
            if i == 0 {
                (all.state_dim, all.action_dim) = (states.width, actions.width);
            }
            for (field, width) in [(&states, all.state_dim), (&actions, all.action_dim)] {
                if field.width != width {
                    return Err(source.problem(format!(
                        "`{}` is {} wide, that of `{}` is {width}",
                        field.name, field.width, episodes[0].1
                    )));
                }
            }
            all.episode_starts.push(all.rewards.len());
            let states = states.read()?;
            all.states.extend_from_slice(&states[..n * all.state_dim]);
            all.next_states.extend_from_slice(&states[all.state_dim..]);
            all.actions.extend(actions.read()?);
            all.rewards.extend(rewards.read()?);
            all.terminals.extend(terminals.read_flags()?);
            all.timeouts.extend(timeouts.read_flags()?);
            // The log ends here, even where no flag says why.
            if let (Some(timeout), Some(false)) = (all.timeouts.last_mut(), all.terminals.last()) {
                *timeout = true;
            }
        }
        let rows = all.rewards.len();
        Ok(Log { format: Format::Minari, columns: all, notes: Vec::new(), rows, finite: false })
    }
}

/// What describes a data set.
const METADATA: &str = "metadata.json";

/// What Minari writes beside the file of a data set, as far as it is of interest here.
#[derive(Deserialize)]
struct Totals {
    total_episodes: Option<u64>,
    total_steps: Option<u64>,
}

/// An error if `metadata.json` beside the file declares other numbers of episodes or steps than it has: a part of the data
/// is missing, and nothing tells which.
pub(crate) fn check_totals(path: &Path, episodes: usize, steps: usize) -> Result<()> {
    let beside = path.with_file_name(METADATA);
    let Ok(bytes) = std::fs::read(&beside) else { return Ok(()) };
    let totals: Totals = serde_json::from_slice(&bytes)
        .map_err(|e| Error::file(&beside, format!("not the metadata of a Minari data set: {e}")))?;
    for (declared, found, what) in
        [(totals.total_episodes, episodes, "episodes"), (totals.total_steps, steps, "steps")]
    {
        if let Some(declared) = declared.filter(|&declared| declared != found as u64) {
            return Err(Error::file(
                path,
                format!(
                    "{found} {what}, but metadata.json beside it declares {declared}: the data set is not whole; download \
                     or record it again"
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses a group where an array is expected: a Dict or Tuple space, which has no one order of columns.
fn refuse_spaces_of_spaces(source: &Source, path: &str) -> Result<()> {
    let inside = format!("{path}/");
    let from = source.names().partition_point(|name| name.as_str() < inside.as_str());
    let mut keys: Vec<String> = source.names()[from..]
        .iter()
        .map_while(|name| name.strip_prefix(&inside))
        .map(|rest| format!("`{}`", rest.split('/').next().unwrap_or(rest)))
        .collect();
    keys.dedup();
    if keys.is_empty() {
        return Ok(());
    }
    let more = if keys.len() > 12 { ", …" } else { "" };
    keys.truncate(12);
    Err(source.problem(format!(
        "`{path}` is a Dict or Tuple space with {}{more}: expected one array; record the data set with a flat (Box) \
         space, as gymnasium's FlattenObservation gives",
        keys.join(", ")
    )))
}
