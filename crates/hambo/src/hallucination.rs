//! What an adversary may choose: a point of the confidence set (HAMBO-CA) or a member of the ensemble
//! (HAMBO-DA).

use crate::compute::{Activation, Device, Power, Shape};
use crate::dynamics::Dynamics;
use crate::nn::Ensemble;
use crate::rng::Stream;
use crate::{Error, Result};

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
        // Where single transitions were held out their neighbours were trained on: such a calibration may
        // say that the model is more certain than it claims (τ < 1), but is not to be believed.
        let floor = if model.held_out().by_episode { 0.0 } else { 1.0 };
        let reach = model.tau().iter().map(|&tau| beta as f32 * tau.max(floor)).collect();
        Ok(ConfidenceSet { reach, power: Power::Deviation })
    }

    /// The paper's Section 4.1 to the letter: τ² σ²_e, a variance added to a mean.
    pub fn literal(model: &dyn Dynamics) -> Self {
        let reach = model.tau().iter().map(|&tau| tau * tau).collect();
        ConfidenceSet { reach, power: Power::Variance }
    }
}

/// A continuous adversary: networks η(s, a) with tanh outputs, one a restart, and where they may go.
#[derive(Debug)]
pub struct Continuous {
    /// `[restarts]` networks from standardized (s, a) to \[−1, 1\]^{d_s}.
    pub networks: Ensemble,
    /// The set they choose from.
    pub set: ConfidenceSet,
}

impl Continuous {
    /// Random networks of these hidden widths (ReLU).
    pub fn random(
        device: &Device,
        model: &dyn Dynamics,
        set: &ConfidenceSet,
        restarts: usize,
        hidden: &[usize],
        stream: Stream,
    ) -> Result<Self> {
        let widths = [&[model.input_dim()], hidden, &[model.state_dim()]].concat();
        let mut shape = Shape::new(restarts, widths, Activation::Relu)?;
        shape.output = Activation::Tanh;
        Ok(Continuous { networks: Ensemble::random(device, shape, stream), set: set.clone() })
    }

    /// One of the restarts, alone.
    pub fn restart(&self, device: &Device, index: usize) -> Continuous {
        let (n, stride) = (self.networks.shape.parameters(), self.networks.shape.stride());
        let mut params = device.zeros(n);
        device.copy_part(&self.networks.params, index * stride, &mut params, 0, n);
        let shape = Shape { members: 1, ..self.networks.shape.clone() };
        Continuous { networks: Ensemble { shape, params }, set: self.set.clone() }
    }

    /// The adversary that does nothing, η = 0.
    pub fn idle(&self, device: &Device) -> Continuous {
        let shape = Shape { members: 1, ..self.networks.shape.clone() };
        let params = device.zeros(shape.parameters());
        Continuous { networks: Ensemble { shape, params }, set: self.set.clone() }
    }
}

/// A discrete adversary, HAMBO-DA1: at every step it chooses the member that predicts the next state,
///
/// p̃(s' | s, a) = N(s'; h_k(s, a), ν²_k(s, a)), with k = argmax Q_k(s, a, t / T).
#[derive(Debug)]
pub struct Discrete {
    /// Networks from standardized (s, a) and t / T to the value of each member; Q is their mean.
    pub networks: Ensemble,
    /// Where given, the members are compared by where they lead rather than by what the networks say of them:
    /// k = argmax c r(s, a, h_k) + γ max Q(h_k, π(h_k), (t + 1) / T), where this number c takes rewards to the
    /// unit of values. Members differ by little, and what little that matters networks can hardly tell.
    pub look_ahead: Option<f32>,
}

impl Discrete {
    /// The adversary that always chooses the same member, as HAMBO-DAinf does.
    pub fn constant(device: &Device, model: &dyn Dynamics, member: usize) -> Result<Self> {
        let (inputs, members) = (model.input_dim() + 1, model.members());
        let shape = Shape::new(1, vec![inputs, members], Activation::Relu)?;
        let mut params = vec![0.0; shape.parameters()];
        params[inputs * members + member] = 1.0; // biases follow the weights
        Ok(Discrete { networks: Ensemble { shape, params: device.adopt(params) }, look_ahead: None })
    }
}
