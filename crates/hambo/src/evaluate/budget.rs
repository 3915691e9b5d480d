//! δ: how often a bound may fail, and who may use which part of that.

use crate::{Error, Result};

/// Share of δ that pays for the Monte-Carlo error of a bound; the rest belongs to the model.
pub const MONTE_CARLO_SHARE: f64 = 0.1;
/// Share that pays for the sampling error of initial states, where these are drawn from the log.
pub const STARTS_SHARE: f64 = 0.1;

/// The probability with which a bound may fail, as it is split up.
///
/// Several bounds that are to hold together share one budget (union bound): those of several policies, and of a policy's
/// reward and constraints. What is left for one bound is split between the model, the Monte-Carlo error and, where they are
/// drawn from the log, the initial states.
///
/// ```
/// use hambo::evaluate::Budget;
/// let each = Budget::new(0.05)?.shared_by(5); // five policies, bounded together
/// assert_eq!((each.total(), each.monte_carlo(1)), (0.01, 0.001));
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    delta: f64,
    logged_starts: bool,
}

impl Budget {
    /// A budget of δ.
    pub fn new(delta: f64) -> Result<Self> {
        match delta > 0.0 && delta < 1.0 {
            true => Ok(Budget { delta, logged_starts: false }),
            false => {
                Err(Error::setting("delta", delta, "a probability between 0 and 1, both excluded"))
            }
        }
    }

    /// What each of `n` bounds may use if all of them are to hold together.
    pub fn shared_by(self, n: usize) -> Self {
        Budget { delta: self.delta / n as f64, ..self }
    }

    /// The same for a task whose initial states are drawn from the log, or not.
    pub fn with_logged_starts(self, logged_starts: bool) -> Self {
        Budget { logged_starts, ..self }
    }

    /// All of it.
    pub fn total(self) -> f64 {
        self.delta
    }

    /// The part of the model: that the truth is outside of the confidence set.
    pub fn model(self) -> f64 {
        let starts = if self.logged_starts { STARTS_SHARE } else { 0.0 };
        (1.0 - MONTE_CARLO_SHARE - starts) * self.delta
    }

    /// The part of initial states that are drawn from the log; none: they are not.
    pub fn starts(self) -> Option<f64> {
        self.logged_starts.then_some(STARTS_SHARE * self.delta)
    }

    /// The part of the Monte-Carlo error, for each of `n` means that are looked at.
    pub fn monte_carlo(self, n: usize) -> f64 {
        MONTE_CARLO_SHARE * self.delta / n as f64
    }
}
