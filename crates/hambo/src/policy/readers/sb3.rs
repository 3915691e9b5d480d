//! Agents saved by Stable-Baselines3: what `predict` computes, read without executing anything.
//!
//! | algorithm | network | output | standard deviation |
//! |---|---|---|---|
//! | A2C, PPO, TRPO | `mlp_extractor` then `action_net` | clipped to the bounds; tanh with `squash_output` | `log_std` |
//! | SAC, TQC | `actor.latent_pi` then `actor.mu` | tanh into the bounds; with gSDE clipped to ±`clip_mean` before | `actor.log_std` |
//! | DDPG, TD3 | `actor.mu` | tanh into the bounds | |
//! | ARS | `action_net` | tanh into the bounds, or clipped to them if it is linear | |

use super::vec_normalize;
use crate::policy::action_std::ActionStd;
use crate::policy::hints::{ACTIVATIONS, activation};
use crate::policy::layers::{Linear, Output};
use crate::policy::mlp::Mlp;
use crate::policy::normalizer::Normalizer;
use crate::policy::readers::Problem;
use crate::policy::readers::archive::Archive;
use crate::policy::readers::torch::{self, Tensor};
use crate::policy::{NormalizerFile, Policy};
use crate::{Error, Result};
use hambo_engine::backend::Activation;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const SUPPORTED: &str = "supported are MLP policies of A2C, PPO, TRPO, ARS, DDPG, TD3, SAC and TQC with vector \
                         observations and continuous (Box) actions";

/// The part of an agent's description that its actions depend on.
#[derive(Deserialize)]
struct Agent {
    #[serde(default)]
    policy_class: Value,
    #[serde(default)]
    policy_kwargs: Value,
    #[serde(default)]
    observation_space: Value,
    #[serde(default)]
    action_space: Value,
    /// Set where there is a memory of transitions, as off-policy algorithms have.
    #[serde(default)]
    buffer_size: Value,
    /// The last observation of its training as the policy got it, and before a normalizer changed it.
    #[serde(default, rename = "_last_obs")]
    last_obs: Value,
    #[serde(default, rename = "_last_original_obs")]
    last_original_obs: Value,
}

type Tensors = BTreeMap<String, Option<Tensor>>;

/// Reads the agent in the file at `path` with these bytes, and its normalizer.
pub(in crate::policy) fn read(
    spec: &str,
    path: &Path,
    bytes: &[u8],
    wanted: &NormalizerFile,
) -> Result<Policy> {
    let file = match wanted {
        NormalizerFile::Found => vec_normalize::find(path)?,
        NormalizerFile::At(file) => Some(file.clone()),
        NormalizerFile::Without => None,
    };
    let normalizer = file.as_deref().map(vec_normalize::read).transpose()?.flatten();
    let is_missing = file.is_none() && *wanted == NormalizerFile::Found;
    let agent = agent(bytes, normalizer, is_missing).map_err(|e| Error::file(path, e))?;
    Ok(Policy { normalizer: file, ..Policy::network(spec, agent) })
}

/// The network of an agent; an error if its normalizer `is_missing` although it was trained with one.
fn agent(
    bytes: &[u8],
    normalizer: Option<Normalizer>,
    is_missing: bool,
) -> std::result::Result<Mlp, Problem> {
    let mut archive = Archive::open(bytes)?;
    if archive.has("model.weights.h5") {
        return Err("a Keras model: export it to ONNX with tf2onnx, or model.export(\"policy.onnx\", format=\"onnx\")".into());
    }
    if !archive.has("data") || !archive.has("policy.pth") {
        return Err("a zip archive, but not an agent of Stable-Baselines3: it needs `data` and `policy.pth`"
            .to_owned());
    }
    let description = plain_json(archive.read("data")?);
    let agent: Agent = serde_json::from_slice(&description)
        .map_err(|e| format!("`data` does not describe an agent: {e}"))?;
    agent.check_spaces()?;
    if is_missing && agent.had_a_normalizer() {
        return Err(format!(
            "it was trained with an observation normalizer (VecNormalize), and none is beside it ({}) or in a folder of its name: \
             put it there, or say where it is with --normalizer FILE (--normalizer none if it really acts without)",
            vec_normalize::NAMES[0]
        ));
    }
    let wanted = |name: &str| PARTS.iter().any(|part| name.starts_with(part));
    let tensors = torch::read(&archive.read("policy.pth")?, wanted)
        .map_err(|e| format!("`policy.pth`: {e}"))?;
    let (layers, hidden, output) = agent.network(&tensors)?;
    let bounds = agent.bounds()?;
    let observations = layers.first().map_or(0, |l| l.inputs);
    if let Some(n) = normalizer.as_ref().filter(|n| n.mean.len() != observations) {
        return Err(format!(
            "its observation normalizer is for observations of {} numbers, but this agent takes {observations}: say which file it \
             is with --normalizer FILE, or --normalizer none",
            n.mean.len()
        ));
    }
    let mlp = Mlp::new(&layers, hidden, normalizer, output, bounds)?;
    let features = layers.last().map_or(0, |l| l.inputs);
    match agent.action_std(&tensors, features, mlp.shape.outputs())? {
        Some(std) => mlp.with_action_std(std),
        None => Ok(mlp),
    }
}

