//! Networks in files of PyTorch, and pickles of arrays as the DOPE benchmark has them: weights by name, of which the actor's
//! linear layers are found by their shapes. What is between the layers is not in such a file, and has to be said.

use crate::policy::Policy;
use crate::policy::action_std::ActionStd;
use crate::policy::hints::{ACTIVATIONS, PolicyHints, activation};
use crate::policy::layers::{Linear, Output};
use crate::policy::mlp::Mlp;
use crate::policy::readers::archive::Archive;
use crate::policy::readers::pickle::Pickle;
use crate::policy::readers::torch::{self, Tensor};
use crate::policy::readers::{Problem, numpy};
use crate::{Error, Result};
use std::path::Path;

/// How else such a file can be used.
const EXPORT: &str = "a PyTorch file: export it with docs/export_onnx.py";
/// Parts of names that belong to something else than the actor.
const OTHERS: [&str; 15] = [
    "critic",
    "q_",
    "qf",
    "q1",
    "q2",
    "value",
    "vf",
    "v_",
    "targ",
    "optim",
    "temp",
    "log_alpha",
    "log_temp",
    "reward",
    "discriminator",
];
/// Parts of names that belong to the actor where others do not.
const ACTORS: [&str; 4] = ["actor", "policy", "pi", "pi_net"];

/// Reads the file at `path` with these bytes: a zip archive or a pickle.
pub(in crate::policy) fn read(
    spec: &str,
    path: &Path,
    bytes: &[u8],
    hints: &PolicyHints,
) -> Result<Policy> {
    let network = match bytes.starts_with(b"PK") {
        true => archive(bytes, hints),
        false => pickle(bytes, hints),
    };
    Ok(Policy::network(spec, network.map_err(|problem| Error::file(path, problem))?))
}

fn archive(bytes: &[u8], hints: &PolicyHints) -> std::result::Result<Mlp, Problem> {
    let archive = Archive::open(bytes)?;
    if archive.name_ending("constants.pkl").is_some() {
        return Err(
            "a TorchScript file, which is a program: export it with docs/export_onnx.py".into()
        );
    }
    network(torch_tensors(bytes)?, hints)
}

fn torch_tensors(bytes: &[u8]) -> std::result::Result<Vec<(String, Tensor)>, Problem> {
    torch::read_all(bytes).map_err(|problem| format!("{EXPORT} ({problem})"))
}

/// A pickle: of torch.save before version 1.6, of d3rlpy with such a file in it, or of arrays.
fn pickle(bytes: &[u8], hints: &PolicyHints) -> std::result::Result<Mlp, Problem> {
    if torch::is_legacy(bytes) {
        return network(torch_tensors(bytes)?, hints);
    }
    let refused = |problem| {
        format!(
            "a Python pickle with more in it than arrays, which could run anything: {problem}; export the policy with \
             docs/export_onnx.py"
        )
    };
    let (pickle, _) = Pickle::read(bytes).map_err(refused)?;
    let root = pickle.root();
    if let (Some(weights), Some(config)) =
        (root.get("torch").and_then(|v| v.bytes()), root.get("config").and_then(|v| v.text()))
    {
        let scaled = ["observation_scaler", "action_scaler"].into_iter().find(|name| {
            let config: serde_json::Value = serde_json::from_str(config).unwrap_or_default();
            let scaler = &config["config"]["params"][*name];
            !scaler.is_null() && scaler["type"] != "none"
        });
        return match scaled {
            Some(name) => Err(format!(
                "a d3rlpy file whose settings have an `{name}`: export it with docs/export_onnx.py"
            )),
            None => network(torch_tensors(weights)?, hints),
        };
    }
    let items = root.items().ok_or_else(|| refused("it is no dictionary".into()))?;
    let mut tensors = Vec::new();
    let mut hints = hints.clone();
    for (key, value) in items {
        let name =
            key.text().ok_or_else(|| refused("a name is not text".into()))?.replace('/', ".");
        match (name.as_str(), value.text()) {
            ("nonlinearity", Some(text)) => hints.activation = Some(text.to_owned()),
            ("output_distribution", Some("tanh_gaussian")) => hints.squash = Some("tanh".into()),
            ("output_distribution", Some("gaussian")) => hints.squash = Some("none".into()),
            (_, Some(text)) => return Err(refused(format!("`{name}` is {text:?}"))),
            (_, None) => {
                let (shape, values) =
                    numpy::array(value).ok_or_else(|| refused(format!("`{name}` is no array")))?;
                let values = values.into_iter().map(|v| v as f32).collect();
                tensors.push((name, Tensor { shape, values }));
            }
        }
    }
    network(tensors, &hints)
}

