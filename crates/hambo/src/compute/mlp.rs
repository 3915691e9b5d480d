//! Passes through ensembles of networks.

use super::cuda::Memory;
use super::{Buffer, Device, Shape, check};

/// The input of an ensemble: one batch for all members, or a batch of its own for each.
#[derive(Debug)]
pub enum Input<'a, B: ?Sized = Buffer> {
    /// `[rows, inputs]`
    Shared(&'a B),
    /// `[members, rows, inputs]`
    PerMember(&'a B),
}

impl<B: ?Sized> Clone for Input<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: ?Sized> Copy for Input<'_, B> {}

impl<'a> Input<'a> {
    fn gpu(self) -> Input<'a, Memory> {
        match self {
            Input::Shared(b) => Input::Shared(b.gpu()),
            Input::PerMember(b) => Input::PerMember(b.gpu()),
        }
    }

    fn cpu(self) -> Input<'a, [f32]> {
        match self {
            Input::Shared(b) => Input::Shared(b.cpu()),
            Input::PerMember(b) => Input::PerMember(b.cpu()),
        }
    }
}

impl Device {
    /// All members' outputs `[members, rows, outputs]`, keeping no activations.
    pub fn infer(&self, shape: &Shape, params: &Buffer, input: Input<'_>, rows: usize, output: &mut Buffer) {
        check_ensemble(shape, params, input, rows);
        check("output", output.len(), shape.members * rows * shape.outputs());
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.infer(shape, params.cpu(), input.cpu(), rows, output.cpu_mut(), !cpu.fast)
            }
            Device::Cuda(gpu) => {
                gpu.cuda.infer(shape, params.gpu(), input.gpu(), rows, output.gpu(), !gpu.fast)
            }
        }
    }

    /// [`Device::infer`], then [`Device::squash_to_bounds`].
    pub fn infer_within(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        ([low, high], limit): ([&Buffer; 2], f32),
        output: &mut Buffer,
    ) {
        check("lower bounds", low.len(), shape.outputs());
        check("upper bounds", high.len(), shape.outputs());
        let Device::Cuda(gpu) = self else {
            self.infer(shape, params, input, rows, output);
            return self.squash_to_bounds(low, high, limit, output);
        };
        check_ensemble(shape, params, input, rows);
        check("output", output.len(), shape.members * rows * shape.outputs());
        let (params, bounds) = (params.gpu(), ([low.gpu(), high.gpu()], limit));
        gpu.cuda.infer_within(shape, params, input.gpu(), rows, bounds, output.gpu(), !gpu.fast);
    }

    /// All members' activations, one buffer `[members, rows, width]` a layer; the last is the output.
    pub fn forward(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        activations: &mut [Buffer],
    ) {
        check_ensemble(shape, params, input, rows);
        check_layers(shape, rows, activations);
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.forward(shape, params.cpu(), input.cpu(), rows, activations, !cpu.fast)
            }
            Device::Cuda(gpu) => {
                gpu.cuda.forward(shape, params.gpu(), input.gpu(), rows, activations, !gpu.fast)
            }
        }
    }

    /// Back-propagation through [`Device::forward`]. On entry the last of `deltas` holds dL/d(output); the
    /// others are overwritten. `gradient` `[members, stride]` and `d_input` `[members, rows, inputs]`
    /// are written where given.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        activations: &[Buffer],
        deltas: &mut [Buffer],
        gradient: Option<&mut Buffer>,
        d_input: Option<&mut Buffer>,
    ) {
        check_ensemble(shape, params, input, rows);
        check_layers(shape, rows, activations);
        check_layers(shape, rows, deltas);
        if let Some(g) = &gradient {
            check("gradient", g.len(), params.len());
        }
        if let Some(d) = &d_input {
            check("d_input", d.len(), shape.members * rows * shape.inputs());
        }
        match self {
            Device::Cpu(cpu) => {
                let (gradient, d_input) = (gradient.map(Buffer::cpu_mut), d_input.map(Buffer::cpu_mut));
                cpu.pool.backward(
                    shape,
                    params.cpu(),
                    input.cpu(),
                    rows,
                    activations,
                    deltas,
                    gradient,
                    d_input,
                    !cpu.fast,
                );
            }
            Device::Cuda(gpu) => {
                let (gradient, d_input) = (gradient.map(|g| g.gpu()), d_input.map(|d| d.gpu()));
                let (trace, gradients) = ((activations, &*deltas), (gradient, d_input));
                gpu.cuda.backward(shape, params.gpu(), input.gpu(), rows, trace, gradients, !gpu.fast);
            }
        }
    }
}

fn check_ensemble(shape: &Shape, params: &Buffer, input: Input<'_>, rows: usize) {
    check("parameters", params.len(), shape.members * shape.stride());
    match input {
        Input::Shared(x) => check("shared input", x.len(), rows * shape.inputs()),
        Input::PerMember(x) => check("input per member", x.len(), shape.members * rows * shape.inputs()),
    }
}

fn check_layers(shape: &Shape, rows: usize, buffers: &[Buffer]) {
    check("layers", buffers.len(), shape.depth());
    for (buffer, width) in buffers.iter().zip(&shape.widths[1..]) {
        check("activations", buffer.len(), shape.members * rows * width);
    }
}
