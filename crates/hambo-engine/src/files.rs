//! Files on disk: written whole or not at all, and known by their digest.

mod lock;
mod seal;
#[cfg(test)]
mod tests;

pub use lock::Lock;
pub use seal::{NO_SEAL, Seal, seal};

use crate::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `write` on a temporary name beside `path` and renames the result to `path` once it is on the disk.
///
/// A reader sees the old file or the whole new one, never half of it; after an error the temporary file is
/// gone and what was at `path` before is untouched. Errors of `write` that name the temporary file are
/// passed on under the name the user gave. A symbolic link at `path` is followed, not replaced.
pub fn write_atomically(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    Staged::new(path, write)?.publish()
}

/// Writes several files of which the first tells that the others are there: it gets its name last, by one rename.
///
/// No name changes hands before the bytes of all are on the disk. An older first file is taken away before the others
/// are replaced, so that it never stands beside newer ones, wherever the writing is interrupted.
pub fn write_together(files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    let staged = files.iter().map(|(path, bytes)| {
        Staged::new(path, |temporary| {
            fs::write(temporary, bytes).map_err(|e| Error::io(temporary, "write", e))
        })
    });
    let staged: Vec<Staged<'_>> = staged.collect::<Result<_>>()?;
    if let [first, _, ..] = &staged[..] {
        first.withdraw()?;
    }
    staged.iter().rev().try_for_each(Staged::publish)
}

/// Makes a folder, with those above it, that is still there after a crash.
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::io(path, "make the folder", e))?;
    sync_folder_of(path)
}

/// Puts on the disk which files there are in the folder of this one.
fn sync_folder_of(path: &Path) -> Result<()> {
    // Not every system opens folders, or those that it may write into.
    let Ok(opened) = File::open(folder_of(path)) else { return Ok(()) };
    match opened.sync_all() {
        Err(e) if !matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Err(Error::io(path, "write", e))
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file whose bytes are on the disk under a temporary name.
struct Staged<'a> {
    path: &'a Path,
    /// What `path` leads to.
    target: PathBuf,
    temporary: Temporary,
}

impl<'a> Staged<'a> {
    fn new(path: &'a Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
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
        remove_left_overs(&target);
        let name = temporary_name(&target)?;
        let file = File::create(&name).map_err(|e| Error::io(path, "write", e))?;
        let temporary = Temporary { name, file };
        if cfg!(unix) {
            // Tells others that it is not left over; elsewhere it would keep `write` out.
            let _ = temporary.file.try_lock();
        }
        write(&temporary.name).map_err(|e| renamed(e, &temporary.name, path))?;
        // Without this a crash after the rename can leave an empty file under the final name.
        temporary.file.sync_all().map_err(|e| Error::io(path, "write", e))?;
        Ok(Staged { path, target, temporary })
    }

    /// Gives the file its name.
    fn publish(&self) -> Result<()> {
        fs::rename(&self.temporary.name, &self.target)
            .map_err(|e| Error::io(self.path, "write", e))?;
        sync_folder_of(&self.target)
    }

    /// Takes an older file of that name away.
    fn withdraw(&self) -> Result<()> {
        match fs::remove_file(&self.target) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io(self.path, "replace", e)),
            Ok(()) => sync_folder_of(&self.target),
        }
    }
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
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(path, "read", e)),
        }
    }
}

/// The SHA-256 of these bytes in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// A SHA-256 of numbers that come bit by bit.
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds the bytes of these values.
    pub fn add<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        for values in values.chunks(1 << 14) {
            self.0.update(values.iter().flat_map(|&value| bytes(value)).collect::<Vec<u8>>());
        }
    }

    /// Adds bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
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
struct Temporary {
    name: PathBuf,
    file: File,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing is there after a successful rename.
        let _ = fs::remove_file(&self.name);
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

/// Removes what writes to this file left behind that were interrupted: those which nobody has locked.
fn remove_left_overs(target: &Path) {
    if cfg!(not(unix)) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder_of(target)) else { return };
    let paths = entries.flatten().map(|entry| entry.path());
    let own = |path: &PathBuf| left_over(path).is_some_and(|name| target.ends_with(name));
    for path in paths.filter(own) {
        let plain = path.symlink_metadata().is_ok_and(|found| found.is_file());
        if plain && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The name of the file that an interrupted write left this one of, if it is such a one.
pub fn left_over(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".tmp")?;
    let (target, suffix) = name.rsplit_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (process, count) = suffix.split_once('-')?;
    (digits(process) && digits(count)).then_some(target)
}

/// `error`, with the temporary name replaced by the one the user knows.
fn renamed(error: Error, temporary: &Path, path: &Path) -> Error {
    match error {
        Error::Io { path: p, action, source } if p == temporary => Error::io(path, action, source),
        Error::File { path: p, problem } if p == temporary => Error::file(path, problem),
        other => other,
    }
}
