//! What a policy is, for people who look at a file.

use super::mlp::Output;
use super::spread::Spread;
use super::{Kind, Policy};
use crate::compute::Activation;
use serde::Serialize;

/// A policy in words and numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// `controller`, `network` or `graph`.
    pub kind: &'static str,
    /// Numbers in a state.
    pub state_dim: usize,
    /// Numbers in an action.
    pub action_dim: usize,
    /// Widths of a network from input to output.
    pub layers: Vec<usize>,
    /// Of the hidden layers.
    pub activation: Option<&'static str>,
    /// Weights and biases.
    pub parameters: usize,
    /// Whether observations are normalised first, and to which limit.
    pub normalised_to: Option<f64>,
    /// What becomes of the network's output.
    pub output: Option<&'static str>,
    /// Smallest and largest action; infinite where there is no limit.
    pub action_low: Vec<f32>,
    /// Largest action.
    pub action_high: Vec<f32>,
    /// How it can draw its actions; none where it is deterministic.
    pub distribution: Option<&'static str>,
    /// A controller's actions as expressions.
    pub expressions: Vec<String>,
}

impl Policy {
    /// What it is.
    pub fn describe(&self) -> Description {
        let mut description = Description {
            kind: "graph",
            state_dim: self.state_dim,
            action_dim: self.action_dim,
            layers: Vec::new(),
            activation: None,
            parameters: 0,
            normalised_to: None,
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
                description.activation = Some(match mlp.shape.hidden {
                    Activation::Linear => "linear",
                    Activation::Relu => "relu",
                    Activation::Tanh => "tanh",
                });
                description.normalised_to = mlp.normaliser.as_ref().map(|n| n.clip);
                description.output = Some(match mlp.output {
                    Output::Clip => "limited to the bounds",
                    Output::Tanh { limit } if limit.is_finite() => "limited, then by tanh into the bounds",
                    Output::Tanh { .. } => "by tanh into the bounds",
                });
                (description.action_low, description.action_high) = (mlp.low.clone(), mlp.high.clone());
                description.distribution = mlp.spread.as_ref().map(|spread| match spread {
                    Spread::Fixed(_) => "Gaussian with fixed deviations",
                    Spread::Logs(_) => "Gaussian with deviations from the network",
                    Spread::Features(_) => "Gaussian with state-dependent exploration (gSDE)",
                });
            }
            #[cfg(feature = "onnxruntime")]
            Kind::Graph(_) => {}
        }
        description
    }
}
