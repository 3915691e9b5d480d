//! The posterior of Gaussian processes that share their inputs and hyper-parameters (the paper's Eq. 3).

use super::factor::Factor;
use super::kernel::{Family, Kernel};
use crate::{Error, Result};
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Rows that are predicted at a time by a thread, at the most: a chunk reads all of the factor once. And what their
/// number is a multiple of, so that no part of a vector is idle.
const LARGEST_CHUNK: usize = 336;
const WHOLE: usize = 24;
/// Jitter that is tried where K + σ²I is not positive definite to the computer, in units of its mean diagonal.
const JITTERS: [f64; 4] = [0.0, 1e-12, 1e-10, 1e-8];

/// A posterior GP for each of several outputs:
///
/// μ(x) = k(x)ᵀ (K + σ²I)⁻¹ y, σ²(x) = k(x, x) − k(x)ᵀ (K + σ²I)⁻¹ k(x).
///
/// The deviation does not depend on y, so that it is the same for all outputs.
#[derive(Clone)]
pub struct Posterior {
    /// The prior's covariance.
    pub kernel: Kernel,
    /// σ², the noise of the targets.
    pub noise_variance: f64,
    /// What was added to the diagonal besides, so that the factorization succeeds.
    pub jitter: f64,
    /// ln p(y | x), summed over the outputs.
    pub log_likelihood: f64,
    /// ½ ln det(I + σ⁻²K), the information that the data give about one output.
    pub information_gain: f64,
    /// ‖μ‖ in the kernel's Hilbert space, of each output.
    pub norms: Vec<f64>,
    width: usize,
    outputs: usize,
    /// Inputs `[n, width]` in units of the length scales.
    x: Vec<f64>,
    factor: Factor,
    /// (K + σ²I)⁻¹ y, `[n, outputs]`.
    weights: Vec<f64>,
}

/// What a differentiable prediction leaves behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    /// Rows of a chunk, but for the last.
    chunk: usize,
    /// One a chunk: dk/d(r²) and (K + σ²I)⁻¹ k, both `[n and some, rows of the chunk]`.
    chunks: Vec<[Vec<f64>; 2]>,
    /// Inputs in units of the length scales, `[rows, width]`, and σ of each.
    x: Vec<f64>,
    std: Vec<f64>,
}

impl std::fmt::Debug for Posterior {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Posterior { kernel, noise_variance, .. } = self;
        write!(f, "posterior of {} data, {kernel:?}, noise variance {noise_variance:e}", self.len())
    }
}

impl Posterior {
    /// Given inputs `[n, width]`, targets `[n, outputs]` and hyper-parameters.
    pub fn new(
        kernel: Kernel,
        noise_variance: f64,
        x: &[f64],
        y: &[f64],
        width: usize,
    ) -> Result<Self> {
        kernel.validate(width)?;
        if !(noise_variance >= 0.0 && noise_variance.is_finite()) {
            return Err(Error::setting(
                "noise_variance",
                noise_variance,
                "0 or a positive, finite number",
            ));
        }
        let n = x.len() / width;
        let outputs = y.len() / n;
        let x = kernel.scaled(x, width);
        let mean_diagonal = x.chunks_exact(width).map(|x| kernel.prior(x)).sum::<f64>() / n as f64;
        let factored = JITTERS.iter().find_map(|relative| {
            let mut matrix = gram(&kernel, &x, width); // not kept: the next one is seldom needed
            let jitter = relative * mean_diagonal;
            matrix.iter_mut().step_by(n + 1).for_each(|d| *d += noise_variance + jitter);
            Factor::new(matrix, n).map(|factor| (factor, jitter))
        });
        let Some((factor, jitter)) = factored else {
            return Err(Error::Numeric(format!(
                "the {n} × {n} kernel matrix is not positive definite, even with a jitter of {:.1e} on its diagonal: \
                 give the noise a larger deviation, or the kernel other hyper-parameters (now {kernel:?}, noise \
                 variance {noise_variance:e})",
                JITTERS[JITTERS.len() - 1] * mean_diagonal
            )));
        };
        let mut weights = y.to_vec();
        factor.solve_lower(&mut weights, outputs);
        let fit: f64 = weights.iter().map(|v| v * v).sum();
        factor.solve_upper(&mut weights, outputs);
        let log_det = factor.log_det();
        let noise = noise_variance + jitter;
        // ‖μ‖² = αᵀKα = αᵀ(y − σ²α)
        let norm = |j: usize| {
            let pairs = weights.iter().zip(y).skip(j).step_by(outputs);
            pairs.map(|(w, y)| w * (y - noise * w)).sum::<f64>().max(0.0).sqrt()
        };
        Ok(Posterior {
            noise_variance,
            jitter,
            log_likelihood: -0.5 * fit - 0.5 * outputs as f64 * (log_det + n as f64 * TAU.ln()),
            information_gain: 0.5 * (log_det - n as f64 * noise.ln()).max(0.0),
            norms: (0..outputs).map(norm).collect(),
            width,
            outputs,
            kernel,
            x,
            factor,
            weights,
        })
    }

