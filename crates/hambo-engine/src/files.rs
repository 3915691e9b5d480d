//! Files on disk: written whole or not at all, and named by their digest.

use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `write` on a temporary name beside `path` and renames the result to `path` once it is on the disk.
///
/// A reader sees the old file or the whole new one, never half of it; after an error the temporary file is
/// gone and what was at `path` before is untouched. Errors of `write` that name the temporary file are
/// passed on under the name the user gave. A symbolic link at `path` is followed, not replaced.
pub fn write_atomically(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let target = match fs::metadata(path) {
        // Renaming over a device (`--out /dev/null`) would replace the device itself.
        Ok(found) if !found.is_file() => {
            return Err(Error::file(
                path,
                "cannot write: not a regular file; name a file to create or replace",
            ));
        }
        Ok(_) => fs::canonicalize(path).map_err(|e| Error::io(path, "write", e))?,
        Err(_) => path.to_owned(),
    };
    let temporary = Temporary(temporary_name(&target)?);
    write(&temporary.0).map_err(|e| renamed(e, &temporary.0, path))?;
    // Without this a crash after the rename can leave an empty file under the final name.
    File::open(&temporary.0).and_then(|f| f.sync_all()).map_err(|e| Error::io(path, "write", e))?;
    fs::rename(&temporary.0, &target).map_err(|e| Error::io(path, "write", e))
}

/// Writes several files as [`write_atomically`] writes one: no name changes hands before the bytes of all are on
/// the disk, and the first file gets its name last.
pub fn write_together(files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let Some(((path, bytes), others)) = files.split_first() else { return Ok(()) };
    write_atomically(path, |temporary| {
        let written = File::create(temporary)
            .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()));
        written.map_err(|e| Error::io(temporary, "write", e))?;
        write_together(others)
    })
}

/// The bytes of a safetensors file with the keys of its header in order. The library that makes them keeps its metadata
/// in a hash table, so that equal content would give other bytes every time.
pub fn with_sorted_header(mut file: Vec<u8>) -> Vec<u8> {
    type Sorted = BTreeMap<String, BTreeMap<String, serde_json::Value>>;
    let Some((length, rest)) = file.split_first_chunk_mut::<8>() else { return file };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let Some(header) = rest.get_mut(..length) else { return file };
    let sorted =
        serde_json::from_slice::<Sorted>(header).and_then(|keys| serde_json::to_vec(&keys));
    if let Ok(mut sorted) = sorted
        && sorted.len() <= length
    {
        sorted.resize(length, b' ');
        header.copy_from_slice(&sorted);
    }
    file
}

/// The SHA-256 of a file's bytes in lower-case hexadecimal, read in pieces so that the size does not matter.
pub fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hexadecimal(digest)),
            Ok(n) => digest.update(&piece[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(path, "read", e)),
        }
    }
}

/// The SHA-256 of these bytes in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// A SHA-256 of numbers that come bit by bit.
#[derive(Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds the bytes of these values.
    pub fn add<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        for values in values.chunks(1 << 14) {
            self.0.update(values.iter().flat_map(|&value| bytes(value)).collect::<Vec<u8>>());
        }
    }

    /// In lower-case hexadecimal.
    pub fn finish(self) -> String {
        hexadecimal(self.0)
    }
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that is removed when dropped, unless it was renamed away.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing is there after a successful rename, or where `write` never created it.
        let _ = fs::remove_file(&self.0);
    }
}

/// A name in the folder of `target` that no other write of this or another process uses.
fn temporary_name(target: &Path) -> Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let Some(file_name) = target.file_name() else {
        return Err(Error::file(target, "cannot write: not the name of a file"));
    };
    let mut name = OsString::from(".");
    name.push(file_name);
    name.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    Ok(target.with_file_name(name))
}

/// `error`, with the temporary name replaced by the one the user knows.
fn renamed(error: Error, temporary: &Path, path: &Path) -> Error {
    match error {
        Error::Io { path: p, action, source } if p == temporary => Error::io(path, action, source),
        Error::File { path: p, problem } if p == temporary => Error::file(path, problem),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("hambo-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn put(text: &'static str) -> impl FnOnce(&Path) -> Result<()> {
        move |p| fs::write(p, text).map_err(|e| Error::io(p, "write", e))
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = folder("failed");
        let path = folder.join("out.txt");
        write_atomically(&path, put("old")).unwrap();
        let error = write_atomically(&path, |p| {
            fs::write(p, "half").unwrap();
            Err(Error::file(p, "the disk is full"))
        });
        assert_eq!(error.unwrap_err().to_string(), format!("{}: the disk is full", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the temporary file is gone");
        write_atomically(&path, put("new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_are_written_together_or_not_at_all() {
        let folder = folder("together");
        let files = |text: &str| {
            let file = |name: &str| (folder.join(name), text.as_bytes().to_vec());
            vec![file("a"), file("b"), file("c")]
        };
        write_together(&files("old")).unwrap();
        let mut blocked = files("new");
        blocked.push((folder.join("no such folder").join("d"), Vec::new()));
        let error = write_together(&blocked).unwrap_err().to_string();
        assert!(error.contains("no such folder/d: cannot write: "), "{error}");
        for name in ["a", "b", "c"] {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "old");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "no temporary file is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn errors_name_the_path_that_was_asked_for() {
        let missing = Path::new("/no/such/folder/out.txt");
        let error = write_atomically(missing, put("")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/folder/out.txt: cannot write: "), "{error}");
        assert!(
            write_atomically(Path::new("/"), put(""))
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
        let error = sha256(missing).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/folder/out.txt: cannot read: "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_left_alone() {
        let folder = folder("links");
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomically(&link, put("new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(write_atomically(Path::new("/dev/null"), put("")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        let folder = folder("digest");
        let path = folder.join("abc");
        fs::write(&path, "abc").unwrap(); // FIPS 180-2, appendix B.1
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&path).unwrap(), expected);
        fs::write(&path, "a".repeat(1_000_000)).unwrap(); // appendix B.3
        let expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(sha256(&path).unwrap(), expected);
        fs::remove_dir_all(folder).unwrap();
    }
}
