//! Soft Actor-Critic (Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications"): twin critics,
//! target critics, automatic temperature.

use super::{Batch, ReplayBuffer, Widths};
use crate::backend::{
    Activation, Adam, Buffer, Counter, Device, Input, Shape, SquashedActions, TdTarget,
};
use crate::nn::{Ensemble, Optimizer, PassBuffers};
use crate::rng::Stream;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SacUpdate {
    /// Widths of the hidden layers (ReLU) of actor and critics.
    pub hidden: Vec<usize>,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Adam's learning rate for actor and critics.
    pub learning_rate: f32,
    /// That of the actor, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_rate: Option<f32>,
    /// Adam's learning rate for ln α.
    pub temperature_rate: f32,
    /// α at the start.
    pub temperature: f32,
    /// Entropy that α is adjusted to; none: −dim(action).
    pub target_entropy: Option<f32>,
    /// γ
    pub discount: f32,
    /// Share of the critics that enters the target critics at every update.
    pub polyak: f32,
}

impl Default for SacUpdate {
    fn default() -> Self {
        SacUpdate {
            hidden: vec![256, 256],
            batch: 256,
            learning_rate: 3e-4,
            actor_rate: None,
            temperature_rate: 3e-4,
            temperature: 1.0,
            target_entropy: None,
            discount: 0.99,
            polyak: 0.005,
        }
    }
}

impl SacUpdate {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("learning_rate", self.learning_rate),
            ("actor_rate", self.actor_rate.unwrap_or(self.learning_rate)),
            ("temperature_rate", self.temperature_rate),
            ("temperature", self.temperature),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a positive, finite number"));
            }
        }
        for (name, value) in [("discount", self.discount), ("polyak", self.polyak)] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(Error::setting(name, value, "a number in (0, 1]"));
            }
        }
        Error::check_count("batch", self.batch, 1_000_000)?;
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        Shape::new(2, widths, Activation::Relu)?.check_rows("batch", self.batch)
    }
}

/// Losses of the last update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// Sum of the critics' mean squared errors.
    pub critics: f64,
    /// mean (α ln π − min Q)
    pub actor: f64,
    /// −mean ln π
    pub entropy: f64,
}

/// Actor, critics and all that learning them needs.
#[derive(Debug)]
pub struct Sac {
    settings: SacUpdate,
    widths: Widths,
    /// One network from the observation to means and log standard deviations of the action before tanh.
    pub actor: Ensemble,
    /// Two networks from (observation, context, action) to a value.
    pub critics: Ensemble,
    /// Those that follow them slowly.
    pub target_critics: Ensemble,
    /// ln α, `[1]`.
    pub log_temperature: Buffer,
    /// The minibatch that the next update learns from.
    pub batch: Batch,
    /// Standard normal numbers for the actions that the actor would choose now, and next, `[rows, action]`.
    pub noise: [Buffer; 2],
    /// dL/d(parameters) of the last update.
    pub critic_gradient: Buffer,
    /// dL/d(parameters) of the last update.
    pub actor_gradient: Buffer,
    temperature_gradient: Buffer,
    optimizers: Optimizers,
    actor_buffers: PassBuffers,
    critic_buffers: PassBuffers,
    // One update's intermediate results.
    next_output: Buffer,
    next_values: Buffer,
    log_probs: Buffer,
    critic_inputs: Buffer,
    d_critic_inputs: Buffer,
    targets: Buffer,
    critic_losses: Buffer<f64>,
    actor_losses: Buffer<f64>,
}

#[derive(Debug)]
struct Optimizers {
    actor: Optimizer,
    critics: Optimizer,
    temperature: Optimizer,
}

