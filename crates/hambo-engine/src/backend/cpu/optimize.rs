//! Parameter updates: Adam, and the SVGD direction fused with it.

use crate::backend::cpu::{Cpu, Parts, vectorized};
use crate::backend::{Adam, Optimizer, SteinKernel, Svgd};
use std::{
    cell::RefCell,
    ops::Range,
    sync::{MutexGuard, PoisonError},
};

/// Parameters that a thread updates at a time.
const BLOCK: usize = 8192;
/// Parameters whose directions of all particles stay in the first-level cache.
const CHUNK: usize = 512;

/// Particles that see less than this of each other do not see each other: the sum, in f32, is the same.
const BLIND: f64 = 1e-12;

thread_local! {
    static DIRECTIONS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Adam's numbers for one step.
#[derive(Clone, Copy)]
struct Moments {
    beta1: f32,
    beta2: f32,
    /// Learning rate over 1 − β₁ᵗ.
    rate: f32,
    /// 1 / (1 − β₂ᵗ)
    second: f32,
    epsilon: f32,
}

impl Moments {
    fn at(adam: &Adam, step: u32) -> Self {
        let t = step as f32 + 1.0;
        Moments {
            beta1: adam.beta1,
            beta2: adam.beta2,
            rate: adam.rate_at(step) / (1.0 - adam.beta1.powf(t)),
            second: 1.0 / (1.0 - adam.beta2.powf(t)),
            epsilon: adam.epsilon,
        }
    }

    #[inline(always)]
    fn update(self, params: &mut [f32], gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
        for (((p, &g), m), v) in params.iter_mut().zip(gradient).zip(m).zip(v) {
            let g = without_subnormals(g, 1e-17);
            *m = without_subnormals(self.beta1 * *m + (1.0 - self.beta1) * g, 1e-30);
            *v = without_subnormals(self.beta2 * *v + (1.0 - self.beta2) * g * g, 1e-36);
            *p -= self.rate * *m / ((*v * self.second).sqrt() + self.epsilon);
        }
    }
}

/// Adds gradients to their decaying sum m; v becomes the direction that looks one step ahead of it.
#[inline(always)]
fn nesterov(momentum: f32, gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
    for ((&g, m), v) in gradient.iter().zip(m).zip(v) {
        *m = without_subnormals(momentum * *m + g, 1e-30);
        *v = g + momentum * *m;
    }
}

/// 0 for numbers below `least`, which is far below what changes a parameter. Where a unit of a network is dead, its
/// gradient is 0 and the moments would shrink to subnormal numbers and stay there: processors compute those in
/// microcode, and a step over half of them takes twenty times as long.
#[inline(always)]
fn without_subnormals(x: f32, least: f32) -> f32 {
    if x.abs() < least { 0.0 } else { x }
}

impl Cpu {
    pub fn adam(&self, optimizer: &mut Optimizer, params: &mut [f32], gradient: &[f32]) {
        let moments = Moments::at(&optimizer.adam, optimizer.step.0.cpu()[0]);
        let [m, v] = optimizer.moments.each_mut().map(|moment| Parts::new(moment.cpu_mut()));
        let (n, params) = (params.len(), Parts::new(params));
        self.blocks(n, BLOCK, |r| {
            // SAFETY: blocks do not overlap.
            let (p, m, v) =
                unsafe { (params.take(r.clone()), m.take(r.clone()), v.take(r.clone())) };
            vectorized(|| moments.update(p, &gradient[r], m, v));
        });
    }

    /// −φ of every particle, see [`crate::backend::Device::svgd_direction`].
    pub fn svgd_direction(
        &self,
        svgd: &Svgd,
        members: usize,
        params: &[f32],
        gradient: &[f32],
        out: &mut [f32],
    ) {
        let n = params.len() / members;
        let mixing = self.mixing(svgd, members, params);
        let out = Parts::new(out);
        self.blocks(n, BLOCK, |block| {
            for chunk in chunks(block) {
                mixing.direction(params, gradient, n, chunk.clone(), |i, direction| {
                    // SAFETY: chunks do not overlap.
                    unsafe { out.take(i * n + chunk.start..i * n + chunk.end) }
                        .copy_from_slice(direction);
                });
            }
        });
    }

    /// One SVGD step with Adam, without a pass over memory in between.
    pub fn svgd_adam(
        &self,
        svgd: &Svgd,
        members: usize,
        optimizer: &mut Optimizer,
        params: &mut [f32],
        gradient: &[f32],
    ) {
        let n = params.len() / members;
        let mixing = self.mixing(svgd, members, params);
        let Optimizer { adam, moments: [m, v], step, hidden } = optimizer;
        let step = step.0.cpu()[0];
        let moments = Moments::at(adam, step);
        let [m, v] = [m, v].map(|moment| Parts::new(moment.cpu_mut()));
        let all_params = Parts::new(params);
        let params = &all_params;
        self.blocks(n, BLOCK, |block| {
            for chunk in chunks(block) {
                let of = |i: usize| i * n + chunk.start..i * n + chunk.end;
                // SAFETY: this unit alone uses these columns, and `direction` hands out the directions only
                // after it has read the parameters of all particles.
                unsafe {
                    let all = std::slice::from_raw_parts(params.start, params.len);
                    mixing.direction(all, gradient, n, chunk.clone(), |i, direction| {
                        let (p, m, v) = (params.take(of(i)), m.take(of(i)), v.take(of(i)));
                        for (part, by_muon) in hidden.split(chunk.clone()) {
                            let part = part.start - chunk.start..part.end - chunk.start;
                            let (g, p) = (&direction[part.clone()], &mut p[part.clone()]);
                            let (m, v) = (&mut m[part.clone()], &mut v[part]);
                            match by_muon {
                                false => vectorized(|| moments.update(p, g, m, v)),
                                true => vectorized(|| nesterov(hidden.muon.momentum, g, m, v)),
                            }
                        }
                    });
                }
            }
        });
        drop(mixing);
        let rate = hidden.muon.rate * adam.rate_at(step) / adam.rate;
        self.orthogonal_step(hidden, rate, members, params, &v);
    }

    /// The kernel matrix of the particles, as the weights with which gradients and parameters enter −φ.
    fn mixing(&self, svgd: &Svgd, members: usize, params: &[f32]) -> MutexGuard<'_, Mixing> {
        let mut guard = self.mixing.lock().unwrap_or_else(PoisonError::into_inner);
        let mixing = &mut *guard;
        mixing.members = members;
        for weights in [&mut mixing.gradients, &mut mixing.params] {
            weights.clear();
            weights.resize(members * members, 0.0);
        }
        let (scale, prior) = (f64::from(svgd.likelihood_scale), f64::from(svgd.prior_temperature));
        let groups = svgd.groups;
        if members == groups || matches!(svgd.kernel, SteinKernel::None) {
            mixing.gradients.iter_mut().step_by(members + 1).for_each(|w| *w = scale as f32);
            mixing.params.iter_mut().step_by(members + 1).for_each(|w| *w = prior as f32);
            return guard;
        }
        self.squared_distances(
            members,
            groups,
            params,
            &mut mixing.distances,
            &mut mixing.partials,
        );
        let length_scale = match svgd.kernel {
            SteinKernel::Rbf { length_scale } => f64::from(length_scale),
            _ => median_length_scale(members, groups, &mixing.distances, &mut mixing.partials),
        };
        let over_members = groups as f64 / members as f64;
        for i in 0..members {
            let mut others = 0.0;
            for j in (i % groups..members).step_by(groups).filter(|&j| j != i) {
                let k = rbf(mixing.distances[i * members + j], length_scale);
                let k = if k < BLIND { 0.0 } else { k };
                others += k;
                mixing.gradients[i * members + j] = (scale * k * over_members) as f32;
                mixing.params[i * members + j] =
                    ((prior + 1.0 / length_scale) * k * over_members) as f32;
            }
            mixing.gradients[i * (members + 1)] = (scale * over_members) as f32;
            mixing.params[i * (members + 1)] =
                ((prior - others / length_scale) * over_members) as f32;
        }
        guard
    }

    /// ‖θᵢ − θⱼ‖² of all pairs of a group `[members, members]`, summed over blocks in order.
    fn squared_distances(
        &self,
        members: usize,
        groups: usize,
        params: &[f32],
        distances: &mut Vec<f64>,
        partials: &mut Vec<f64>,
    ) {
        let n = params.len() / members;
        let pairs = members * members;
        partials.clear();
        partials.resize(n.div_ceil(BLOCK) * pairs, 0.0);
        let parts = Parts::new(partials);
        self.blocks(n, BLOCK, |block| {
            let at = block.start / BLOCK * pairs;
            // SAFETY: each block has its own partial sums.
            let sums = unsafe { parts.take(at..at + pairs) };
            for chunk in chunks(block) {
                for i in 0..members {
                    for j in (i % groups..i).step_by(groups) {
                        let of = |i: usize| &params[i * n + chunk.start..i * n + chunk.end];
                        let distance = pulp::Arch::new().dispatch(Distance(of(i), of(j)));
                        sums[i * members + j] += f64::from(distance);
                    }
                }
            }
        });
        distances.clear();
        distances.resize(pairs, 0.0);
        for sums in partials.chunks_exact(pairs) {
            distances.iter_mut().zip(sums).for_each(|(d, s)| *d += s);
        }
        for i in 0..members {
            for j in 0..i {
                distances[j * members + i] = distances[i * members + j];
            }
        }
    }
}