/// Prefixes of the tensors that actors consist of.
const PARTS: [&str; 7] = [
    "mlp_extractor.shared_net.",
    "mlp_extractor.policy_net.",
    "action_net.",
    "actor.latent_pi.",
    "actor.mu.",
    "actor.log_std",
    "log_std",
];

impl Agent {
    /// On-policy algorithms keep the observation before normalization only where there is a normalizer, and one that changes
    /// observations; off-policy ones always keep one.
    fn had_a_normalizer(&self) -> bool {
        let (last, original) = (&self.last_obs, &self.last_original_obs);
        self.buffer_size.is_null() && !original.is_null() && original != last
    }

    fn check_spaces(&self) -> std::result::Result<(), Problem> {
        for (space, of) in
            [(&self.action_space, "actions"), (&self.observation_space, "observations")]
        {
            let name = class_name(&space[":type:"]);
            if name.is_some_and(|n| n != "Box") {
                return Err(format!(
                    "its {of} are in the space {}; {SUPPORTED}",
                    name.unwrap_or_default()
                ));
            }
        }
        // A custom policy class may do anything with its weights.
        let module = self.policy_class["__module__"].as_str().unwrap_or("stable_baselines3");
        if !["stable_baselines3", "sb3_contrib"]
            .iter()
            .any(|known| module.split('.').next() == Some(known))
        {
            return Err(format!(
                "its policy class is defined in {module:?}, not by Stable-Baselines3; {SUPPORTED}"
            ));
        }
        Ok(())
    }

    /// Its layers, the activation between them, and how the last one's output becomes an action.
    fn network(
        &self,
        tensors: &Tensors,
    ) -> std::result::Result<(Vec<Linear>, Activation, Output), Problem> {
        let has = |part: &str| tensors.keys().any(|name| name.starts_with(part));
        let seen =
            tensors.keys().filter(|n| n.contains("features_extractor.")).find(|_| !has("q_net."));
        if has("lstm_actor.") {
            return Err(format!("a recurrent policy (`lstm_actor`); {SUPPORTED}"));
        }
        if let Some(name) = seen {
            let kind = if name.contains(".cnn.") {
                "an image (CNN) policy"
            } else {
                "a policy with its own feature extractor"
            };
            return Err(format!("{kind} (`{name}`); {SUPPORTED}"));
        }
        let setting = |name: &str| &self.policy_kwargs[name];
        let squash = |default| {
            if setting("squash_output").as_bool().unwrap_or(default) { TANH } else { Output::Clip }
        };
        let layers = |parts: &[&str]| -> std::result::Result<Vec<Linear>, Problem> {
            let mut all = Vec::new();
            for part in parts {
                all.extend(linear_layers(tensors, part)?);
            }
            Ok(all)
        };
        if has("actor.log_std") {
            // With gSDE the last layer is followed by a limit, which makes it a sequence.
            let limit = match tensors.contains_key("actor.mu.0.weight") {
                true => setting("clip_mean").as_f64().unwrap_or(2.0) as f32,
                false => f32::INFINITY,
            };
            let layers = layers(&["actor.latent_pi", "actor.mu"])?;
            Ok((layers, self.activation(Activation::Relu)?, Output::Tanh { limit }))
        } else if has("actor.mu.") {
            Ok((layers(&["actor.mu"])?, self.activation(Activation::Relu)?, TANH))
        } else if has("value_net.") && has("action_net.") {
            let parts = ["mlp_extractor.shared_net", "mlp_extractor.policy_net", "action_net"];
            Ok((layers(&parts)?, self.activation(Activation::Tanh)?, squash(false)))
        } else if has("action_net.") {
            let layers = layers(&["action_net"])?;
            let class = self.policy_class["__init__"].as_str().unwrap_or_default();
            let linear =
                class.contains("ARSLinearPolicy") || !tensors.keys().any(|n| n.ends_with(".bias"));
            Ok((layers, self.activation(Activation::Relu)?, squash(!linear)))
        } else {
            let names: Vec<&str> = tensors.keys().take(6).map(String::as_str).collect();
            Err(format!("no actor in it, but `{}`, …; {SUPPORTED}", names.join("`, `")))
        }
    }