/// The actor among these tensors, which lie in the order of its modules.
fn network(
    tensors: Vec<(String, Tensor)>,
    hints: &PolicyHints,
) -> std::result::Result<Mlp, Problem> {
    let parts = Parts::of(actor(tensors)?)?;
    let outputs = parts.layers.last().map_or(0, |l| l.outputs);
    let hidden = match (&hints.activation, parts.layers.len()) {
        (Some(name), _) => activation(name)?,
        (None, 1) if hints.squash.is_some() => activation("identity")?,
        (None, _) => return Err(parts.ask()),
    };
    let wide = |bound: f32| [vec![-bound; outputs], vec![bound; outputs]];
    let limit =
        hints.squash.as_deref().map(|squash| squash.split_once(':').unwrap_or((squash, "")));
    let (output, bounds) = match (limit, parts.scale.clone()) {
        (None, _) => return Err(parts.ask()),
        (Some(("none", "")), None) => (Output::Clip, wide(f32::INFINITY)),
        (Some(("tanh", "")), None) => (TANH, wide(1.0)),
        (Some(("tanh", "")), Some(bounds)) => (TANH, bounds),
        (Some(("tanh", number)), None) => match number.parse::<f32>() {
            Ok(bound) if bound > 0.0 && bound.is_finite() => (TANH, wide(bound)),
            _ => return Err(format!("--squash tanh:{number}: expected a positive number")),
        },
        (Some(_), Some(_)) => {
            return Err("it has an `action_scale`, so that its actions are squashed by tanh: say --squash tanh".into());
        }
        (Some((other, _)), None) => {
            return Err(format!("--squash {other}: expected tanh, tanh:LIMIT or none"));
        }
    };
    let mlp = Mlp::new(&parts.layers, hidden, None, output, bounds)?;
    match parts.std.filter(|_| output == Output::Clip) {
        Some(std) => mlp.with_action_std(ActionStd::Fixed(std)),
        None => Ok(mlp), // a head for it is limited in ways that differ, and are not in the file
    }
}

const TANH: Output = Output::Tanh { limit: f32::INFINITY };

/// The tensors of the actor, or all where none is named so. What is named for neither the actor nor another might come before
/// the actor, as an encoder does, and is refused.
fn actor(tensors: Vec<(String, Tensor)>) -> std::result::Result<Vec<(String, Tensor)>, Problem> {
    let parts = |name: &str| -> Vec<String> {
        name.split('.').map(|part| part.trim_start_matches('_').to_lowercase()).collect()
    };
    let is_other = |name: &str| {
        let other =
            |part: &String| OTHERS.iter().any(|o| part.starts_with(o)) || part.contains("target");
        parts(name).iter().any(other)
    };
    let is_actor = |name: &str| {
        parts(name)
            .iter()
            .any(|part| ACTORS.iter().any(|a| part.starts_with(a) && (a.len() > 2 || part == a)))
    };
    let left: Vec<_> = tensors.into_iter().filter(|(name, _)| !is_other(name)).collect();
    let beside = left.iter().find(|(name, _)| !is_actor(name) && !is_std(name));
    if let Some((name, _)) = beside.filter(|_| left.iter().any(|(name, _)| is_actor(name))) {
        return Err(format!("`{name}` is beside the actor, and may be a part of it; {EXPORT}"));
    }
    Ok(left)
}

/// Whether a name is that of standard deviations.
fn is_std(name: &str) -> bool {
    let name = name.to_lowercase();
    ["std", "sigma", "logvar", "log_var"].iter().any(|word| name.contains(word))
}

/// An actor taken apart.
struct Parts {
    layers: Vec<Linear>,
    /// Standard deviations that do not depend on the state.
    std: Option<Vec<f32>>,
    /// Smallest and largest action, from `action_scale` and `action_bias`.
    scale: Option<[Vec<f32>; 2]>,
}

