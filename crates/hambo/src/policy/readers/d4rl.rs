//! Behavior policies that D4RL stored with their data, under `metadata/policy`.

use crate::data::Source;
use crate::policy::Policy;
use crate::policy::action_std::ActionStd;
use crate::policy::layers::{Linear, Output};
use crate::policy::mlp::Mlp;
use crate::{Error, Result};
use hambo_engine::backend::Activation;
use std::path::Path;

/// Weights and biases of the hidden layers, of which there may be fewer.
const HIDDEN: [[&str; 2]; 4] = [
    ["metadata/policy/fc0/weight", "metadata/policy/fc0/bias"],
    ["metadata/policy/fc1/weight", "metadata/policy/fc1/bias"],
    ["metadata/policy/fc2/weight", "metadata/policy/fc2/bias"],
    ["metadata/policy/fc3/weight", "metadata/policy/fc3/bias"],
];
/// The layer to the mean.
const LAST: [&str; 2] = ["metadata/policy/last_fc/weight", "metadata/policy/last_fc/bias"];
/// The layer to ln σ.
const LOG_STD: [&str; 2] =
    ["metadata/policy/last_fc_log_std/weight", "metadata/policy/last_fc_log_std/bias"];

/// The policy in `path`.
pub(in crate::policy) fn read(spec: &str, path: &Path) -> Result<Policy> {
    let file = Source::open(path)?;
    if !file.has(LAST[0])? {
        if file.names().iter().any(|name| name.starts_with("model_weights/")) {
            let problem = "a Keras model: export it to ONNX with `python -m tf2onnx.convert --keras FILE --output policy.onnx`";
            return Err(Error::file(path, problem));
        }
        let problem = "an HDF5 file without a policy: expected D4RL's `metadata/policy`, as in hopper_medium-v2";
        return Err(Error::file(path, problem));
    }
    let choice = |name: &str, default: &str| {
        file.text(name).map(|text| text.unwrap_or_else(|| default.to_owned()))
    };
    let hidden = match choice("metadata/policy/nonlinearity", "relu")?.as_str() {
        "relu" => Activation::Relu,
        "tanh" => Activation::Tanh,
        other => {
            let problem =
                format!("`metadata/policy/nonlinearity` is {other:?}: supported are relu and tanh");
            return Err(Error::file(path, problem));
        }
    };
    let (output, bound) = match choice("metadata/policy/output_distribution", "tanh_gaussian")?
        .as_str()
    {
        "tanh_gaussian" => (Output::Tanh { limit: f32::INFINITY }, 1.0),
        "gaussian" => (Output::Clip, f32::INFINITY),
        other => {
            let problem = format!(
                "`metadata/policy/output_distribution` is {other:?}: supported are tanh_gaussian and gaussian"
            );
            return Err(Error::file(path, problem));
        }
    };
    let mut layers = Vec::new();
    for names in HIDDEN {
        if !file.has(names[0])? {
            break;
        }
        layers.push(layer(&file, names)?);
    }
    let last = layer(&file, LAST)?;
    let bounds = [vec![-bound; last.outputs], vec![bound; last.outputs]];
    layers.push(last);
    let problem = |e| Error::file(path, format!("`metadata/policy`: {e}"));
    let mut mlp = Mlp::new(&layers, hidden, None, output, bounds).map_err(problem)?;
    if file.has(LOG_STD[0])? {
        mlp = mlp.with_action_std(ActionStd::Logs(layer(&file, LOG_STD)?)).map_err(problem)?;
    }
    Ok(Policy::network(spec, mlp))
}

fn layer(file: &Source, [weight, bias]: [&'static str; 2]) -> Result<Linear> {
    let (weight, bias) = (file.matrix(weight)?, file.column(bias)?);
    Ok(Linear {
        inputs: weight.width,
        outputs: weight.rows,
        weight: weight.read()?,
        bias: bias.read()?,
    })
}
