//! Passes through ensembles of networks.

use crate::backend::{Buffer, Device, Shape, check};

/// The input of an ensemble: one batch for all members, a batch of its own for each, or one for each group of members.
#[derive(Debug)]
pub enum Input<'a, B: ?Sized = Buffer> {
    /// `[rows, inputs]`
    Shared(&'a B),
    /// `[members, rows, inputs]`
    PerMember(&'a B),
    /// `[groups, rows, inputs]`: member m is given the batch of group m mod groups.
    Grouped(&'a B, usize),
}

impl<B: ?Sized> Clone for Input<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: ?Sized> Copy for Input<'_, B> {}

impl<'a> Input<'a> {
    fn map<B: ?Sized>(self, place: impl FnOnce(&'a Buffer) -> &'a B) -> Input<'a, B> {
        match self {
            Input::Shared(b) => Input::Shared(place(b)),
            Input::PerMember(b) => Input::PerMember(place(b)),
            Input::Grouped(b, groups) => Input::Grouped(place(b), groups),
        }
    }
}

impl<'a, B: ?Sized> Input<'a, B> {
    /// The batches, and how many they are for so many members.
    pub fn batches(&self, members: usize) -> (&'a B, usize) {
        match *self {
            Input::Shared(b) => (b, 1),
            Input::PerMember(b) => (b, members),
            Input::Grouped(b, groups) => (b, groups),
        }
    }
}

/// A pass through an ensemble: what goes through which networks.
#[derive(Debug)]
pub struct Pass<'a, B: ?Sized = Buffer> {
    /// Architecture and number of members.
    pub shape: &'a Shape,
    /// `[members, stride]`, see [`Shape`].
    pub params: &'a B,
    /// What the networks are given.
    pub input: Input<'a, B>,
    /// Rows of the input of each member.
    pub rows: usize,
}

impl<'a> Pass<'a> {
    fn map<B: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a B) -> Pass<'a, B> {
        let Pass { shape, params, input, rows } = *self;
        Pass { shape, params: place(params), input: input.map(&place), rows }
    }

    fn check(&self) {
        let Pass { shape, params, input, rows } = *self;
        check("parameters", params.len(), shape.members * shape.stride());
        let (x, batches) = input.batches(shape.members);
        check("input", x.len(), batches * rows * shape.inputs());
    }

    fn check_output(&self, output: &Buffer) {
        check("output", output.len(), self.shape.members * self.rows * self.shape.outputs());
    }

    fn check_layers(&self, buffers: &[Buffer]) {
        check("layers", buffers.len(), self.shape.depth());
        for (buffer, width) in buffers.iter().zip(&self.shape.widths[1..]) {
            check("activations", buffer.len(), self.shape.members * self.rows * width);
        }
    }
}

impl Device {
    /// All members' outputs `[members, rows, outputs]`, keeping no activations.
    pub fn infer(&self, pass: &Pass<'_>, output: &mut Buffer) {
        pass.check();
        pass.check_output(output);
        match self {
            Device::Cpu(cpu) => cpu.pool.infer(&pass.map(Buffer::cpu), output.cpu_mut(), !cpu.fast),
            Device::Cuda(gpu) => gpu.cuda.infer(&pass.map(Buffer::gpu), output.gpu(), !gpu.fast),
        }
    }

    /// [`Device::infer`], then [`Device::squash_to_bounds`].
    pub fn infer_within(
        &self,
        pass: &Pass<'_>,
        ([low, high], limit): ([&Buffer; 2], f32),
        output: &mut Buffer,
    ) {
        check("lower bounds", low.len(), pass.shape.outputs());
        check("upper bounds", high.len(), pass.shape.outputs());
        let Device::Cuda(gpu) = self else {
            self.infer(pass, output);
            return self.squash_to_bounds(low, high, limit, output);
        };
        pass.check();
        pass.check_output(output);
        let bounds = ([low.gpu(), high.gpu()], limit);
        gpu.cuda.infer_within(&pass.map(Buffer::gpu), bounds, output.gpu(), !gpu.fast);
    }

    /// All members' activations, one buffer `[members, rows, width]` a layer; the last is the output.
    pub fn forward(&self, pass: &Pass<'_>, activations: &mut [Buffer]) {
        pass.check();
        pass.check_layers(activations);
        match self {
            Device::Cpu(cpu) => cpu.pool.forward(&pass.map(Buffer::cpu), activations, !cpu.fast),
            Device::Cuda(gpu) => gpu.cuda.forward(&pass.map(Buffer::gpu), activations, !gpu.fast),
        }
    }

    /// Back-propagation through [`Device::forward`]. On entry the last of `deltas` holds dL/d(output); the
    /// others are overwritten. `gradient` `[members, stride]` and `d_input` `[members, rows, inputs]`
    /// are written where given.
    pub fn backward(
        &self,
        pass: &Pass<'_>,
        activations: &[Buffer],
        deltas: &mut [Buffer],
        gradient: Option<&mut Buffer>,
        d_input: Option<&mut Buffer>,
    ) {
        pass.check();
        pass.check_layers(activations);
        pass.check_layers(deltas);
        if let Some(g) = &gradient {
            check("gradient", g.len(), pass.params.len());
        }
        if let Some(d) = &d_input {
            check("d_input", d.len(), pass.shape.members * pass.rows * pass.shape.inputs());
        }
        match self {
            Device::Cpu(cpu) => {
                let (gradient, d_input) =
                    (gradient.map(Buffer::cpu_mut), d_input.map(Buffer::cpu_mut));
                let pass = pass.map(Buffer::cpu);
                cpu.pool.backward(&pass, activations, deltas, gradient, d_input, !cpu.fast);
            }
            Device::Cuda(gpu) => {
                let (gradient, d_input) = (gradient.map(|g| g.gpu()), d_input.map(|d| d.gpu()));
                let pass = pass.map(Buffer::gpu);
                gpu.cuda.backward(&pass, (activations, deltas), (gradient, d_input), !gpu.fast);
            }
        }
    }
}
