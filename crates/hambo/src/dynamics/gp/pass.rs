//! A Gaussian process as rollouts and adversaries see it.
//!
//! Their kernels know a few Gaussians a row, the members, whose means have mean μ and deviation σ_e. A GP's are two,
//! N(μ + σ_e, σ²_ε) and N(μ − σ_e, σ²_ε): so trajectories, shifts within the confidence set and their gradients need
//! nothing of their own. Posteriors are computed in f64 on the host; of σ_e what is left in f32 is as much as of the
//! states that it is added to.

use super::Gp;
use super::posterior::Tape;
use crate::Result;
use crate::data::Split;
use crate::dynamics::{Dynamics, Frame, ModelReport, Pass};
use hambo_engine::backend::{Buffer, Device, Gaussian, Input};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The two sides of the mean.
const SIDES: [f64; 2] = [1.0, -1.0];

impl Dynamics for Gp {
    fn frame(&self) -> &Frame {
        &self.frame
    }
    fn members(&self) -> usize {
        SIDES.len()
    }
    fn head(&self) -> &Gaussian {
        &self.head
    }
    fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer) {
        let (x, batches) = input.batches(SIDES.len());
        let x = wide(&device.download_or_nan(x));
        let moments =
            device.run(|| self.posteriors.iter().map(|p| p.predict(&x)).collect::<Vec<_>>());
        // Rows of a member's own lie after those of the member before it.
        let own = if batches > 1 { rows } else { 0 };
        *output = device.adopt(self.outputs(&moments, rows, own));
    }
    fn pass<'a>(&'a self, device: &Device, rows: usize) -> Option<Box<dyn Pass + 'a>> {
        let size = SIDES.len() * rows * 2 * self.frame.state_dim();
        Some(Box::new(GpPass {
            gp: self,
            tapes: vec![Tape::default(); self.posteriors.len()],
            output: device.zeros(size),
            d_output: device.zeros(size),
            d_inputs: device.zeros(0),
        }))
    }
    fn has_particles(&self) -> bool {
        false
    }
    fn held_out(&self) -> &Split {
        &self.held_out
    }
    fn fit_report(&self) -> ModelReport {
        ModelReport::Gp(self.report.clone())
    }
    fn settings(&self) -> Value {
        json!({"gp": self.config})
    }
    fn as_gp(&self) -> Option<&Gp> {
        Some(self)
    }
    fn files(&self, _: &Device, folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        self.to_files(folder)
    }
}

impl Gp {
    /// `[members, rows, 2·state]` of mean `[rows, outputs]` and deviation `[rows]` of every posterior; the rows of
    /// member m start at m · `own`.
    fn outputs(&self, moments: &[(Vec<f64>, Vec<f64>)], rows: usize, own: usize) -> Vec<f32> {
        let ds = self.frame.state_dim();
        let mut outputs = vec![0.0; SIDES.len() * rows * 2 * ds];
        for (at, out) in outputs.chunks_exact_mut(2 * ds).enumerate() {
            let (member, row) = (at / rows, at % rows + at / rows * own);
            for d in 0..ds {
                let (mean, std) = &moments[d % moments.len()];
                let mean = mean[if moments.len() == 1 { row * ds + d } else { row }];
                out[d] = (mean + SIDES[member] * std[row]) as f32;
                out[ds + d] = self.raw_noise[d];
            }
        }
        outputs
    }
}

/// A pass through the posteriors.
struct GpPass<'a> {
    gp: &'a Gp,
    tapes: Vec<Tape>,
    output: Buffer,
    d_output: Buffer,
    d_inputs: Buffer,
}

impl Pass for GpPass<'_> {
    fn forward(&mut self, device: &Device, inputs: &Buffer) {
        let x = wide(&device.download_or_nan(inputs));
        let rows = x.len() / self.gp.frame.input_dim();
        let parts = self.gp.posteriors.iter().zip(&mut self.tapes);
        let moments = device.run(|| parts.map(|(p, tape)| p.forward(&x, tape)).collect::<Vec<_>>());
        self.output = device.adopt(self.gp.outputs(&moments, rows, 0));
    }

    fn output(&mut self) -> (&Buffer, &mut Buffer) {
        (&self.output, &mut self.d_output)
    }

    fn backward(&mut self, device: &Device, inputs: &Buffer) -> &Buffer {
        let ds = self.gp.frame.state_dim();
        let d_output = device.download_or_nan(&self.d_output);
        let (plus, minus) = d_output.split_at(d_output.len() / 2);
        let rows = plus.len() / (2 * ds);
        let mut d_inputs = vec![0.0; inputs.len()];
        for (index, (posterior, tape)) in self.gp.posteriors.iter().zip(&self.tapes).enumerate() {
            let dimensions = if self.gp.posteriors.len() == 1 { 0..ds } else { index..index + 1 };
            let (mut d_mean, mut d_std) = (Vec::with_capacity(rows * ds), vec![0.0; rows]);
            for (row, d_std) in d_std.iter_mut().enumerate() {
                for d in dimensions.clone() {
                    let [p, m] = [plus, minus].map(|side| f64::from(side[row * 2 * ds + d]));
                    d_mean.push(p + m);
                    *d_std += p - m;
                }
            }
            let d_x = device.run(|| posterior.backward(tape, &d_mean, &d_std));
            d_inputs.iter_mut().zip(d_x).for_each(|(sum, d)| *sum += d as f32);
        }
        self.d_inputs = device.adopt(d_inputs);
        &self.d_inputs
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}
