//! The policy that learns: Soft Actor-Critic in standardized units.

use super::config::LearnConfig;
use super::memory::Logged;
use crate::data::{Standardizer, Transitions};
use crate::policy::Policy;
use crate::task::Task;
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Device, Shape};
use hambo_engine::nn::Ensemble;
use hambo_engine::rl::{Sac, SacUpdate, Widths};
use hambo_engine::rng::Stream;

/// Actor and critics, and what their numbers mean.
pub(super) struct Actor {
    pub sac: Sac,
    units: Units,
}

/// The units that the networks see: observations with mean 0 and deviation 1, actions in \[−1, 1\].
pub(super) struct Units {
    observations: Standardizer,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Actor {
    pub fn new(
        device: &Device,
        units: Units,
        config: &LearnConfig,
        stream: Stream,
    ) -> Result<Self> {
        let update = SacUpdate {
            hidden: config.hidden.clone(),
            batch: config.batch,
            learning_rate: config.critic_rate,
            actor_rate: Some(config.policy_rate),
            temperature_rate: config.critic_rate,
            temperature: config.temperature,
            discount: config.discount as f32,
            ..SacUpdate::default()
        };
        Ok(Actor { sac: Sac::new(device, units.widths(), &update, stream)?, units })
    }

    /// The policy that an actor with these parameters is, in the units of the data.
    pub fn policy(&self, device: &Device, params: &[f32], name: &str) -> Result<Policy> {
        let shape = self.sac.actor.shape.clone();
        let params = self.units.without(&shape, params);
        let actor = Ensemble { shape, params: device.adopt(params) };
        let bounds = [self.units.low.clone(), self.units.high.clone()];
        Policy::gaussian(name, device, &actor, bounds)
    }

    /// The actor as it stands.
    pub fn params(&self, device: &Device) -> Result<Vec<f32>> {
        device.download(&self.sac.actor.params)
    }
}

impl Units {
    /// Those of the logged states, and the task's bounds; an error where actions have none.
    pub fn of(task: &Task, data: &Transitions) -> Result<Self> {
        let bounds = || task.action_low.iter().zip(&task.action_high).enumerate();
        if let Some((entry, _)) = bounds().find(|(_, (l, h))| !(l.is_finite() && h.is_finite())) {
            return Err(Error::Mismatch(format!(
                "task {}: action a[{entry}] has no bounds, and a policy is learned within bounds; say the smallest and the \
                 largest action in the task file, such as action_low = [-1] and action_high = [1], or name an environment \
                 with --env",
                task.name
            )));
        }
        let observations = Standardizer::fit(
            data.state_dim(),
            || 0..data.len(),
            |row, out| out.copy_from_slice(data.state(row)),
        );
        Ok(Units { observations, low: task.action_low.clone(), high: task.action_high.clone() })
    }

    /// Lengths of what the policy sees and does.
    pub fn widths(&self) -> Widths {
        Widths { observation: self.observations.mean.len(), context: 0, action: self.low.len() }
    }

    /// Mean and deviation of observations, then middle and half range of actions.
    pub fn buffers(&self, device: &Device) -> [[Buffer; 2]; 2] {
        let pairs = || self.low.iter().zip(&self.high);
        let middle = pairs().map(|(low, high)| 0.5 * (low + high)).collect();
        let half = pairs().map(|(low, high)| 0.5 * (high - low)).collect();
        let Standardizer { mean, std } = &self.observations;
        [[device.upload(mean), device.upload(std)], [device.adopt(middle), device.adopt(half)]]
    }

    /// The log as the policy sees it: what the task pays, and where it ends. Actions beyond the bounds count as at them.
    pub fn logged(&self, task: &Task, data: &Transitions) -> Result<Logged> {
        let (rewards, ended) = task.logged(data)?;
        let Standardizer { mean, std } = &self.observations;
        let observe = |state: &[f32]| -> Vec<f32> {
            state.iter().zip(mean.iter().zip(std)).map(|(x, (m, s))| (x - m) / s).collect()
        };
        let scaled = |(a, (low, high)): (&f32, (&f32, &f32))| {
            ((2.0 * a - low - high) / (high - low)).clamp(-1.0, 1.0)
        };
        let mut logged = Logged {
            observations: Vec::with_capacity(2 * data.states().len()),
            actions: Vec::with_capacity(2 * data.actions().len()),
            rewards: Vec::with_capacity(2 * data.len()),
            continues: Vec::with_capacity(2 * data.len()),
        };
        for row in 0..data.len() {
            logged.observations.extend(observe(data.state(row)));
            logged.observations.extend(observe(data.next_state(row)));
            let bounds = self.low.iter().zip(&self.high);
            logged.actions.extend(data.action(row).iter().zip(bounds).map(scaled));
            logged.actions.extend(std::iter::repeat_n(0.0, self.low.len()));
            logged.rewards.extend([rewards[row], 0.0]);
            logged.continues.extend([f32::from(u8::from(!ended[row])), 0.0]);
        }
        Ok(logged)
    }

    /// Parameters of the network that gives for plain observations what this one gives for standardized ones: the units go
    /// into its first layer.
    fn without(&self, shape: &Shape, params: &[f32]) -> Vec<f32> {
        let (layer, mut params) = (shape.layer(0), params.to_vec());
        let (weights, rest) = params[layer.offset..].split_at_mut(layer.inputs * layer.outputs);
        let mut offsets: Vec<f64> = rest[..layer.outputs].iter().map(|&b| b.into()).collect();
        let Standardizer { mean, std } = &self.observations;
        for (row, (mean, std)) in weights.chunks_exact_mut(layer.outputs).zip(mean.iter().zip(std))
        {
            for (weight, offset) in row.iter_mut().zip(&mut offsets) {
                let scaled = f64::from(*weight) / f64::from(*std);
                *offset -= scaled * f64::from(*mean);
                *weight = scaled as f32;
            }
        }
        rest.iter_mut().zip(offsets).for_each(|(bias, offset)| *bias = offset as f32);
        params
    }
}
