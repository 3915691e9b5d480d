//! The normalization of observations that a policy was trained with.

use hambo_engine::backend::{Buffer, Device};
use std::path::PathBuf;

/// Where an agent's observation normalizer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NormalizerFile {
    /// Where it usually is, if there is one: beside the agent, or in a folder of its name.
    #[default]
    Found,
    /// In this file.
    At(PathBuf),
    /// There is none.
    Without,
}

/// (s − mean) / √(var + epsilon), clipped to ±`clip`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normalizer {
    pub mean: Vec<f64>,
    pub var: Vec<f64>,
    pub clip: f64,
    pub epsilon: f64,
}

/// A normalizer on a device, for batches of one size.
#[derive(Debug)]
pub(super) struct NormalizerBuffers {
    mean: Buffer<f64>,
    std: Buffer<f64>,
    clip: f64,
    normalized: Buffer,
}

impl Normalizer {
    fn std(&self) -> Vec<f64> {
        self.var.iter().map(|v| (v + self.epsilon).sqrt()).collect()
    }

    /// An error in words if it is not one for observations of `inputs` numbers.
    pub fn check(&self, inputs: usize) -> Result<(), String> {
        if self.mean.len() != inputs || self.var.len() != inputs {
            return Err(format!(
                "the normalizer is for observations of {} numbers, but the network takes {inputs}",
                self.mean.len()
            ));
        }
        let sound = self.mean.iter().all(|m| m.is_finite())
            && self.std().iter().all(|s| s.is_finite() && *s > 0.0)
            && self.clip > 0.0;
        match sound {
            true => Ok(()),
            false => {
                Err("the normalizer needs finite means, positive variances and a positive limit"
                    .to_owned())
            }
        }
    }

    pub fn buffers(&self, device: &Device, rows: usize) -> NormalizerBuffers {
        NormalizerBuffers {
            mean: device.upload(&self.mean),
            std: device.adopt(self.std()),
            clip: self.clip,
            normalized: device.zeros(rows * self.mean.len()),
        }
    }
}

impl NormalizerBuffers {
    /// The network's input: the normalized states, or the states themselves if there is no normalizer.
    pub fn input<'a>(
        normalizer: &'a mut Option<Self>,
        device: &Device,
        states: &'a Buffer,
    ) -> &'a Buffer {
        let Some(n) = normalizer else { return states };
        device.normalize(states, (&n.mean, &n.std), n.clip, &mut n.normalized);
        &n.normalized
    }

    /// d_states += dL/ds from dL/d(the network's input)
    pub fn backward(
        normalizer: &Option<Self>,
        device: &Device,
        d_input: &Buffer,
        d_states: &mut Buffer,
    ) {
        match normalizer {
            Some(n) => device.normalize_gradient(&n.normalized, &n.std, n.clip, d_input, d_states),
            None => device.add(d_input, d_states),
        }
    }
}
