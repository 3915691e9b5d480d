//! What the paper's two adversaries have in common: they learn in rounds of hallucinated episodes and gradient steps.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Largest of the counts.
const LARGEST: usize = 1_000_000;

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
        match self.rounds > LARGEST {
            true => {
                Err(Error::setting("learning.rounds", self.rounds, format!("at most {LARGEST}")))
            }
            false => Ok(()),
        }
    }
}
