//! Gradients of the kernels that a trajectory is made of, for back-propagation through whole rollouts.

use crate::backend::{Buffer, Device, Prediction, Shift, check};
use crate::expression::Program;

impl Device {
    /// Back through [`Device::propagate`] with [`crate::backend::Step::Shifted`]: from dL/d(next) to dL/d(output) of every
    /// member and dL/d(amount).
    pub fn shift_gradient(
        &self,
        prediction: &Prediction<'_>,
        shift: &Shift<'_>,
        d_next: &Buffer,
        d_output: &mut Buffer,
        d_amount: &mut Buffer,
    ) {
        check("gradient of outputs", d_output.len(), prediction.output.len());
        check("gradient of shifts", d_amount.len(), d_next.len());
        match self {
            Device::Cpu(cpu) => {
                let (prediction, shift) = (prediction.map(Buffer::cpu), shift.map(Buffer::cpu));
                let (d_output, d_amount) = (d_output.cpu_mut(), d_amount.cpu_mut());
                cpu.pool.shift_gradient(&prediction, &shift, d_next.cpu(), d_output, d_amount);
            }
            Device::Cuda(gpu) => {
                let (prediction, shift) = (prediction.map(Buffer::gpu), shift.map(Buffer::gpu));
                let (d_output, d_amount) = (d_output.gpu(), d_amount.gpu());
                gpu.cuda.shift_gradient(&prediction, &shift, d_next.gpu(), d_output, d_amount);
            }
        }
    }

    /// Back through [`Device::evaluate`]: adds to the gradients of (states, actions, next); an empty buffer
    /// is a gradient not asked for.
    pub fn evaluate_gradient(
        &self,
        program: &Program,
        inputs: [&Buffer; 3],
        d_out: &Buffer,
        gradients: [&mut Buffer; 3],
    ) {
        match self {
            Device::Cpu(cpu) => cpu.pool.evaluate_gradient(
                program,
                inputs.map(Buffer::cpu),
                d_out.cpu(),
                gradients.map(Buffer::cpu_mut),
            ),
            Device::Cuda(gpu) => gpu.cuda.evaluate_gradient(
                program,
                inputs.map(Buffer::gpu),
                d_out.gpu(),
                gradients.map(|g| g.gpu()),
            ),
        }
    }

    /// Back through [`Device::standardize`]: adds the sum over members of `d_inputs` `[members, rows, width]`,
    /// in units of states and actions.
    pub fn standardize_gradient(
        &self,
        d_inputs: &Buffer,
        std: &Buffer,
        d_states: (&mut Buffer, usize),
        d_actions: (&mut Buffer, usize),
    ) {
        match self {
            Device::Cpu(cpu) => {
                let (d_states, d_actions) =
                    ((d_states.0.cpu_mut(), d_states.1), (d_actions.0.cpu_mut(), d_actions.1));
                cpu.pool.standardize_gradient(d_inputs.cpu(), std.cpu(), d_states, d_actions);
            }
            Device::Cuda(gpu) => {
                let (d_states, d_actions) =
                    ((d_states.0.gpu(), d_states.1), (d_actions.0.gpu(), d_actions.1));
                gpu.cuda.standardize_gradient(d_inputs.gpu(), std.gpu(), d_states, d_actions);
            }
        }
    }

    /// Back through [`Device::normalize`], whose result was `out`: adds to `d_values`.
    pub fn normalize_gradient(
        &self,
        out: &Buffer,
        std: &Buffer<f64>,
        limit: f64,
        d_out: &Buffer,
        d_values: &mut Buffer,
    ) {
        check("gradient of normalized values", d_out.len(), out.len());
        check("gradient of values", d_values.len(), out.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.normalize_gradient(
                out.cpu(),
                std.cpu(),
                limit,
                d_out.cpu(),
                d_values.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.normalize_gradient(
                out.gpu(),
                std.gpu(),
                limit,
                d_out.gpu(),
                d_values.gpu(),
            ),
        }
    }

    /// Back through [`Device::squash_to_bounds`]: `values` are those before it.
    pub fn squash_to_bounds_gradient(
        &self,
        low: &Buffer,
        high: &Buffer,
        limit: f32,
        values: &Buffer,
        d_values: &mut Buffer,
    ) {
        check("gradient of squashed values", d_values.len(), values.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.squash_to_bounds_gradient(
                low.cpu(),
                high.cpu(),
                limit,
                values.cpu(),
                d_values.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.squash_to_bounds_gradient(
                low.gpu(),
                high.gpu(),
                limit,
                values.gpu(),
                d_values.gpu(),
            ),
        }
    }

    /// Back through [`Device::clamp`]: `values` are those before it or after it.
    pub fn clamp_gradient(
        &self,
        low: &Buffer,
        high: &Buffer,
        values: &Buffer,
        d_values: &mut Buffer,
    ) {
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.clamp_gradient(low.cpu(), high.cpu(), values.cpu(), d_values.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.clamp_gradient(low.gpu(), high.gpu(), values.gpu(), d_values.gpu())
            }
        }
    }

    /// Rows of trajectories that no longer run, and rows that are not finite, ← 0.
    pub fn still_running(&self, status: &Buffer<u32>, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.pool.still_running(status.cpu(), values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.still_running(status.gpu(), values.gpu()),
        }
    }

    /// to ← to + from
    pub fn add(&self, from: &Buffer, to: &mut Buffer) {
        check("sum", to.len(), from.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.add(from.cpu(), to.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.add(from.gpu(), to.gpu()),
        }
    }

    /// Each column of `values` ← times its factor.
    pub fn scale_columns(&self, factors: &Buffer, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.pool.scale_columns(factors.cpu(), values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.scale_columns(factors.gpu(), values.gpu()),
        }
    }

    /// Each member's part of `values` is shortened to a norm of at most `limit`; one that is not finite says nothing, and
    /// becomes 0.
    pub fn clip_norm(&self, members: usize, limit: f32, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.pool.clip_norm(members, limit, values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.clip_norm(members, limit, values.gpu()),
        }
    }
}
