//! What a simulator says, where there is one.

use serde::Serialize;

/// The true return of a policy, as far as simulation tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// Mean return.
    pub value: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Episodes that were simulated.
    pub episodes: usize,
}