impl Sac {
    /// Random networks; the target critics start as the critics.
    pub fn new(
        device: &Device,
        widths: Widths,
        settings: &SacUpdate,
        stream: Stream,
    ) -> Result<Self> {
        settings.validate()?;
        let (rows, hidden) = (settings.batch, settings.hidden.as_slice());
        let seen = widths.observation + widths.context + widths.action;
        let actor = [&[widths.observation], hidden, &[2 * widths.action]].concat();
        let actor = Shape::new(1, actor, Activation::Relu)?;
        let critics = Shape::new(2, [&[seen], hidden, &[1]].concat(), Activation::Relu)?;
        let network =
            |shape: &Shape, name| Ensemble::random(device, shape.clone(), stream.child(name));
        let (parameters, twin_parameters) = (actor.parameters(), 2 * critics.stride());
        let optimizer = |rate, parameters| Optimizer::new(device, Adam::constant(rate), parameters);
        Ok(Sac {
            actor: network(&actor, "actor"),
            critics: network(&critics, "critics"),
            target_critics: network(&critics, "critics"),
            log_temperature: device.upload(&[settings.temperature.ln()]),
            batch: Batch::new(device, widths, rows),
            noise: [device.zeros(rows * widths.action), device.zeros(rows * widths.action)],
            critic_gradient: device.zeros(twin_parameters),
            actor_gradient: device.zeros(parameters),
            temperature_gradient: device.zeros(1),
            optimizers: Optimizers {
                actor: optimizer(settings.actor_rate.unwrap_or(settings.learning_rate), parameters),
                critics: optimizer(settings.learning_rate, twin_parameters),
                temperature: optimizer(settings.temperature_rate, 1),
            },
            actor_buffers: PassBuffers::new(device, &actor, rows),
            critic_buffers: PassBuffers::new(device, &critics, rows),
            next_output: device.zeros(rows * 2 * widths.action),
            next_values: device.zeros(2 * rows),
            log_probs: device.zeros(rows),
            critic_inputs: device.zeros(rows * seen),
            d_critic_inputs: device.zeros(2 * rows * seen),
            targets: device.zeros(rows),
            critic_losses: device.zeros(2),
            actor_losses: device.zeros(2),
            settings: settings.clone(),
            widths,
        })
    }

    /// Number of updates so far, as kernels see it.
    pub fn counter(&self) -> &Counter {
        self.optimizers.critics.counter()
    }

    /// Draws the next minibatch and its noise; rewards are multiplied with `reward_scale` `[1]`.
    pub fn draw(
        &mut self,
        device: &Device,
        replay: &mut ReplayBuffer,
        reward_scale: &Buffer,
        stream: Stream,
    ) {
        let step = self.optimizers.critics.counter();
        replay.draw(device, stream.child("rows"), step, &mut self.batch);
        device.scale_columns(reward_scale, &mut self.batch.rewards);
        let [now, next] = &mut self.noise;
        device.normals(stream.child("noise"), step, now);
        device.normals(stream.child("next noise"), step, next);
    }

    /// One step of critics, actor, temperature and target critics on the minibatch.
    pub fn update(&mut self, device: &Device) {
        self.value_next_actions(device);
        self.improve_critics(device);
        self.improve_actor(device);
        self.adjust_temperature(device);
        device.polyak(self.settings.polyak, &self.critics.params, &mut self.target_critics.params);
    }

    /// y = r + γ · continues · (min Q'(s', a') − α ln π(a' | s')), a' ~ π(s')
    fn value_next_actions(&mut self, device: &Device) {
        let (batch, rows) = (&self.batch, self.settings.batch);
        let input = Input::Shared(&batch.next_observations);
        self.actor.infer(device, input, rows, &mut self.next_output);
        // What `improve_actor` begins with: on a GPU one of these passes leaves room for the other.
        let seen = Input::Shared(&batch.observations);
        device.overlapping(|| self.actor.forward(device, seen, &mut self.actor_buffers));
        let Widths { observation, context, .. } = self.widths;
        device.squash(
            &self.next_output,
            &self.noise[1],
            [(&batch.next_observations, observation), (&batch.next_contexts, context)],
            &mut self.critic_inputs,
            &mut self.log_probs,
        );
        let input = Input::Shared(&self.critic_inputs);
        self.target_critics.infer(device, input, rows, &mut self.next_values);
        let target = TdTarget {
            discount: self.settings.discount,
            rewards: &batch.rewards,
            continues: &batch.continues,
            values: &self.next_values,
            log_probs: &self.log_probs,
            log_temperature: &self.log_temperature,
        };
        device.td_target(&target, &mut self.targets);
    }

    /// Critics descend on mean (Q(s, a) − y)².
    fn improve_critics(&mut self, device: &Device) {
        let Widths { observation, context, action } = self.widths;
        let batch = &self.batch;
        device.join(
            [
                (&batch.observations, observation),
                (&batch.contexts, context),
                (&batch.actions, action),
            ],
            &mut self.critic_inputs,
        );
        let input = Input::Shared(&self.critic_inputs);
        self.critics.forward(device, input, &mut self.critic_buffers);
        let (values, d_values) = self.critic_buffers.output();
        device.squared_error(values, &self.targets, d_values, &mut self.critic_losses);
        let gradient = &mut self.critic_gradient;
        self.critics.backward(device, input, &mut self.critic_buffers, Some(gradient), None);
        self.optimizers.critics.step(device, &mut self.critics.params, &self.critic_gradient);
    }

