//! Agents and data of other people, which are not in the repository.

use std::path::PathBuf;

/// The folder that HAMBO_ASSETS names; none, and said so, where there is none.
pub fn assets() -> Option<PathBuf> {
    let folder =
        std::env::var_os("HAMBO_ASSETS").map(PathBuf::from).filter(|folder| folder.is_dir());
    if folder.is_none() {
        println!("SKIPPED: HAMBO_ASSETS names no folder with agents and data of other people");
    }
    folder
}
