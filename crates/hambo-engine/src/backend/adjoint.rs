//! Gradients of the kernels that a trajectory is made of, for back-propagation through whole rollouts.

use crate::backend::{Buffer, Counter, Device, Prediction, Shift, check};
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
        if program.is_function() {
            return; // it has none
        }
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

    /// What the end of a trajectory is worth, one step at a time from the last to the first. `to_go` `[rows]` is what each
    /// earns after the step; d_end ← its derivative by the probability of ending with the step, which is −`to_go` where
    /// the trajectory goes on, and minus the mean of those of its group that do where it ends. Then what the step itself
    /// pays, weights\[step\] · reward, is added to `to_go`. `status` are those before and after the step.
    pub fn end_gradient(
        &self,
        groups: usize,
        status: [&Buffer<u32>; 2],
        (weights, step): (&Buffer, &Counter),
        rewards: &Buffer,
        to_go: &mut Buffer,
        d_end: &mut Buffer,
    ) {
        check("rewards to go", to_go.len(), rewards.len());
        check("gradient of ends", d_end.len(), rewards.len());
        match self {
            Device::Cpu(cpu) => cpu.pool.end_gradient(
                rewards.len() / groups,
                status.map(Buffer::cpu),
                weights.cpu()[step.0.cpu()[0] as usize],
                rewards.cpu(),
                to_go.cpu_mut(),
                d_end.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.end_gradient(
                groups,
                status.map(Buffer::gpu),
                (weights.gpu(), step.0.gpu()),
                rewards.gpu(),
                to_go.gpu(),
                d_end.gpu(),
            ),
        }
    }

    /// Each member's part of `values` is shortened to a norm of at most `limit`; one that is not finite says nothing, and
    /// becomes 0. Members whose part is 0 then are counted in `idle` `[members]`.
    pub fn clip_norm(&self, members: usize, limit: f32, values: &mut Buffer, idle: &mut Buffer) {
        check("members", idle.len(), members);
        match self {
            Device::Cpu(cpu) => cpu.pool.clip_norm(limit, values.cpu_mut(), idle.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.clip_norm(limit, values.gpu(), idle.gpu()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups; rows that go on, end, diverge, and had ended before.
    #[test]
    fn an_end_costs_what_was_to_come() {
        let device = Device::cpu(Some(1)).unwrap();
        let before = device.upload(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        let after = device.upload(&[0, 0, 1, 2, 1, 1, 1, 1, 1, 1]);
        let (weights, mut step) = (device.upload(&[1.0, 0.5]), device.counter());
        device.advance(&mut step);
        let rewards = device.upload(&[1.0, 2.0, 3.0, f32::NAN, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        let mut to_go = device.upload(&[10.0, 20.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let mut d_end = device.zeros(10);
        let status = [&before, &after];
        device.end_gradient(2, status, (&weights, &step), &rewards, &mut to_go, &mut d_end);
        let expected = [-10.0, -20.0, -15.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(device.download(&d_end).unwrap(), expected);
        let expected = [10.5, 21.0, 1.5, 0.0, 0.0, 3.0, 3.5, 4.0, 4.5, 5.0];
        assert_eq!(device.download(&to_go).unwrap(), expected);
    }

    #[test]
    fn members_that_do_not_move_are_counted() {
        let device = Device::cpu(Some(1)).unwrap();
        let mut values = device.upload(&[3.0, 4.0, f32::NAN, 1.0, 0.0, 0.0, 0.1, 0.0]);
        let mut idle = device.upload(&[0.0, 1.0, 0.0, 0.0]);
        device.clip_norm(4, 1.0, &mut values, &mut idle);
        assert_eq!(device.download(&idle).unwrap(), [0.0, 2.0, 1.0, 0.0]);
        let clipped = device.download(&values).unwrap();
        assert_eq!(clipped[2..], [0.0, 0.0, 0.0, 0.0, 0.1, 0.0]);
        assert!((clipped[0] - 0.6).abs() < 1e-6 && (clipped[1] - 0.8).abs() < 1e-6);
    }
}
