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

    /// The name under which a piece of work is kept there.
    fn kept_as(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl Progress for () {
    fn report(&self, _: &str, _: usize, _: usize, _: &str) {}
}

/// Progress of a part of work that is done several times: its pieces are kept under the part's name.
pub(crate) struct Part<'a> {
    pub of: &'a dyn Progress,
    pub name: String,
}

impl Progress for Part<'_> {
    fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        self.of.report(stage, done, total, note);
    }

    fn figures(&self, stage: &str, step: usize, figures: &[(&str, f64)]) {
        self.of.figures(stage, step, figures);
    }

    fn checkpoints(&self) -> Option<&Checkpoints> {
        self.of.checkpoints()
    }

    fn kept_as(&self, name: &str) -> String {
        self.of.kept_as(&format!("{}-{name}", self.name))
    }
}

impl dyn Progress + '_ {
    /// Keeps a piece of work as it stands, if it is time for that.
    pub(crate) fn keep(&self, name: &str, state: impl FnOnce() -> Result<Arrays>) -> Result<()> {
        match self.checkpoints().filter(|checkpoints| checkpoints.due()) {
            Some(checkpoints) => checkpoints.save(&self.kept_as(name), &state()?),
            None => Ok(()),
        }
    }

    /// A piece of work that was kept, if there is one.
    pub(crate) fn take_up(&self, name: &str) -> Result<Option<Saved>> {
        self.checkpoints().map_or(Ok(None), |checkpoints| checkpoints.load(&self.kept_as(name)))
    }
}
