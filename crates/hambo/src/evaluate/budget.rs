//! δ: how often a bound may fail, and who may use which part of that.

use crate::{Error, Result};

/// Share of δ that pays for the Monte-Carlo error of a bound; the rest belongs to the model.
pub const MONTE_CARLO_SHARE: f64 = 0.1;

/// The probability with which a bound may fail, as it is split up.
///
/// Several bounds that are to hold together share one budget (union bound): those of several policies, and of a policy's
/// reward and constraints. What is left for one bound is split between the model and the Monte-Carlo error.
///
/// ```
/// use hambo::evaluate::Budget;
/// let each = Budget::new(0.05)?.shared_by(5); // five policies, bounded together
/// assert_eq!((each.total(), each.monte_carlo(1)), (0.01, 0.001));
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// A budget of δ.
    pub fn new(delta: f64) -> Result<Self> {
        match delta > 0.0 && delta < 1.0 {
            true => Ok(Budget(delta)),
            false => {
                Err(Error::setting("delta", delta, "a probability between 0 and 1, both excluded"))
            }
        }
    }

    /// What each of `n` bounds may use if all of them are to hold together.
    pub fn shared_by(self, n: usize) -> Self {
        Budget(self.0 / n as f64)
    }

    /// All of it.
    pub fn total(self) -> f64 {
        self.0
    }

    /// The part of the model: that the truth is outside of the confidence set.
    pub fn model(self) -> f64 {
        (1.0 - MONTE_CARLO_SHARE) * self.0
    }

    /// The part of the Monte-Carlo error, for each of `n` means that are looked at.
    pub fn monte_carlo(self, n: usize) -> f64 {
        MONTE_CARLO_SHARE * self.0 / n as f64
    }
}
