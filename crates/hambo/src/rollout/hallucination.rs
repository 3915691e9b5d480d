//! The adversaries that trajectories follow: one that shifts every prediction inside the confidence set (HAMBO-CA), and one
//! that chooses a member of the ensemble at every step (HAMBO-DA).

use crate::Result;
use crate::confidence::ConfidenceSet;
use crate::dynamics::Dynamics;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

/// A continuous adversary: networks η(s, a) with tanh outputs, and where they may go.
#[derive(Debug)]
pub struct ShiftAdversary {
    /// Networks from standardized (s, a) to \[−1, 1\]^{d_s}: `[folds, restarts]`, or one for all.
    pub networks: Ensemble,
    /// The set they choose from.
    pub set: ConfidenceSet,
}

impl ShiftAdversary {
    /// Random networks of these hidden widths (ReLU), some restarts for each fold of the model.
    pub fn random(
        device: &Device,
        model: &dyn Dynamics,
        set: &ConfidenceSet,
        restarts: usize,
        hidden: &[usize],
        stream: Stream,
    ) -> Result<Self> {
        let widths = [&[model.input_dim()], hidden, &[model.state_dim()]].concat();
        let mut shape = Shape::new(model.folds() * restarts, widths, Activation::Relu)?;
        shape.output = Activation::Tanh;
        Ok(ShiftAdversary { networks: Ensemble::random(device, shape, stream), set: set.clone() })
    }

    /// Restarts of each fold; 1 where one network is for all.
    pub(crate) fn restarts(&self, folds: usize) -> usize {
        (self.networks.shape.members / folds).max(1)
    }

    /// The same adversary in another set.
    pub fn within(&self, device: &Device, set: &ConfidenceSet) -> ShiftAdversary {
        let mut params = device.zeros(self.networks.params.len());
        device.copy(&self.networks.params, &mut params);
        let shape = self.networks.shape.clone();
        ShiftAdversary { networks: Ensemble { shape, params }, set: set.clone() }
    }

    /// Puts the networks of another adversary, one for each fold, in the place of the first restarts.
    pub(crate) fn begin_with(&mut self, device: &Device, other: &ShiftAdversary, folds: usize) {
        let (restarts, stride) = (self.restarts(folds), self.networks.shape.stride());
        let n = self.networks.shape.parameters();
        for fold in 0..folds {
            let (from, to) = (&other.networks.params, &mut self.networks.params);
            device.copy_part(from, fold * stride, to, fold * restarts * stride, n);
        }
    }

    /// The adversary that does nothing, η = 0, with a network for each of so many folds.
    pub fn idle(&self, device: &Device, folds: usize) -> ShiftAdversary {
        let shape = Shape { members: folds, ..self.networks.shape.clone() };
        let params = device.zeros(shape.members * shape.stride());
        ShiftAdversary { networks: Ensemble { shape, params }, set: self.set.clone() }
    }
}

/// A discrete adversary, HAMBO-DA1: at every step it chooses the member that predicts the next state,
///
/// p̃(s' | s, a) = N(s'; h_k(s, a), ν²_k(s, a)), with k = argmax Q_k(s, a, t / T).
#[derive(Debug)]
pub struct MemberAdversary {
    /// Networks from standardized (s, a) and t / T to the value of each member; Q is their mean.
    pub networks: Ensemble,
    /// Where given, the members are compared by where they lead rather than by what the networks say of them:
    /// k = argmax c r(s, a, h_k) + γ max Q(h_k, π(h_k), (t + 1) / T), where this number c takes rewards to the
    /// unit of values. Members differ by little, and what little that matters networks can hardly tell.
    pub look_ahead: Option<f32>,
}

impl MemberAdversary {
    /// The adversary that always chooses the same member, as HAMBO-DAinf does.
    pub fn constant(device: &Device, model: &dyn Dynamics, member: usize) -> Result<Self> {
        let (inputs, members) = (model.input_dim() + 1, model.members());
        let shape = Shape::new(1, vec![inputs, members], Activation::Relu)?;
        let mut params = vec![0.0; shape.parameters()];
        params[inputs * members + member] = 1.0; // biases follow the weights
        Ok(MemberAdversary {
            networks: Ensemble { shape, params: device.adopt(params) },
            look_ahead: None,
        })
    }
}
