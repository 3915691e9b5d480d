//! Kernels of policies that draw their actions.

use crate::backend::{Buffer, Device, check};

impl Device {
    /// to ← to + factor · from, each column with its own factor.
    pub fn add_scaled_columns(&self, factors: &Buffer, from: &Buffer, to: &mut Buffer) {
        check("scaled sum", to.len(), from.len());
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.add_scaled_columns(factors.cpu(), from.cpu(), to.cpu_mut())
            }
            Device::Cuda(gpu) => gpu.cuda.add_scaled_columns(factors.gpu(), from.gpu(), to.gpu()),
        }
    }

    /// values `[rows, dims]` ← μ + σ ε; of `output` `[rows, 2·dims]` the first half are the means μ, the second half
    /// ln σ, limited to \[−20, 2\], as for [`Device::squash`].
    pub fn sample_gaussian(
        &self,
        dims: usize,
        output: &Buffer,
        noise: &Buffer,
        values: &mut Buffer,
    ) {
        check("actor's outputs", output.len(), 2 * values.len());
        check("noise of actions", noise.len(), values.len());
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.sample_gaussian(dims, output.cpu(), noise.cpu(), values.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.sample_gaussian(dims, output.gpu(), noise.gpu(), values.gpu())
            }
        }
    }

    /// Back through [`Device::sample_gaussian`], from dL/d(values) to dL/d(output).
    pub fn sample_gaussian_gradient(
        &self,
        dims: usize,
        output: &Buffer,
        noise: &Buffer,
        d_values: &Buffer,
        d_output: &mut Buffer,
    ) {
        check("actor's outputs", output.len(), 2 * d_values.len());
        check("gradient of the actor's outputs", d_output.len(), output.len());
        check("noise of actions", noise.len(), d_values.len());
        match self {
            Device::Cpu(cpu) => {
                let d_output = d_output.cpu_mut();
                cpu.pool.sample_gaussian_gradient(
                    dims,
                    output.cpu(),
                    noise.cpu(),
                    d_values.cpu(),
                    d_output,
                );
            }
            Device::Cuda(gpu) => {
                let d_output = d_output.gpu();
                gpu.cuda.sample_gaussian_gradient(
                    dims,
                    output.gpu(),
                    noise.gpu(),
                    d_values.gpu(),
                    d_output,
                );
            }
        }
    }

    /// values `[rows, dims]` ← values + σ ε with σ² = Σ features² · variances + 10⁻⁶, where `features` is
    /// `[rows, n]` and `variances` `[n, dims]`: the distribution of a step with generalized state-dependent
    /// exploration (Raffin, Kober & Stulp 2021).
    pub fn sample_gsde(
        &self,
        dims: usize,
        features: &Buffer,
        variances: &Buffer,
        noise: &Buffer,
        values: &mut Buffer,
    ) {
        check("noise of actions", noise.len(), values.len());
        check("features", features.len() / (variances.len() / dims), values.len() / dims);
        match self {
            Device::Cpu(cpu) => {
                let values = values.cpu_mut();
                cpu.pool.sample_gsde(dims, features.cpu(), variances.cpu(), noise.cpu(), values);
            }
            Device::Cuda(gpu) => {
                let values = values.gpu();
                gpu.cuda.sample_gsde(dims, features.gpu(), variances.gpu(), noise.gpu(), values);
            }
        }
    }
}

/// Added to the variance of state-dependent exploration, as Stable-Baselines3 does.
pub const FEATURE_VARIANCE: f32 = 1e-6;
