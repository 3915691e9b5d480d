//! The paper's adversary for HAMBO-CA: η(s, a) trained by Soft Actor-Critic on the negative return, in rounds
//! of hallucinated episodes and gradient steps.
//!
//! It asks for no gradient of model, policy or reward. The adversary sees (s, a) alone; its critics also see
//! t / T.

use super::memory::{Memory, widths};
use crate::hallucination::{ConfidenceSet, Continuous};
use crate::rl::{Sac, SacUpdate};
use crate::rng::Stream;
use crate::rollout::{Explorer, Propagation, Rollout, World};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the SAC adversary; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacConfig {
    /// Rounds; 0: no SAC adversary.
    pub rounds: usize,
    /// Hallucinated episodes a round.
    pub episodes: usize,
    /// Gradient steps a round.
    pub updates: usize,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Widths of the hidden layers (ReLU) of adversary and critics.
    pub hidden: Vec<usize>,
    /// Adam's learning rate for adversary and critics.
    pub learning_rate: f32,
    /// Adam's learning rate for the entropy parameter.
    pub temperature_rate: f32,
    /// The entropy parameter at the start, in units of the deviation of rewards. At its learning rate it
    /// hardly moves, so that this decides how far the adversary commits itself.
    pub temperature: f32,
    /// Rounds whose episodes are learned from, the latest ones.
    pub remembered_rounds: usize,
}

impl Default for SacConfig {
    fn default() -> Self {
        SacConfig {
            rounds: 0,
            episodes: 1000,
            updates: 1000,
            batch: 1024,
            hidden: vec![256, 256],
            learning_rate: 1e-3,
            temperature_rate: 5e-5,
            temperature: 0.02,
            remembered_rounds: 5,
        }
    }
}

impl SacConfig {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("sac.episodes", self.episodes),
            ("sac.updates", self.updates),
            ("sac.batch", self.batch),
            ("sac.remembered_rounds", self.remembered_rounds),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        Ok(())
    }
}

/// Trains one adversary, round after round.
pub(crate) struct SacAdversary<'a> {
    world: &'a World<'a>,
    set: ConfidenceSet,
    config: SacConfig,
    sac: Sac,
    memory: Memory<f32>,
}

impl<'a> SacAdversary<'a> {
    pub fn new(
        world: &'a World<'a>,
        set: &ConfidenceSet,
        config: &SacConfig,
        stream: Stream,
    ) -> Result<Self> {
        config.validate()?;
        let World { device, model, setting, .. } = *world;
        let widths = widths(world, model.state_dim());
        let update = SacUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.learning_rate,
            temperature_rate: config.temperature_rate,
            temperature: config.temperature,
            discount: setting.discount as f32,
            ..Default::default()
        };
        Ok(SacAdversary {
            world,
            set: set.clone(),
            sac: Sac::new(device, widths, &update, stream.child("initialisation"))?,
            memory: Memory::new(world, widths, config.remembered_rounds, config.episodes, config.batch)?,
            config: config.clone(),
        })
    }

    /// One round: episodes from `starts` `[episodes, state]`, then gradient steps.
    pub fn round(&mut self, starts: &[f32], stream: Stream) {
        let (device, memory) = (self.world.device, &mut self.memory);
        let explorer = Explorer { actor: &self.sac.actor, set: &self.set };
        let rollout = Rollout::new(self.world, Propagation::Explored(explorer), starts);
        memory.collect(device, rollout, stream.child("episodes"), Rollout::choices);
        if memory.replay.is_empty() {
            return; // every episode left the finite numbers at once
        }
        let (stream, reward_scale) = (stream.child("updates"), device.upload(&[memory.reward_scale()]));
        let (device, sac) = (&device.fast(), &mut self.sac);
        device.repeat(self.config.updates, || {
            sac.draw(device, &mut memory.replay, &reward_scale, stream);
            sac.update(device);
        });
    }

    /// The adversary as it stands, without its noise: η = tanh μ(s, a).
    pub fn candidate(&self) -> Continuous {
        Continuous { networks: self.sac.deterministic(self.world.device), set: self.set.clone() }
    }
}
