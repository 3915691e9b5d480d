//! Observation normalizers of Stable-Baselines3: `VecNormalize`, as its `save` writes it.

use super::numpy;
use crate::policy::normalizer::Normalizer;
use crate::policy::readers::Problem;
use crate::policy::readers::pickle::Pickle;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// How these files are usually called.
pub(super) const NAMES: [&str; 2] = ["vecnormalize.pkl", "vec_normalize.pkl"];

/// The normalizer that belongs to the agent at `path`, if there is one: by its usual names, else the only file with both words in
/// its name; beside the agent, or in a folder of its name, as the RL zoo has it.
pub(super) fn find(path: &Path) -> Result<Option<PathBuf>> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let folders = [beside.to_owned(), path.with_extension("")];
    let usual = folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    if let Some(file) = usual.into_iter().find(|file| file.is_file()) {
        return Ok(Some(file));
    }
    let alike = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let after_vec = name.find("vec").map(|at| &name[at..]);
        name.ends_with(".pkl") && after_vec.is_some_and(|rest| rest.contains("normalize"))
    };
    for folder in &folders {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(entries) = std::fs::read_dir(here) else { continue };
        let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut files: Vec<PathBuf> = files.filter(alike).collect();
        files.sort();
        match files.as_slice() {
            [] => {}
            [file] => return Ok(Some(file.clone())),
            [one, other, ..] => {
                let problem = format!(
                    "several files may be its observation normalizer, such as {} and {}: say which, with --normalizer FILE, or \
                     --normalizer none",
                    one.display(),
                    other.display()
                );
                return Err(Error::file(path, problem));
            }
        }
    }
    Ok(None)
}

/// The normalizer in a file; none if it leaves observations unchanged.
pub(super) fn read(file: &Path) -> Result<Option<Normalizer>> {
    let bytes = std::fs::read(file).map_err(|e| Error::io(file, "read", e))?;
    let problem = |e| format!("not an observation normalizer that can be read: {e}");
    normalizer(&bytes).map_err(|e| Error::file(file, problem(e)))
}

/// The statistics of a `VecNormalize`; none if it leaves observations unchanged.
fn normalizer(bytes: &[u8]) -> std::result::Result<Option<Normalizer>, Problem> {
    let (pickle, _) = Pickle::read(bytes)?;
    let state = pickle.root().state().ok_or("not a VecNormalize")?;
    let field = |name: &str| state.get(name).ok_or_else(|| format!("it has no `{name}`"));
    if !field("norm_obs")?.boolean().ok_or("`norm_obs` is neither True nor False")? {
        return Ok(None);
    }
    let statistics = field("obs_rms")?
        .state()
        .ok_or("`obs_rms` does not describe a vector; dictionary observations are not supported")?;
    let array = |name: &str| {
        let values = statistics.get(name).and_then(numpy::array);
        values
            .map(|(_, values)| values)
            .ok_or_else(|| format!("`obs_rms.{name}` is not an array of numbers"))
    };
    let number = |name: &str| {
        let value = numpy::array(field(name)?).filter(|(shape, _)| shape.is_empty());
        value
            .and_then(|(_, v)| v.first().copied())
            .ok_or_else(|| format!("`{name}` is not a number"))
    };
    Ok(Some(Normalizer {
        mean: array("mean")?,
        var: array("var")?,
        clip: number("clip_obs")?,
        epsilon: number("epsilon")?,
    }))
}
