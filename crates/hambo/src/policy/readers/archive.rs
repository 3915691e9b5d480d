//! Zip archives from strangers: no entry may unpack to more than its file could reasonably hold.

use crate::policy::readers::Problem;
use std::io::{Cursor, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// How far the entries of an archive may exceed its own size: weights hardly shrink, text shrinks ten-fold.
const LARGEST_EXPANSION: u64 = 100;
const FREE_BYTES: u64 = 1 << 20;

/// An open archive, and how many more bytes may be unpacked from it.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    bytes_left: u64,
}

impl<'a> Archive<'a> {
    pub fn open(bytes: &'a [u8]) -> Result<Self, Problem> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|e| format!("not a zip archive, or a damaged one: {e}"))?;
        Ok(Archive { zip, bytes_left: LARGEST_EXPANSION * bytes.len() as u64 + FREE_BYTES })
    }

    pub fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// The first entry whose name has this ending.
    pub fn name_ending(&self, ending: &str) -> Option<String> {
        self.zip.file_names().find(|n| n.ends_with(ending)).map(str::to_owned)
    }

    pub fn read(&mut self, name: &str) -> Result<Vec<u8>, Problem> {
        let entry = self.zip.by_name(name).map_err(|e| match e {
            ZipError::FileNotFound => format!("it does not contain `{name}`"),
            e => format!("`{name}` cannot be unpacked: {e}"),
        })?;
        let mut bytes = Vec::new();
        let mut limited = entry.take(self.bytes_left.saturating_add(1));
        limited.read_to_end(&mut bytes).map_err(|e| format!("`{name}` cannot be unpacked: {e}"))?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| format!("`{name}` unpacks to far more than the archive's own size"))?;
        Ok(bytes)
    }
}
