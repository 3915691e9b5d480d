//! Reinforcement learning, see [`crate::backend::Device::squash`] and what follows it.

use crate::backend::cpu::{
    Cpu, Parts,
    elementwise::{HALF_LOG_TAU, ROWS},
    vectorized,
};
use crate::backend::rl::{LOG_STD, SquashedActions, TdTarget};
use crate::backend::step::Status;
use crate::rng::{philox, unit};
use std::ops::Range;

/// Parameters that a thread averages at a time.
const BLOCK: usize = 32 * 1024;

impl Cpu {
    pub fn squash<const N: usize>(
        &self,
        output: &[f32],
        noise: &[f32],
        before: [(&[f32], usize); N],
        joined: &mut [f32],
        log_probs: &mut [f32],
    ) {
        let rows = log_probs.len();
        let (d, width) = (noise.len() / rows, joined.len() / rows);
        self.place(before, width, joined);
        let (joined, log_probs) = (Parts::new(joined), Parts::new(log_probs));
        self.blocks(rows, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let (joined, log_probs) = unsafe {
                (joined.take(block.start * width..block.end * width), log_probs.take(block.clone()))
            };
            let (output, noise) = (
                &output[block.start * 2 * d..block.end * 2 * d],
                &noise[block.start * d..block.end * d],
            );
            let rows = joined
                .chunks_exact_mut(width)
                .zip(output.chunks_exact(2 * d))
                .zip(noise.chunks_exact(d));
            for (((joined, output), noise), log_prob) in rows.zip(log_probs) {
                let actions = &mut joined[width - d..];
                // ln(1 − tanh² u) = 2 (ln 2 − |u| − ln(1 + e^(−2|u|))); the last are summed as one logarithm of
                // a product, whose factors are in (1, 2].
                let (mut sum, mut product) = (0.0, 1.0f32);
                for c in 0..d {
                    let log_std = output[d + c].clamp(LOG_STD[0], LOG_STD[1]);
                    let u = output[c] + log_std.exp() * noise[c];
                    let m = (-2.0 * u.abs()).exp_m1();
                    actions[c] = (-m / (2.0 + m)).copysign(u);
                    sum -= 0.5 * noise[c] * noise[c] + log_std + HALF_LOG_TAU;
                    sum += 2.0 * (u.abs() - std::f32::consts::LN_2);
                    product *= 2.0 + m;
                    if c % 64 == 63 {
                        sum += 2.0 * product.ln();
                        product = 1.0;
                    }
                }
                *log_prob = sum + 2.0 * product.ln();
            }
        });
    }

    pub fn squash_gradient(
        &self,
        drawn: &SquashedActions<'_, [f32]>,
        d_joined: &[f32],
        temperature: f32,
        d_output: &mut [f32],
    ) {
        let SquashedActions { rows, output, noise, joined } = *drawn;
        let (d, width) = (noise.len() / rows, joined.len() / rows);
        let d_log_prob = temperature / rows as f32;
        let d_output = Parts::new(d_output);
        self.blocks(rows, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let d_output = unsafe { d_output.take(block.start * 2 * d..block.end * 2 * d) };
            for (row, d_output) in block.zip(d_output.chunks_exact_mut(2 * d)) {
                let (d_mean, d_log_std) = d_output.split_at_mut(d);
                d_mean.fill(0.0);
                for d_inputs in d_joined.chunks_exact(rows * width) {
                    let d_action = &d_inputs[row * width + width - d..][..d];
                    d_mean.iter_mut().zip(d_action).for_each(|(sum, g)| *sum += g);
                }
                let actions = &joined[row * width + width - d..][..d];
                for c in 0..d {
                    let at = row * d + c;
                    let (action, raw) = (actions[c], output[row * 2 * d + d + c]);
                    // d ln π / du = 2 tanh u, and d ln π / d ln σ = −1 besides what passes through u.
                    let d_u = d_mean[c] * (1.0 - action * action) + d_log_prob * 2.0 * action;
                    d_mean[c] = d_u;
                    let free = raw > LOG_STD[0] && raw < LOG_STD[1];
                    d_log_std[c] =
                        if free { d_u * raw.exp() * noise[at] - d_log_prob } else { 0.0 };
                }
            }
        });
    }

    pub fn td_target(&self, of: &TdTarget<'_, [f32]>, targets: &mut [f32]) {
        let TdTarget { discount, rewards, continues, values, log_probs, log_temperature } = *of;
        let (rows, temperature) = (targets.len(), log_temperature[0].exp());
        for row in 0..rows {
            let soft_value = lowest(values, rows, row).1 - temperature * log_probs[row];
            targets[row] = rewards[row] + discount * continues[row] * soft_value;
        }
    }

    pub fn squared_error(
        &self,
        values: &[f32],
        targets: &[f32],
        d_values: &mut [f32],
        losses: &mut [f64],
    ) {
        let rows = targets.len();
        let slope = 2.0 / rows as f32;
        let critics = values.chunks_exact(rows).zip(d_values.chunks_exact_mut(rows));
        for ((values, d_values), loss) in critics.zip(losses) {
            let mut sum = 0.0;
            for ((d, q), y) in d_values.iter_mut().zip(values).zip(targets) {
                let error = q - y;
                *d = slope * error;
                sum += f64::from(error * error);
            }
            *loss = sum / rows as f64;
        }
    }

    pub fn actor_loss(
        &self,
        values: &[f32],
        log_probs: &[f32],
        temperature: f32,
        d_values: &mut [f32],
        losses: &mut [f64],
    ) {
        let rows = log_probs.len();
        let (mut loss, mut log_prob) = (0.0, 0.0);
        d_values.fill(0.0);
        for row in 0..rows {
            let (critic, value) = lowest(values, rows, row);
            d_values[critic * rows + row] = -1.0 / rows as f32;
            loss += f64::from(temperature * log_probs[row] - value);
            log_prob += f64::from(log_probs[row]);
        }
        losses.copy_from_slice(&[loss / rows as f64, log_prob / rows as f64]);
    }

    pub fn choose(
        &self,
        values: &[f32],
        options: usize,
        epsilon: f32,
        key: [u32; 2],
        step: u32,
        choices: &mut [u32],
    ) {
        let rows = choices.len();
        let choices = Parts::new(choices);
        self.blocks(rows, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            for (row, choice) in block.clone().zip(unsafe { choices.take(block) }) {
                let [whether, which, ..] = philox([row as u32, step, 0, 5], key);
                *choice = if unit(whether) < epsilon {
                    ((u64::from(which) * options as u64) >> 32) as u32
                } else {
                    let networks = values.chunks_exact(rows * options);
                    best(options, |k| networks.clone().map(|q| q[row * options + k]).sum()) as u32
                };
            }
        });
    }

    pub fn look_ahead(
        &self,
        (scale, discount): (f32, f32),
        (rewards, status): (&[f32], &[u32]),
        values: &[f32],
        options: usize,
        scores: &mut [f32],
    ) {
        let (all, rows) = (scores.len(), scores.len() / options);
        let scores = Parts::new(scores);
        self.blocks(rows, ROWS, |block| {
            // SAFETY: blocks of rows do not overlap.
            let scores = unsafe { scores.take(block.start * options..block.end * options) };
            for (i, score) in scores.iter_mut().enumerate() {
                let at = i % options * rows + block.start + i / options;
                let networks = values.chunks_exact(all * options);
                let over_networks = 1.0 / networks.len() as f32;
                let sum = |k: usize| networks.clone().map(|q| q[at * options + k]).sum::<f32>();
                let value = over_networks * sum(best(options, sum));
                let goes_on = if status[at] == Status::Running as u32 { discount } else { 0.0 };
                *score = scale * rewards[at] + goes_on * value;
            }
        });
    }

    pub fn double_q_target(
        &self,
        discount: f32,
        [rewards, continues]: [&[f32]; 2],
        [online, target]: [&[f32]; 2],
        options: usize,
        targets: &mut [f32],
    ) {
        let rows = targets.len();
        for (row, y) in targets.iter_mut().enumerate() {
            let at = row * options + best(options, |k| online[row * options + k]);
            let networks = target.chunks_exact(rows * options);
            let value = networks.map(|q| q[at]).fold(f32::INFINITY, f32::min);
            *y = rewards[row] + discount * continues[row] * value;
        }
    }

    pub fn choice_error(
        &self,
        values: &[f32],
        choices: &[u32],
        targets: &[f32],
        d_values: &mut [f32],
        losses: &mut [f64],
    ) {
        let (rows, networks) = (targets.len(), losses.len());
        let options = values.len() / (rows * networks);
        let slope = 2.0 / rows as f32;
        d_values.fill(0.0);
        let each =
            values.chunks_exact(rows * options).zip(d_values.chunks_exact_mut(rows * options));
        for ((values, d_values), loss) in each.zip(losses) {
            let mut sum = 0.0;
            for (row, (&choice, y)) in choices.iter().zip(targets).enumerate() {
                let at = row * options + choice as usize;
                let error = values[at] - y;
                d_values[at] = slope * error;
                sum += f64::from(error * error);
            }
            *loss = sum / rows as f64;
        }
    }

    pub fn polyak(&self, rate: f32, params: &[f32], target: &mut [f32]) {
        let (n, target) = (target.len(), Parts::new(target));
        self.blocks(n, BLOCK, |r: Range<usize>| {
            // SAFETY: blocks do not overlap.
            let target = unsafe { target.take(r.clone()) };
            vectorized(|| {
                target.iter_mut().zip(&params[r]).for_each(|(t, p)| *t += rate * (p - *t))
            });
        });
    }

    pub fn join<const N: usize>(&self, parts: [(&[f32], usize); N], out: &mut [f32]) {
        let width = parts.iter().map(|(_, width)| width).sum();
        self.place(parts, width, out);
    }

    /// The columns of several matrices side by side into the first of rows of that width.
    fn place<const N: usize>(&self, parts: [(&[f32], usize); N], width: usize, out: &mut [f32]) {
        let mut first = 0;
        for (data, part) in parts.into_iter().filter(|&(_, part)| part > 0) {
            assert_eq!(data.len() / part, out.len() / width, "rows of matrices side by side");
            for (out, data) in out.chunks_exact_mut(width).zip(data.chunks_exact(part)) {
                out[first..first + part].copy_from_slice(data);
            }
            first += part;
        }
    }
}

/// The first of the options with the highest value.
#[inline(always)]
fn best(options: usize, value: impl Fn(usize) -> f32) -> usize {
    let first = (0, value(0));
    let better = |(best, high), k| {
        let value = value(k);
        if value > high { (k, value) } else { (best, high) }
    };
    (1..options).fold(first, better).0
}

/// The critic with the lowest of the `values` `[critics, rows]` of a row, and that value.
#[inline(always)]
fn lowest(values: &[f32], rows: usize, row: usize) -> (usize, f32) {
    let critics = values.len() / rows;
    (1..critics).fold((0, values[row]), |(critic, low), k| {
        let value = values[k * rows + row];
        if value < low { (k, value) } else { (critic, low) }
    })
}
