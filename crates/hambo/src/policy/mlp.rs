//! Policies that are networks: observation normaliser → network → limit, the same on every device.

use crate::compute::{Activation, Buffer, Device, Input, Shape};
use crate::nn::{Ensemble, Trace};
use std::sync::{Mutex, PoisonError};

/// Working memories that a policy keeps, for as many batch sizes.
const KEPT: usize = 4;

/// A network with its normaliser and limits; every size in it fits every other.
#[derive(Debug)]
pub(super) struct Mlp {
    pub shape: Shape,
    /// As [`Shape`] orders them.
    pub params: Vec<f32>,
    pub normaliser: Option<Normaliser>,
    pub output: Output,
    /// Smallest and largest action.
    pub low: Vec<f32>,
    pub high: Vec<f32>,
    idle: Mutex<Vec<Working>>,
}

/// (s − mean) / √(var + epsilon), within ±clip.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normaliser {
    pub mean: Vec<f64>,
    pub var: Vec<f64>,
    pub clip: f64,
    pub epsilon: f64,
}

/// From what the network gives to an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output {
    /// Limited to the bounds.
    Clip,
    /// Limited to ±`limit`, then by tanh between the bounds.
    Tanh {
        /// Infinite where there is none.
        limit: f32,
    },
}

/// One layer as PyTorch stores it.
pub(super) struct Linear {
    pub inputs: usize,
    pub outputs: usize,
    /// `[outputs, inputs]`
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

/// What a batch of some size needs on a device, so that acting allocates nothing once it is there.
#[derive(Debug)]
struct Working {
    device: Device,
    rows: usize,
    network: Ensemble,
    bounds: [Buffer; 2],
    /// Mean and deviation of the observations, and the normalised observations.
    normal: Option<([Buffer<f64>; 2], Buffer)>,
    /// What back-propagation needs beside, if it was ever asked for.
    back: Option<(Trace, Buffer)>,
}

impl Mlp {
    /// A network of these layers. An error in words if they do not fit each other or are not finite.
    pub fn new(
        layers: &[Linear],
        hidden: Activation,
        normaliser: Option<Normaliser>,
        output: Output,
        [low, high]: [Vec<f32>; 2],
    ) -> Result<Self, String> {
        let Some((first, last)) = layers.first().zip(layers.last()) else {
            return Err("the network has no layers".to_owned());
        };
        for (i, pair) in layers.windows(2).enumerate() {
            if pair[0].outputs != pair[1].inputs {
                return Err(format!(
                    "layer {i} gives {} numbers, layer {} takes {}",
                    pair[0].outputs,
                    i + 1,
                    pair[1].inputs
                ));
            }
        }
        let widths = std::iter::once(first.inputs).chain(layers.iter().map(|l| l.outputs)).collect();
        let shape = Shape::new(1, widths, hidden).map_err(|e| e.to_string())?;
        let mut params = Vec::with_capacity(shape.parameters());
        for (i, layer) in layers.iter().enumerate() {
            let Linear { inputs, outputs, weight, bias } = layer;
            if inputs.checked_mul(*outputs) != Some(weight.len()) || bias.len() != *outputs {
                return Err(format!("layer {i} has {} weights and {} biases", weight.len(), bias.len()));
            }
            if !weight.iter().chain(bias).all(|x| x.is_finite()) {
                return Err(format!("layer {i} holds weights that are not finite"));
            }
            params.extend((0..*inputs).flat_map(|i| (0..*outputs).map(move |o| weight[o * inputs + i])));
            params.extend_from_slice(bias);
        }
        if low.len() != last.outputs || high.len() != last.outputs {
            let (low, high) = (low.len(), high.len());
            return Err(format!(
                "the network gives {} numbers, but there are {low} and {high} bounds of actions",
                last.outputs
            ));
        }
        let ordered = low.iter().zip(&high).all(|(l, h)| l < h);
        let bounded = low.iter().chain(&high).all(|x| x.is_finite());
        if !ordered || (output != Output::Clip && !bounded) {
            return Err(format!("bounds of actions {low:?} and {high:?}: expected low < high, and finite ones to squash into"));
        }
        if let Some(normaliser) = &normaliser {
            normaliser.check(first.inputs)?;
        }
        Ok(Mlp { shape, params, normaliser, output, low, high, idle: Mutex::default() })
    }

