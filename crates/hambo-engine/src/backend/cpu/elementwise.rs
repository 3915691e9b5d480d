//! Everything that is not a matrix product: heads, random numbers, transitions, sums.

use crate::backend::cpu::{Cpu, Parts, vectorized};
use crate::backend::{Gaussian, Outcome, Prediction, Status, Step};
use crate::expression::{Program, Scratch};
use crate::rng::{normal_pair, philox};
use std::{cell::RefCell, sync::PoisonError};

thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Rows that a thread takes at a time.
pub(super) const ROWS: usize = 256;
/// The same for a loss, where a minibatch of a few hundred rows is all there is.
const LOSS_ROWS: usize = 64;
pub(super) const HALF_LOG_TAU: f32 = 0.918_938_5; // ½ ln 2π

impl Cpu {
    /// out\[i\] = from\[indices\[i\]\], rows of `width`.
    pub fn gather<T: Copy + Send + Sync>(
        &self,
        from: &[T],
        width: usize,
        indices: &[u32],
        out: &mut [T],
    ) {
        let out = Parts::new(out);
        self.blocks(indices.len(), ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let out = unsafe { out.take(block.start * width..block.end * width) };
            for (row, &i) in out.chunks_exact_mut(width).zip(&indices[block]) {
                row.copy_from_slice(&from[i as usize * width..][..width]);
            }
        });
    }

    pub fn normals(&self, key: [u32; 2], step: u32, out: &mut [f32]) {
        let (n, out) = (out.len(), Parts::new(out));
        self.blocks(n, 4 * ROWS, |range| {
            let first = range.start / 4;
            // SAFETY: blocks do not overlap.
            for (block, out) in unsafe { out.take(range) }.chunks_mut(4).enumerate() {
                let [a, b, c, d] = philox([(first + block) as u32, step, 0, 4], key);
                let ([x, y], [z, w]) = (normal_pair(a, b), normal_pair(c, d));
                out.copy_from_slice(&[x, y, z, w][..out.len()]);
            }
        });
    }

    /// (x − mean) / std of the columns of several matrices put side by side.
    pub fn standardize(
        &self,
        parts: [(&[f32], usize); 2],
        mean: &[f32],
        std: &[f32],
        out: &mut [f32],
    ) {
        let width = mean.len();
        let out_parts = Parts::new(out);
        self.blocks(out_parts.len / width, ROWS, |rows| {
            // SAFETY: blocks do not overlap.
            let out = unsafe { out_parts.take(rows.start * width..rows.end * width) };
            for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                let mut column = 0;
                for (data, width) in parts {
                    for x in &data[row * width..][..width] {
                        out[column] = (x - mean[column]) / std[column];
                        column += 1;
                    }
                }
            }
        });
    }

    /// Mean negative log-likelihood of each member and, where asked for, its weighted gradient at the output.
    pub fn gaussian_nll(
        &self,
        head: &Gaussian,
        members: usize,
        output: &[f32],
        targets: &[f32],
        d_output: Option<(&mut [f32], f32)>,
        losses: &mut [f64],
    ) {
        let d = head.dims;
        let rows = output.len() / (2 * d * members);
        let groups = targets.len() / (d * rows);
        let blocks = rows.div_ceil(LOSS_ROWS);
        let over_rows = 1.0 / rows as f32;
        let mut partials = self.partials.lock().unwrap_or_else(PoisonError::into_inner);
        partials.clear();
        partials.resize(members * blocks, 0.0);
        let sums = Parts::new(&mut partials);
        let weight = d_output.as_ref().map_or(0.0, |(_, weight)| *weight);
        let d_output = d_output.map(|(d, _)| Parts::new(d));
        self.parallel(members * blocks, |unit| {
            let (member, first) = (unit / blocks, unit % blocks * LOSS_ROWS);
            let mut sum = 0.0f64;
            for row in first..rows.min(first + LOSS_ROWS) {
                let at = (member * rows + row) * 2 * d;
                let (means, raws) = output[at..at + 2 * d].split_at(d);
                let target = &targets[(member % groups * rows + row) * d..][..d];
                // SAFETY: each unit writes the rows of its own member and block.
                let mut gradient =
                    d_output.map(|g| unsafe { g.take(at..at + 2 * d) }.split_at_mut(d));
                let mut loss = 0.0f32;
                for c in 0..d {
                    let std = head.std(raws[c]);
                    let z = (target[c] - means[c]) / std;
                    let log_std = std.ln();
                    loss += 0.5 * z * z + log_std + HALF_LOG_TAU;
                    if let Some((d_mean, d_raw)) = &mut gradient {
                        let weighed =
                            if weight == 0.0 { 1.0 } else { (2.0 * weight * log_std).exp() };
                        let scale = weighed / std * over_rows;
                        d_mean[c] = -z * scale;
                        d_raw[c] = (1.0 - z * z) * scale * head.std_slope(raws[c]);
                    }
                }
                sum += f64::from(loss);
            }
            // SAFETY: one partial sum a unit.
            unsafe { sums.take(unit..unit + 1)[0] = sum };
        });
        for (loss, sums) in losses.iter_mut().zip(partials.chunks_exact(blocks)) {
            *loss = sums.iter().sum::<f64>() / rows as f64;
        }
    }

    /// Mean, epistemic and aleatoric variance of the mixture, each `[rows, dims]`.
    pub fn moments(
        &self,
        head: &Gaussian,
        members: usize,
        output: &[f32],
        mean: &mut [f32],
        epistemic: &mut [f32],
        aleatoric: &mut [f32],
    ) {
        let d = head.dims;
        let rows = mean.len() / d;
        let (mean, epistemic, aleatoric) =
            (Parts::new(mean), Parts::new(epistemic), Parts::new(aleatoric));
        self.blocks(rows, ROWS, |block| {
            for row in block {
                let r = row * d..(row + 1) * d;
                // SAFETY: blocks of rows do not overlap.
                let (mean, epistemic, aleatoric) =
                    unsafe { (mean.take(r.clone()), epistemic.take(r.clone()), aleatoric.take(r)) };
                for c in 0..d {
                    let m = head.mixture(output, members, rows, row, c);
                    (mean[c], epistemic[c], aleatoric[c]) = (m.mean, m.epistemic, m.aleatoric);
                }
            }
        });
    }

    /// One step of the dynamics for every row, see [`crate::backend::Device::propagate`].
    pub fn propagate(
        &self,
        prediction: &Prediction<'_, [f32]>,
        step: &Step<'_, [f32], [u32]>,
        states: &[f32],
        next: &mut [f32],
    ) {
        let Prediction { head, members, output, scale, offset, relative, ref limits } = *prediction;
        let (d, ds) = (head.dims, scale.len());
        let rows = states.len() / ds;
        let next = Parts::new(next);
        self.blocks(rows, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let next = unsafe { next.take(block.start * ds..block.end * ds) };
            for (row, next) in block.zip(next.chunks_exact_mut(ds)) {
                for c in 0..ds {
                    let member = |k: usize, row: usize, rows: usize| {
                        let at = (k * rows + row) * 2 * d + c;
                        (output[at], head.std(output[at + d]))
                    };
                    let target = match step {
                        Step::Mean => head.mixture(output, members, rows, row, c).mean,
                        Step::Moments { noise } => {
                            let m = head.mixture(output, members, rows, row, c);
                            m.mean + (m.epistemic + m.aleatoric).sqrt() * noise[row * ds + c]
                        }
                        Step::Chosen { members, noise } => {
                            let (mean, std) = member(members[row] as usize, row, rows);
                            mean + std * noise[row * ds + c]
                        }
                        Step::Shifted(shift) => {
                            let m = head.mixture(output, members, rows, row, c);
                            let at = row * ds + c;
                            let reach = shift.power.reach(m.epistemic).0;
                            m.mean
                                + shift.amount[at] * reach
                                + m.aleatoric.sqrt() * shift.noise[at % shift.noise.len()]
                        }
                        Step::Own { noise } => {
                            // Rows are grouped by member, and all groups share the same noise.
                            let (mean, std) = member(0, row, rows);
                            mean + std * noise[(row * ds + c) % noise.len()]
                        }
                    };
                    let state = states[row * ds + c];
                    let free = if relative { state } else { 0.0 } + offset[c] + scale[c] * target;
                    next[c] = limits.as_ref().map_or(free, |limits| limits.keep(c, state, free));
                }
            }
        });
    }

    /// See [`crate::backend::Device::end_step`].
    pub fn end_step(
        &self,
        (discounts, step): (&[f32], usize),
        outcome: &Outcome<'_, [f32]>,
        rewards: &mut [f32],
        states: &mut [f32],
        returns: &mut [f32],
        status: &mut [u32],
    ) {
        let Outcome { next, ended, ref exit } = *outcome;
        let ds = states.len() / rewards.len();
        for (row, reward) in rewards.iter_mut().enumerate() {
            if status[row] != Status::Running as u32 {
                continue;
            }
            let (next, ended) = (&next[row * ds..][..ds], ended.map_or(0.0, |ended| ended[row]));
            let exit = exit.as_ref().filter(|exit| exit.limits.reached(next));
            if let Some(exit) = exit {
                *reward = exit.reward(*reward, exit.remaining[step]);
            }
            let sum = returns[row] + discounts[step] * *reward;
            let finite = next.iter().all(|x| x.is_finite());
            let sound = sum.is_finite() && (exit.is_some() || finite && ended.is_finite());
            if finite && sound {
                states[row * ds..][..ds].copy_from_slice(next);
            }
            returns[row] = if sound { sum } else { f32::NEG_INFINITY };
            status[row] = match (sound, exit) {
                (false, _) => Status::Diverged,
                (true, Some(_)) => Status::Left,
                (true, None) if ended != 0.0 => Status::Ended,
                (true, None) => Status::Running,
            } as u32;
        }
    }

    /// out `[rows, outputs]` ← the program on every row.
    pub fn evaluate(
        &self,
        program: &Program,
        states: &[f32],
        actions: &[f32],
        next: &[f32],
        out: &mut [f32],
    ) {
        let outputs = program.outputs().len();
        let rows = out.len() / outputs;
        let width = |data: &[f32]| data.len() / rows;
        let widths = [width(states), width(actions), width(next)];
        let out = Parts::new(out);
        self.blocks(rows, ROWS, |block| {
            let part = |width: usize| block.start * width..block.end * width;
            let (s, a, n) =
                (&states[part(widths[0])], &actions[part(widths[1])], &next[part(widths[2])]);
            // SAFETY: blocks of rows do not overlap.
            let out = unsafe { out.take(block.start * outputs..block.end * outputs) };
            let done = SCRATCH
                .with_borrow_mut(|scratch| program.evaluate(block.len(), s, a, n, out, scratch));
            assert!(done.is_ok(), "sizes of an expression: {done:?}");
        });
    }

    /// Limits each column to its range. NaN stays: `f32::max` would make it the lower limit.
    pub fn clamp(&self, low: &[f32], high: &[f32], values: &mut [f32]) {
        vectorized(|| {
            for row in values.chunks_exact_mut(low.len()) {
                for ((v, &low), &high) in row.iter_mut().zip(low).zip(high) {
                    *v = if *v < low { low } else { *v };
                    *v = if *v > high { high } else { *v };
                }
            }
        });
    }

    /// (x − mean) / std within ±limit, column by column. NaN stays.
    pub fn normalize(
        &self,
        values: &[f32],
        (mean, std): (&[f64], &[f64]),
        limit: f64,
        out: &mut [f32],
    ) {
        let width = mean.len();
        vectorized(|| {
            for (row, out) in values.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                for c in 0..width {
                    let x = (f64::from(row[c]) - mean[c]) / std[c];
                    let x = if x < -limit { -limit } else { x };
                    out[c] = if x > limit { limit } else { x } as f32;
                }
            }
        });
    }

    /// low + (high − low) (tanh(x within ±limit) + 1) / 2, column by column. NaN stays.
    pub fn squash_to_bounds(&self, low: &[f32], high: &[f32], limit: f32, values: &mut [f32]) {
        for row in values.chunks_exact_mut(low.len()) {
            for ((v, &low), &high) in row.iter_mut().zip(low).zip(high) {
                let x = if *v < -limit { -limit } else { *v };
                let x = if x > limit { limit } else { x };
                *v = low + 0.5 * (x.tanh() + 1.0) * (high - low);
            }
        }
    }
}

/// Mean and variances of the mixture of all members in one output.
pub(super) struct Mixture {
    pub mean: f32,
    pub epistemic: f32,
    pub aleatoric: f32,
}

impl Gaussian {
    /// Two passes over the members: identical members have an epistemic variance of exactly 0.
    #[inline(always)]
    pub(super) fn mixture(
        &self,
        output: &[f32],
        members: usize,
        rows: usize,
        row: usize,
        c: usize,
    ) -> Mixture {
        let at = |k: usize| (k * rows + row) * 2 * self.dims + c;
        let over_members = 1.0 / members as f32;
        let first = output[at(0)];
        let (mut shift, mut aleatoric) = (0.0, 0.0);
        for k in 0..members {
            shift += output[at(k)] - first;
            let std = self.std(output[at(k) + self.dims]);
            aleatoric += std * std;
        }
        let mean = first + shift * over_members;
        let epistemic: f32 = (0..members).map(|k| output[at(k)] - mean).map(|x| x * x).sum();
        Mixture { mean, epistemic: epistemic * over_members, aleatoric: aleatoric * over_members }
    }
}
