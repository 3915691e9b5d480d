//! What is known of a policy beyond its file.

use super::normalizer::NormalizerFile;
use hambo_engine::backend::Activation;

/// What is known of a policy beyond its file, for [`Policy::read_as`](super::Policy::read_as).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyHints {
    /// Where an agent of Stable-Baselines3 has its observation normalizer.
    pub normalizer: NormalizerFile,
    /// Activation of the hidden layers of a PyTorch file: `relu`, `tanh`, …
    pub activation: Option<String>,
    /// What follows the last layer of a PyTorch file: `none`, `tanh` (actions within ±1, or within what the file says), or
    /// `tanh:LIMIT`.
    pub squash: Option<String>,
    /// The output of an ONNX graph that is the action.
    pub output: Option<String>,
}

/// Activations in the words of the field, for messages.
pub(super) const ACTIVATIONS: &str = "relu, tanh, elu, silu, gelu, leakyrelu, softplus or identity";

/// The activation of that name; an error in words if it is none, or none that the engine computes.
pub(super) fn activation(name: &str) -> Result<Activation, String> {
    let plain: String = name.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    let names: &[&str] = match plain.as_str() {
        "relu" | "tanh" | "elu" | "gelu" | "softplus" => &[&plain],
        "silu" | "swish" => &["silu"],
        "leakyrelu" => &["leakyrelu", "leaky_relu"],
        "identity" | "linear" => &["identity", "linear"],
        _ => return Err(format!("activation {name:?}: expected {ACTIVATIONS}")),
    };
    let known = |name: &&str| serde_json::from_value(serde_json::Value::from(*name)).ok();
    names.iter().find_map(known).ok_or_else(|| {
        format!("activation {name}: this version does not compute it; export the policy with docs/export_onnx.py")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_go_by_the_names_of_the_field() {
        assert_eq!(activation("ReLU"), Ok(Activation::Relu));
        assert_eq!(activation("tanh"), Ok(Activation::Tanh));
        assert!(activation("identity").is_ok());
        assert_eq!(
            activation("sine").unwrap_err(),
            format!("activation \"sine\": expected {ACTIVATIONS}")
        );
        for name in ["elu", "SiLU", "gelu", "leaky_relu", "softplus"] {
            // Either the engine has it, or the error names it.
            assert!(
                activation(name)
                    .map_or_else(|e| e.starts_with(&format!("activation {name}: ")), |_| true)
            );
        }
    }
}