    /// The standard deviations of its actions; none for a deterministic actor.
    fn action_std(
        &self,
        tensors: &Tensors,
        features: usize,
        actions: usize,
    ) -> std::result::Result<Option<ActionStd>, Problem> {
        if tensors.contains_key("actor.log_std.weight") {
            let head = linear_layers(tensors, "actor.log_std")?.pop();
            return Ok(head.map(ActionStd::Logs));
        }
        let parameter =
            ["actor.log_std", "log_std"].iter().find_map(|name| tensors.get(*name)?.as_ref());
        let Some(Tensor { shape, values }) = parameter else { return Ok(None) };
        match shape[..] {
            [_] => Ok(Some(ActionStd::Fixed(values.iter().map(|v| v.exp()).collect()))),
            // gSDE: one per feature and action, or one per feature.
            [rows, columns] if rows == features && (columns == actions || columns == 1) => {
                let soft = self.policy_kwargs["use_expln"].as_bool().unwrap_or(false);
                let std = |v: f32| if soft && v > 0.0 { v.ln_1p() + 1.0 } else { v.exp() };
                let repeat = actions / columns.max(1);
                Ok(Some(ActionStd::Features(
                    values
                        .iter()
                        .flat_map(|&v| std::iter::repeat_n(std(v).powi(2), repeat))
                        .collect(),
                )))
            }
            _ => Err(format!(
                "`log_std` has shape {shape:?}, for {features} features and {actions} actions"
            )),
        }
    }

    /// The activation in its settings, or else the algorithm's default.
    fn activation(&self, default: Activation) -> std::result::Result<Activation, Problem> {
        match (
            &self.policy_kwargs["activation_fn"],
            class_name(&self.policy_kwargs["activation_fn"]),
        ) {
            (Value::Null, _) => Ok(default),
            (_, Some(name)) => activation(name),
            (other, None) => Err(format!("activation {other}: expected {ACTIVATIONS}")),
        }
    }

    /// Smallest and largest action, which the description holds as numpy prints them.
    fn bounds(&self) -> std::result::Result<[Vec<f32>; 2], Problem> {
        let space = &self.action_space;
        let shape = [&space["_shape"], &space["shape"]].into_iter().find_map(Value::as_array);
        let count = shape.and_then(|shape| {
            shape.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(d.as_u64()?).ok()?))
        });
        let bound = |name: &str, brief: &str| {
            let printed = |key: &str| numbers(space[key].as_str()?);
            let values = printed(name).or_else(|| printed(brief));
            let found = match (values, count) {
                (Some(v), Some(n)) if v.len() == 1 && n < 10_000 => Some(vec![v[0]; n]),
                (Some(v), n) if n.is_none_or(|n| n == v.len()) => Some(v),
                _ => None,
            };
            found.ok_or_else(|| {
                format!("`data` does not give the bounds of its actions (`action_space.{name}`)")
            })
        };
        Ok([bound("low", "low_repr")?, bound("high", "high_repr")?])
    }
}

const TANH: Output = Output::Tanh { limit: f32::INFINITY };

