//! The paper's adversary for HAMBO-DA1: at every step it chooses one of the particles, trained by clipped double
//! DQN on the negative return, in rounds of hallucinated episodes and gradient steps.
//!
//! It values the particles by (s, a) and t / T. What one choice is worth over another is little beside what a state
//! is worth, and networks need long to tell it. The model knows where each particle leads, so that besides the
//! choice that the networks value highest there is the one that leads to what they value highest: one step is
//! looked ahead, and episodes are collected so.

use super::experience::{Experience, widths};
use super::learning::LearningConfig;
use crate::rollout::MemberAdversary;
use crate::rollout::{Chooser, Propagation, Rollout, World};
use crate::run::checkpoint::Arrays;
use crate::run::checkpoint::{restore_parts, store_parts};
use crate::{Error, Result};
use hambo_engine::nn::Ensemble;
use hambo_engine::rl::{Dqn, DqnUpdate};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// Settings of the DQN adversary: quick ones by default, [`DqnConfig::paper_scale`] for the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnConfig {
    /// Its rounds, and what it learns by; without rounds there are only adversaries that always choose the same particle.
    pub learning: LearningConfig,
    /// Share of the networks that enters the target networks at every update.
    pub polyak: f32,
    /// ε, the share of random choices, at first and at last; between them it falls linearly.
    pub exploration: [f32; 2],
    /// Rounds in which it falls. Those after them end when the lowest value has stopped falling.
    pub exploration_rounds: usize,
    /// Converged: the lowest value did not improve during that many rounds.
    pub patience: usize,
}

impl Default for DqnConfig {
    fn default() -> Self {
        DqnConfig {
            learning: LearningConfig {
                rounds: 10,
                episodes: 250,
                updates: 250,
                ..Default::default()
            },
            polyak: 0.02,
            exploration: [1.0, 0.05],
            exploration_rounds: 3,
            patience: 2,
        }
    }
}

impl DqnConfig {
    /// The rounds of the paper's experiments.
    pub fn paper_scale() -> Self {
        DqnConfig {
            learning: LearningConfig::default(),
            exploration_rounds: 12,
            patience: 4,
            ..Default::default()
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        self.learning.validate()?;
        Error::check_count("dqn.patience", self.patience, 1_000_000)?;
        for share in self.exploration {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::setting("dqn.exploration", share, "shares from 0 to 1"));
            }
        }
        Ok(())
    }

    /// ε of a round.
    fn exploration_in(&self, round: usize) -> f32 {
        let done = round as f32 / (self.exploration_rounds.max(2) - 1) as f32;
        self.exploration[0] + (self.exploration[1] - self.exploration[0]) * done.min(1.0)
    }
}

/// Trains one adversary, round after round.
pub(crate) struct DqnAdversary<'a> {
    world: &'a World<'a>,
    config: DqnConfig,
    dqn: Dqn,
    experience: Experience<u32>,
    round: usize,
    updates: u32,
}

impl<'a> DqnAdversary<'a> {
    pub fn new(world: &'a World<'a>, config: &DqnConfig, stream: Stream) -> Result<Self> {
        config.validate()?;
        let learning = &config.learning;
        let World { device, model, setting, .. } = *world;
        let widths = widths(world, 1);
        let update = DqnUpdate {
            hidden: learning.hidden.clone(),
            batch: learning.batch,
            learning_rate: learning.learning_rate,
            discount: setting.discount as f32,
            polyak: config.polyak,
        };
        Ok(DqnAdversary {
            world,
            dqn: Dqn::new(
                device,
                widths,
                model.members(),
                &update,
                stream.child("initialisation"),
            )?,
            experience: Experience::new(world, widths, learning)?,
            config: config.clone(),
            round: 0,
            updates: 0,
        })
    }

    /// One round: episodes from `starts` `[episodes, state]`, then gradient steps.
    pub fn round(&mut self, starts: &[f32], stream: Stream) -> Result<()> {
        let exploration = self.config.exploration_in(self.round);
        self.round += 1;
        let [_, adversary] = self.candidates();
        let chooser = Chooser { adversary: &adversary, exploration };
        let (device, experience) = (self.world.device, &mut self.experience);
        let rollout = Rollout::new(self.world, Propagation::Chosen(chooser), starts);
        experience.collect(device, rollout, stream.child("episodes"), Rollout::members)?;
        let (stream, dqn) = (stream.child("updates"), &mut self.dqn);
        self.updates += experience.learn(
            device,
            self.config.learning.updates,
            |device, replay, reward_scale| {
                dqn.draw(device, replay, reward_scale, stream);
                dqn.update(device);
            },
        );
        Ok(())
    }

    /// Adds all that the next round builds on.
    pub fn store(&mut self, arrays: &mut Arrays) -> Result<()> {
        let device = self.world.device;
        store_parts(device, self.dqn.parts(), arrays)?;
        arrays.put("rounds", &[self.round as u32]);
        arrays.put("updates", &[self.updates]);
        self.experience.store(device, arrays)
    }

    /// Goes on from what was stored.
    pub fn restore(&mut self, arrays: &Arrays) -> std::result::Result<(), String> {
        let device = self.world.device;
        restore_parts(device, self.dqn.parts(), arrays)?;
        self.round = arrays.get_exactly::<u32>("rounds", 1)?[0] as usize;
        self.updates = arrays.get_exactly("updates", 1)?[0];
        self.dqn.set_updates(device, self.updates);
        self.experience.restore(device, arrays)
    }

    /// The adversary as it stands, and the one that looks a step ahead.
    pub fn candidates(&self) -> [MemberAdversary; 2] {
        let (device, networks) = (self.world.device, &self.dqn.networks);
        [None, Some(self.experience.reward_scale())].map(|look_ahead| {
            let mut params = device.zeros(networks.params.len());
            device.copy(&networks.params, &mut params);
            MemberAdversary {
                networks: Ensemble { shape: networks.shape.clone(), params },
                look_ahead,
            }
        })
    }
}
