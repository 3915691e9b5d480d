//! The folder of `--out`.

use hambo::{Error, Result};
use hambo_engine::files::write_together;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that can be written to, which is checked before minutes of work begin.
///
/// If nothing is written in the end, folders that were made for it are removed again.
pub struct Folder {
    path: PathBuf,
    /// The folders that did not exist before, innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder if needed, and checks that a file can be written into it.
    pub fn prepare(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            return Err(Error::file(path, "not a folder; name an existing folder or a new one"));
        }
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let folder = Folder { path: path.to_owned(), made: missing.map(Path::to_owned).collect() };
        fs::create_dir_all(path).map_err(|e| Error::io(path, "make the folder", e))?;
        let probe = path.join(format!(".hambo-{}.tmp", std::process::id()));
        let probed = fs::write(&probe, [0]);
        let _ = fs::remove_file(&probe); // also if the disk was full after the file was made
        probed.map_err(|e| Error::io(path, "write into the folder", e))?;
        Ok(folder)
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
        // This removes empty folders only.
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}
