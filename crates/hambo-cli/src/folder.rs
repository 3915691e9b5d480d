//! The folder of `--out`.

use crate::interrupt;
use hambo::{Error, Result};
use hambo_engine::files::{Lock, make_folder, write_together};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that is written last: where it is, the run was finished.
pub const RESULT: &str = "result.json";

/// A folder that can be written to, which is checked before minutes of work begin.
///
/// No other process works in it meanwhile. If nothing is written in the end, folders that were made for it are removed
/// again.
pub struct Folder {
    path: PathBuf,
    lock: Option<Lock>,
    /// The folders that did not exist before, innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder if needed, and locks it, which shows that a file can be written into it.
    pub fn prepare(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            return Err(Error::file(path, "not a folder; name an existing folder or a new one"));
        }
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let made = missing.map(Path::to_owned).collect();
        let mut folder = Folder { path: path.to_owned(), lock: None, made };
        make_folder(path)?;
        folder.lock = Some(Lock::take(path)?);
        interrupt::keeps(Some(path));
        Ok(folder)
    }

    /// An error if it holds a finished result: that is not replaced unasked.
    pub fn check_unfinished(&self) -> Result<()> {
        match self.path.join(RESULT).exists() {
            true => Err(Error::file(
                &self.path,
                format!(
                    "it holds a finished result ({RESULT}): name another folder, or give --force to replace it"
                ),
            )),
            false => Ok(()),
        }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of the files or none.
    pub fn write(&self, files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
        write_together(files)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.lock = None;
        interrupt::keeps(None);
        // This removes empty folders only.
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}
