//! The linear layers of a policy network, and how its output becomes an action.

use hambo_engine::backend::{Buffer, Device, Layer, Shape};

/// One linear layer, as PyTorch stores it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Linear {
    pub inputs: usize,
    pub outputs: usize,
    /// `[outputs, inputs]`
    pub weight: Vec<f32>,
    /// `[outputs]`
    pub bias: Vec<f32>,
}

/// How the network's output becomes an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output {
    /// Clipped to the action bounds.
    Clip,
    /// Clipped to ±`limit`, then squashed by tanh into the action bounds.
    Tanh {
        /// Infinite where there is none.
        limit: f32,
    },
}

impl Linear {
    /// The layers of a network from its parameters, in the order of [`Shape`].
    pub fn unpack(shape: &Shape, params: &[f32]) -> Vec<Linear> {
        let layer = |(_, l): (usize, Layer)| {
            let (inputs, outputs) = (l.inputs, l.outputs);
            let (weight, rest) = params[l.offset..].split_at(inputs * outputs);
            Linear {
                inputs,
                outputs,
                weight: (0..outputs)
                    .flat_map(|o| (0..inputs).map(move |i| weight[i * outputs + o]))
                    .collect(),
                bias: rest[..outputs].to_vec(),
            }
        };
        shape.layers().map(layer).collect()
    }

    /// Whether there are as many weights and biases as its sizes need.
    pub fn is_complete(&self) -> bool {
        self.inputs.checked_mul(self.outputs) == Some(self.weight.len())
            && self.bias.len() == self.outputs
    }
}

impl Output {
    /// ± the limit before tanh; infinite where there is none.
    pub fn limit(self) -> f32 {
        match self {
            Output::Clip => f32::INFINITY,
            Output::Tanh { limit } => limit,
        }
    }

    /// This output without its limit before tanh.
    pub fn unlimited(self) -> Self {
        match self {
            Output::Clip => Output::Clip,
            Output::Tanh { .. } => Output::Tanh { limit: f32::INFINITY },
        }
    }

    /// actions ← the actions of these outputs
    pub fn apply(self, device: &Device, [low, high]: &[Buffer; 2], actions: &mut Buffer) {
        match self {
            Output::Clip => device.clamp(low, high, actions),
            Output::Tanh { limit } => device.squash_to_bounds(low, high, limit, actions),
        }
    }

    /// d ← dL/d(output) of dL/d(action)
    pub fn backward(
        self,
        device: &Device,
        [low, high]: &[Buffer; 2],
        output: &Buffer,
        d: &mut Buffer,
    ) {
        match self {
            Output::Clip => device.clamp_gradient(low, high, output, d),
            Output::Tanh { limit } => device.squash_to_bounds_gradient(low, high, limit, output, d),
        }
    }
}
