//! Gradients of the kernels that a trajectory is made of, for back-propagation through whole rollouts.

use crate::backend::cpu::{
    Cpu, Parts,
    elementwise::{ROWS, SCRATCH},
};
use crate::backend::{Prediction, Shift, Status};
use crate::expression::Program;

impl Cpu {
    /// See [`crate::backend::Device::shift_gradient`].
    pub fn shift_gradient(
        &self,
        prediction: &Prediction<'_, [f32]>,
        shift: &Shift<'_, [f32]>,
        d_next: &[f32],
        d_output: &mut [f32],
        d_shift: &mut [f32],
    ) {
        let Prediction { head, members, output, scale, .. } = *prediction;
        let (d, ds) = (head.dims, scale.len());
        let rows = d_next.len() / ds;
        let (d_output, d_shift) = (Parts::new(d_output), Parts::new(d_shift));
        let over_members = 1.0 / members as f32;
        self.blocks(rows, ROWS, |block| {
            for row in block {
                // SAFETY: blocks of rows do not overlap.
                let d_shift = unsafe { d_shift.take(row * ds..(row + 1) * ds) };
                for c in 0..ds {
                    let mixture = head.mixture(output, members, rows, row, c);
                    let (at, g) = (row * ds + c, d_next[row * ds + c] * scale[c]);
                    let std = mixture.epistemic.sqrt();
                    let (reach, slope) = shift.power.reach(mixture.epistemic);
                    d_shift[c] = g * reach;
                    // d(reach)/d(h_k) = slope · d(σ²_e)/d(h_k) = slope · 2 (h_k − μ) / K
                    let spread = if std > 0.0 { g * shift.amount[at] * slope * 2.0 } else { 0.0 };
                    let noise = g * shift.noise[at % shift.noise.len()] / mixture.aleatoric.sqrt();
                    for k in 0..members {
                        let from = (k * rows + row) * 2 * d + c;
                        let (mean, raw) = (output[from], output[from + d]);
                        // SAFETY: as above.
                        unsafe {
                            d_output.take(from..from + 1)[0] =
                                (g + spread * (mean - mixture.mean)) * over_members;
                            d_output.take(from + d..from + d + 1)[0] =
                                noise * head.std(raw) * head.std_slope(raw) * over_members;
                        }
                    }
                }
            }
        });
    }

    /// d_states, d_actions, d_next += d_outᵀ · Jacobian of the program.
    pub fn evaluate_gradient(
        &self,
        program: &Program,
        inputs: [&[f32]; 3],
        d_out: &[f32],
        gradients: [&mut [f32]; 3],
    ) {
        let outputs = program.outputs().len();
        let rows = d_out.len() / outputs;
        let widths = inputs.map(|data| data.len() / rows);
        let gradient_widths = gradients.each_ref().map(|data| data.len() / rows);
        let gradients = gradients.map(Parts::new);
        self.blocks(rows, ROWS, |block| {
            let part = |width: usize| block.start * width..block.end * width;
            let inputs = std::array::from_fn(|i| &inputs[i][part(widths[i])]);
            // SAFETY: blocks of rows do not overlap.
            let gradients =
                std::array::from_fn(|i| unsafe { gradients[i].take(part(gradient_widths[i])) });
            let d_out = &d_out[part(outputs)];
            let done = SCRATCH.with_borrow_mut(|scratch| {
                program.gradient(block.len(), inputs, d_out, gradients, scratch)
            });
            assert!(done.is_ok(), "sizes of an expression's gradient: {done:?}");
        });
    }

    /// Through the standardization of inputs: d_states, d_actions += Σ over members of d_inputs / std.
    pub fn standardize_gradient(
        &self,
        d_inputs: &[f32],
        std: &[f32],
        (d_states, ds): (&mut [f32], usize),
        (d_actions, da): (&mut [f32], usize),
    ) {
        let width = std.len();
        let rows = d_states.len() / ds;
        let (d_states, d_actions) = (Parts::new(d_states), Parts::new(d_actions));
        self.blocks(rows, ROWS, |block| {
            for row in block {
                // SAFETY: blocks of rows do not overlap.
                let (s, a) = unsafe {
                    (
                        d_states.take(row * ds..(row + 1) * ds),
                        d_actions.take(row * da..(row + 1) * da),
                    )
                };
                for d_inputs in d_inputs.chunks_exact(rows * width) {
                    let d = &d_inputs[row * width..][..width];
                    s.iter_mut().zip(d).zip(std).for_each(|((s, d), std)| *s += d / std);
                    a.iter_mut()
                        .zip(&d[ds..])
                        .zip(&std[ds..])
                        .for_each(|((a, d), std)| *a += d / std);
                }
            }
        });
    }

