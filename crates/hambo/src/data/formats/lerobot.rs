//! LeRobot's data sets: folders of Parquet files, one row a step.

use crate::data::ReadOptions;
use crate::data::formats::parquet::steps;
use crate::data::kind::Kind;
use crate::data::log::{Format, Log};
use crate::{Error, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What `meta/info.json` says, as far as it is of interest here.
#[derive(Deserialize)]
struct Info {
    codebase_version: Option<String>,
    total_episodes: Option<u64>,
    total_frames: Option<u64>,
}

impl Log {
    /// Reads the files of a LeRobot data set of version 2 or 3, which `info` describes.
    pub(crate) fn read_lerobot(
        files: &[PathBuf],
        info: &Path,
        options: &ReadOptions,
    ) -> Result<Log> {
        let bytes = std::fs::read(info).map_err(|e| Error::io(info, "read", e))?;
        let declared: Info = serde_json::from_slice(&bytes).map_err(|e| {
            Error::file(info, format!("not the description of a LeRobot data set: {e}"))
        })?;
        let version = declared.codebase_version.as_deref().unwrap_or("v2");
        if !["v2", "v3"].iter().any(|known| version.starts_with(known)) {
            return Err(Error::file(
                info,
                format!(
                    "`codebase_version` is {version:?}: expected v2 or v3; convert it with lerobot's scripts"
                ),
            ));
        }
        let mut table = None;
        for file in files {
            Kind::of(file)?; // where it is none, this says what it is
            table = Some(steps(file, options, table)?);
        }
        let Some(table) = table else { return Err(Error::file(info, "a data set without files")) };
        let [rows, episodes] = table.counts();
        for (declared, found, what) in [
            (declared.total_episodes, episodes, "episodes"),
            (declared.total_frames, rows, "frames"),
        ] {
            if let Some(declared) = declared.filter(|&declared| declared != found as u64) {
                return Err(Error::file(
                    info,
                    format!(
                        "declares {declared} {what}, but its Parquet files have {found}: the data set is not whole; download \
                         or record it again"
                    ),
                ));
            }
        }
        let remark = table.always_terminal().map(|name| {
            format!(
                "`{name}` is set at the end of every episode, which is taken to be terminal: if the recording only stopped \
                 there, say --columns timeout={name}"
            )
        });
        let mut log = table.finish(Format::LeRobot);
        log.notes.extend(remark);
        Ok(log)
    }
}
