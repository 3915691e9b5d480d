//! Long work as it goes on: who watches it, and where it is kept in case that it is interrupted.

use super::checkpoint::{Arrays, Checkpoints, Saved};
use crate::Result;

/// Watches long work. The unit type looks away.
pub trait Observer: Sync {
    /// `done` of `total` steps of `stage` are finished; `note` is the latest figure worth showing.
    fn report(&self, stage: &str, done: usize, total: usize, note: &str);

    /// Figures of a step that are worth a place in a log.
    fn figures(&self, _stage: &str, _step: usize, _figures: &[(&str, f64)]) {}
}

impl Observer for () {
    fn report(&self, _: &str, _: usize, _: usize, _: &str) {}
}

/// One piece of long work. By default nobody watches it, and nothing is kept.
#[derive(Clone)]
pub struct Run<'a> {
    observer: &'a dyn Observer,
    checkpoints: Option<&'a Checkpoints>,
    /// What the names of its checkpoints begin with.
    prefix: String,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run::new(&(), None)
    }
}

impl<'a> Run<'a> {
    /// Work that `observer` watches, kept in `checkpoints` where there are some.
    pub fn new(observer: &'a dyn Observer, checkpoints: Option<&'a Checkpoints>) -> Self {
        Run { observer, checkpoints, prefix: String::new() }
    }

    /// A part of it, whose checkpoints have names of their own.
    pub fn part(&self, name: &str) -> Run<'a> {
        Run { prefix: format!("{}{name}-", self.prefix), ..self.clone() }
    }

    /// Who watches it.
    pub fn observer(&self) -> &'a dyn Observer {
        self.observer
    }

    /// Tells the observer, see [`Observer::report`].
    pub fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        self.observer.report(stage, done, total, note);
    }

    /// Tells the observer, see [`Observer::figures`].
    pub fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        self.observer.figures(stage, step, figures);
    }

    /// Saves the state of what goes by this name, if it is time for that.
    pub fn save(&self, name: &str, state: impl FnOnce() -> Result<Arrays>) -> Result<()> {
        match self.checkpoints.filter(|checkpoints| checkpoints.due()) {
            Some(checkpoints) => checkpoints.save(&format!("{}{name}", self.prefix), &state()?),
            None => Ok(()),
        }
    }

    /// The state that was saved by this name, if there is one.
    pub fn load(&self, name: &str) -> Result<Option<Saved>> {
        self.checkpoints
            .map_or(Ok(None), |checkpoints| checkpoints.load(&format!("{}{name}", self.prefix)))
    }
}
