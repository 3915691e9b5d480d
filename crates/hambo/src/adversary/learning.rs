//! What the paper's two adversaries have in common: they learn in rounds of hallucinated episodes and gradient steps.

use crate::{Error, Result};
use hambo_engine::backend::{Activation, Shape};
use serde::{Deserialize, Serialize};

/// Largest of the counts.
const LARGEST: usize = 1_000_000;

/// Steps that can be remembered.
const MOST_STEPS: usize = 200_000_000;

/// How an adversary learns; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningConfig {
    /// Rounds at the most; 0: nothing is learned.
    pub rounds: usize,
    /// Hallucinated episodes a round.
    pub episodes: usize,
    /// Gradient steps a round.
    pub updates: usize,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Widths of the hidden layers (ReLU).
    pub hidden: Vec<usize>,
    /// Adam's learning rate.
    pub learning_rate: f32,
    /// Rounds whose episodes are learned from, the latest ones.
    pub remembered_rounds: usize,
}

impl Default for LearningConfig {
    fn default() -> Self {
        LearningConfig {
            rounds: 12,
            episodes: 1000,
            updates: 1000,
            batch: 1024,
            hidden: vec![256, 256],
            learning_rate: 1e-3,
            remembered_rounds: 5,
        }
    }
}

impl LearningConfig {
    /// An error if more steps of this horizon would be remembered than there can be room for.
    pub(super) fn check_size(&self, horizon: usize) -> Result<()> {
        let rounds = self.remembered_rounds;
        let rows = rounds.saturating_mul(self.episodes).saturating_mul(horizon);
        match self.rounds > 0 && rows > MOST_STEPS {
            true => Err(Error::setting(
                "remembered_rounds",
                rounds,
                format!("fewer: {rows} steps would be remembered, and {MOST_STEPS} are possible"),
            )),
            false => Ok(()),
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("learning.episodes", self.episodes),
            ("learning.updates", self.updates),
            ("learning.batch", self.batch),
            ("learning.remembered_rounds", self.remembered_rounds),
        ];
        counts
            .into_iter()
            .try_for_each(|(name, value)| Error::check_count(name, value, LARGEST))?;
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            let expected = "a positive, finite number";
            return Err(Error::setting("learning.learning_rate", self.learning_rate, expected));
        }
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        Shape::new(2, widths, Activation::Relu)?.check_rows("learning.batch", self.batch)?;
        match self.rounds > LARGEST {
            true => {
                Err(Error::setting("learning.rounds", self.rounds, format!("at most {LARGEST}")))
            }
            false => Ok(()),
        }
    }
}
