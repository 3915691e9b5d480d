//! What the paper's two adversaries have in common: they learn in rounds of hallucinated episodes and gradient steps.

use super::memory::Memory;
use crate::compute::{Buffer, Device, Number};
use crate::rl::Replay;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// How an adversary learns; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Learning {
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

impl Default for Learning {
    fn default() -> Self {
        Learning {
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

impl Learning {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("learning.episodes", self.episodes),
            ("learning.updates", self.updates),
            ("learning.batch", self.batch),
            ("learning.remembered_rounds", self.remembered_rounds),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        Ok(())
    }

    /// The gradient steps of a round, each on what `update` draws from the memory with rewards in its unit: their number.
    pub(super) fn learn<A: Number>(
        &self,
        device: &Device,
        memory: &mut Memory<A>,
        mut update: impl FnMut(&Device, &mut Replay<A>, &Buffer),
    ) -> u32 {
        if memory.replay.is_empty() {
            return 0; // every episode left the finite numbers at once
        }
        let reward_scale = device.upload(&[memory.reward_scale()]);
        let device = &device.fast();
        device.repeat(self.updates, || update(device, &mut memory.replay, &reward_scale));
        self.updates as u32
    }
}
