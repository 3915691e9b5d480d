//! W3: one Soft Actor-Critic update.

use crate::{Inputs, norm};
use hambo_engine::backend::Device;
use hambo_engine::rl::{Sac, SacUpdate, Widths};
use hambo_engine::rng::Stream;
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;

const ROWS: usize = 1024;
const STATE: usize = 14;
const ACTION: usize = 11;

/// Actor and critics, always on the same minibatch.
pub struct SacStep<'a> {
    device: &'a Device,
    sac: Sac,
}

impl<'a> SacStep<'a> {
    pub fn new(device: &'a Device, path: &Path) -> Result<Self, Box<dyn Error>> {
        let settings = SacUpdate { batch: ROWS, ..Default::default() };
        let widths = Widths { observation: STATE, context: 0, action: ACTION };
        let mut sac = Sac::new(device, widths, &settings, Stream::new(0))?;
        let mut inputs = Inputs::read(path)?;
        sac.actor.params = device.adopt(inputs.take(sac.actor.params.len())?);
        let critics = &sac.critics.shape;
        let twins = critics.spread(&inputs.take(critics.members * critics.parameters())?);
        sac.critics.params = device.adopt(twins);
        let mut take = |n: usize| Ok::<_, Box<dyn Error>>(device.adopt(inputs.take(n)?));
        device.copy(&sac.critics.params, &mut sac.target_critics.params);
        sac.batch.observations = take(ROWS * STATE)?;
        sac.batch.actions = take(ROWS * ACTION)?;
        sac.batch.rewards = take(ROWS)?;
        let terminated = device.download(&take(ROWS)?)?;
        sac.batch.continues = device.adopt(terminated.iter().map(|t| 1.0 - t).collect());
        sac.batch.next_observations = take(ROWS * STATE)?;
        let next = take(ROWS * ACTION)?;
        sac.noise = [take(ROWS * ACTION)?, next];
        Ok(SacStep { device, sac })
    }

    pub fn step(&mut self) {
        self.sac.update(self.device);
    }

    /// The values of the first and the tenth update.
    pub fn check(&mut self) -> hambo::Result<Value> {
        self.step();
        let losses = self.sac.losses(self.device)?;
        let mut check = json!({
            "step1_critic_loss": losses.critics,
            "step1_actor_loss": losses.actor,
            "step1_critic_gradient_norm": norm(self.device, &self.sac.critic_gradient),
            "step1_actor_gradient_norm": norm(self.device, &self.sac.actor_gradient),
        });
        (0..9).for_each(|_| self.step());
        let losses = self.sac.losses(self.device)?;
        check["step10_critic_loss"] = json!(losses.critics);
        check["step10_actor_loss"] = json!(losses.actor);
        check["step10_log_alpha"] = json!(self.device.download(&self.sac.log_temperature)?[0]);
        Ok(check)
    }
}
