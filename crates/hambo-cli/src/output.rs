//! Text and progress for people, JSON for programs.

use crate::commands::Prepared;
use crate::folder::Folder;
use hambo::evaluate::Evaluator;
pub use hambo::report::{number, table};
use hambo::run::Observer;
use hambo::run::checkpoint::Checkpoints;
use hambo::run::log::Log;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::error::Error;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::Mutex;

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

/// How an answer is written for people.
pub struct Formats<A> {
    pub html: fn(&A) -> String,
    pub markdown: fn(&A) -> String,
}

/// Writes the folder of `--out`, with the model's files, and prints the answer in the format that was asked for.
pub fn publish<A: Serialize + Display>(
    answer: &A,
    formats: Formats<A>,
    evaluator: &Evaluator<'_>,
    prepared: &Prepared<'_>,
) -> Result<(), Box<dyn Error>> {
    let (result, markdown) = (json!(answer), (formats.markdown)(answer));
    if let Some(folder) = &prepared.out {
        prepared.bars.check()?;
        // The first file gets its name last: where there is a result, there is all that belongs to it.
        let told = [
            ("result.json", format!("{result:#}\n")),
            ("report.html", (formats.html)(answer)),
            ("summary.md", markdown.clone()),
        ];
        let file = |(name, text): (&str, String)| (folder.path().join(name), text.into_bytes());
        let mut files: Vec<_> = told.map(file).into();
        files.extend(evaluator.model().files(evaluator.device(), folder.path())?);
        folder.write(&files)?;
    }
    prepared.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    print(&match (prepared.arguments.json, prepared.arguments.markdown) {
        (true, _) => result.to_string(),
        (_, true) => markdown.trim_end().to_owned(),
        _ => answer.to_string(),
    })
}

/// How this run is repeated.
pub fn command_line() -> String {
    let quoted = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_=.,:/+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(quoted);
    ["hambo".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A progress bar a stage on standard error, nothing where that is no terminal; and a log of figures.
#[derive(Default)]
pub struct Bars {
    /// Where figures are written.
    pub log: Option<Log>,
    current: Mutex<Option<(String, ProgressBar)>>,
}

impl Bars {
    /// With a log in this folder.
    pub fn logging(folder: Option<&Folder>, resumed: bool) -> Self {
        Bars { log: folder.map(|folder| Log::new(folder.path(), resumed)), ..Bars::default() }
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
