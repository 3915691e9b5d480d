//! Minari's data sets with a folder an episode, of Parquet or Arrow files.

use crate::data::ReadOptions;
use crate::data::formats::arrow;
use crate::data::formats::by_episode::{ByEpisode, Episode};
#[cfg(feature = "parquet")]
use crate::data::formats::parquet;
use crate::data::formats::table::Table;
use crate::data::kind::Kind;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

impl Log {
    /// Reads the files of each episode: as in Minari's HDF5 files there is one observation more than actions, and the last
    /// row is filled up.
    pub(crate) fn read_minari_folder(
        episodes: &[Vec<PathBuf>],
        options: &ReadOptions,
    ) -> Result<Log> {
        let mut all = ByEpisode::default();
        for files in episodes {
            let [file] = &files[..] else {
                return Err(Error::file(
                    &files[0],
                    "an episode in several files, which are not read",
                ));
            };
            let rows = rows(file, options)?.into_rows();
            let n = rows.rewards.len().saturating_sub(1);
            all.has_no_rewards |= rows.without_rewards;
            let flags = |flags: &[bool]| Some(flags.get(..n).unwrap_or_default().to_vec());
            let episode = Episode {
                terminals: flags(&rows.terminals),
                timeouts: flags(&rows.timeouts),
                actions: rows.actions[..n * rows.action_dim].to_vec(),
                rewards: rows.rewards[..n].to_vec(),
                states: rows.states,
            };
            all.push([rows.state_dim, rows.action_dim], episode)
                .map_err(|problem| Error::file(file, problem))?;
        }
        Ok(all.finish(Format::MinariFolder, Vec::new()))
    }
}

fn rows(file: &Path, options: &ReadOptions) -> Result<Table> {
    match Kind::of(file)? {
        Kind::Arrow => arrow::steps(file, options),
        #[cfg(feature = "parquet")]
        Kind::Parquet => parquet::steps(file, options, None),
        _ => Err(Error::file(
            file,
            "expected a Parquet or Arrow file (Parquet where it is built in)",
        )),
    }
}