/// k(θ, θ') = exp(−‖θ − θ'‖² / 2ℓ)
fn rbf(squared_distance: f64, length_scale: f64) -> f64 {
    (-squared_distance / (2.0 * length_scale)).exp()
}

/// Weights `[particles, particles]` of −φᵢ = Σⱼ gradientsᵢⱼ ∇ⱼ + paramsᵢⱼ θⱼ, and the room to compute them.
#[derive(Default)]
pub(super) struct Mixing {
    members: usize,
    gradients: Vec<f32>,
    params: Vec<f32>,
    distances: Vec<f64>,
    partials: Vec<f64>,
}

impl Mixing {
    /// Computes −φ of all particles in the columns `chunk`, then hands each to `take`.
    fn direction(
        &self,
        params: &[f32],
        gradient: &[f32],
        n: usize,
        chunk: Range<usize>,
        mut take: impl FnMut(usize, &[f32]),
    ) {
        let width = chunk.len();
        DIRECTIONS.with_borrow_mut(|directions| {
            directions.resize(directions.len().max(self.members * CHUNK), 0.0);
            for i in 0..self.members {
                let out = &mut directions[i * CHUNK..][..width];
                out.fill(0.0);
                for j in 0..self.members {
                    let (a, b) =
                        (self.gradients[i * self.members + j], self.params[i * self.members + j]);
                    if a == 0.0 && b == 0.0 {
                        continue; // particles too far apart to see each other
                    }
                    let of = j * n + chunk.start..j * n + chunk.end;
                    let (gradient, params) = (&gradient[of.clone()], &params[of]);
                    vectorized(|| add_scaled(out, a, gradient, b, params));
                }
            }
            for i in 0..self.members {
                take(i, &directions[i * CHUNK..][..width]);
            }
        });
    }
}