    /// Number of data, n.
    pub fn len(&self) -> usize {
        self.x.len() / self.width
    }

    /// Whether there are none, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.x.is_empty()
    }

    /// How many of `rows` rows are predicted at a time: few have to give work to all threads, many are best taken in
    /// large chunks. What is predicted of a row does not depend on the others in its chunk.
    fn chunk(rows: usize) -> usize {
        let threads = rayon::current_num_threads();
        let turns = rows.div_ceil(threads * LARGEST_CHUNK).max(1);
        rows.div_ceil(threads * turns).next_multiple_of(WHOLE).max(WHOLE)
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Mean `[rows, outputs]` and deviation `[rows]` at inputs `[rows, width]`.
    pub fn predict(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let rows = x.len() / self.width;
        let chunk = Self::chunk(rows);
        let x = self.kernel.scaled(x, self.width);
        let (mut mean, mut std) = (vec![0.0; rows * self.outputs], vec![0.0; rows]);
        let parts = mean.par_chunks_mut(chunk * self.outputs).zip(std.par_chunks_mut(chunk));
        parts.zip(x.par_chunks(chunk * self.width)).for_each(|((mean, std), x)| {
            let mut k = vec![0.0; self.factor.padded_rows() * std.len()];
            self.covariances(x, &mut k, &mut []);
            self.predict_chunk(x, &mut k, mean, std);
        });
        (mean, std)
    }

    /// The same, such that [`Posterior::backward`] can follow.
    pub(super) fn forward(&self, x: &[f64], tape: &mut Tape) -> (Vec<f64>, Vec<f64>) {
        let rows = x.len() / self.width;
        let chunk = Self::chunk(rows);
        tape.x = self.kernel.scaled(x, self.width);
        let (mut mean, mut std) = (vec![0.0; rows * self.outputs], vec![0.0; rows]);
        let parts = mean.par_chunks_mut(chunk * self.outputs).zip(std.par_chunks_mut(chunk));
        let chunks = parts.zip(tape.x.par_chunks(chunk * self.width)).map(|((mean, std), x)| {
            let mut k = vec![0.0; self.factor.padded_rows() * std.len()];
            let mut slopes = vec![0.0; k.len()];
            self.covariances(x, &mut k, &mut slopes);
            self.predict_chunk(x, &mut k, mean, std);
            self.factor.solve_upper(&mut k, std.len());
            [slopes, k]
        });
        tape.chunks = chunks.collect();
        tape.chunk = chunk;
        tape.std.clone_from(&std);
        (mean, std)
    }

    /// From dL/dμ `[rows, outputs]` and dL/dσ `[rows]` to dL/dx `[rows, width]`:
    ///
    /// dμ/dx = Σᵢ αᵢ dk(x, xᵢ)/dx, dσ/dx = (½ dk(x, x)/dx − Σᵢ wᵢ dk(x, xᵢ)/dx) / σ with w = (K + σ²I)⁻¹ k(x).
    pub(super) fn backward(&self, tape: &Tape, d_mean: &[f64], d_std: &[f64]) -> Vec<f64> {
        let (width, outputs) = (self.width, self.outputs);
        let mut d_x = vec![0.0; tape.x.len()];
        let linear = self.kernel.family == Family::Linear;
        let chunk = tape.chunk;
        let chunks = d_x.par_chunks_mut(chunk * width).zip(&tape.chunks).enumerate();
        chunks.for_each(|(index, (d_x, [slopes, solved]))| {
            let (first, columns) = (index * chunk, d_x.len() / width);
            let spread: Vec<f64> = (first..first + columns)
                .map(|row| if tape.std[row] > 0.0 { d_std[row] / tape.std[row] } else { 0.0 })
                .collect();
            for (i, x) in self.x.chunks_exact(width).enumerate() {
                let weights = &self.weights[i * outputs..][..outputs];
                for (c, d_x) in d_x.chunks_exact_mut(width).enumerate() {
                    let d_mean = &d_mean[(first + c) * outputs..][..outputs];
                    let along: f64 = d_mean.iter().zip(weights).map(|(d, w)| d * w).sum();
                    let d_k =
                        (along - spread[c] * solved[i * columns + c]) * slopes[i * columns + c];
                    let query = &tape.x[(first + c) * width..][..width];
                    for ((d_x, x), q) in d_x.iter_mut().zip(x).zip(query) {
                        *d_x += if linear { d_k * x } else { d_k * 2.0 * (q - x) };
                    }
                }
            }
            for (c, d_x) in d_x.chunks_exact_mut(width).enumerate() {
                let query = &tape.x[(first + c) * width..][..width];
                for (d, (d_x, q)) in d_x.iter_mut().zip(query).enumerate() {
                    let own = if linear { spread[c] * self.kernel.variance * q } else { 0.0 };
                    *d_x = (*d_x + own) / self.kernel.length_scale(d);
                }
            }
        });
        d_x
    }

    /// k(xᵢ, x) `[n, rows]` of scaled rows and, where `slopes` is not empty, its slopes.
    fn covariances(&self, x: &[f64], k: &mut [f64], slopes: &mut [f64]) {
        self.kernel.rows(&self.x, &transposed(x, self.width), k, slopes, self.width);
    }

    /// Mean and deviation of a few rows from k(xᵢ, x) `[n, rows]`, which becomes L⁻¹ k.
    fn predict_chunk(&self, x: &[f64], k: &mut [f64], mean: &mut [f64], std: &mut [f64]) {
        let (columns, outputs) = (std.len(), self.outputs);
        let mut sums = vec![0.0; outputs * columns];
        pulp::Arch::new().dispatch(|| {
            for (weights, k) in self.weights.chunks_exact(outputs).zip(k.chunks_exact(columns)) {
                for (w, sums) in weights.iter().zip(sums.chunks_exact_mut(columns)) {
                    sums.iter_mut().zip(k).for_each(|(sum, k)| *sum += w * k);
                }
            }
        });
        for (j, sums) in sums.chunks_exact(columns).enumerate() {
            sums.iter().enumerate().for_each(|(c, sum)| mean[c * outputs + j] = *sum);
        }
        self.factor.solve_lower(k, columns);
        let known = &mut sums[..columns];
        known.fill(0.0);
        pulp::Arch::new().dispatch(|| {
            for v in k.chunks_exact(columns) {
                known.iter_mut().zip(v).for_each(|(sum, v)| *sum += v * v);
            }
        });
        for ((std, known), x) in std.iter_mut().zip(known).zip(x.chunks_exact(self.width)) {
            *std = (self.kernel.prior(x) - *known).max(0.0).sqrt();
        }
    }

    /// ln p(y | x) and its derivatives by the logarithms of variance, length scales and noise variance:
    ///
    /// d ln p/dθ = ½ Σ (α αᵀ − K⁻¹) dK/dθ, summed over entries and outputs.
    pub(super) fn likelihood_gradient(&self) -> Vec<f64> {
        let (n, width, outputs) = (self.len(), self.width, self.outputs);
        let inverse = self.factor.inverse();
        let queries = transposed(&self.x, width);
        let scales =
            if self.kernel.family == Family::Linear { 0 } else { self.kernel.length_scales.len() };
        let row = |i: usize| {
            let own = &self.x[i * width..][..width];
            let mut gradient = vec![0.0; scales + 2];
            let (mut k, mut slopes) = (vec![0.0; n], vec![0.0; n]);
            self.kernel.rows(own, &queries, &mut k, &mut slopes, width);
            for (l, other) in self.x.chunks_exact(width).enumerate() {
                let weights = (0..outputs)
                    .map(|j| self.weights[i * outputs + j] * self.weights[l * outputs + j]);
                let pull = 0.5 * (weights.sum::<f64>() - outputs as f64 * inverse[i * n + l]);
                gradient[0] += pull * k[l];
                for d in 0..if scales > 0 { width } else { 0 } {
                    let apart = own[d] - other[d];
                    gradient[1 + d % scales] -= pull * slopes[l] * 2.0 * apart * apart;
                }
                if l == i {
                    gradient[scales + 1] += pull * self.noise_variance;
                }
            }
            gradient
        };
        let rows: Vec<Vec<f64>> = (0..n).into_par_iter().map(row).collect();
        (0..scales + 2).map(|p| rows.iter().map(|row| row[p]).sum()).collect()
    }
}

/// The kernel matrix `[n, n]` of scaled rows.
fn gram(kernel: &Kernel, x: &[f64], width: usize) -> Vec<f64> {
    let n = x.len() / width;
    let queries = transposed(x, width);
    let mut gram = vec![0.0; n * n];
    gram.par_chunks_mut(n).zip(x.par_chunks(width)).for_each(|(row, x)| {
        kernel.rows(x, &queries, row, &mut [], width);
    });
    gram
}

/// Rows `[rows, width]` with their coordinates one after another, `[width, rows]`.
fn transposed(x: &[f64], width: usize) -> Vec<f64> {
    (0..width).flat_map(|d| x.iter().skip(d).step_by(width)).copied().collect()
}
