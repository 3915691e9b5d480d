//! Ensembles of MLPs with their training state.

use crate::checkpoint::Arrays;
use crate::compute::{Adam, Buffer, Counter, Device, Input, Shape, Svgd};
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

    /// All members' outputs `[members, rows, outputs]`.
    pub fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer) {
        device.infer(&self.shape, &self.params, input, rows, output);
    }

    /// A forward pass that can be differentiated: fills `trace`.
    pub fn forward(&self, device: &Device, input: Input<'_>, trace: &mut Trace) {
        device.forward(&self.shape, &self.params, input, trace.rows, &mut trace.activations);
    }

    /// Back-propagates `trace.d_output` to the parameters and, or, to the input.
    pub fn backward(
        &self,
        device: &Device,
        input: Input<'_>,
        trace: &mut Trace,
        gradient: Option<&mut Buffer>,
        d_input: Option<&mut Buffer>,
    ) {
        let Trace { rows, activations, deltas } = trace;
        device.backward(&self.shape, &self.params, input, *rows, activations, deltas, gradient, d_input);
    }
}

/// What a forward pass leaves behind for the backward pass.
#[derive(Debug)]
pub struct Trace {
    rows: usize,
    activations: Vec<Buffer>,
    deltas: Vec<Buffer>,
}

impl Trace {
    /// Room for passes of `rows` rows.
    pub fn new(device: &Device, shape: &Shape, rows: usize) -> Self {
        let layers = || shape.widths[1..].iter().map(|w| device.zeros(shape.members * rows * w)).collect();
        Trace { rows, activations: layers(), deltas: layers() }
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

/// Adam with its state for one set of parameters.
#[derive(Debug)]
pub struct Optimiser {
    adam: Adam,
    moments: [Buffer; 2],
    step: Counter,
}

impl Optimiser {
    /// A fresh optimiser for `parameters` numbers.
    pub fn new(device: &Device, adam: Adam, parameters: usize) -> Self {
        Optimiser {
            adam,
            moments: [device.zeros(parameters), device.zeros(parameters)],
            step: device.counter(),
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
        device.adam(&self.adam, &mut self.step, params, gradient, &mut self.moments);
    }

    /// Moves all particles of an ensemble along the SVGD direction.
    pub fn svgd_step(&mut self, device: &Device, svgd: &Svgd, ensemble: &mut Ensemble, gradient: &Buffer) {
        let members = ensemble.shape.members;
        device.svgd_adam(
            svgd,
            &self.adam,
            &mut self.step,
            members,
            &mut ensemble.params,
            gradient,
            &mut self.moments,
        );
    }
}

/// Copies buffers to arrays of their names.
pub(crate) fn store_parts<'b>(
    device: &Device,
    parts: impl IntoIterator<Item = (&'static str, &'b mut Buffer)>,
    arrays: &mut Arrays,
) {
    parts.into_iter().for_each(|(name, part)| arrays.put(name, &device.download(part)));
}

/// The same back, into buffers of the same lengths.
pub(crate) fn restore_parts<'b>(
    device: &Device,
    parts: impl IntoIterator<Item = (&'static str, &'b mut Buffer)>,
    arrays: &Arrays,
) -> std::result::Result<(), String> {
    for (name, part) in parts {
        *part = device.adopt(arrays.get_exactly(name, part.len())?);
    }
    Ok(())
}
