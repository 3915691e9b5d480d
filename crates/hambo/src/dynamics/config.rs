//! Which model is learned, and how.

use super::{Bnn, BnnConfig, Dynamics, Gp, GpConfig};
use crate::Result;
use crate::data::Transitions;
use crate::run::Run;
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use serde::Serialize;

/// Settings of the model that is to be learned.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelConfig {
    /// An ensemble of networks.
    Bnn(BnnConfig),
    /// An exact Gaussian process, for up to some thousand transitions.
    Gp(GpConfig),
}

impl Default for ModelConfig {
    fn default() -> Self {
        ModelConfig::Bnn(BnnConfig::default())
    }
}

impl ModelConfig {
    /// Learns the model; all randomness is from the seed.
    pub fn fit(
        &self,
        device: &Device,
        data: &Transitions,
        seed: u64,
        run: &Run<'_>,
    ) -> Result<Box<dyn Dynamics>> {
        Ok(match self {
            ModelConfig::Bnn(config) => Box::new(Bnn::learn(device, data, config, seed, run)?),
            ModelConfig::Gp(config) => {
                let stream = Stream::new(seed).child("model");
                Box::new(device.run(|| Gp::fit(data, config, stream, run))?)
            }
        })
    }

    /// Adds what a task asks for: a learned reward, and entries of the state that are angles.
    pub fn extend(&mut self, learns_reward: bool, angles: &[usize]) {
        let (reward, own) = match self {
            ModelConfig::Bnn(config) => (&mut config.reward, &mut config.angles),
            ModelConfig::Gp(config) => (&mut config.reward, &mut config.angles),
        };
        *reward |= learns_reward;
        own.extend(angles);
    }

    /// Entries of the state that are angles.
    pub fn angles(&self) -> &[usize] {
        match self {
            ModelConfig::Bnn(config) => &config.angles,
            ModelConfig::Gp(config) => &config.angles,
        }
    }
}
