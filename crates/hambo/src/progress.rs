//! How long work tells where it is.

/// Hears about the progress of long work. The unit type hears nothing.
pub trait Progress: Sync {
    /// `done` of `total` steps of `stage` are finished; `note` is the latest figure worth showing.
    fn report(&self, stage: &str, done: usize, total: usize, note: &str);

    /// Figures of a step that are worth a place in a log.
    fn figures(&self, _stage: &str, _step: usize, _figures: &[(&str, f64)]) {}
}

impl Progress for () {
    fn report(&self, _: &str, _: usize, _: usize, _: &str) {}
}
