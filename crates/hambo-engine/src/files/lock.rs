//! One process at a time in a folder.

use crate::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The file that is locked, in the folder.
const NAME: &str = ".hambo.lock";

/// A folder that no other process works in as long as this lives; the system ends it with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Locks an existing folder, or says at once which process holds it. This also shows that it can be written into.
    pub fn take(folder: &Path) -> Result<Lock> {
        let path = folder.join(NAME);
        let problem = |e| Error::io(folder, "write into the folder", e);
        loop {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = options.open(&path).map_err(problem)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(held(folder, file)),
                Err(TryLockError::Error(e)) if e.kind() != std::io::ErrorKind::Unsupported => {
                    return Err(problem(e));
                }
                _ => {}
            }
            // Whoever held it before may have removed the file after it was opened here.
            if !same(&file, &path) {
                continue;
            }
            let mut lock = Lock { path, file };
            let id = format!("{}\n", std::process::id());
            lock.file.set_len(0).map_err(problem)?;
            lock.file.write_all(id.as_bytes()).map_err(problem)?;
            return Ok(lock);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still locked: nobody else's is removed.
        let _ = fs::remove_file(&self.path);
    }
}

fn held(folder: &Path, mut file: File) -> Error {
    let mut id = String::new();
    let read = file.read_to_string(&mut id);
    let id = id.trim();
    let holder = match read.is_ok() && !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) {
        true => format!("process {id}"),
        false => "another process".to_owned(),
    };
    Error::file(
        folder,
        format!("{holder} is at work in this folder: wait until it ends, or name another folder"),
    )
}

/// Whether the path still leads to the file.
#[cfg(unix)]
fn same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(there)) => place(opened) == place(there),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same(_: &File, path: &Path) -> bool {
    path.exists() // a file that is open cannot be removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one_at_a_time() {
        let folder = std::env::temp_dir().join(format!("hambo-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // What a process that was killed left behind is no hindrance.
        fs::write(folder.join(NAME), "1234567890\n").unwrap();
        let lock = Lock::take(&folder).unwrap();
        let refused = Lock::take(&folder).unwrap_err().to_string();
        let words = format!("process {} is at work in this folder", std::process::id());
        assert!(refused.contains(&words), "{refused}");
        drop(lock);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        drop(Lock::take(&folder).unwrap());
        fs::remove_dir(&folder).unwrap();
        let missing = Lock::take(&folder).unwrap_err().to_string();
        assert!(missing.contains("cannot write into the folder: "), "{missing}");
    }
}
