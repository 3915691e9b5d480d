//! What a run found, and the folder of `--out` with it.

use crate::config;
use crate::folder::{Folder, RESULT};
use hambo::report::{Verdict, html, markdown, ranking_html, ranking_markdown};
use hambo::{Answer, Ranking, Result};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What a run found, and all that it would leave in a folder.
pub struct Found<A> {
    /// The answer.
    pub answer: A,
    /// The files of the model, by their names.
    pub model: Vec<(PathBuf, Vec<u8>)>,
}

/// An answer that can be told in every form.
pub trait Told: serde::Serialize + std::fmt::Display {
    /// The page.
    fn html(&self) -> String;
    /// The summary.
    fn markdown(&self) -> String;
    /// The verdict.
    fn verdict(&self) -> Option<Verdict>;
}

impl Told for Answer {
    fn html(&self) -> String {
        html(self)
    }

    fn markdown(&self) -> String {
        markdown(self)
    }

    fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

impl Told for Ranking {
    fn html(&self) -> String {
        ranking_html(self)
    }

    fn markdown(&self) -> String {
        ranking_markdown(self)
    }

    fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

impl<A: Told> Found<A> {
    /// The files of `--out`, the first of which gets its name last: where there is a result, there is all that belongs to it.
    fn files(&self, folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let told = [
            (RESULT, format!("{:#}\n", json!(self.answer))),
            ("report.html", self.answer.html()),
            ("summary.md", self.answer.markdown()),
        ];
        let told = told.map(|(name, text)| (folder.join(name), text.into_bytes()));
        let model = self.model.iter().map(|(name, bytes)| (folder.join(name), bytes.clone()));
        let repeats = config::that_repeats().map(|text| (folder.join(config::FILE), text.into()));
        told.into_iter().chain(model).chain(repeats).collect()
    }

    /// Writes the folder that the command writes for `--out`.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.write(&Folder::prepare(path)?)
    }

    pub(crate) fn write(&self, folder: &Folder) -> Result<()> {
        folder.write(&self.files(folder.path()))
    }
}
