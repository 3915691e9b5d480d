//! Text and progress for people, JSON for programs.

use crate::args::Evaluate;
use crate::commands::Prepared;
use crate::folder::Folder;
use crate::found::{Found, Told};
use hambo::evaluate::Evaluator;
pub use hambo::report::{number, table};
use hambo::run::Observer;
use hambo::run::checkpoint::Checkpoints;
use hambo::run::log::Log;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::error::Error;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// Writes to standard output; a reader that went away (`| head`) is no error, a full disk is.
pub fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
    {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("cannot write to standard output: {e}").into()),
        Ok(()) => Ok(()),
    }
}

/// Writes the folder of `--out`, with the model's files.
pub fn keep<A: Told>(
    answer: A,
    evaluator: &Evaluator<'_>,
    prepared: &Prepared<'_>,
) -> hambo::Result<Found<A>> {
    let wanted = prepared.out.is_some() || prepared.is_embedded();
    let files =
        |evaluator: &Evaluator<'_>| evaluator.model().files(evaluator.device(), Path::new(""));
    let model = if wanted { files(evaluator)? } else { Vec::new() };
    let found = Found { answer, model };
    if let Some(folder) = &prepared.out {
        prepared.bars.check()?;
        found.write(folder)?;
    }
    prepared.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    Ok(found)
}

/// Prints an answer in the format that was asked for.
pub fn show(answer: &impl Told, arguments: &Evaluate) -> Result<(), Box<dyn Error>> {
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => json!(answer).to_string(),
        (_, true) => answer.markdown().trim_end().to_owned(),
        _ => answer.to_string(),
    })
}

/// The words after the command's name.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Remembers with which words the command was run; the first ones count.
pub fn set_command_line(words: &[OsString]) {
    let _ = WORDS.set(words.to_vec());
}

/// How this run is repeated.
pub fn command_line() -> String {
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_=.,:/+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = WORDS.get().into_iter().flatten().map(quoted);
    ["hambo".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A progress bar a stage on standard error, nothing where that is no terminal; and a log of figures.
#[derive(Default)]
pub struct Bars {
    /// Where figures are written.
    pub log: Option<Log>,
    /// Who watches in place of the bars.
    watcher: Option<Box<dyn Observer + Send>>,
    current: Mutex<Option<(String, ProgressBar)>>,
}

impl Bars {
    /// With a log in this folder.
    pub fn logging(folder: Option<&Folder>, resumed: bool) -> Self {
        Bars { log: folder.map(|folder| Log::new(folder.path(), resumed)), ..Bars::default() }
    }

    /// With another who watches in their place.
    pub fn watched(self, watcher: Option<Box<dyn Observer + Send>>) -> Self {
        Bars { watcher, ..self }
    }

    /// An error if the log could not be written.
    pub fn check(&self) -> hambo::Result<()> {
        self.log.as_ref().map_or(Ok(()), Log::check)
    }
}

impl Observer for Bars {
    fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        self.log.iter().for_each(|log| log.figures(stage, step, figures));
    }

    fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        if let Some(watcher) = &self.watcher {
            return watcher.report(stage, done, total, note);
        }
        let Ok(mut current) = self.current.lock() else { return };
        if current.as_ref().is_none_or(|(name, _)| name != stage) {
            if let Some((_, bar)) = current.take() {
                bar.finish_and_clear();
            }
            let bar = ProgressBar::new(total as u64); // hidden by itself off a terminal
            if let Ok(style) =
                ProgressStyle::with_template("{prefix:22} {bar:32} {pos}/{len}  {eta} left  {msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(stage.to_owned());
            *current = Some((stage.to_owned(), bar));
        }
        if let Some((_, bar)) = current.as_ref() {
            bar.set_message(note.to_owned());
            bar.set_position(done as u64);
            if done == total {
                bar.finish_and_clear();
            }
        }
    }
}
