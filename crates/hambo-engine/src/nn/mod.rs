//! Ensembles of MLPs with their training state.

mod minibatches;

pub use crate::backend::Optimizer;
pub use minibatches::{BatchSizes, Minibatches};

use crate::backend::{Buffer, Device, Input, Pass, Shape, Svgd};
use crate::rng::Stream;

/// An ensemble of networks: its shape and the parameters of all members.
#[derive(Debug)]
pub struct Ensemble {
    /// Architecture and number of members.
    pub shape: Shape,
    /// `[members, stride]`, see [`Shape`].
    pub params: Buffer,
}

impl Ensemble {
    /// Random weights and biases, uniform in ±1/√inputs; every member has its own.
    pub fn random(device: &Device, shape: Shape, stream: Stream) -> Self {
        let mut params = Vec::with_capacity(shape.members * shape.stride());
        for member in 0..shape.members {
            let mut generator = stream.index(member as u64).generator();
            for (_, layer) in shape.layers() {
                let bound = 1.0 / (layer.inputs as f64).sqrt();
                let n = layer.inputs * layer.outputs + layer.outputs;
                params.extend((0..n).map(|_| generator.range(-bound, bound) as f32));
            }
            params.resize((member + 1) * shape.stride(), 0.0);
        }
        Ensemble { params: device.adopt(params), shape }
    }

    /// A pass of `rows` rows through these networks.
    pub fn pass<'a>(&'a self, input: Input<'a>, rows: usize) -> Pass<'a> {
        Pass { shape: &self.shape, params: &self.params, input, rows }
    }

    /// All members' outputs `[members, rows, outputs]`.
    pub fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer) {
        device.infer(&self.pass(input, rows), output);
    }

    /// A forward pass that can be differentiated: fills `buffers`.
    pub fn forward(&self, device: &Device, input: Input<'_>, buffers: &mut PassBuffers) {
        device.forward(&self.pass(input, buffers.rows), &mut buffers.activations);
    }

    /// Back-propagates dL/d(output), see [`PassBuffers::output`], to the parameters and, or, to the input.
    pub fn backward(
        &self,
        device: &Device,
        input: Input<'_>,
        buffers: &mut PassBuffers,
        gradient: Option<&mut Buffer>,
        d_input: Option<&mut Buffer>,
    ) {
        let PassBuffers { rows, activations, deltas } = buffers;
        device.backward(&self.pass(input, *rows), activations, deltas, gradient, d_input);
    }
}

/// What a forward pass leaves behind for the backward pass.
#[derive(Debug)]
pub struct PassBuffers {
    rows: usize,
    activations: Vec<Buffer>,
    deltas: Vec<Buffer>,
}

impl PassBuffers {
    /// Room for passes of `rows` rows.
    pub fn new(device: &Device, shape: &Shape, rows: usize) -> Self {
        let layers =
            || shape.widths[1..].iter().map(|w| device.zeros(shape.members * rows * w)).collect();
        PassBuffers { rows, activations: layers(), deltas: layers() }
    }

    /// The networks' output `[members, rows, outputs]` and, beside it, the place for dL/d(output).
    pub fn output(&mut self) -> (&Buffer, &mut Buffer) {
        let last = self.activations.len() - 1;
        (&self.activations[last], &mut self.deltas[last])
    }

    /// What the last hidden layer gave, `[members, rows, width]`; none where there is no hidden layer.
    pub fn features(&self) -> Option<&Buffer> {
        self.activations.len().checked_sub(2).map(|i| &self.activations[i])
    }
}

impl Optimizer {
    /// Moves all particles of an ensemble along the SVGD direction.
    pub fn svgd_step(
        &mut self,
        device: &Device,
        svgd: &Svgd,
        ensemble: &mut Ensemble,
        gradient: &Buffer,
    ) {
        self.svgd_update(device, svgd, ensemble.shape.members, &mut ensemble.params, gradient);
    }
}
