//! The paper's adversary for HAMBO-DA1: at every step it chooses one of the particles, trained by clipped double
//! DQN on the negative return, in rounds of hallucinated episodes and gradient steps.
//!
//! It values the particles by (s, a) and t / T. What one choice is worth over another is little beside what a state
//! is worth, and networks need long to tell it. The model knows where each particle leads, so that besides the
//! choice that the networks value highest there is the one that leads to what they value highest: one step is
//! looked ahead, and episodes are collected so.

use super::memory::{Memory, widths};
use crate::hallucination::Discrete;
use crate::nn::Ensemble;
use crate::rl::{Dqn, DqnUpdate};
use crate::rng::Stream;
use crate::rollout::{Chooser, Propagation, Rollout, World};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the DQN adversary: quick ones by default, [`DqnConfig::paper_scale`] for the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnConfig {
    /// Rounds; 0: only adversaries that always choose the same particle.
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
    /// Share of the networks that enters the target networks at every update.
    pub polyak: f32,
    /// ε, the share of random choices, in the first and in the last round; between them it falls linearly.
    pub exploration: [f32; 2],
    /// Rounds whose episodes are learned from, the latest ones.
    pub remembered_rounds: usize,
    /// Converged: the lowest value did not improve during that many rounds.
    pub patience: usize,
}

impl Default for DqnConfig {
    fn default() -> Self {
        DqnConfig {
            rounds: 3,
            episodes: 250,
            updates: 250,
            batch: 1024,
            hidden: vec![256, 256],
            learning_rate: 1e-3,
            polyak: 0.02,
            exploration: [1.0, 0.05],
            remembered_rounds: 5,
            patience: 2,
        }
    }
}

impl DqnConfig {
    /// The rounds of the paper's experiments.
    pub fn paper_scale() -> Self {
        DqnConfig { rounds: 12, episodes: 1000, updates: 1000, patience: 4, ..Default::default() }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("dqn.episodes", self.episodes),
            ("dqn.updates", self.updates),
            ("dqn.batch", self.batch),
            ("dqn.remembered_rounds", self.remembered_rounds),
            ("dqn.patience", self.patience),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        for share in self.exploration {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::setting("dqn.exploration", share, "shares from 0 to 1"));
            }
        }
        Ok(())
    }

    /// ε of a round.
    fn exploration_in(&self, round: usize) -> f32 {
        let done = round as f32 / (self.rounds.max(2) - 1) as f32;
        self.exploration[0] + (self.exploration[1] - self.exploration[0]) * done.min(1.0)
    }
}

/// Trains one adversary, round after round.
pub(crate) struct DqnAdversary<'a> {
    world: &'a World<'a>,
    config: DqnConfig,
    dqn: Dqn,
    memory: Memory<u32>,
    round: usize,
}

impl<'a> DqnAdversary<'a> {
    pub fn new(world: &'a World<'a>, config: &DqnConfig, stream: Stream) -> Result<Self> {
        config.validate()?;
        let World { device, model, setting, .. } = *world;
        let widths = widths(world, 1);
        let update = DqnUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.learning_rate,
            discount: setting.discount as f32,
            polyak: config.polyak,
        };
        Ok(DqnAdversary {
            world,
            dqn: Dqn::new(device, widths, model.members(), &update, stream.child("initialisation"))?,
            memory: Memory::new(world, widths, config.remembered_rounds, config.episodes, config.batch)?,
            config: config.clone(),
            round: 0,
        })
    }

    /// One round: episodes from `starts` `[episodes, state]`, then gradient steps.
    pub fn round(&mut self, starts: &[f32], stream: Stream) {
        let exploration = self.config.exploration_in(self.round);
        self.round += 1;
        let [_, adversary] = self.candidates();
        let chooser = Chooser { adversary: &adversary, exploration };
        let (device, memory) = (self.world.device, &mut self.memory);
        let rollout = Rollout::new(self.world, Propagation::Chosen(chooser), starts);
        memory.collect(device, rollout, stream.child("episodes"), Rollout::members);
        if memory.replay.is_empty() {
            return; // every episode left the finite numbers at once
        }
        let (stream, reward_scale) = (stream.child("updates"), device.upload(&[memory.reward_scale()]));
        let (device, dqn) = (&device.fast(), &mut self.dqn);
        device.repeat(self.config.updates, || {
            dqn.draw(device, &mut memory.replay, &reward_scale, stream);
            dqn.update(device);
        });
    }

    /// The adversary as it stands, and the one that looks a step ahead.
    pub fn candidates(&self) -> [Discrete; 2] {
        let (device, networks) = (self.world.device, &self.dqn.networks);
        [None, Some(self.memory.reward_scale())].map(|look_ahead| {
            let mut params = device.zeros(networks.params.len());
            device.copy(&networks.params, &mut params);
            Discrete { networks: Ensemble { shape: networks.shape.clone(), params }, look_ahead }
        })
    }
}
