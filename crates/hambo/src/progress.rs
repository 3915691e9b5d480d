//! How long work tells where it is, and where it is kept meanwhile.

use crate::Result;
use crate::checkpoint::{Arrays, Checkpoints, Saved};

/// Hears about the progress of long work. The unit type hears nothing.
pub trait Progress: Sync {
    /// `done` of `total` steps of `stage` are finished; `note` is the latest figure worth showing.
    fn report(&self, stage: &str, done: usize, total: usize, note: &str);

    /// Figures of a step that are worth a place in a log.
    fn figures(&self, _stage: &str, _step: usize, _figures: &[(&str, f64)]) {}

    /// Where work is kept in case that it is interrupted; none: nowhere.
    fn checkpoints(&self) -> Option<&Checkpoints> {
        None
    }
}

impl Progress for () {
    fn report(&self, _: &str, _: usize, _: usize, _: &str) {}
}

/// Progress of work that is not kept: names of pieces of work that is done several times would mean several things.
pub(crate) struct Unkept<'a>(pub &'a dyn Progress);

impl Progress for Unkept<'_> {
    fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        self.0.report(stage, done, total, note);
    }

    fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        self.0.figures(stage, step, figures);
    }
}

impl dyn Progress + '_ {
    /// Keeps a piece of work as it stands, if it is time for that.
    pub(crate) fn keep(&self, name: &str, state: impl FnOnce() -> Result<Arrays>) -> Result<()> {
        match self.checkpoints().filter(|checkpoints| checkpoints.due()) {
            Some(checkpoints) => checkpoints.save(name, &state()?),
            None => Ok(()),
        }
    }

    /// A piece of work that was kept, if there is one.
    pub(crate) fn take_up(&self, name: &str) -> Result<Option<Saved>> {
        self.checkpoints().map_or(Ok(None), |checkpoints| checkpoints.load(name))
    }
}