    /// d_values ← 0 where the value was limited.
    pub fn clamp_gradient(&self, low: &[f32], high: &[f32], values: &[f32], d_values: &mut [f32]) {
        let width = low.len();
        for (d, v) in d_values.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
            for c in 0..width {
                if v[c] <= low[c] || v[c] >= high[c] {
                    d[c] = 0.0;
                }
            }
        }
    }

    /// d_values += d_out / std, but not where the value was limited.
    pub fn normalize_gradient(
        &self,
        out: &[f32],
        std: &[f64],
        limit: f64,
        d_out: &[f32],
        d_values: &mut [f32],
    ) {
        let (width, limit) = (std.len(), limit as f32);
        let rows = out.chunks_exact(width).zip(d_out.chunks_exact(width));
        for ((out, d_out), d_values) in rows.zip(d_values.chunks_exact_mut(width)) {
            for c in 0..width {
                if out[c].abs() < limit {
                    d_values[c] += (f64::from(d_out[c]) / std[c]) as f32;
                }
            }
        }
    }

    /// d_values ← d_values · (high − low) / 2 · (1 − tanh²), or 0 where the value was limited.
    pub fn squash_to_bounds_gradient(
        &self,
        low: &[f32],
        high: &[f32],
        limit: f32,
        values: &[f32],
        d_values: &mut [f32],
    ) {
        let width = low.len();
        for (d, v) in d_values.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
            for c in 0..width {
                let tanh = v[c].tanh();
                let slope = if v[c].abs() < limit { 1.0 - tanh * tanh } else { 0.0 };
                d[c] *= 0.5 * (high[c] - low[c]) * slope;
            }
        }
    }

    /// Rows of trajectories that no longer run, and rows that are not finite, ← 0.
    pub fn still_running(&self, status: &[u32], values: &mut [f32]) {
        let width = values.len() / status.len();
        for (row, &status) in values.chunks_exact_mut(width).zip(status) {
            if status != Status::Running as u32 || row.iter().any(|x| !x.is_finite()) {
                row.fill(0.0);
            }
        }
    }

    /// to += from
    pub fn add(&self, from: &[f32], to: &mut [f32]) {
        crate::backend::cpu::vectorized(|| to.iter_mut().zip(from).for_each(|(t, f)| *t += f));
    }

    /// Each column of `values` ← times its factor.
    pub fn scale_columns(&self, factors: &[f32], values: &mut [f32]) {
        crate::backend::cpu::vectorized(|| {
            for row in values.chunks_exact_mut(factors.len()) {
                row.iter_mut().zip(factors).for_each(|(v, f)| *v *= f);
            }
        });
    }

    /// Of `each` trajectories a group: d_end ← −to_go, or minus the mean of those that go on; to_go += weight · reward.
    pub fn end_gradient(
        &self,
        each: usize,
        [before, after]: [&[u32]; 2],
        weight: f32,
        rewards: &[f32],
        to_go: &mut [f32],
        d_end: &mut [f32],
    ) {
        let is = |status: &[u32], row: usize, what: Status| status[row] == what as u32;
        for first in (0..rewards.len()).step_by(each) {
            let rows = first..first + each;
            let going = rows.clone().filter(|&row| is(after, row, Status::Running));
            let (sum, count) =
                going.fold((0.0, 0.0), |(sum, n), row| (sum + f64::from(to_go[row]), n + 1.0));
            let mean = if count > 0.0 { (sum / count) as f32 } else { 0.0 };
            for row in rows {
                let ran = is(before, row, Status::Running);
                d_end[row] = match (ran, after[row]) {
                    (true, after) if after == Status::Running as u32 => -to_go[row],
                    (true, after) if after == Status::Ended as u32 => -mean,
                    _ => 0.0,
                };
                let more = to_go[row] + weight * rewards[row];
                to_go[row] = if ran && more.is_finite() { more } else { 0.0 };
            }
        }
    }

    /// Each member's part of `values` is shortened to at most `limit`; one that is not finite says nothing, and becomes 0.
    /// Members whose part is 0 are counted.
    pub fn clip_norm(&self, limit: f32, values: &mut [f32], idle: &mut [f32]) {
        let each = values.len() / idle.len();
        for (part, idle) in values.chunks_exact_mut(each).zip(idle) {
            let norm = part.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            if !norm.is_finite() || norm == 0.0 {
                part.fill(0.0);
                *idle += 1.0;
            } else if norm > f64::from(limit) {
                let factor = (f64::from(limit) / norm) as f32;
                part.iter_mut().for_each(|x| *x *= factor);
            }
        }
    }
}
