//! Where the data of a path lie: in a file, in a folder that Minari or LeRobot made, in Minari's store.

use super::folder::contents;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Where Minari keeps a data set's episodes within its folder.
const MINARI_FILES: [&str; 2] = ["data/main_data.hdf5", "main_data.hdf5"];
/// Where it describes them.
const MINARI_METADATA: [&str; 2] = ["data/metadata.json", "metadata.json"];
/// What names a data set of Minari's own store.
const MINARI: &str = "minari:";
/// Where LeRobot describes a data set.
const LEROBOT_INFO: &str = "meta/info.json";
/// Files of one data set at the most.
const MOST_FILES: usize = 1 << 20;

/// The files of one data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One file of any format.
    File(PathBuf),
    /// Parquet files in the order of their rows, and `meta/info.json`.
    LeRobot { files: Vec<PathBuf>, info: PathBuf },
    /// The Parquet or Arrow files of each episode, and `metadata.json`.
    MinariFolder { episodes: Vec<Vec<PathBuf>>, metadata: PathBuf },
}

impl Place {
    /// The files of a file, of a folder, or of a name in Minari's store.
    pub(super) fn of(path: &Path) -> Result<Place> {
        if let Some(name) = path.to_str().and_then(|text| text.strip_prefix(MINARI)) {
            return in_store(path, name);
        }
        let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, "read", e))?;
        if metadata.is_dir() {
            return match in_folder(path)? {
                Some(place) => Ok(place),
                None => Err(Error::file(path, contents(path)?.refusal())),
            };
        }
        match metadata.is_file() {
            true => Ok(Place::File(path.to_owned())),
            false => Err(Error::file(path, "not a regular file: expected a data file")),
        }
    }

    /// All files, in order.
    pub(super) fn files(&self) -> Vec<&Path> {
        match self {
            Place::File(file) => vec![file],
            Place::LeRobot { files, .. } => files.iter().map(PathBuf::as_path).collect(),
            Place::MinariFolder { episodes, .. } => {
                episodes.iter().flatten().map(PathBuf::as_path).collect()
            }
        }
    }

    /// The first file, which shows what is in the others.
    pub(super) fn first(&self) -> &Path {
        match self {
            Place::File(file) => file,
            Place::LeRobot { files, .. } => &files[0],
            Place::MinariFolder { episodes, .. } => &episodes[0][0],
        }
    }
}

fn in_store(path: &Path, name: &str) -> Result<Place> {
    let store = match (std::env::var_os("MINARI_DATASETS_PATH"), std::env::home_dir()) {
        (Some(store), _) => PathBuf::from(store),
        (None, Some(home)) => home.join(".minari/datasets"),
        (None, None) => {
            return Err(Error::file(path, "no home folder: set MINARI_DATASETS_PATH"));
        }
    };
    let plain = |part| matches!(part, std::path::Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(plain) {
        let problem = "not the name of a data set: expected minari:namespace/name-v0; name a file or folder as it is";
        return Err(Error::file(path, problem));
    }
    let folder = store.join(name);
    match if folder.is_dir() { in_folder(&folder)? } else { None } {
        Some(place) => Ok(place),
        None => Err(Error::file(
            path,
            format!(
                "no file {}: download it with `minari download {name}`, or set MINARI_DATASETS_PATH to the folder of \
                 data sets",
                folder.join(MINARI_FILES[0]).display()
            ),
        )),
    }
}

/// The data set in a folder, if a tool made it one.
fn in_folder(folder: &Path) -> Result<Option<Place>> {
    let existing =
        |names: &[&str]| names.iter().map(|name| folder.join(name)).find(|file| file.is_file());
    if let Some(file) = existing(&MINARI_FILES) {
        return Ok(Some(Place::File(file)));
    }
    if let Some(info) = existing(&[LEROBOT_INFO]) {
        let mut files = Vec::new();
        for chunk in sorted(&folder.join("data"), folder, "data/chunk-000/…parquet")? {
            if chunk.is_dir() {
                files.extend(
                    sorted(&chunk, folder, "Parquet files")?
                        .into_iter()
                        .filter(|path| is_parquet(path)),
                );
            }
        }
        return match files.is_empty() {
            true => Err(Error::file(
                folder,
                "a LeRobot data set (meta/info.json) without data/chunk-*/*.parquet: download all of it",
            )),
            false => Ok(Some(Place::LeRobot { files, info })),
        };
    }
    let Some(metadata) = existing(&MINARI_METADATA) else { return Ok(None) };
    let data = metadata.parent().unwrap_or(folder);
    let mut episodes = Vec::new();
    for entry in sorted(data, folder, "episodes")? {
        let Some(number) = entry.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok())
        else {
            continue;
        };
        let parts = sorted(&entry, folder, "episodes")?;
        let parts: Vec<PathBuf> = parts.into_iter().filter(|path| is_part(path)).collect();
        if !parts.is_empty() {
            episodes.push((number, parts));
        }
    }
    episodes.sort();
    let episodes: Vec<Vec<PathBuf>> = episodes.into_iter().map(|(_, parts)| parts).collect();
    Ok((!episodes.is_empty()).then_some(Place::MinariFolder { episodes, metadata }))
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "parquet")
}

fn is_part(path: &Path) -> bool {
    is_parquet(path) || path.extension().is_some_and(|ending| ending == "arrow")
}

/// What is in a folder, by name.
fn sorted(folder: &Path, of: &Path, expected: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| Error::file(of, format!("no {expected}: {}: {e}", folder.display())))?;
    let mut paths: Vec<PathBuf> = entries
        .take(MOST_FILES)
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()
        .map_err(|e| Error::io(folder, "read", e))?;
    paths.sort();
    Ok(paths)
}
