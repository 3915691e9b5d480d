//! Steps of optimizers: Adam, Muon, and Stein variational gradient descent.

use crate::backend::shape::{Layer, Shape};
use crate::backend::{Buffer, Counter, Device, check, cuda};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The Adam optimizer (Kingma & Ba 2015) with a learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Learning rate at the start.
    pub rate: f32,
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the root of the latter.
    pub epsilon: f32,
    /// Steps over which the rate falls to 0 along a cosine; none: it stays.
    pub decay_steps: Option<u32>,
}

impl Adam {
    /// The usual constants with a constant rate.
    pub fn constant(rate: f32) -> Self {
        Adam { rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay_steps: None }
    }

    /// The usual constants; the rate falls to 0 in `steps` steps along half a cosine.
    pub fn cosine(rate: f32, steps: u32) -> Self {
        Adam { decay_steps: Some(steps), ..Adam::constant(rate) }
    }

    /// Learning rate of step 0, 1, …
    pub fn rate_at(&self, step: u32) -> f32 {
        match self.decay_steps {
            None => self.rate,
            Some(steps) => {
                let done = (step as f32 / steps.max(1) as f32).min(1.0);
                self.rate * 0.5 * (1.0 + (std::f32::consts::PI * done).cos())
            }
        }
    }
}

/// The weights between two hidden layers move along the nearest orthogonal matrix to the mean of their gradients (Muon,
/// Jordan et al. 2024): weakly excited directions learn as fast as strong ones, so that a regression takes a tenth of Adam's
/// steps. All other parameters move by Adam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Muon {
    /// Learning rate at the start; it falls as Adam's does.
    pub rate: f32,
    /// Decay of the mean of gradients.
    pub momentum: f32,
    /// Newton–Schulz iterations towards the orthogonal matrix.
    pub iterations: u32,
}

impl Muon {
    /// Coefficients of an iteration, X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X: of singular values between 0 and 1 it makes some
    /// near 1, fast rather than exactly (Jordan et al. 2024).
    pub(super) const POLYNOMIAL: [f32; 3] = [3.4445, -4.775, 2.0315];

    /// The usual constants.
    pub fn new(rate: f32) -> Self {
        Muon { rate, momentum: 0.95, iterations: 5 }
    }

    /// Factor of the rate for a matrix: wide ones move further.
    pub(super) fn factor(layer: &Layer) -> f32 {
        (layer.outputs as f32 / layer.inputs as f32).max(1.0).sqrt()
    }
}

/// How particles see each other in SVGD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SteinKernel {
    /// exp(−‖θ − θ'‖² / 2ℓ), the paper's with ℓ = 10.
    Rbf {
        /// ℓ
        length_scale: f32,
    },
    /// The same with ℓ from the median heuristic at every step, so that the particles do see each other.
    Median,
    /// Not at all: a plain deep ensemble.
    None,
}

/// Stein variational gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Svgd {
    /// The kernel on parameter vectors.
    pub kernel: SteinKernel,
    /// Exponent of the standard normal prior.
    pub prior_temperature: f32,
    /// Factor of the mean log-likelihood: 1, or the number of data for the literal posterior.
    pub likelihood_scale: f32,
    /// Sets of particles that do not see each other: particle i is of set i mod groups.
    pub groups: usize,
}

/// Adam, and Muon where asked for, with its state for one set of parameters.
#[derive(Debug)]
pub struct Optimizer {
    pub(super) adam: Adam,
    /// Means of gradients and of their squares; of weights that move by Muon the latter is the direction of the last step.
    pub(super) moments: [Buffer; 2],
    pub(super) step: Counter,
    pub(super) hidden: HiddenWeights,
}

/// The weights that move by Muon.
#[derive(Debug)]
pub(super) struct HiddenWeights {
    pub muon: Muon,
    /// Where they lie in a member; none: all move by Adam.
    pub layers: Vec<Layer>,
    /// What a GPU works in.
    pub room: Buffer,
}

