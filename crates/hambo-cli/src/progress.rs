//! Progress on standard error: a bar for every stage in a terminal, a line for every stage elsewhere.

use crate::folder::Folder;
use hambo::run::Observer;
use hambo::run::log::Log;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Whether nobody wants to see progress.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is shown.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Seconds since the program began to show progress.
fn seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// How often a bar moves while its stage has nothing to tell.
const TICK: Duration = Duration::from_millis(200);
const STEPS: &str = "{spinner} {prefix:24} {bar:28} {pos}/{len}  {elapsed}, {eta} left  {msg}";
/// Of a stage that has no steps, or whose last one is done while the next stage has not begun.
const WAITING: &str = "{spinner} {prefix:24} {elapsed}  {msg}";

/// Shows the stage that is at work, and keeps a log of figures.
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
        let mut bars = Bars::default();
        bars.log = folder.map(|folder| Log::new(folder.path(), resumed));
        bars
    }

    /// With another who watches in their place.
    pub fn watched(mut self, watcher: Option<Box<dyn Observer + Send>>) -> Self {
        self.watcher = watcher;
        self
    }

    /// An error if the log could not be written.
    pub fn check(&self) -> hambo::Result<()> {
        self.log.as_ref().map_or(Ok(()), Log::check)
    }

    /// A stage without steps begins.
    pub fn begin(&self, stage: &str) {
        self.report(stage, 0, 1, "");
    }

    /// Tells something once, where progress is shown.
    pub fn tell(&self, text: &str) {
        if self.watcher.is_none() && !QUIET.load(Ordering::Relaxed) {
            // Not `eprintln!`, which panics where standard error is closed or full.
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// All is done: the bar goes away, so that the answer has the terminal to itself.
    pub fn clear(&self) {
        let Ok(mut current) = self.current.lock() else { return };
        if let Some((_, bar)) = current.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
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
        if QUIET.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut current) = self.current.lock() else { return };
        if current.as_ref().is_none_or(|(name, _)| name != stage) {
            if let Some((_, bar)) = current.take() {
                bar.finish_and_clear();
            }
            *current = Some((stage.to_owned(), begun(stage, total)));
        }
        if let Some((_, bar)) = current.as_ref() {
            bar.set_length(total as u64);
            bar.set_style(style(if done < total && total > 1 { STEPS } else { WAITING }));
            bar.set_message(note.to_owned());
            bar.set_position(done as u64);
        }
    }
}

/// The bar of a stage that begins; elsewhere than in a terminal, a line that says so.
fn begun(stage: &str, total: usize) -> ProgressBar {
    let now = seconds();
    if !stderr().is_terminal() {
        // Not `eprintln!`, which panics where standard error is closed or full.
        let _ = writeln!(stderr(), "{now:8.1} s  {stage}");
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total as u64);
    bar.set_style(style(WAITING)); // before its first tick
    bar.set_prefix(stage.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
