//! Policies that draw, see [`crate::backend::Device::sample_gaussian`] and its neighbors.

use crate::backend::cpu::{Cpu, Parts, elementwise::ROWS};
use crate::backend::rl::LOG_STD;
use crate::backend::sampling::FEATURE_VARIANCE;

impl Cpu {
    pub fn add_scaled_columns(&self, factors: &[f32], from: &[f32], to: &mut [f32]) {
        let n = factors.len();
        for (to, from) in to.chunks_exact_mut(n).zip(from.chunks_exact(n)) {
            to.iter_mut().zip(from).zip(factors).for_each(|((t, x), f)| *t += f * x);
        }
    }

    pub fn sample_gaussian(&self, dims: usize, output: &[f32], noise: &[f32], values: &mut [f32]) {
        let rows = values.chunks_exact_mut(dims).zip(output.chunks_exact(2 * dims));
        for ((values, output), noise) in rows.zip(noise.chunks_exact(dims)) {
            for c in 0..dims {
                values[c] =
                    output[c] + output[dims + c].clamp(LOG_STD[0], LOG_STD[1]).exp() * noise[c];
            }
        }
    }

    pub fn sample_gaussian_gradient(
        &self,
        dims: usize,
        output: &[f32],
        noise: &[f32],
        d_values: &[f32],
        d_output: &mut [f32],
    ) {
        let rows = d_output.chunks_exact_mut(2 * dims).zip(output.chunks_exact(2 * dims));
        let given = d_values.chunks_exact(dims).zip(noise.chunks_exact(dims));
        for ((d_output, output), (d_values, noise)) in rows.zip(given) {
            for c in 0..dims {
                let raw = output[dims + c];
                let free = raw > LOG_STD[0] && raw < LOG_STD[1];
                d_output[c] = d_values[c];
                d_output[dims + c] = if free { d_values[c] * raw.exp() * noise[c] } else { 0.0 };
            }
        }
    }

    pub fn sample_gsde(
        &self,
        dims: usize,
        features: &[f32],
        variances: &[f32],
        noise: &[f32],
        values: &mut [f32],
    ) {
        let width = variances.len() / dims;
        let values = Parts::new(values);
        self.blocks(noise.len() / dims, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let values = unsafe { values.take(block.start * dims..block.end * dims) };
            for (row, values) in block.zip(values.chunks_exact_mut(dims)) {
                let features = &features[row * width..][..width];
                for c in 0..dims {
                    let variance: f32 = features
                        .iter()
                        .enumerate()
                        .map(|(i, f)| f * f * variances[i * dims + c])
                        .sum();
                    values[c] += (variance + FEATURE_VARIANCE).sqrt() * noise[row * dims + c];
                }
            }
        });
    }
}
