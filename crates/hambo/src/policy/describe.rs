//! Descriptions of policies, for people who inspect a file.

use super::action_std::ActionStd;
use super::layers::Output;
use super::{Kind, Policy};
use serde::Serialize;

/// A policy in words and numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// `controller`, `network`, `graph` (ONNX) or `function` (of the user's own).
    pub kind: &'static str,
    /// Size of a state.
    pub state_dim: usize,
    /// Size of an action.
    pub action_dim: usize,
    /// Widths of a network's layers, from input to output.
    pub layers: Vec<usize>,
    /// Activation of the hidden layers.
    pub activation: Option<&'static str>,
    /// Number of weights and biases.
    pub parameters: usize,
    /// The ± limit that normalized observations are clipped to; none if observations are not normalized.
    #[serde(rename = "normalised_to")]
    pub normalized_to: Option<f64>,
    /// How the network's output becomes an action.
    pub output: Option<&'static str>,
    /// Smallest action; infinite where there is no bound.
    pub action_low: Vec<f32>,
    /// Largest action; infinite where there is no bound.
    pub action_high: Vec<f32>,
    /// The distribution that its actions can be sampled from; none if it is deterministic.
    pub distribution: Option<&'static str>,
    /// The actions of a controller, as expressions of the state.
    pub expressions: Vec<String>,
}

impl Policy {
    /// What the policy is, in words and numbers.
    pub fn describe(&self) -> Description {
        let mut description = Description {
            kind: "function",
            state_dim: self.state_dim,
            action_dim: self.action_dim,
            layers: Vec::new(),
            activation: None,
            parameters: 0,
            normalized_to: None,
            output: None,
            action_low: Vec::new(),
            action_high: Vec::new(),
            distribution: None,
            expressions: Vec::new(),
        };
        match &self.kind {
            Kind::Controller(program) => {
                description.kind = "controller";
                description.expressions = program.texts().to_vec();
            }
            Kind::Mlp(mlp) => {
                description.kind = "network";
                description.layers = mlp.shape.widths.clone();
                description.parameters = mlp.params.len();
                description.activation = Some(mlp.shape.hidden.name());
                description.normalized_to = mlp.normalizer.as_ref().map(|n| n.clip);
                description.output = Some(match mlp.output {
                    Output::Clip => "limited to the bounds",
                    Output::Tanh { limit } if limit.is_finite() => {
                        "limited, then by tanh into the bounds"
                    }
                    Output::Tanh { .. } => "by tanh into the bounds",
                });
                (description.action_low, description.action_high) =
                    (mlp.low.clone(), mlp.high.clone());
                description.distribution = mlp.action_std.as_ref().map(|std| match std {
                    ActionStd::Fixed(_) => "Gaussian with fixed deviations",
                    ActionStd::Logs(_) => "Gaussian with deviations from the network",
                    ActionStd::Features(_) => "Gaussian with state-dependent exploration (gSDE)",
                });
            }
            Kind::Function(function) => description.kind = function.kind,
        }
        description
    }
}