/// The linear layers `part`.weight, or `part`.0.weight, `part`.2.weight, … in their order.
fn linear_layers(tensors: &Tensors, part: &str) -> std::result::Result<Vec<Linear>, Problem> {
    let mut layers: BTreeMap<usize, [Option<&Tensor>; 2]> = BTreeMap::new();
    for (name, tensor) in tensors {
        let Some(rest) = name.strip_prefix(part).and_then(|r| r.strip_prefix('.')) else {
            continue;
        };
        let (index, kind) = rest.split_once('.').unwrap_or(("0", rest));
        let slot = match kind {
            "weight" => 0,
            "bias" => 1,
            _ => return Err(format!("`{name}` is not part of a linear layer; {SUPPORTED}")),
        };
        let index: usize = index
            .parse()
            .map_err(|_| format!("`{name}` is not part of a linear layer; {SUPPORTED}"))?;
        layers.entry(index).or_default()[slot] = tensor.as_ref();
    }
    let linear = |(index, tensors): (usize, [Option<&Tensor>; 2])| match tensors {
        [Some(Tensor { shape, values }), bias] if shape.len() == 2 => {
            let (outputs, inputs) = (shape[0], shape[1]);
            let bias =
                bias.map_or_else(|| vec![0.0; outputs.min(values.len())], |b| b.values.clone());
            Ok(Linear { inputs, outputs, weight: values.clone(), bias })
        }
        _ => Err(format!("`{part}.{index}` is not a linear layer; {SUPPORTED}")),
    };
    layers.into_iter().map(linear).collect()
}

/// `Box` of `<class 'gymnasium.spaces.box.Box'>`.
fn class_name(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix("<class '")?.strip_suffix("'>")?.rsplit('.').next()
}

/// Numbers as numpy prints an array: `[-1. -1.]`, `-2.0`.
fn numbers(text: &str) -> Option<Vec<f32>> {
    let words =
        text.split(|c: char| c.is_whitespace() || "[],".contains(c)).filter(|w| !w.is_empty());
    words.map(|w| w.parse().ok()).collect::<Option<Vec<f32>>>().filter(|v| !v.is_empty())
}

/// Python writes NaN and Infinity, which JSON does not know; none of them matters here.
fn plain_json(mut text: Vec<u8>) -> Vec<u8> {
    let (mut at, mut in_string) = (0, false);
    while at < text.len() {
        match text[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'N' | b'I' | b'-' if !in_string => {
                for word in ["NaN", "Infinity", "-Infinity"] {
                    if text[at..].starts_with(word.as_bytes()) {
                        text[at..at + word.len()].fill(b' ');
                        text[at] = b'0';
                        at += word.len() - 1;
                        break;
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_policy_agents_tell_whether_they_had_a_normalizer() {
        let had = |text: &str| serde_json::from_str::<Agent>(text).unwrap().had_a_normalizer();
        assert!(had(
            r#"{"_last_obs": {":serialized:": "A"}, "_last_original_obs": {":serialized:": "B"}}"#
        ));
        assert!(!had(
            r#"{"_last_obs": {":serialized:": "A"}, "_last_original_obs": {":serialized:": "A"}}"#
        ));
        assert!(!had(r#"{"_last_obs": {":serialized:": "A"}, "_last_original_obs": null}"#));
        assert!(
            !had(r#"{"_last_obs": 1, "_last_original_obs": 2, "buffer_size": 1000}"#),
            "off-policy"
        );
        assert!(!had("{}"));
    }

    #[test]
    fn printed_arrays_are_read() {
        assert_eq!(numbers("[-1.  2.5\n -inf]"), Some(vec![-1.0, 2.5, f32::NEG_INFINITY]));
        assert_eq!(numbers("-2.0"), Some(vec![-2.0]));
        assert_eq!(numbers("[[-1. 1.] [0. 3.]]"), Some(vec![-1.0, 1.0, 0.0, 3.0]));
        assert_eq!(numbers("[-1. ... 1.]"), None);
        assert_eq!(numbers("[]"), None);
    }

    #[test]
    fn numbers_that_json_does_not_know_are_passed_over() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" Infinity", "d": -1}"#;
        let value: Value = serde_json::from_slice(&plain_json(text.to_vec())).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": 0, "b": [0, 0], "c": "NaN \" Infinity", "d": -1})
        );
    }
}
