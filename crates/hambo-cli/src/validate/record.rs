//! The lines of the files: what was asked, and what came out.

use hambo::evaluate::{Estimate, Evaluation, Method};
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the case.
    pub case: String,
    /// The program: the first digits of its SHA-256.
    pub build: String,
    pub version: String,
    /// Kind of the device it ran on.
    pub device: String,
    pub env: String,
    pub policy: String,
    /// Name of the data recipe.
    pub data: String,
    pub n: usize,
    pub horizon: usize,
    pub seed: u64,
    pub variant: String,
    /// The rule for β.
    pub rule: String,
    pub delta: f64,
    /// Key of the policy's truth.
    pub truth: String,
    /// Why there is no answer, if there is none.
    pub error: Option<String>,
    /// Episodes of the data.
    pub episodes: usize,
    pub estimates: Vec<Number>,
    /// What the data say about the bound of the first method.
    pub evidence: Option<String>,
    /// The level that is claimed for it; none where it is called an extrapolation.
    pub level: Option<f64>,
    pub beta: Option<f64>,
    /// Which rule sized the set.
    pub set: Option<String>,
    /// Seconds of the evaluation, and of the fit that it shares with others of the same data.
    pub seconds: f64,
    pub fit_seconds: f64,
}

/// What a method said. A bound that is no number was −∞.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Number {
    pub method: Method,
    pub value: Option<f64>,
    pub std_error: Option<f64>,
    pub lower_bound: Option<f64>,
    pub subtracted: f64,
    pub evidence: Option<String>,
    pub converged: Option<bool>,
    pub diverged_rollouts: usize,
    pub left_rollouts: usize,
}

impl From<&Estimate> for Number {
    fn from(estimate: &Estimate) -> Self {
        let finite = |x: f64| x.is_finite().then_some(x);
        Number {
            method: estimate.method,
            value: finite(estimate.value),
            std_error: finite(estimate.std_error),
            lower_bound: estimate.lower_bound.and_then(finite),
            subtracted: estimate.subtracted,
            evidence: estimate.evidence.map(|evidence| evidence.to_string()),
            converged: estimate.converged,
            diverged_rollouts: estimate.diverged_rollouts,
            left_rollouts: estimate.left_rollouts,
        }
    }
}

impl Record {
    /// The same with what was found.
    pub fn found(self, evaluation: &Evaluation) -> Self {
        let evidence = evaluation.evidence().map(|evidence| evidence.to_string());
        let supported = evidence.as_deref() == Some("supported");
        Record {
            estimates: evaluation.estimates.iter().map(Number::from).collect(),
            level: supported.then_some(1.0 - evaluation.delta_each),
            evidence,
            beta: evaluation.set.as_ref().and_then(|set| set.beta),
            set: evaluation.set.as_ref().map(|set| set.rule.to_string()),
            ..self
        }
    }
}

/// A true return, simulated or given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TruthRecord {
    /// Environment, policy and horizon, with a digest.
    pub key: String,
    pub env: String,
    pub policy: String,
    pub horizon: usize,
    pub value: f64,
    pub std_error: f64,
    pub episodes: usize,
    /// Episodes in which the simulator broke down.
    pub diverged: usize,
    pub seconds: f64,
}
