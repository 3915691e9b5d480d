//! HDF5 files from strangers: every declared size is checked before anything is read, every error names the
//! file and the field. Some 85 000 damaged files made the reader beneath fail in words but never panic, so
//! nothing here catches panics.

mod field;

use super::{Entry, FREE_BYTES, LARGEST_EXPANSION};
use crate::{Error, Result};
pub(crate) use field::Field;
use hambo_engine::spelling::edit_distance;
use rust_hdf5::{DatatypeMessage, H5Dataset, H5File, Hdf5Error, StorageLayout};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Groups nested deeper than this are not listed.
const DEEPEST_GROUP: usize = 16;

/// An open file, and how many more bytes its fields may declare.
pub(crate) struct Source {
    path: PathBuf,
    file: H5File,
    names: Vec<String>,
    bytes_left: Cell<u64>,
    /// Whether values that are not finite are kept rather than refused.
    pub(crate) keep_not_finite: bool,
}

impl Source {
    /// Opens `path` for reading.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, "read", e))?;
        if !metadata.is_file() {
            return Err(Error::file(path, "not a regular file: expected an HDF5 file"));
        }
        // Locks are refused by some network file systems, and reading needs none.
        let file = H5File::options().no_locking().open(path).map_err(|e| match e {
            Hdf5Error::Io(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                Error::io(path, "read", e)
            }
            e => Error::file(path, format!("not an HDF5 file, or a damaged one: {}", words(&e))),
        })?;
        let mut names = file.dataset_names();
        names.sort();
        let bytes_left =
            Cell::new(metadata.len().saturating_mul(LARGEST_EXPANSION).saturating_add(FREE_BYTES));
        Ok(Source { path: path.to_owned(), file, names, bytes_left, keep_not_finite: false })
    }

    /// The datasets in the order of their paths, those within `group` where one is named; groups at most 16 deep.
    pub(crate) fn entries(&self, group: Option<&str>) -> Vec<Entry> {
        let inside = group.map_or(String::new(), |group| format!("{group}/"));
        let listed = self.names.iter().filter(|n| n.matches('/').count() < DEEPEST_GROUP);
        let entry = |path: &String| {
            let found =
                self.file.dataset(path).and_then(|d| Ok((d.shape(), type_name(&d.datatype()?))));
            // One dataset of a kind that cannot be read must not hide the others.
            let (shape, dtype) =
                found.unwrap_or_else(|e| (Vec::new(), format!("unreadable: {}", words(&e))));
            Entry { path: path.clone(), shape, dtype }
        };
        listed.filter(|n| n.starts_with(&inside)).map(entry).collect()
    }

    /// The text attributes of the root group, in the order of their names.
    pub(crate) fn attributes(&self) -> Result<Vec<(String, String)>> {
        let mut names = self.file.attr_names().map_err(|e| self.error("attributes", e))?;
        names.sort();
        // Attributes of other types are no text to show.
        Ok(names
            .into_iter()
            .filter_map(|n| Some((n.clone(), self.file.attr_string(&n).ok()?)))
            .collect())
    }

    /// Paths of all datasets, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there is a dataset of this path.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.binary_search_by(|n| n.as_str().cmp(name)).is_ok()
    }

    /// Whether there is such a dataset. An error if there is none, but one at the root that looks misspelled:
    /// going on without it would silently read other data than the writer meant.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        if self.contains(name) {
            return Ok(true);
        }
        match self.nearest(name).filter(|n| !n.contains('/')) {
            Some(near) => Err(Error::file(
                &self.path,
                format!(
                    "no field `{name}`, but `{near}`: rename it to `{name}` if that is what it holds, or else to something less similar"
                ),
            )),
            None => Ok(false),
        }
    }

    /// The field `name` of shape `[n, width]`.
    pub(crate) fn matrix(&self, name: &str) -> Result<Field<'_>> {
        let field = self.field(name, "[n, width]")?;
        match field.rank {
            2 => Ok(field),
            _ => Err(self.wrong_shape(&field, "[n, width]")),
        }
    }

    /// The field `name` of shape `[n]` or `[n, 1]`.
    pub(crate) fn column(&self, name: &str) -> Result<Field<'_>> {
        let field = self.field(name, "[n] or [n, 1]")?;
        match field.width {
            1 => Ok(field),
            _ => Err(self.wrong_shape(&field, "[n] or [n, 1]")),
        }
    }

    /// The text in the field `name`, if there is such a field.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        if !self.names.iter().any(|n| n == name) {
            return Ok(None);
        }
        let dataset = self.dataset(name)?;
        self.check_size(name, &dataset)?;
        let text = dataset.read_strings().map_err(|e| self.error(name, e))?;
        text.into_iter().next().map(Some).ok_or_else(|| self.problem(format!("`{name}` is empty")))
    }

    /// An error about `path` as a whole.
    pub(crate) fn problem(&self, problem: String) -> Error {
        Error::file(&self.path, problem)
    }

    fn field(&self, name: &str, expected: &str) -> Result<Field<'_>> {
        let dataset = self.dataset(name)?;
        let shape = dataset.shape();
        let (rank, rows, width) = match shape[..] {
            [rows] => (1, rows, 1),
            [rows, width] => (2, rows, width),
            _ => {
                return Err(
                    self.problem(format!("`{name}` has shape {shape:?}: expected {expected}"))
                );
            }
        };
        if rows == 0 || width == 0 {
            return Err(
                self.problem(format!("`{name}` has shape {shape:?}: there is nothing in it"))
            );
        }
        self.check_size(name, &dataset)?;
        Ok(Field { source: self, name: name.to_owned(), dataset, rank, rows, width })
    }

    /// Refuses a dataset that declares more than its file can hold, before anything is allocated for it.
    fn check_size(&self, name: &str, dataset: &H5Dataset) -> Result<()> {
        let layout = dataset.storage_layout().map_err(|e| self.error(name, e))?;
        let external = dataset.external_files().map_err(|e| self.error(name, e))?;
        if layout == StorageLayout::Virtual || !external.is_empty() {
            return Err(
                self.problem(format!("`{name}` is kept in other files: copy it into this one"))
            );
        }
        let bytes = |extent: &[usize]| {
            extent
                .iter()
                .try_fold(dataset.element_size() as u64, |size, &d| size.checked_mul(d as u64))
        };
        let chunk = dataset.chunk_dims().unwrap_or_default();
        let left = self.bytes_left.get();
        match (bytes(&dataset.shape()), bytes(&chunk)) {
            (Some(all), Some(one)) if all <= left && one <= left => {
                self.bytes_left.set(left - all);
                Ok(())
            }
            _ => Err(self.problem(format!(
                "`{name}` declares shape {:?} in chunks of {chunk:?} with {} bytes a number, more than a file of this \
                 size can hold: it is damaged",
                dataset.shape(),
                dataset.element_size()
            ))),
        }
    }

    fn dataset(&self, name: &str) -> Result<H5Dataset> {
        if !self.contains(name) {
            let hint = match self.nearest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.names.is_empty() => "it holds no data at all".into(),
                None => {
                    let some: Vec<_> =
                        self.names.iter().take(12).map(|n| format!("`{n}`")).collect();
                    format!(
                        "it holds {}{}",
                        some.join(", "),
                        if self.names.len() > 12 { ", …" } else { "" }
                    )
                }
            };
            return Err(self.problem(format!("no field `{name}`: {hint}")));
        }
        self.file.dataset(name).map_err(|e| self.error(name, e))
    }

    /// The dataset whose last path component is spelled most like `name`, if any is nearly the same.
    fn nearest(&self, name: &str) -> Option<&str> {
        let distance = |n: &str| edit_distance(n.rsplit('/').next().unwrap_or(n), name);
        let near = self.names.iter().min_by_key(|n| distance(n))?;
        (distance(near) <= 2).then_some(near)
    }

    fn wrong_shape(&self, field: &Field<'_>, expected: &str) -> Error {
        self.problem(format!(
            "`{}` has shape {:?}: expected {expected}",
            field.name,
            field.dataset.shape()
        ))
    }

    fn error(&self, name: &str, error: Hdf5Error) -> Error {
        self.problem(format!("`{name}` cannot be read: {}", words(&error)))
    }
}

