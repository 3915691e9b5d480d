//! The paper's guarantees for Gaussian processes as numbers: information gain, β_n(δ), Lipschitz constants, and the
//! worst-case gap of Theorem 3.5.
//!
//! They hold for dynamics whose norm in the kernel's Hilbert space is at most B, a number that data cannot give: it is
//! the user's to know.

use crate::dynamics::gp::{Family, Kernel};
use crate::dynamics::{Dynamics, Gp};
use crate::{Error, Result};
use serde::Serialize;

/// The growth of the largest information gain γ_n of n points in d dimensions, up to a constant (Table 1, from Vakili et
/// al. 2021): d ln n for the linear kernel, (ln n)^{d+1} for RBF, n^{d/(2ν+d)} (ln n)^{2ν/(2ν+d)} for Matérn.
pub fn information_rate(family: Family, n: usize, d: usize) -> f64 {
    let (n, d) = (n.max(2) as f64, d as f64);
    let matern = |nu: f64| n.powf(d / (2.0 * nu + d)) * n.ln().powf(2.0 * nu / (2.0 * nu + d));
    match family {
        Family::Linear => d * n.ln(),
        Family::Rbf => n.ln().powf(d + 1.0),
        Family::Matern32 => matern(1.5),
        Family::Matern52 => matern(2.5),
    }
}

/// β_n(δ) of Lemma 3.6, for the posterior of Eq. (3), whose regulariser is the variance σ²_ε of the noise:
///
/// β_n(δ) = B + √(2 (γ_n + 1 + ln(d_s/δ))).
///
/// The paper multiplies the root with σ_ε, see [`beta_literal`]. Its source (Chowdhury & Gopalan 2017, Theorem 2) does
/// so for a regulariser of 1. In units of σ_ε targets and f have noise of deviation 1, f keeps its norm under the kernel
/// k/σ²_ε, the regulariser becomes 1, and what is left is the factor 1: for σ_ε < 1 the paper's set is too small.
///
/// γ_n may be the information gain of the data themselves: the proof bounds that by γ_n and needs no more.
pub fn beta(norm_bound: f64, information_gain: f64, state_dim: usize, delta: f64) -> f64 {
    norm_bound + root(information_gain, state_dim, delta)
}

/// β_n(δ) = B + σ_ε √(2 (γ_n + 1 + ln(d_s/δ))), as the paper writes it.
pub fn beta_literal(
    norm_bound: f64,
    noise_std: f64,
    information_gain: f64,
    state_dim: usize,
    delta: f64,
) -> f64 {
    norm_bound + noise_std * root(information_gain, state_dim, delta)
}

fn root(information_gain: f64, state_dim: usize, delta: f64) -> f64 {
    (2.0 * (information_gain + 1.0 + (state_dim as f64 / delta).ln())).sqrt()
}

/// L_k, the Lipschitz constant of the kernel metric d_k(x, x')² = k(x, x) + k(x', x') − 2k(x, x'): √v for the linear
/// kernel, √v/ℓ for RBF, √(v ν/(ν − 1))/ℓ for Matérn, with the smallest ℓ where there are several. `units` are those
/// of the inputs, one each.
pub fn metric_constant(kernel: &Kernel, units: &[f64]) -> f64 {
    let smoothness = match kernel.family {
        Family::Linear | Family::Rbf => 1.0,
        Family::Matern32 => 3.0,
        Family::Matern52 => 5.0 / 3.0,
    };
    let steepest = units.iter().enumerate().map(|(d, unit)| 1.0 / (kernel.length_scale(d) * unit));
    (kernel.variance * smoothness).sqrt() * steepest.fold(0.0, f64::max)
}

/// Lipschitz constants of dynamics, deviation, reward and policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lipschitz {
    /// L_f
    pub dynamics: f64,
    /// L_σ
    pub deviation: f64,
    /// L_r
    pub reward: f64,
    /// L_π, in the Wasserstein-1 distance.
    pub policy: f64,
}

impl Lipschitz {
    /// L̄ = L (1 + L_π): the policy's answer to a change of state included.
    pub fn barred(&self, constant: f64) -> f64 {
        constant * (1.0 + self.policy)
    }

    /// ln C_n of Theorem 3.5 for a horizon T; C_n itself soon leaves the numbers that a computer has:
    ///
    /// C_n = L̄_r (1 + √d_s) β_n T² (1 + L̄_f + (1 + √d_s) β_n L̄_σ)^{T−1}.
    pub fn ln_gap_constant(&self, beta: f64, state_dim: usize, horizon: usize) -> f64 {
        let reach = (1.0 + (state_dim as f64).sqrt()) * beta;
        let growth = 1.0 + self.barred(self.dynamics) + reach * self.barred(self.deviation);
        let steps = horizon as f64;
        self.barred(self.reward).ln() + reach.ln() + 2.0 * steps.ln() + (steps - 1.0) * growth.ln()
    }
}

/// L_σ = √d_s L_k (Lemma 3.7), for outputs in units of their own: √(Σ_j (u_j L_k,j)²).
pub fn deviation_constant(gp: &Gp) -> f64 {
    let frame = gp.frame();
    let units: Vec<f64> = frame.inputs.std.iter().map(|&s| s.into()).collect();
    let constants: Vec<f64> =
        gp.posteriors().iter().map(|p| metric_constant(&p.kernel, &units)).collect();
    let squares = frame.targets.std.iter().zip(constants.iter().cycle());
    squares.map(|(&unit, l)| (f64::from(unit) * l).powi(2)).sum::<f64>().sqrt()
}

/// L_f = √d_s B L_k (Lemma 3.7), likewise. Where changes of the state are predicted, the state that they are added to
/// counts 1 more.
pub fn dynamics_constant(gp: &Gp, norm_bound: f64) -> f64 {
    norm_bound * deviation_constant(gp) + if gp.frame().relative() { 1.0 } else { 0.0 }
}

