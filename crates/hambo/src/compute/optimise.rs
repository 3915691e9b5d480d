//! Steps of optimisers: Adam, and Stein variational gradient descent.

use super::{Buffer, Counter, Device, check};
use serde::{Deserialize, Serialize};

/// The Adam optimiser (Kingma & Ba 2015) with a learning-rate schedule.
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

/// How particles see each other in SVGD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Kernel {
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
    pub kernel: Kernel,
    /// Exponent of the standard normal prior.
    pub prior_temperature: f32,
    /// Factor of the mean log-likelihood: 1, or the number of data for the literal posterior.
    pub likelihood_scale: f32,
}

impl Device {
    /// params ← Adam step along `gradient`, at the counter's step, which is then counted.
    pub fn adam(
        &self,
        adam: &Adam,
        step: &mut Counter,
        params: &mut Buffer,
        gradient: &Buffer,
        moments: &mut [Buffer; 2],
    ) {
        check("gradient", gradient.len(), params.len());
        let [m, v] = moments;
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.adam(
                    adam,
                    step.0.cpu()[0],
                    params.cpu_mut(),
                    gradient.cpu(),
                    m.cpu_mut(),
                    v.cpu_mut(),
                );
                self.advance(step);
            }
            Device::Cuda(gpu) => {
                gpu.cuda.adam(adam, step.0.gpu(), params.gpu(), gradient.gpu(), m.gpu(), v.gpu())
            }
        }
    }

    /// Minus the SVGD direction of every particle, `[members, parameters]`:
    ///
    /// −φᵢ = 1/K Σⱼ k(θⱼ, θᵢ) (λ ∇NLLⱼ + τ θⱼ) − k(θⱼ, θᵢ) (θᵢ − θⱼ) / ℓ
    ///
    /// with the gradients ∇NLL of the mean negative log-likelihood, the likelihood scale λ and the prior's
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

    /// params ← Adam step along [`Device::svgd_direction`], at the counter's step, which is then counted.
    #[allow(clippy::too_many_arguments)]
    pub fn svgd_adam(
        &self,
        svgd: &Svgd,
        adam: &Adam,
        step: &mut Counter,
        members: usize,
        params: &mut Buffer,
        gradient: &Buffer,
        moments: &mut [Buffer; 2],
    ) {
        check("gradient", gradient.len(), params.len());
        let [m, v] = moments;
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.svgd_adam(
                    svgd,
                    adam,
                    step.0.cpu()[0],
                    members,
                    params.cpu_mut(),
                    gradient.cpu(),
                    m.cpu_mut(),
                    v.cpu_mut(),
                );
                self.advance(step);
            }
            Device::Cuda(gpu) => gpu.cuda.svgd_adam(
                svgd,
                adam,
                step.0.gpu(),
                members,
                params.gpu(),
                gradient.gpu(),
                m.gpu(),
                v.gpu(),
            ),
        }
    }
}
