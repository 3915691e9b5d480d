//! Policies that are networks: observation normalizer → network → action bounds, the same on every device.

use super::action_std::{ActionStd, Sampler};
use super::layers::{Linear, Output};
use super::normalizer::{Normalizer, NormalizerBuffers};
use hambo_engine::backend::{Activation, Buffer, Device, Input, Shape};
use hambo_engine::nn::{Ensemble, PassBuffers};
use std::sync::{Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// How many batch sizes a policy keeps its buffers for.
const KEPT: usize = 4;

/// A network with its normalizer and action bounds; all its sizes fit each other.
#[derive(Debug)]
pub(super) struct Mlp {
    pub shape: Shape,
    /// Weights and biases in the order of [`Shape`].
    pub params: Vec<f32>,
    pub normalizer: Option<Normalizer>,
    pub output: Output,
    /// Smallest action.
    pub low: Vec<f32>,
    /// Largest action.
    pub high: Vec<f32>,
    /// Standard deviations of its actions; none for a deterministic policy.
    pub action_std: Option<ActionStd>,
    idle: Mutex<Vec<Buffers>>,
}

/// What a batch of one size needs on a device, so that acting allocates nothing once it is there.
#[derive(Debug)]
struct Buffers {
    device: Device,
    rows: usize,
    network: Ensemble,
    bounds: [Buffer; 2],
    normalizer: Option<NormalizerBuffers>,
    /// For the backward pass, from the first one on: its buffers and dL/d(input).
    backward: Option<(PassBuffers, Buffer)>,
    /// For sampling, from the first sample on.
    sampler: Option<Sampler>,
}

impl Mlp {
    /// A network of these layers; an error in words if they do not fit each other or are not finite.
    pub fn new(
        layers: &[Linear],
        hidden: Activation,
        normalizer: Option<Normalizer>,
        output: Output,
        [low, high]: [Vec<f32>; 2],
    ) -> Result<Self, String> {
        let Some((first, last)) = layers.first().zip(layers.last()) else {
            return Err("the network has no layers".to_owned());
        };
        for (i, pair) in layers.windows(2).enumerate() {
            if pair[0].outputs != pair[1].inputs {
                return Err(format!(
                    "layer {i} gives {} numbers, but layer {} takes {}",
                    pair[0].outputs,
                    i + 1,
                    pair[1].inputs
                ));
            }
        }
        let widths =
            std::iter::once(first.inputs).chain(layers.iter().map(|l| l.outputs)).collect();
        let shape = Shape::new(1, widths, hidden).map_err(|e| e.to_string())?;
        let mut params = Vec::with_capacity(shape.parameters());
        for (i, layer) in layers.iter().enumerate() {
            let Linear { inputs, outputs, weight, bias } = layer;
            if inputs.checked_mul(*outputs) != Some(weight.len()) || bias.len() != *outputs {
                return Err(format!(
                    "layer {i} has {} weights and {} biases",
                    weight.len(),
                    bias.len()
                ));
            }
            if !weight.iter().chain(bias).all(|x| x.is_finite()) {
                return Err(format!("layer {i} has weights that are not finite"));
            }
            params.extend(
                (0..*inputs).flat_map(|i| (0..*outputs).map(move |o| weight[o * inputs + i])),
            );
            params.extend_from_slice(bias);
        }
        if low.len() != last.outputs || high.len() != last.outputs {
            let (low, high) = (low.len(), high.len());
            return Err(format!(
                "the network gives {} numbers, but there are {low} lower and {high} upper bounds on actions",
                last.outputs
            ));
        }
        let ordered = low.iter().zip(&high).all(|(l, h)| l < h);
        let bounded = low.iter().chain(&high).all(|x| x.is_finite());
        if !ordered || (output != Output::Clip && !bounded) {
            return Err(format!(
                "action bounds {low:?} and {high:?}: expected low < high, and finite bounds for tanh"
            ));
        }
        if let Some(normalizer) = &normalizer {
            normalizer.check(first.inputs)?;
        }
        Ok(Mlp {
            shape,
            params,
            normalizer,
            output,
            low,
            high,
            action_std: None,
            idle: Mutex::default(),
        })
    }

    /// This network with a distribution around its actions.
    pub fn with_action_std(mut self, std: ActionStd) -> Result<Self, String> {
        let widths = &self.shape.widths;
        std.check(widths[widths.len() - 2], self.shape.outputs(), self.output)?;
        self.action_std = Some(std);
        Ok(self)
    }

    /// actions `[rows, action]` ← π(states)
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        self.with_buffers(device, states, |buffers| {
            let Buffers { rows, network, bounds: [low, high], normalizer, .. } = buffers;
            let input = NormalizerBuffers::input(normalizer, device, states);
            let pass = network.pass(Input::Shared(input), *rows);
            match self.output {
                Output::Clip => {
                    device.infer(&pass, actions);
                    device.clamp(low, high, actions);
                }
                Output::Tanh { limit } => {
                    device.infer_within(&pass, ([low, high], limit), actions);
                }
            }
        });
    }

    /// d_states += d_actionsᵀ · dπ/ds
    pub fn backward(
        &self,
        device: &Device,
        states: &Buffer,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        self.with_buffers(device, states, |buffers| {
            let Buffers { rows, network, bounds, normalizer, backward, .. } = buffers;
            let (pass, d_input) = backward.get_or_insert_with(|| {
                (PassBuffers::new(device, &self.shape, *rows), device.zeros(states.len()))
            });
            let input = Input::Shared(NormalizerBuffers::input(normalizer, device, states));
            network.forward(device, input, pass);
            let (output, d_output) = pass.output();
            device.copy(d_actions, d_output);
            self.output.backward(device, bounds, output, d_output);
            network.backward(device, input, pass, None, Some(d_input));
            NormalizerBuffers::backward(normalizer, device, d_input, d_states);
        });
    }

    /// actions `[rows, action]` ~ π(· | states), with ε from `noise`; the mean if it is deterministic.
    pub fn sample(&self, device: &Device, states: &Buffer, noise: &Buffer, actions: &mut Buffer) {
        let Some(std) = &self.action_std else { return self.act(device, states, actions) };
        self.with_buffers(device, states, |buffers| {
            let Buffers { rows, bounds, normalizer, sampler, .. } = buffers;
            let sampler = sampler.get_or_insert_with(|| self.sampler(device, std, *rows));
            let input = NormalizerBuffers::input(normalizer, device, states);
            sampler.sample(device, input, noise);
            sampler.actions(device, bounds, actions);
        });
    }

    /// d_states += d_actionsᵀ · da/ds for the actions that [`Mlp::sample`] gave with the same noise.
    pub fn sample_backward(
        &self,
        device: &Device,
        (states, noise): (&Buffer, &Buffer),
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        let Some(std) = &self.action_std else {
            return self.backward(device, states, d_actions, d_states);
        };
        self.with_buffers(device, states, |buffers| {
            let Buffers { rows, bounds, normalizer, sampler, .. } = buffers;
            let sampler = sampler.get_or_insert_with(|| self.sampler(device, std, *rows));
            let input = NormalizerBuffers::input(normalizer, device, states);
            sampler.sample(device, input, noise);
            let d_input = sampler.backward(device, bounds, (input, noise), d_actions);
            NormalizerBuffers::backward(normalizer, device, d_input, d_states);
        });
    }

    /// ln π(a | s) of every row; none for a deterministic policy.
    pub fn log_densities(
        &self,
        device: &Device,
        states: &Buffer,
        actions: &[f32],
    ) -> Option<Vec<f64>> {
        let std = self.action_std.as_ref()?;
        let rows = states.len() / self.shape.inputs();
        let mut normalizer = self.normalizer.as_ref().map(|n| n.buffers(device, rows));
        let input = NormalizerBuffers::input(&mut normalizer, device, states);
        let mut sampler = self.sampler(device, std, rows);
        Some(sampler.log_densities(device, std, [&self.low, &self.high], input, actions))
    }

    /// Lends out the buffers for a batch of states. The lock is not held meanwhile: a thread that waits for its kernel
    /// may be given other work of the pool that acts, too.
    fn with_buffers(&self, device: &Device, states: &Buffer, work: impl FnOnce(&mut Buffers)) {
        let rows = states.len() / self.shape.inputs();
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let mut idle = idle();
            let fits = idle.iter().position(|b| b.rows == rows && b.device.is(device));
            fits.map(|i| idle.remove(i))
        };
        let mut buffers = kept.unwrap_or_else(|| self.buffers(device, rows));
        work(&mut buffers);
        let mut idle = idle();
        if idle.len() == KEPT {
            idle.remove(0);
        }
        idle.push(buffers);
    }

    fn buffers(&self, device: &Device, rows: usize) -> Buffers {
        Buffers {
            device: device.clone(),
            rows,
            network: Ensemble { shape: self.shape.clone(), params: device.upload(&self.params) },
            bounds: [device.upload(&self.low), device.upload(&self.high)],
            normalizer: self.normalizer.as_ref().map(|n| n.buffers(device, rows)),
            backward: None,
            sampler: None,
        }
    }

    fn sampler(&self, device: &Device, std: &ActionStd, rows: usize) -> Sampler {
        Sampler::new(device, (&self.shape, &self.params), self.output, std, rows)
    }
}
