//! What is in a folder that is no data set by itself.

use super::kind::Kind;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Files listed one by one at the most.
const LISTED: usize = 1000;

/// The contents of a folder.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Names of files and folders, and what each is, in the order of the names.
    pub entries: Vec<(String, String)>,
    /// How many more there are.
    pub more: usize,
    /// What the folder itself is, where it is known and cannot be read.
    whole: Option<&'static str>,
}

/// Lists what is in a folder.
pub fn contents(folder: &Path) -> Result<Contents> {
    let failed = |e| Error::io(folder, "read", e);
    let mut names = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<String>>>()
        .map_err(failed)?;
    names.sort();
    let whole = whole(&names);
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let entries = names
        .into_iter()
        .map(|name| {
            let path = folder.join(&name);
            let what = match Kind::of(&path) {
                _ if path.is_dir() => "folder".to_owned(),
                Ok(kind) => kind.name().to_owned(),
                Err(Error::File { problem, .. }) => problem,
                Err(_) => "cannot be read".to_owned(),
            };
            (name, what)
        })
        .collect();
    Ok(Contents { entries, more, whole })
}

/// What a folder with these names in it is.
fn whole(names: &[String]) -> Option<&'static str> {
    let has = |name: &str| names.iter().any(|n| n == name);
    let any = |ending: &str| names.iter().any(|n| n.ends_with(ending));
    Some(match () {
        () if has("saved_model.pb") => {
            "a TensorFlow SavedModel: export the policy to ONNX with `python -m tf2onnx.convert --saved-model FOLDER \
             --output policy.onnx`"
        }
        () if has("metadata.yaml") && (any(".db3") || any(".mcap")) => {
            "a ROS 2 bag: write its topics as a table, one row a step, on a common clock (rosbags, then \
             pandas.DataFrame.to_parquet)"
        }
        () if has(".zarray") || has(".zgroup") || has("zarr.json") => {
            "a Zarr store: write its arrays with numpy.savez(\"log.npz\", observations=…, actions=…, rewards=…, \
             terminals=…, timeouts=…)"
        }
        () if has("dataset_info.json") && has("features.json") => {
            "an RLDS (TensorFlow) data set: load it with tensorflow_datasets, and write its steps with \
             numpy.savez(\"log.npz\", observations=…, actions=…, rewards=…, terminals=…, timeouts=…)"
        }
        () if has("dataset_info.json") && has("state.json") => {
            "a data set of Hugging Face in Arrow files: write it as Parquet, datasets.load_from_disk(…).to_parquet(…)"
        }
        () if has("meta_data") && has("train") => {
            "a LeRobot data set of a version before 2: convert it with lerobot's convert_dataset_v1_to_v2.py"
        }
        () => return None,
    })
}

impl Contents {
    /// Why it is not read as data, in a line.
    pub(super) fn refusal(&self) -> String {
        if let Some(whole) = self.whole {
            return whole.into();
        }
        let mut endings: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, what) in &self.entries {
            let ending = if what == "folder" { "folders" } else { ending(name) };
            *endings.entry(ending).or_default() += 1;
        }
        let held: Vec<String> = endings.iter().take(8).map(|(e, n)| format!("{n} {e}")).collect();
        let held = if held.is_empty() {
            "it is empty".to_owned()
        } else {
            format!("it holds {}", held.join(", "))
        };
        format!(
            "a folder, but no data set of Minari (data/main_data.hdf5) or LeRobot (meta/info.json): {held}; name its files, \
             or look at it with `hambo inspect`"
        )
    }

    /// What the folder is, or how to go on from its list.
    pub fn remark(&self) -> &'static str {
        self.whole
            .unwrap_or("no data set by itself: name files of it, several make up one data set")
    }
}

fn ending(name: &str) -> &str {
    name.rfind('.').filter(|&dot| dot > 0).map_or("without ending", |dot| &name[dot..])
}
