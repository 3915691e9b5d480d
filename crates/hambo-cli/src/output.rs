//! Text and progress for people, JSON for programs.

use crate::folder::Folder;
use hambo::checkpoint::Checkpoints;
use hambo::logs::Log;
use hambo::progress::Progress;
pub use hambo::report::number;
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::sync::Mutex;

/// Writes to standard output; a reader that went away (`| head`) is no error, a full disk is.
pub fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("cannot write to standard output: {e}").into()),
        Ok(()) => Ok(()),
    }
}

/// Progress bars, and a place for unfinished work.
pub struct Kept {
    pub bars: Bars,
    pub checkpoints: Option<Checkpoints>,
}

impl Progress for Kept {
    fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        self.bars.report(stage, done, total, note);
    }

    fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        self.bars.figures(stage, step, figures);
    }

    fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_ref()
    }
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
    pub fn logging(folder: Option<&Folder>) -> Self {
        Bars { log: folder.map(|folder| Log::new(folder.path())), ..Bars::default() }
    }

    /// An error if the log could not be written.
    pub fn check(&self) -> hambo::Result<()> {
        self.log.as_ref().map_or(Ok(()), Log::check)
    }
}

impl Progress for Bars {
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

/// A table with a header; the first two columns are words, the others numbers.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(w, cell)| *w = (*w).max(cell.chars().count()));
    }
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
    let mut lines = vec![line(&header), line(&rule)];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}
