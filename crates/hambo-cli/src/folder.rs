//! The folder of `--out`.

use hambo::files::write_together;
use hambo::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that was seen to take files before the work began, so that minutes are not spent for nothing.
///
/// If nothing comes to be written, the folder is removed again where it was made for this.
pub struct Folder {
    path: PathBuf,
    /// The folders that did not exist before, innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder and writes a byte into it.
    pub fn prepare(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            return Err(Error::file(path, "not a folder: name one that exists or one to be made"));
        }
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let folder = Folder { path: path.to_owned(), made: missing.map(Path::to_owned).collect() };
        fs::create_dir_all(path).map_err(|e| Error::io(path, "make the folder", e))?;
        let probe = path.join(format!(".hambo-{}.tmp", std::process::id()));
        let probed = fs::write(&probe, [0]);
        let _ = fs::remove_file(&probe); // also where the disk was full after the file was made
        probed.map_err(|e| Error::io(path, "write into the folder", e))?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of the files, or none.
    pub fn write(mut self, files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
        write_together(files)?;
        self.made.clear();
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Only empty folders can be removed so.
        self.made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}
