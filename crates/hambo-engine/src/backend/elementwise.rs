//! Kernels that treat every row or number alike: minibatches, noise, Gaussian heads, limits, expressions.

use crate::backend::{Buffer, Counter, Device, Number, check};
use crate::expression::{Program, Scratch};
use crate::rng::{Stream, uniform_indices_of_lists};
use serde::{Deserialize, Serialize};

/// A Gaussian head: of the `2·dims` outputs of a network the first half are means, the second half become
/// standard deviations by softplus, with a floor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gaussian {
    /// Number of predicted values.
    pub dims: usize,
    /// Smallest standard deviation.
    pub floor: f32,
}

impl Gaussian {
    /// ν = softplus(raw) + floor
    #[inline(always)]
    pub fn std(&self, raw: f32) -> f32 {
        // ln(1 + eˣ), written so that neither tail overflows or vanishes.
        raw.max(0.0) + (-raw.abs()).exp().ln_1p() + self.floor
    }

    /// dν / d raw = sigmoid(raw)
    #[inline(always)]
    pub fn std_slope(&self, raw: f32) -> f32 {
        1.0 / (1.0 + (-raw).exp())
    }
}

impl Device {
    /// out ← rows `indices` of `from`, each `width` long.
    pub fn gather<T: Number>(
        &self,
        from: &Buffer<T>,
        width: usize,
        indices: &Buffer<u32>,
        out: &mut Buffer<T>,
    ) {
        check("gathered rows", out.len(), indices.len() * width);
        match self {
            Device::Cpu(cpu) => cpu.pool.gather(from.cpu(), width, indices.cpu(), out.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.gather(from.gpu(), width, indices.gpu(), out.gpu()),
        }
    }

    /// [`Device::uniform_indices`] into one of several lists of `below` rows that follow each other: those of each
    /// `batch` are of the next list, and after the last list comes the first again.
    pub fn uniform_indices_of_lists(
        &self,
        (stream, step): (Stream, &Counter),
        below: usize,
        (lists, batch): (usize, usize),
        out: &mut Buffer<u32>,
    ) {
        let [below, lists, batch] = [below, lists, batch].map(|n| n as u32);
        match self {
            Device::Cpu(_) => uniform_indices_of_lists(
                stream.key(),
                step.0.cpu()[0],
                below,
                (lists, batch),
                out.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.uniform_indices(
                stream.key(),
                step.0.gpu(),
                below,
                (lists, batch),
                out.gpu(),
            ),
        }
    }

    /// Uniform random integers below `below`, a function of (stream, counter) alone.
    pub fn uniform_indices(
        &self,
        stream: Stream,
        step: &Counter,
        below: usize,
        out: &mut Buffer<u32>,
    ) {
        let batch = out.len();
        self.uniform_indices_of_lists((stream, step), below, (1, batch), out);
    }

    /// Standard normal numbers, a function of (stream, counter) alone.
    pub fn normals(&self, stream: Stream, step: &Counter, out: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.pool.normals(stream.key(), step.0.cpu()[0], out.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.normals(stream.key(), step.0.gpu(), out.gpu()),
        }
    }

    /// out ← ((states, actions) − mean) / std, row by row.
    pub fn standardize(
        &self,
        states: (&Buffer, usize),
        actions: (&Buffer, usize),
        mean: &Buffer,
        std: &Buffer,
        out: &mut Buffer,
    ) {
        check("standardized columns", mean.len(), states.1 + actions.1);
        match self {
            Device::Cpu(cpu) => {
                let parts = [(states.0.cpu(), states.1), (actions.0.cpu(), actions.1)];
                cpu.pool.standardize(parts, mean.cpu(), std.cpu(), out.cpu_mut());
            }
            Device::Cuda(gpu) => {
                let parts = [(states.0.gpu(), states.1), (actions.0.gpu(), actions.1)];
                gpu.cuda.standardize(parts, mean.gpu(), std.gpu(), out.gpu());
            }
        }
    }

    /// Mean Gaussian negative log-likelihood of `targets` `[groups, rows, dims]` under each member's
    /// `output` `[members, rows, 2·dims]` into `losses` `[members]`, as in [`crate::backend::Input`]: one group for
    /// all members, one for each, or that of m mod groups for member m. Where asked for, also dNLL/d(output), the
    /// part of each predicted value times ν^(2w), w being the number beside the buffer: 0 for the plain gradient.
    pub fn gaussian_nll(
        &self,
        head: &Gaussian,
        output: &Buffer,
        targets: &Buffer,
        d_output: Option<(&mut Buffer, f32)>,
        losses: &mut Buffer<f64>,
    ) {
        let outputs = output.len() / (2 * losses.len()); // of a member
        check("groups of targets", targets.len() % outputs.max(1), 0);
        match self {
            Device::Cpu(cpu) => {
                let d_output = d_output.map(|(d, weight)| (d.cpu_mut(), weight));
                cpu.pool.gaussian_nll(
                    head,
                    losses.len(),
                    output.cpu(),
                    targets.cpu(),
                    d_output,
                    losses.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let d_output = d_output.map(|(d, weight)| (d.gpu(), weight));
                gpu.cuda.gaussian_nll(
                    head,
                    losses.len(),
                    output.gpu(),
                    targets.gpu(),
                    d_output,
                    losses.gpu(),
                );
            }
        }
    }

    /// Moments of the members' mixture, each `[rows, dims]`: μ_Θ = 1/K Σ h_k, σ²_e = 1/K Σ (h_k − μ_Θ)²,
    /// σ²_a = 1/K Σ ν²_k.
    pub fn moments(
        &self,
        head: &Gaussian,
        members: usize,
        output: &Buffer,
        mean: &mut Buffer,
        epistemic: &mut Buffer,
        aleatoric: &mut Buffer,
    ) {
        check("outputs", output.len(), members * mean.len() * 2);
        match self {
            Device::Cpu(cpu) => {
                let (mean, epistemic, aleatoric) =
                    (mean.cpu_mut(), epistemic.cpu_mut(), aleatoric.cpu_mut());
                cpu.pool.moments(head, members, output.cpu(), mean, epistemic, aleatoric);
            }
            Device::Cuda(gpu) => {
                let (mean, epistemic, aleatoric) = (mean.gpu(), epistemic.gpu(), aleatoric.gpu());
                gpu.cuda.moments(head, members, output.gpu(), mean, epistemic, aleatoric);
            }
        }
    }

    /// Each column of `values` ← limited to \[low, high\].
    pub fn clamp(&self, low: &Buffer, high: &Buffer, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.pool.clamp(low.cpu(), high.cpu(), values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.clamp(low.gpu(), high.gpu(), values.gpu()),
        }
    }

    /// out ← (values − mean) / std, column by column, limited to ±`limit`; in f64, since a column that hardly
    /// varied is divided by very little.
    pub fn normalize(
        &self,
        values: &Buffer,
        (mean, std): (&Buffer<f64>, &Buffer<f64>),
        limit: f64,
        out: &mut Buffer,
    ) {
        check("normalized values", out.len(), values.len());
        check("deviations", std.len(), mean.len());
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.normalize(values.cpu(), (mean.cpu(), std.cpu()), limit, out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.normalize(values.gpu(), (mean.gpu(), std.gpu()), limit, out.gpu())
            }
        }
    }

    /// Each column of `values` ← limited to ±`limit`, then taken by tanh into \[low, high\].
    pub fn squash_to_bounds(&self, low: &Buffer, high: &Buffer, limit: f32, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.squash_to_bounds(low.cpu(), high.cpu(), limit, values.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.squash_to_bounds(low.gpu(), high.gpu(), limit, values.gpu())
            }
        }
    }

    /// out `[rows, outputs]` ← the program on every row; inputs it does not use may be empty.
    pub fn evaluate(
        &self,
        program: &Program,
        states: &Buffer,
        actions: &Buffer,
        next: &Buffer,
        out: &mut Buffer,
    ) {
        if program.is_function() {
            return self.call(program, [states, actions, next], out);
        }
        match self {
            Device::Cpu(cpu) => {
                cpu.pool.evaluate(program, states.cpu(), actions.cpu(), next.cpu(), out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.evaluate(program, states.gpu(), actions.gpu(), next.gpu(), out.gpu())
            }
        }
    }

    /// The same for a function, which is called once with all rows.
    fn call(&self, program: &Program, inputs: [&Buffer; 3], out: &mut Buffer) {
        let [states, actions, next] = inputs.map(|input| self.download_or_nan(input));
        let mut values = vec![f32::NAN; out.len()];
        let scratch = &mut Scratch::default();
        let done = program.evaluate(values.len(), &states, &actions, &next, &mut values, scratch);
        assert!(done.is_ok(), "sizes of a function: {done:?}");
        self.copy(&self.adopt(values), out);
    }
}
