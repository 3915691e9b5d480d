//! Clipped double DQN: two networks value a few choices, the lower of their targets counts (Fujimoto et al. 2018,
//! "Addressing Function Approximation Error in Actor-Critic Methods", with the argmax of the first network for
//! its actor).

use super::{Batch, ReplayBuffer, Widths};
use crate::backend::{Activation, Adam, Buffer, Counter, Device, Input, Shape};
use crate::nn::{Ensemble, Optimizer, PassBuffers};
use crate::rng::Stream;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnUpdate {
    /// Widths of the hidden layers (ReLU).
    pub hidden: Vec<usize>,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Adam's learning rate.
    pub learning_rate: f32,
    /// γ
    pub discount: f32,
    /// Share of the networks that enters the target networks at every update.
    pub polyak: f32,
}

impl Default for DqnUpdate {
    fn default() -> Self {
        DqnUpdate {
            hidden: vec![256, 256],
            batch: 256,
            learning_rate: 3e-4,
            discount: 0.99,
            polyak: 0.005,
        }
    }
}

impl DqnUpdate {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(Error::setting(
                "learning_rate",
                self.learning_rate,
                "a positive, finite number",
            ));
        }
        for (name, value) in [("discount", self.discount), ("polyak", self.polyak)] {
            if !(value > 0.0 && value <= 1.0) {
                return Err(Error::setting(name, value, "a number in (0, 1]"));
            }
        }
        if self.batch == 0 {
            return Err(Error::setting("batch", self.batch, "at least 1"));
        }
        Ok(())
    }
}

/// Two networks and all that learning them needs.
#[derive(Debug)]
pub struct Dqn {
    settings: DqnUpdate,
    widths: Widths,
    options: usize,
    /// Two networks from (observation, context) to the value of every choice.
    pub networks: Ensemble,
    /// Those that follow them slowly.
    pub target_networks: Ensemble,
    /// The minibatch that the next update learns from.
    pub batch: Batch<u32>,
    /// dL/d(parameters) of the last update.
    pub gradient: Buffer,
    optimizer: Optimizer,
    buffers: PassBuffers,
    // One update's intermediate results.
    seen: Buffer,
    next_online: Buffer,
    next_target: Buffer,
    targets: Buffer,
    losses: Buffer<f64>,
}

impl Dqn {
    /// Random networks that value `options` choices; the target networks start as they do. An action is one
    /// choice, so that `widths.action` must be 1.
    pub fn new(
        device: &Device,
        widths: Widths,
        options: usize,
        settings: &DqnUpdate,
        stream: Stream,
    ) -> Result<Self> {
        settings.validate()?;
        if widths.action != 1 {
            return Err(Error::setting(
                "widths.action",
                widths.action,
                "1: the number of the choice",
            ));
        }
        let (rows, seen) = (settings.batch, widths.observation + widths.context);
        let shape = Shape::new(
            2,
            [&[seen], settings.hidden.as_slice(), &[options]].concat(),
            Activation::Relu,
        )?;
        let networks = || Ensemble::random(device, shape.clone(), stream);
        let parameters = 2 * shape.stride();
        Ok(Dqn {
            networks: networks(),
            target_networks: networks(),
            batch: Batch::new(device, widths, rows),
            gradient: device.zeros(parameters),
            optimizer: Optimizer::new(device, Adam::constant(settings.learning_rate), parameters),
            buffers: PassBuffers::new(device, &shape, rows),
            seen: device.zeros(rows * seen),
            next_online: device.zeros(2 * rows * options),
            next_target: device.zeros(2 * rows * options),
            targets: device.zeros(rows),
            losses: device.zeros(2),
            settings: settings.clone(),
            widths,
            options,
        })
    }

    /// Number of updates so far, as kernels see it.
    pub fn counter(&self) -> &Counter {
        self.optimizer.counter()
    }

    /// Draws the next minibatch; rewards are multiplied with `reward_scale` `[1]`.
    pub fn draw(
        &mut self,
        device: &Device,
        replay: &mut ReplayBuffer<u32>,
        reward_scale: &Buffer,
        stream: Stream,
    ) {
        replay.draw(device, stream.child("rows"), self.optimizer.counter(), &mut self.batch);
        device.scale_columns(reward_scale, &mut self.batch.rewards);
    }

    /// One step of networks and target networks on the minibatch.
    pub fn update(&mut self, device: &Device) {
        self.value_next_choices(device);
        self.improve(device);
        device.polyak(
            self.settings.polyak,
            &self.networks.params,
            &mut self.target_networks.params,
        );
    }

    /// y = r + γ · continues · min Q'(s', argmax Q₁(s', ·))
    fn value_next_choices(&mut self, device: &Device) {
        let (batch, rows) = (&self.batch, self.settings.batch);
        let Widths { observation, context, .. } = self.widths;
        let parts = [(&batch.next_observations, observation), (&batch.next_contexts, context)];
        device.join(parts, &mut self.seen);
        let input = Input::Shared(&self.seen);
        self.networks.infer(device, input, rows, &mut self.next_online);
        self.target_networks.infer(device, input, rows, &mut self.next_target);
        device.double_q_target(
            self.settings.discount,
            &batch.rewards,
            &batch.continues,
            [&self.next_online, &self.next_target],
            self.options,
            &mut self.targets,
        );
    }

    /// The networks descend on mean (Q(s, choice) − y)².
    fn improve(&mut self, device: &Device) {
        let Widths { observation, context, .. } = self.widths;
        let batch = &self.batch;
        device
            .join([(&batch.observations, observation), (&batch.contexts, context)], &mut self.seen);
        let input = Input::Shared(&self.seen);
        self.networks.forward(device, input, &mut self.buffers);
        let (values, d_values) = self.buffers.output();
        device.choice_error(values, &batch.actions, &self.targets, d_values, &mut self.losses);
        self.networks.backward(device, input, &mut self.buffers, Some(&mut self.gradient), None);
        self.optimizer.step(device, &mut self.networks.params, &self.gradient);
    }

    /// Everything that updates change and later ones build on, by name; with [`Dqn::set_updates`] enough to go on
    /// elsewhere with the same bits.
    pub fn parts(&mut self) -> [(&'static str, &mut Buffer); 4] {
        let [mean, square] = self.optimizer.moments();
        [
            ("networks", &mut self.networks.params),
            ("target_networks", &mut self.target_networks.params),
            ("adam.mean", mean),
            ("adam.square", square),
        ]
    }

    /// Goes on as if `updates` updates had been made.
    pub fn set_updates(&mut self, device: &Device, updates: u32) {
        self.optimizer.set_steps(device, updates);
    }

    /// Sum of the networks' mean squared errors in the last update, before its step. Waits for the device.
    pub fn loss(&self, device: &Device) -> Result<f64> {
        Ok(device.download(&self.losses)?.iter().sum())
    }
}