/// out ← out + a · x + b · y
#[inline(always)]
fn add_scaled(out: &mut [f32], a: f32, x: &[f32], b: f32, y: &[f32]) {
    for ((o, x), y) in out.iter_mut().zip(x).zip(y) {
        *o += a * x + b * y;
    }
}

fn chunks(block: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    block.clone().step_by(CHUNK).map(move |start| start..(start + CHUNK).min(block.end))
}

/// ‖a − b‖². A type and not a closure: only so is it inlined into the function for wide vectors.
struct Distance<'a>(&'a [f32], &'a [f32]);

impl pulp::NullaryFnOnce for Distance<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        const LANES: usize = 32;
        let mut sums = [0.0f32; LANES];
        let (mut a, mut b) = (self.0.chunks_exact(LANES), self.1.chunks_exact(LANES));
        for (a, b) in (&mut a).zip(&mut b) {
            for l in 0..LANES {
                let d = a[l] - b[l];
                sums[l] += d * d;
            }
        }
        let rest: f32 =
            a.remainder().iter().zip(b.remainder()).map(|(a, b)| (a - b) * (a - b)).sum();
        sums.iter().sum::<f32>() + rest
    }
}

/// ℓ of the median heuristic (Liu & Wang 2016): exp(−median d² / 2ℓ) = 1 / K.
fn median_length_scale(
    members: usize,
    groups: usize,
    distances: &[f64],
    pairs: &mut Vec<f64>,
) -> f64 {
    pairs.clear();
    let others = |i: usize| (i % groups..i).step_by(groups).map(move |j| i * members + j);
    pairs.extend((0..members).flat_map(others).map(|at| distances[at]));
    pairs.sort_unstable_by(f64::total_cmp);
    let median = 0.5 * (pairs[(pairs.len() - 1) / 2] + pairs[pairs.len() / 2]);
    (median / (2.0 * ((members / groups) as f64).ln())).max(f64::MIN_POSITIVE)
}
