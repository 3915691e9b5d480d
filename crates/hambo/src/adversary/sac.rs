//! The paper's adversary for HAMBO-CA: η(s, a) trained by Soft Actor-Critic on the negative return, in rounds
//! of hallucinated episodes and gradient steps.
//!
//! It asks for no gradient of model, policy or reward. The adversary sees (s, a) alone; its critics also see
//! t / T.

use super::experience::{Experience, widths};
use super::learning::LearningConfig;
use crate::Result;
use crate::confidence::ConfidenceSet;
use crate::rollout::ShiftAdversary;
use crate::rollout::{Explorer, Propagation, Rollout, World};
use crate::run::checkpoint::Arrays;
use crate::run::checkpoint::{restore_parts, store_parts};
use hambo_engine::rl::{Sac, SacUpdate};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// Settings of the SAC adversary; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacConfig {
    /// Its rounds, and what both adversary and critics learn by.
    pub learning: LearningConfig,
    /// Adam's learning rate for the entropy parameter.
    pub temperature_rate: f32,
    /// The entropy parameter at the start, in units of the deviation of rewards. At its learning rate it
    /// hardly moves, so that this decides how far the adversary commits itself.
    pub temperature: f32,
}

impl Default for SacConfig {
    fn default() -> Self {
        SacConfig { learning: LearningConfig::default(), temperature_rate: 5e-5, temperature: 0.02 }
    }
}

/// Trains one adversary, round after round.
pub(crate) struct SacAdversary<'a> {
    world: &'a World<'a>,
    set: ConfidenceSet,
    learning: LearningConfig,
    sac: Sac,
    experience: Experience<f32>,
    updates: u32,
}

impl<'a> SacAdversary<'a> {
    pub fn new(
        world: &'a World<'a>,
        set: &ConfidenceSet,
        config: &SacConfig,
        stream: Stream,
    ) -> Result<Self> {
        let learning = &config.learning;
        learning.validate()?;
        let World { device, model, setting, .. } = *world;
        let widths = widths(world, model.state_dim());
        let update = SacUpdate {
            hidden: learning.hidden.clone(),
            batch: learning.batch,
            learning_rate: learning.learning_rate,
            temperature_rate: config.temperature_rate,
            temperature: config.temperature,
            discount: setting.discount as f32,
            ..Default::default()
        };
        Ok(SacAdversary {
            world,
            set: set.clone(),
            sac: Sac::new(device, widths, &update, stream.child("initialisation"))?,
            experience: Experience::new(world, widths, learning)?,
            learning: learning.clone(),
            updates: 0,
        })
    }

    /// One round: episodes from `starts` `[episodes, state]`, then gradient steps.
    pub fn round(&mut self, starts: &[f32], stream: Stream) -> Result<()> {
        let (device, experience) = (self.world.device, &mut self.experience);
        let explorer = Explorer { actor: &self.sac.actor, set: &self.set };
        let rollout = Rollout::new(self.world, Propagation::Explored(explorer), starts);
        experience.collect(device, rollout, stream.child("episodes"), Rollout::choices)?;
        let (stream, sac) = (stream.child("updates"), &mut self.sac);
        self.updates +=
            experience.learn(device, self.learning.updates, |device, replay, reward_scale| {
                sac.draw(device, replay, reward_scale, stream);
                sac.update(device);
            });
        Ok(())
    }

    /// Adds all that the next round builds on.
    pub fn store(&mut self, arrays: &mut Arrays) -> Result<()> {
        let device = self.world.device;
        store_parts(device, self.sac.parts(), arrays)?;
        arrays.put("updates", &[self.updates]);
        self.experience.store(device, arrays)
    }

    /// Goes on from what was stored.
    pub fn restore(&mut self, arrays: &Arrays) -> std::result::Result<(), String> {
        let device = self.world.device;
        restore_parts(device, self.sac.parts(), arrays)?;
        self.updates = arrays.get_exactly("updates", 1)?[0];
        self.sac.set_updates(device, self.updates);
        self.experience.restore(device, arrays)
    }

    /// The adversary as it stands, without its noise: η = tanh μ(s, a).
    pub fn candidate(&self) -> Result<ShiftAdversary> {
        let networks = self.sac.deterministic(self.world.device)?;
        Ok(ShiftAdversary { networks, set: self.set.clone() })
    }
}