impl Parts {
    fn of(tensors: Vec<(String, Tensor)>) -> std::result::Result<Parts, Problem> {
        let (mut layers, mut std) = (Vec::<Linear>::new(), None);
        let [mut scale, mut offset] = [None, None];
        let mut biases: Vec<(String, Tensor)> = Vec::new();
        let mut weights = Vec::new();
        for (name, tensor) in tensors {
            let last = name.rsplit('.').next().unwrap_or(&name);
            match (last, tensor.shape.len()) {
                _ if last.starts_with("weight_ih") || last.starts_with("weight_hh") => {
                    return Err(format!(
                        "a recurrent policy (`{name}`): it remembers what it saw, which rollouts here cannot; not supported"
                    ));
                }
                ("weight", 2) => {
                    weights.push((name.trim_end_matches(".weight").to_owned(), tensor))
                }
                ("weight", 4) => {
                    return Err(format!("a policy for images (`{name}`): not supported"));
                }
                ("bias", 1) => biases.push((name.trim_end_matches(".bias").to_owned(), tensor)),
                ("action_scale", _) => scale = Some(tensor.values),
                ("action_bias", _) => offset = Some(tensor.values),
                _ if is_std(&name) && tensor.shape.iter().filter(|&&d| d != 1).count() <= 1 => {
                    let log = name.to_lowercase().contains("log");
                    let values = tensor.values.into_iter().map(|v| if log { v.exp() } else { v });
                    std = Some(values.collect());
                }
                _ => {
                    return Err(format!(
                        "`{name}` of shape {:?} is no part of linear layers; {EXPORT}",
                        tensor.shape
                    ));
                }
            }
        }
        for (name, Tensor { shape, values }) in weights {
            let (outputs, inputs) = (shape[0], shape[1]);
            let bias = biases
                .iter()
                .position(|(base, _)| *base == name)
                .map(|i| biases.remove(i).1.values);
            let bias = bias.unwrap_or_else(|| vec![0.0; outputs.min(values.len())]);
            let layer = Linear { inputs, outputs, weight: values, bias };
            match layers.last() {
                Some(last) if is_std(&name) && last.inputs == inputs => {} // a head beside that of the mean
                Some(last) if last.outputs != inputs => {
                    return Err(format!(
                        "`{name}` takes {inputs} numbers, the layer before it gives {}: its layers form no chain; {EXPORT}",
                        last.outputs
                    ));
                }
                _ => layers.push(layer),
            }
        }
        if let Some((name, _)) = biases.first() {
            return Err(format!("`{name}.bias` belongs to no linear layer; {EXPORT}"));
        }
        let outputs = layers.last().map_or(0, |l| l.outputs);
        if layers.is_empty() {
            return Err(format!("no linear layers of an actor in it; {EXPORT}"));
        }
        let scale = scale.map(|scale: Vec<f32>| {
            let spread = |values: &[f32]| match values {
                [one] => vec![*one; outputs],
                several => several.to_vec(),
            };
            let (scale, offset) = (spread(&scale), spread(offset.as_deref().unwrap_or(&[0.0])));
            let bound = |sign: f32| offset.iter().zip(&scale).map(|(o, s)| o + sign * s).collect();
            [bound(-1.0), bound(1.0)]
        });
        Ok(Parts { layers, std, scale })
    }

    /// What has to be said of a file that does not say it.
    fn ask(&self) -> Problem {
        let first = self.layers.first().map_or(0, |l| l.inputs);
        let widths: Vec<String> = [first]
            .into_iter()
            .chain(self.layers.iter().map(|l| l.outputs))
            .map(|n| n.to_string())
            .collect();
        format!(
            "a PyTorch file, which holds weights (layers {}) but not what is between them: say --activation {ACTIVATIONS} and \
             --squash tanh (actions within ±1), tanh:LIMIT or none, as in CleanRL's PPO: tanh and none; TD3, SAC: relu and \
             tanh; rsl_rl: elu and none. Or export it with docs/export_onnx.py",
            widths.join(" → ")
        )
    }
}
