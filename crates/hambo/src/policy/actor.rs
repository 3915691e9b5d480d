//! Policies that are actors of Soft Actor-Critic, with both heads.

use super::action_std::ActionStd;
use super::layers::{Linear, Output};
use super::mlp::Mlp;
use super::{Kind, Policy};
use crate::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::nn::Ensemble;
use std::sync::Arc;

impl Policy {
    /// The policy of an actor, an ensemble of one network whose outputs (μ, ln σ) tanh squashes into the bounds. It acts by
    /// its mean; [`Policy::sampling`] draws from its distribution.
    pub fn gaussian(
        spec: &str,
        device: &Device,
        actor: &Ensemble,
        bounds: [Vec<f32>; 2],
    ) -> Result<Self> {
        let problem = |e: String| Error::Numeric(format!("policy {spec}: {e}"));
        let mut layers = Linear::unpack(&actor.shape, &device.download(&actor.params)?);
        let both = layers.pop().ok_or_else(|| problem("the network has no layers".to_owned()))?;
        let (mean, log_std) = halves(both);
        layers.push(mean);
        let output = Output::Tanh { limit: f32::INFINITY };
        let mlp = Mlp::new(&layers, actor.shape.hidden, None, output, bounds)
            .and_then(|mlp| mlp.with_action_std(ActionStd::Logs(log_std)));
        Ok(Policy::network(spec, mlp.map_err(problem)?))
    }

    /// Writes a network as an ONNX graph from `observation` `[batch, state]` to `action` `[batch, action]`, its mean where it
    /// has a distribution. [`Policy::read`] reads it, and so does ONNX Runtime.
    pub fn save_onnx(&self, path: &std::path::Path) -> Result<()> {
        match &self.kind {
            Kind::Mlp(mlp) => {
                let mlp: &Arc<Mlp> = mlp;
                hambo_engine::files::write_together(&[(path.to_owned(), super::onnx::graph(mlp))])
            }
            _ => Err(Error::Mismatch(format!(
                "policy {} is not a network: only networks can be saved",
                self.spec
            ))),
        }
    }
}

/// The first half of a layer's outputs, and the second.
fn halves(layer: Linear) -> (Linear, Linear) {
    let Linear { inputs, outputs, mut weight, mut bias } = layer;
    let half = outputs / 2;
    let (second_weight, second_bias) = (weight.split_off(half * inputs), bias.split_off(half));
    let second =
        Linear { inputs, outputs: outputs - half, weight: second_weight, bias: second_bias };
    (Linear { inputs, outputs: half, weight, bias }, second)
}