    /// The layers as PyTorch stores them.
    pub fn layers(&self) -> Vec<Linear> {
        let layer = |(_, l): (usize, crate::compute::Layer)| {
            let (inputs, outputs) = (l.inputs, l.outputs);
            let (weight, rest) = self.params[l.offset..].split_at(inputs * outputs);
            Linear {
                inputs,
                outputs,
                weight: (0..outputs)
                    .flat_map(|o| (0..inputs).map(move |i| weight[i * outputs + o]))
                    .collect(),
                bias: rest[..outputs].to_vec(),
            }
        };
        self.shape.layers().map(layer).collect()
    }

    /// actions `[rows, action]` ← π(states).
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { network, bounds: [low, high], normal, .. } = working;
            let input = self.normalised(device, states, normal);
            network.infer(device, Input::Shared(input), rows, actions);
            match self.output {
                Output::Clip => device.clamp(low, high, actions),
                Output::Tanh { limit } => device.squash(low, high, limit, actions),
            }
        });
    }

    /// d_states += d_actionsᵀ · dπ/ds.
    pub fn back(&self, device: &Device, states: &Buffer, d_actions: &Buffer, d_states: &mut Buffer) {
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { network, bounds: [low, high], normal, back, .. } = working;
            let (trace, d_input) = back.get_or_insert_with(|| {
                (Trace::new(device, &self.shape, rows), device.zeros(rows * self.shape.inputs()))
            });
            let input = self.normalised(device, states, normal);
            network.forward(device, Input::Shared(input), trace);
            let (output, d_output) = trace.output();
            device.copy(d_actions, d_output);
            match self.output {
                Output::Clip => device.clamp_gradient(low, high, output, d_output),
                Output::Tanh { limit } => device.squash_gradient(low, high, limit, output, d_output),
            }
            network.backward(device, Input::Shared(input), trace, None, Some(d_input));
            match (normal, &self.normaliser) {
                (Some(([_, std], normalised)), Some(n)) => {
                    device.normalize_gradient(normalised, std, n.clip, d_input, d_states);
                }
                _ => device.add(d_input, d_states),
            }
        });
    }

    /// The network's input: the states, or what the normaliser makes of them.
    fn normalised<'a>(
        &self,
        device: &Device,
        states: &'a Buffer,
        normal: &'a mut Option<([Buffer<f64>; 2], Buffer)>,
    ) -> &'a Buffer {
        match (normal, &self.normaliser) {
            (Some(([mean, std], normalised)), Some(n)) => {
                device.normalize(states, (mean, std), n.clip, normalised);
                normalised
            }
            _ => states,
        }
    }

    /// Lends out a working memory. The lock is not held meanwhile: a thread that waits for its kernel may be given
    /// other work of the pool that acts, too.
    fn with_working(&self, device: &Device, rows: usize, work: impl FnOnce(&mut Working)) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let mut idle = idle();
            let fits = idle.iter().position(|w| w.rows == rows && w.device.is(device));
            fits.map(|i| idle.remove(i))
        };
        let mut working = kept.unwrap_or_else(|| self.working(device, rows));
        work(&mut working);
        let mut idle = idle();
        if idle.len() == KEPT {
            idle.remove(0);
        }
        idle.push(working);
    }

    fn working(&self, device: &Device, rows: usize) -> Working {
        let normal = self.normaliser.as_ref().map(|n| {
            ([device.upload(&n.mean), device.adopt(n.std())], device.zeros(rows * n.mean.len()))
        });
        Working {
            device: device.clone(),
            rows,
            network: Ensemble { shape: self.shape.clone(), params: device.upload(&self.params) },
            bounds: [device.upload(&self.low), device.upload(&self.high)],
            normal,
            back: None,
        }
    }
}

impl Normaliser {
    fn std(&self) -> Vec<f64> {
        self.var.iter().map(|v| (v + self.epsilon).sqrt()).collect()
    }

    fn check(&self, inputs: usize) -> Result<(), String> {
        if self.mean.len() != inputs || self.var.len() != inputs {
            return Err(format!(
                "the normaliser is for observations of {} numbers, the network takes {inputs}",
                self.mean.len()
            ));
        }
        let sound = self.mean.iter().all(|m| m.is_finite())
            && self.std().iter().all(|s| s.is_finite() && *s > 0.0)
            && self.clip > 0.0;
        match sound {
            true => Ok(()),
            false => Err("the normaliser must have finite means, positive variances and a positive limit".to_owned()),
        }
    }
}
