//! The adversaries that learn while the policy does: the paper's two, on the negative reward.
//!
//! Unlike those of an evaluation they do not see the time: a policy that is to be learned has no horizon.

use super::config::LearnConfig;
use crate::confidence::ConfidenceSet;
use crate::dynamics::Dynamics;
use crate::rollout::{Chooser, Explorer, MemberAdversary, Propagation, Rollout, ShiftAdversary};
use crate::run::checkpoint::{Arrays, Element, restore_parts, store_parts};
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Device, Number};
use hambo_engine::nn::Ensemble;
use hambo_engine::rl::{Dqn, DqnUpdate, ReplayBuffer, Sac, SacUpdate, Widths};
use hambo_engine::rng::Stream;

/// An adversary that learns.
pub(super) trait Opponent: Sized {
    /// What it chooses at every step.
    type Choice: Number + Element;

    /// Lengths of what it sees and chooses.
    fn widths(model: &dyn Dynamics) -> Widths;

    /// What it chose in the last step.
    fn choices<'r>(rollout: &'r Rollout<'_>) -> &'r Buffer<Self::Choice>;

    /// Whether there is nothing to choose.
    fn is_idle(&self) -> bool {
        false
    }

    /// Hands out the way trajectories go with it, while it tries things out.
    fn trying<R>(&self, device: &Device, go: impl FnOnce(Propagation<'_>) -> R) -> R;

    /// The same for its best.
    fn at_its_best<R>(
        &self,
        device: &Device,
        go: impl FnOnce(Propagation<'_>) -> Result<R>,
    ) -> Result<R>;

    /// One gradient step on what it draws, with rewards multiplied by `scale` `[1]`.
    fn update(
        &mut self,
        device: &Device,
        replay: &mut ReplayBuffer<Self::Choice>,
        scale: &Buffer,
        stream: Stream,
    );

    /// All that later steps build on.
    fn store(&mut self, device: &Device) -> Result<Arrays>;

    /// Goes on from what was stored, after so many updates.
    fn restore(
        &mut self,
        device: &Device,
        arrays: &Arrays,
        updates: u32,
    ) -> std::result::Result<(), String>;
}

/// CA's: η ~ tanh N(μ(s, a), σ²(s, a)), by Soft Actor-Critic.
pub(super) struct Shifts {
    sac: Sac,
    set: ConfidenceSet,
}

/// The weight of its entropy, which hardly moves: an adversary is to commit itself.
const TEMPERATURE: f32 = 0.02;
const TEMPERATURE_RATE: f32 = 5e-5;

impl Shifts {
    pub fn new(
        device: &Device,
        model: &dyn Dynamics,
        set: ConfidenceSet,
        config: &LearnConfig,
        stream: Stream,
    ) -> Result<Self> {
        let update = SacUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.adversary_rate,
            temperature_rate: TEMPERATURE_RATE,
            temperature: TEMPERATURE,
            discount: config.discount as f32,
            ..SacUpdate::default()
        };
        Ok(Shifts { sac: Sac::new(device, Shifts::widths(model), &update, stream)?, set })
    }
}

impl Opponent for Shifts {
    type Choice = f32;

    fn widths(model: &dyn Dynamics) -> Widths {
        Widths { observation: model.input_dim(), context: 1, action: model.state_dim() }
    }

    fn choices<'r>(rollout: &'r Rollout<'_>) -> &'r Buffer {
        rollout.choices()
    }

    fn is_idle(&self) -> bool {
        self.set.reach.iter().all(|&reach| reach == 0.0)
    }

    fn trying<R>(&self, _: &Device, go: impl FnOnce(Propagation<'_>) -> R) -> R {
        go(Propagation::Explored(Explorer { actor: &self.sac.actor, set: &self.set }))
    }

    fn at_its_best<R>(
        &self,
        device: &Device,
        go: impl FnOnce(Propagation<'_>) -> Result<R>,
    ) -> Result<R> {
        let networks = self.sac.deterministic(device)?;
        go(Propagation::Shifted(&ShiftAdversary { networks, set: self.set.clone() }))
    }

    fn update(
        &mut self,
        device: &Device,
        replay: &mut ReplayBuffer,
        scale: &Buffer,
        stream: Stream,
    ) {
        self.sac.draw(device, replay, scale, stream);
        self.sac.update(device);
    }

    fn store(&mut self, device: &Device) -> Result<Arrays> {
        let mut arrays = Arrays::default();
        store_parts(device, self.sac.parts(), &mut arrays)?;
        Ok(arrays)
    }

    fn restore(
        &mut self,
        device: &Device,
        arrays: &Arrays,
        updates: u32,
    ) -> std::result::Result<(), String> {
        restore_parts(device, self.sac.parts(), arrays)?;
        self.sac.set_updates(device, updates);
        Ok(())
    }
}

/// DA1's: the particle of every step, by clipped double DQN, a step looked ahead.
pub(super) struct Members {
    dqn: Dqn,
    exploration: f32,
    reward_scale: f32,
}

impl Members {
    /// `reward_scale` takes rewards to the unit of its values.
    pub fn new(
        device: &Device,
        model: &dyn Dynamics,
        config: &LearnConfig,
        reward_scale: f32,
        stream: Stream,
    ) -> Result<Self> {
        if !model.has_particles() {
            let expected = "ca: a Gaussian process has no particles to choose from";
            return Err(Error::setting("adversary", "da1", expected));
        }
        let update = DqnUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.adversary_rate,
            discount: config.discount as f32,
            ..DqnUpdate::default()
        };
        let dqn = Dqn::new(device, Members::widths(model), model.members(), &update, stream)?;
        Ok(Members { dqn, exploration: config.exploration, reward_scale })
    }

    fn adversary(&self, device: &Device) -> MemberAdversary {
        let networks = &self.dqn.networks;
        let mut params = device.zeros(networks.params.len());
        device.copy(&networks.params, &mut params);
        let networks = Ensemble { shape: networks.shape.clone(), params };
        MemberAdversary { networks, look_ahead: Some(self.reward_scale) }
    }
}

impl Opponent for Members {
    type Choice = u32;

    fn widths(model: &dyn Dynamics) -> Widths {
        Widths { observation: model.input_dim(), context: 1, action: 1 }
    }

    fn choices<'r>(rollout: &'r Rollout<'_>) -> &'r Buffer<u32> {
        rollout.members()
    }

    fn trying<R>(&self, device: &Device, go: impl FnOnce(Propagation<'_>) -> R) -> R {
        let (adversary, exploration) = (&self.adversary(device), self.exploration);
        go(Propagation::Chosen(Chooser { adversary, exploration }))
    }

    fn at_its_best<R>(
        &self,
        device: &Device,
        go: impl FnOnce(Propagation<'_>) -> Result<R>,
    ) -> Result<R> {
        let adversary = &self.adversary(device);
        go(Propagation::Chosen(Chooser { adversary, exploration: 0.0 }))
    }

    fn update(
        &mut self,
        device: &Device,
        replay: &mut ReplayBuffer<u32>,
        scale: &Buffer,
        stream: Stream,
    ) {
        self.dqn.draw(device, replay, scale, stream);
        self.dqn.update(device);
    }

    fn store(&mut self, device: &Device) -> Result<Arrays> {
        let mut arrays = Arrays::default();
        store_parts(device, self.dqn.parts(), &mut arrays)?;
        Ok(arrays)
    }

    fn restore(
        &mut self,
        device: &Device,
        arrays: &Arrays,
        updates: u32,
    ) -> std::result::Result<(), String> {
        restore_parts(device, self.dqn.parts(), arrays)?;
        self.dqn.set_updates(device, updates);
        Ok(())
    }
}