impl HiddenWeights {
    /// Parts of a range of a member's parameters, and whether they move by Muon.
    pub fn split(&self, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = at;
            let matrix = |layer: &Layer| layer.offset..layer.offset + layer.inputs * layer.outputs;
            let ahead = self.layers.iter().map(matrix).find(|matrix| matrix.end > start);
            let (end, moves) = match ahead {
                Some(matrix) if matrix.start <= start => (matrix.end, true),
                Some(matrix) => (matrix.start, false),
                None => (range.end, false),
            };
            at = end.min(range.end);
            (start < at).then_some((start..at, moves))
        })
    }
}

impl Optimizer {
    /// A fresh optimizer for `parameters` numbers.
    pub fn new(device: &Device, adam: Adam, parameters: usize) -> Self {
        Optimizer {
            adam,
            moments: [device.zeros(parameters), device.zeros(parameters)],
            step: device.counter(),
            hidden: HiddenWeights {
                muon: Muon::new(0.0),
                layers: Vec::new(),
                room: device.zeros(0),
            },
        }
    }

    /// The same with Muon for the weights between hidden layers. For [`Optimizer::svgd_step`] alone.
    pub fn with_muon(device: &Device, adam: Adam, muon: Muon, shape: &Shape) -> Self {
        let layers: Vec<Layer> =
            (1..shape.depth().saturating_sub(1)).map(|l| shape.layer(l)).collect();
        let room = match device {
            Device::Cpu(_) => 0,
            Device::Cuda(_) => cuda::muon_words(shape.members, &layers),
        };
        Optimizer {
            hidden: HiddenWeights { muon, layers, room: device.zeros(room) },
            ..Optimizer::new(device, adam, shape.members * shape.stride())
        }
    }

    /// The number of steps taken, as kernels see it.
    pub fn counter(&self) -> &Counter {
        &self.step
    }

    /// Means of gradients and of their squares, which the next step builds on.
    pub fn moments(&mut self) -> &mut [Buffer; 2] {
        &mut self.moments
    }

    /// Goes on as if `steps` steps had been taken.
    pub fn set_steps(&mut self, device: &Device, steps: u32) {
        device.set(&mut self.step, steps);
    }

    /// params ← params − Adam(gradient)
    pub fn step(&mut self, device: &Device, params: &mut Buffer, gradient: &Buffer) {
        check("gradient", gradient.len(), params.len());
        match device {
            Device::Cpu(cpu) => {
                cpu.pool.adam(self, params.cpu_mut(), gradient.cpu());
                device.advance(&mut self.step);
            }
            Device::Cuda(gpu) => gpu.cuda.adam(self, 1, params.gpu(), gradient.gpu()),
        }
    }

    /// The same along [`Device::svgd_direction`] of so many particles.
    pub(crate) fn svgd_update(
        &mut self,
        device: &Device,
        svgd: &Svgd,
        members: usize,
        params: &mut Buffer,
        gradient: &Buffer,
    ) {
        check("gradient", gradient.len(), params.len());
        match device {
            Device::Cpu(cpu) => {
                cpu.pool.svgd_adam(svgd, members, self, params.cpu_mut(), gradient.cpu());
                device.advance(&mut self.step);
            }
            Device::Cuda(gpu) => {
                gpu.cuda.svgd_adam(svgd, members, self, params.gpu(), gradient.gpu())
            }
        }
    }
}

impl Device {
    /// Minus the SVGD direction of every particle, `[members, parameters]`:
    ///
    /// −φᵢ = 1/K Σⱼ k(θⱼ, θᵢ) (λ ∇NLLⱼ + τ θⱼ) − k(θⱼ, θᵢ) (θᵢ − θⱼ) / ℓ
    ///
    /// with the K particles of its group, the gradients ∇NLL of the mean negative log-likelihood, the likelihood scale λ and the prior's
    /// temperature τ. Without a kernel each particle follows its own gradient.
    pub fn svgd_direction(
        &self,
        svgd: &Svgd,
        members: usize,
        params: &Buffer,
        gradient: &Buffer,
        out: &mut Buffer,
    ) {
        check("gradient", gradient.len(), params.len());
        check("direction", out.len(), params.len());
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.svgd_direction(svgd, members, params.cpu(), gradient.cpu(), out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.svgd_direction(svgd, members, params.gpu(), gradient.gpu(), out.gpu())
            }
        }
    }
}
