//! What an adversary may choose: a point of the confidence set (HAMBO-CA) or a member of the ensemble
//! (HAMBO-DA).

use crate::dynamics::Dynamics;
use crate::{Error, Result};
use hambo_engine::backend::Power;

/// The hallucinated transition model of HAMBO-CA:
///
/// p̃_η(s' | s, a) = N(s'; μ_Θ(s, a) + β τ σ_e(s, a) η(s, a), σ²_a(s, a)), with η(s, a) in \[−1, 1\]^{d_s}.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfidenceSet {
    /// How far the adversary may go in each dimension, in units of `power`: β τ, or τ² as the paper writes.
    pub reach: Vec<f32>,
    /// Whether the set is as wide as σ_e, or as σ²_e.
    pub power: Power,
}

impl ConfidenceSet {
    /// β τ σ_e on both sides of the mean.
    pub fn new(model: &dyn Dynamics, beta: f64) -> Result<Self> {
        if !(beta >= 0.0 && beta.is_finite()) {
            return Err(Error::setting("beta", beta, "0 or a positive, finite number"));
        }
        // Where single transitions were held out their neighbors were trained on: such a calibration may
        // say that the model is more certain than it claims (τ < 1), but is not to be believed.
        let floor = if model.held_out().by_episode { 0.0 } else { 1.0 };
        let tau = model.tau();
        if let Some(tau) = tau.iter().find(|tau| !(**tau >= 0.0 && tau.is_finite())) {
            let problem =
                format!("a model with τ = {tau}: expected 0 or a positive, finite number");
            return Err(Error::Numeric(problem));
        }
        let reach = tau.iter().map(|&tau| beta as f32 * tau.max(floor)).collect();
        Ok(ConfidenceSet { reach, power: Power::Deviation })
    }

    /// The paper's Section 4.1 to the letter: τ² σ²_e, a variance added to a mean.
    pub fn literal(model: &dyn Dynamics) -> Self {
        let reach = model.tau().iter().map(|&tau| tau * tau).collect();
        ConfidenceSet { reach, power: Power::Variance }
    }
}
