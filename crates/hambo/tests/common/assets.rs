//! Agents and data of other people, which are not in the repository.

use std::path::{Path, PathBuf};

/// Their folder: what HAMBO_ASSETS names, or `shared/assets` beside the repository. None, and said so, where there is none.
pub fn assets() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/assets");
    let folder = std::env::var_os("HAMBO_ASSETS").map_or_else(beside, PathBuf::from);
    folder.is_dir().then_some(folder).or_else(|| {
        println!("SKIPPED: no folder ../shared/assets beside the repository; HAMBO_ASSETS names another");
        None
    })
}
