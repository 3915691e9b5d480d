//! The draws of a stochastic adversary.

use hambo_engine::backend::{Buffer, Counter, Device, Input};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

/// Where an [`Explorer`](super::Explorer) draws.
pub(super) struct Exploration {
    outputs: Buffer,
    noise: Buffer,
    pub choices: Buffer,
    log_probs: Buffer,
}

impl Exploration {
    pub fn new(device: &Device, rows: usize, dims: usize) -> Self {
        let room = |width: usize| device.zeros(rows * width);
        Exploration {
            outputs: room(2 * dims),
            noise: room(dims),
            choices: room(dims),
            log_probs: room(1),
        }
    }

    pub fn see(&mut self, device: &Device, actor: &Ensemble, inputs: &Buffer) {
        actor.infer(device, Input::Shared(inputs), self.log_probs.len(), &mut self.outputs);
    }

    pub fn draw(&mut self, device: &Device, stream: Stream, time: &Counter) {
        device.normals(stream.child("exploration"), time, &mut self.noise);
        device.squash(&self.outputs, &self.noise, [], &mut self.choices, &mut self.log_probs);
    }
}
