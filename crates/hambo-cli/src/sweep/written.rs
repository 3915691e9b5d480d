//! A plan as its file has it: grids of data, policies, tasks, seeds and settings.

use crate::toml_file;
use hambo::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// A plan as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    pub name: Option<String>,
    /// What the table is introduced with.
    pub about: Option<String>,
    /// Settings of all jobs.
    #[serde(default)]
    pub settings: Settings,
    #[serde(default, rename = "grid")]
    pub grids: Vec<Spanned<GridFile>>,
}

/// Flags of `hambo evaluate` by their names; a list is an axis of the grid.
pub type Settings = BTreeMap<String, Spanned<Value>>;

/// A grid: every data set with every policy, task, seed and combination of settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridFile {
    pub name: Option<String>,
    /// Built-in environments.
    pub env: Option<Spanned<OneOrMore>>,
    /// Or task files.
    pub task: Option<Spanned<OneOrMore>>,
    /// Data sets; a list in the list is one of several files.
    pub data: Spanned<Vec<Spanned<OneOrMore>>>,
    pub policies: Spanned<Vec<Spanned<String>>>,
    pub seeds: Spanned<Vec<u64>>,
    /// In place of the plan's, one by one.
    #[serde(default)]
    pub settings: Settings,
}

/// A text, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub fn texts(&self) -> &[String] {
        match self {
            OneOrMore::One(text) => std::slice::from_ref(text),
            OneOrMore::More(texts) => texts,
        }
    }
}

/// A plan, and where it is from.
pub struct Written {
    pub file: PlanFile,
    path: PathBuf,
    text: String,
}

impl Written {
    pub fn read(path: &Path) -> Result<Self> {
        let text = toml_file::text(path, "plan")?;
        let file = toml_file::parse(&text).map_err(|problem| Error::file(path, problem))?;
        Ok(Written { file, path: path.to_owned(), text })
    }

    /// The plan's name: its own, or that of the file.
    pub fn name(&self) -> String {
        let stem = || self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.file.name.clone().or_else(stem).unwrap_or_default()
    }

    /// A problem at this place of the file.
    pub fn problem(&self, at: Range<usize>, problem: impl std::fmt::Display) -> Error {
        let line = toml_file::line(&self.text, at.start);
        Error::file(&self.path, format!("line {line}: {problem}"))
    }

    /// A path in it, from where the program runs.
    pub fn path_of(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
}