/// Whether this is how h5py stores numpy's bool: an enumeration of FALSE and TRUE over one byte.
fn is_bool(datatype: &DatatypeMessage) -> bool {
    matches!(datatype, DatatypeMessage::Enum { base, members }
        if matches!(**base, DatatypeMessage::FixedPoint { size: 1, .. })
            && members.iter().all(|m| matches!((m.name.as_str(), &m.value[..]), ("FALSE", [0]) | ("TRUE", [1]))))
}

/// An element type in numpy's words.
fn type_name(datatype: &DatatypeMessage) -> String {
    match datatype {
        _ if is_bool(datatype) => "bool".into(),
        DatatypeMessage::FloatingPoint { size, .. } => format!("float{}", u64::from(*size) * 8),
        DatatypeMessage::FixedPoint { size, signed, .. } => {
            format!("{}int{}", if *signed { "" } else { "u" }, u64::from(*size) * 8)
        }
        DatatypeMessage::FixedString { .. } | DatatypeMessage::VarLenString { .. } => {
            "string".into()
        }
        DatatypeMessage::Compound { .. } => "compound".into(),
        DatatypeMessage::Enum { .. } => "enumeration".into(),
        other => other.to_string(),
    }
}

/// What the reader says, without its names for its own layers.
pub(crate) fn words(error: &Hdf5Error) -> String {
    let mut text = error.to_string();
    for layer in
        ["hdf5-io error: ", "I/O error: ", "format error: ", "invalid state: ", "type mismatch: "]
    {
        if let Some(rest) = text.strip_prefix(layer) {
            text = rest.to_owned();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_numpy_names_them() {
        assert_eq!(type_name(&DatatypeMessage::f32_type()), "float32");
        assert_eq!(type_name(&DatatypeMessage::u8_type()), "uint8");
        assert_eq!(type_name(&DatatypeMessage::i64_type()), "int64");
        assert_eq!(type_name(&DatatypeMessage::bool_type()), "bool");
        assert_eq!(type_name(&DatatypeMessage::fixed_string(3)), "string");
    }
}