/// What the theory says of a run; lengths are those of states and actions, β is in units of σ_n.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TheoryReport {
    /// Whether the theory is that of all data; it is that of a subset otherwise.
    pub all_data: bool,
    /// ½ ln det(I + σ⁻²K), the largest over dimensions.
    pub information_gain: f64,
    /// Growth of γ_n up to a constant.
    pub information_rate: f64,
    /// Largest norm of the posterior means in the kernel's Hilbert space: the size that B will have, to which noise adds.
    pub posterior_norm: f64,
    /// B, where it was given.
    pub norm_bound: Option<f64>,
    /// β_n(δ)
    pub beta: Option<f64>,
    /// β_n(δ) with the paper's factor σ_ε.
    pub beta_literal: Option<f64>,
    /// L_k, the largest over dimensions.
    pub metric_constant: f64,
    /// L_σ
    pub deviation_constant: f64,
    /// L_f, where B was given.
    pub dynamics_constant: Option<f64>,
    /// All four constants, where L_r and L_π were given, too.
    pub lipschitz: Option<Lipschitz>,
    /// L̄_f, L̄_σ and L̄_r: those of dynamics, deviation and reward when the policy answers to the state.
    pub barred: Option<[f64; 3]>,
    /// log₁₀ C_n
    pub log10_gap_constant: Option<f64>,
    /// E‖σ_n‖ along trajectories of the policy in the model, in the place of those in the world.
    pub mean_deviation: f64,
    /// log₁₀ of Theorem 3.5's bound on J − J̃.
    pub log10_gap: Option<f64>,
}

/// What is known besides the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TheoryInputs {
    /// B, a bound on the norm of the standardized dynamics in the kernel's Hilbert space.
    pub norm_bound: Option<f64>,
    /// L_r and L_π.
    pub lipschitz: Option<[f64; 2]>,
}

impl TheoryInputs {
    /// Checks both against their ranges.
    pub fn validate(&self) -> Result<()> {
        if let Some(bound) = self.norm_bound.filter(|b| !(*b >= 0.0 && b.is_finite())) {
            return Err(Error::setting("norm-bound", bound, "0 or a positive, finite number"));
        }
        match self.lipschitz.iter().flatten().find(|l| !(**l >= 0.0 && l.is_finite())) {
            Some(constant) => Err(Error::setting(
                "lipschitz",
                constant,
                "two constants that are not negative, of reward and policy",
            )),
            None => Ok(()),
        }
    }
}

/// β_n(δ) of a model; an error where it has none.
pub(crate) fn beta_of(model: &dyn Dynamics, norm_bound: f64, delta: f64) -> Result<f64> {
    let Some(gp) = model.as_gp() else {
        let expected = "another rule: the theory is that of Gaussian processes (--model gp)";
        return Err(Error::setting("beta", "theory", expected));
    };
    let beta = beta(norm_bound, information_gain(gp), model.state_dim(), delta);
    match beta.is_finite() {
        true => Ok(beta),
        false => Err(Error::setting(
            "noise_std",
            0,
            "a positive deviation: without noise the information gain has no end",
        )),
    }
}

/// The largest over dimensions.
fn information_gain(gp: &Gp) -> f64 {
    gp.posteriors().iter().map(|p| p.information_gain).fold(0.0, f64::max)
}

/// What the theory says, for a failure probability δ of the model.
pub(crate) fn report(
    gp: &Gp,
    known: TheoryInputs,
    delta: f64,
    horizon: usize,
    mean_deviation: f64,
) -> TheoryReport {
    let frame = gp.frame();
    let (gain, ds) = (information_gain(gp), gp.state_dim());
    let units: Vec<f64> = frame.inputs.std.iter().map(|&s| s.into()).collect();
    let noise = gp.report().hyperparameters.iter().map(|h| h.noise_std).fold(0.0, f64::max);
    let beta = known.norm_bound.map(|bound| beta(bound, gain, ds, delta));
    let deviation = deviation_constant(gp);
    let dynamics = known.norm_bound.map(|bound| dynamics_constant(gp, bound));
    let lipschitz = dynamics.zip(known.lipschitz);
    let lipschitz = lipschitz.map(|(dynamics, [reward, policy])| Lipschitz {
        dynamics,
        deviation,
        reward,
        policy,
    });
    let ln_constant = lipschitz.zip(beta).map(|(l, beta)| l.ln_gap_constant(beta, ds, horizon));
    let log10 = |ln: f64| ln / std::f64::consts::LN_10;
    TheoryReport {
        all_data: !gp.report().subset,
        information_gain: gain,
        information_rate: information_rate(
            gp.posteriors()[0].kernel.family,
            gp.report().rows,
            gp.input_dim(),
        ),
        posterior_norm: gp.posteriors().iter().flat_map(|p| &p.norms).copied().fold(0.0, f64::max),
        norm_bound: known.norm_bound,
        beta,
        beta_literal: known.norm_bound.map(|bound| beta_literal(bound, noise, gain, ds, delta)),
        metric_constant: gp
            .posteriors()
            .iter()
            .map(|p| metric_constant(&p.kernel, &units))
            .fold(0.0, f64::max),
        deviation_constant: deviation,
        dynamics_constant: dynamics,
        lipschitz,
        barred: lipschitz
            .map(|l| [l.dynamics, l.deviation, l.reward].map(|constant| l.barred(constant))),
        log10_gap_constant: ln_constant.map(log10),
        mean_deviation,
        log10_gap: ln_constant.map(|c| log10(c + mean_deviation.ln())),
    }
}

#[cfg(test)]
mod tests;