    /// The actor descends on mean (α ln π(a | s) − min Q(s, a)), a ~ π(s).
    fn improve_actor(&mut self, device: &Device) {
        let Widths { observation, context, .. } = self.widths;
        let batch = &self.batch;
        let seen = Input::Shared(&batch.observations);
        let (output, d_output) = self.actor_buffers.output();
        device.squash(
            output,
            &self.noise[0],
            [(&batch.observations, observation), (&batch.contexts, context)],
            &mut self.critic_inputs,
            &mut self.log_probs,
        );
        let input = Input::Shared(&self.critic_inputs);
        self.critics.forward(device, input, &mut self.critic_buffers);
        let (values, d_values) = self.critic_buffers.output();
        device.actor_loss(
            values,
            &self.log_probs,
            &self.log_temperature,
            d_values,
            &mut self.actor_losses,
        );
        let d_input = &mut self.d_critic_inputs;
        self.critics.backward(device, input, &mut self.critic_buffers, None, Some(d_input));
        let (rows, noise, joined) = (self.settings.batch, &self.noise[0], &self.critic_inputs);
        let drawn = SquashedActions { rows, output, noise, joined };
        device.squash_gradient(&drawn, &self.d_critic_inputs, &self.log_temperature, d_output);
        let gradient = &mut self.actor_gradient;
        self.actor.backward(device, seen, &mut self.actor_buffers, Some(gradient), None);
        self.optimizers.actor.step(device, &mut self.actor.params, &self.actor_gradient);
    }

    /// α rises where the actor's entropy is below its target, and falls where it is above.
    fn adjust_temperature(&mut self, device: &Device) {
        let target = self.settings.target_entropy.unwrap_or(-(self.widths.action as f32));
        let gradient = &mut self.temperature_gradient;
        device.temperature_gradient(target, &self.actor_losses, &self.log_temperature, gradient);
        self.optimizers.temperature.step(
            device,
            &mut self.log_temperature,
            &self.temperature_gradient,
        );
    }

    /// Losses of the last update, before its steps. Waits for the device.
    pub fn losses(&self, device: &Device) -> Result<Losses> {
        let actor = device.download(&self.actor_losses)?;
        Ok(Losses {
            critics: device.download(&self.critic_losses)?.iter().sum(),
            actor: actor[0],
            entropy: -actor[1],
        })
    }

    /// Everything that updates change and later ones build on, by name; with [`Sac::set_updates`] enough to go on
    /// elsewhere with the same bits.
    pub fn parts(&mut self) -> [(&'static str, &mut Buffer); 10] {
        let Optimizers { actor, critics, temperature } = &mut self.optimizers;
        let [actor_mean, actor_square] = actor.moments();
        let [critics_mean, critics_square] = critics.moments();
        let [temperature_mean, temperature_square] = temperature.moments();
        [
            ("actor", &mut self.actor.params),
            ("critics", &mut self.critics.params),
            ("target_critics", &mut self.target_critics.params),
            ("log_temperature", &mut self.log_temperature),
            ("adam.actor.mean", actor_mean),
            ("adam.actor.square", actor_square),
            ("adam.critics.mean", critics_mean),
            ("adam.critics.square", critics_square),
            ("adam.temperature.mean", temperature_mean),
            ("adam.temperature.square", temperature_square),
        ]
    }

    /// Goes on as if `updates` updates had been made.
    pub fn set_updates(&mut self, device: &Device, updates: u32) {
        let Optimizers { actor, critics, temperature } = &mut self.optimizers;
        [actor, critics, temperature].into_iter().for_each(|o| o.set_steps(device, updates));
    }

    /// The actor without its noise, tanh μ(observation): one network with as many outputs as actions.
    pub fn deterministic(&self, device: &Device) -> Result<Ensemble> {
        let mut means = self.means(device)?;
        means.shape.output = Activation::Tanh;
        Ok(means)
    }

    /// μ(observation): the actor's means before tanh.
    pub fn means(&self, device: &Device) -> Result<Ensemble> {
        let mut shape = self.actor.shape.clone();
        let last = shape.layer(shape.depth() - 1);
        let params = device.download(&self.actor.params)?;
        let (below, head) = params.split_at(last.offset);
        // The mean half of the columns of the last layer's weights and of its biases, which follow as a row.
        let means = head.chunks_exact(last.outputs).flat_map(|row| &row[..last.outputs / 2]);
        let params = below.iter().chain(means).copied().collect();
        if let Some(outputs) = shape.widths.last_mut() {
            *outputs /= 2;
        }
        Ok(Ensemble { shape, params: device.adopt(params) })
    }
}
