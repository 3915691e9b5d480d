//! Networks in safetensors files of the format `hambo-policy/1`, which holds tensors and cannot hold code.
//!
//! Tensors, all F32, as in `torch.nn.Linear`: `layers.0.weight` `[outputs, inputs]`, `layers.0.bias`
//! `[outputs]`, `layers.1.weight`, … A missing bias is 0. A stochastic policy has one of: `std` `[action]`;
//! `log_std.weight` and `log_std.bias`, a layer from the last hidden layer to ln σ; `feature_variance` `[features, action]`,
//! weighted by the squares of the last hidden layer (gSDE). The header's `__metadata__` has text values:
//!
//! | key | value |
//! |---|---|
//! | `format` | `hambo-policy/1` |
//! | `activation` | of the hidden layers: `relu`, `tanh` or `linear` |
//! | `squash` | `tanh`: tanh squashes the output into the bounds; `none`: it is clipped to them |
//! | `squash_limit` | optional, with `tanh`: the output is clipped to ± this number before |
//! | `action_low`, `action_high` | a JSON list each, one number per action; with `none` both may be missing |
//! | `observation_mean`, `observation_var` | optional: a JSON list each |
//! | `observation_epsilon`, `observation_clip` | with these: (s − mean) / √(var + epsilon), clipped to ± clip; 0 and no limit by default |
//! | `sha256` | optional: the SHA-256 of the file with zeros in this place; a file that has another is damaged |
//!
//! In Python: `safetensors.torch.save_file(tensors, "policy.safetensors", metadata={…})`.

use crate::policy::Policy;
use crate::policy::action_std::ActionStd;
use crate::policy::hints::{ACTIVATIONS, activation};
use crate::policy::layers::{Linear, Output};
use crate::policy::mlp::Mlp;
use crate::policy::normalizer::Normalizer;
use crate::{Error, Result};
use hambo_engine::files::{NO_SEAL, Seal, seal, with_sorted_header, write_together};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::path::Path;

const FORMAT: &str = "hambo-policy/1";
const KEYS: [&str; 11] = [
    "format",
    "activation",
    "squash",
    "squash_limit",
    "action_low",
    "action_high",
    "observation_mean",
    "observation_var",
    "observation_epsilon",
    "observation_clip",
    "sha256",
];

type Header = HashMap<String, String>;

pub(in crate::policy) fn read(spec: &str, path: &Path, bytes: &[u8]) -> Result<Policy> {
    let mlp = network(bytes).map_err(|e| Error::file(path, e))?;
    Ok(Policy::network(spec, mlp))
}

fn network(bytes: &[u8]) -> std::result::Result<Mlp, String> {
    let damaged =
        |e: safetensors::SafeTensorError| format!("not a safetensors file, or a damaged one: {e}");
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let header = metadata.metadata().clone().unwrap_or_default();
    if header.get("format").map(String::as_str) != Some(FORMAT) {
        return Err(format!(
            "`format` in its header is {:?}: expected {FORMAT:?}",
            header.get("format")
        ));
    }
    if let Some(unknown) = header.keys().find(|k| !KEYS.contains(&k.as_str())) {
        return Err(format!(
            "`{unknown}` in its header is not a known key; known are {}",
            KEYS.join(", ")
        ));
    }
    let Some(hidden) = header.get("activation") else {
        return Err(format!("`activation` is missing in its header: expected {ACTIVATIONS}"));
    };
    let hidden = activation(hidden)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    if Seal::of(bytes) == Seal::Broken {
        return Err("damaged: its bytes do not have the SHA-256 in its header".to_owned());
    }
    let layers = layers(&tensors)?;
    let outputs = layers.last().map_or(0, |l| l.outputs);
    let output = match header.get("squash").map(String::as_str) {
        Some("tanh") => {
            Output::Tanh { limit: number(&header, "squash_limit", f64::INFINITY)? as f32 }
        }
        Some("none") => Output::Clip,
        other => return Err(format!("`squash` is {other:?}: expected tanh or none")),
    };
    let bounds = match (list(&header, "action_low")?, list(&header, "action_high")?) {
        (Some(low), Some(high)) => {
            [low, high].map(|bound| bound.into_iter().map(|x| x as f32).collect())
        }
        (None, None) if output == Output::Clip => {
            [vec![f32::NEG_INFINITY; outputs], vec![f32::INFINITY; outputs]]
        }
        _ => return Err("`action_low` and `action_high` are missing".to_owned()),
    };
    let normalizer = match (list(&header, "observation_mean")?, list(&header, "observation_var")?) {
        (Some(mean), Some(var)) => Some(Normalizer {
            mean,
            var,
            clip: number(&header, "observation_clip", f64::INFINITY)?,
            epsilon: number(&header, "observation_epsilon", 0.0)?,
        }),
        (None, None) => None,
        _ => {
            return Err(
                "`observation_mean` and `observation_var` must be given together".to_owned()
            );
        }
    };
    let mlp = Mlp::new(&layers, hidden, normalizer, output, bounds)?;
    match action_std(&tensors)? {
        Some(std) => mlp.with_action_std(std),
        None => Ok(mlp),
    }
}

/// The tensors of a stochastic policy's standard deviations.
const ACTION_STD: [&str; 4] = ["std", "log_std.weight", "log_std.bias", "feature_variance"];

fn action_std(tensors: &SafeTensors<'_>) -> std::result::Result<Option<ActionStd>, String> {
    let has = |name: &str| tensors.names().contains(&name);
    if has("std") {
        Ok(Some(ActionStd::Fixed(tensor(tensors, "std")?.1)))
    } else if has("feature_variance") {
        Ok(Some(ActionStd::Features(tensor(tensors, "feature_variance")?.1)))
    } else if has("log_std.weight") {
        let (shape, weight) = tensor(tensors, "log_std.weight")?;
        let [outputs, inputs] = shape[..] else {
            return Err(format!(
                "`log_std.weight` has shape {shape:?}: expected [outputs, inputs]"
            ));
        };
        let bias = tensor(tensors, "log_std.bias")?.1;
        Ok(Some(ActionStd::Logs(Linear { inputs, outputs, weight, bias })))
    } else {
        Ok(None)
    }
}

fn tensor(
    tensors: &SafeTensors<'_>,
    name: &str,
) -> std::result::Result<(Vec<usize>, Vec<f32>), String> {
    let tensor = tensors.tensor(name).map_err(|_| format!("there is no tensor `{name}`"))?;
    if tensor.dtype() != Dtype::F32 {
        return Err(format!("`{name}` is {:?}: expected F32", tensor.dtype()));
    }
    let values =
        tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Ok((tensor.shape().to_vec(), values.collect()))
}

fn layers(tensors: &SafeTensors<'_>) -> std::result::Result<Vec<Linear>, String> {
    let read = |name: &str| tensor(tensors, name);
    let mut names = tensors.names();
    names.retain(|name| !ACTION_STD.contains(name));
    let mut layers = Vec::new();
    let mut used = 0;
    while used < names.len() {
        let [weight, bias] =
            ["weight", "bias"].map(|kind| format!("layers.{}.{kind}", layers.len()));
        let (shape, values) = read(&weight).map_err(|e| format!("{e}; it has {names:?}"))?;
        let [outputs, inputs] = shape[..] else {
            return Err(format!("`{weight}` has shape {shape:?}: expected [outputs, inputs]"));
        };
        let has_bias = names.iter().any(|n| **n == bias);
        let bias = if has_bias { read(&bias)?.1 } else { vec![0.0; outputs.min(values.len())] };
        used += 1 + usize::from(has_bias);
        layers.push(Linear { inputs, outputs, weight: values, bias });
    }
    Ok(layers)
}

fn list(header: &Header, key: &str) -> std::result::Result<Option<Vec<f64>>, String> {
    let Some(text) = header.get(key) else { return Ok(None) };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|e| format!("`{key}` is not a JSON list of numbers: {e}"))
}

fn number(header: &Header, key: &str, default: f64) -> std::result::Result<f64, String> {
    let Some(text) = header.get(key) else { return Ok(default) };
    text.parse()
        .ok()
        .filter(|x| *x >= 0.0)
        .ok_or_else(|| format!("`{key}` is {text:?}: expected a number"))
}

pub(in crate::policy) fn write(mlp: &Mlp, path: &Path) -> Result<()> {
    let mut header = Header::from([("format".to_owned(), FORMAT.to_owned())]);
    let mut put = |key: &str, value: String| drop(header.insert(key.to_owned(), value));
    put("activation", mlp.shape.hidden.name().to_owned());
    put("sha256", NO_SEAL.to_owned());
    match mlp.output {
        Output::Clip => put("squash", "none".to_owned()),
        Output::Tanh { limit } => {
            put("squash", "tanh".to_owned());
            if limit.is_finite() {
                put("squash_limit", limit.to_string());
            }
        }
    }
    let finite = |values: &[f32]| values.iter().all(|x| x.is_finite());
    if finite(&mlp.low) && finite(&mlp.high) {
        put("action_low", format!("{:?}", mlp.low));
        put("action_high", format!("{:?}", mlp.high));
    } else if mlp.low.iter().chain(&mlp.high).any(|x| x.is_finite()) {
        return Err(Error::file(
            path,
            "action bounds of which only some are finite cannot be saved",
        ));
    }
    if let Some(n) = &mlp.normalizer {
        put("observation_mean", format!("{:?}", n.mean));
        put("observation_var", format!("{:?}", n.var));
        put("observation_epsilon", n.epsilon.to_string());
        if n.clip.is_finite() {
            put("observation_clip", n.clip.to_string());
        }
    }
    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Linear::unpack(&mlp.shape, &mlp.params)
        .iter()
        .enumerate()
        .flat_map(|(i, l)| {
            [
                (format!("layers.{i}.weight"), vec![l.outputs, l.inputs], bytes(&l.weight)),
                (format!("layers.{i}.bias"), vec![l.outputs], bytes(&l.bias)),
            ]
        })
        .collect();
    let actions = mlp.shape.outputs();
    match &mlp.action_std {
        None => {}
        Some(ActionStd::Fixed(std)) => tensors.push(("std".to_owned(), vec![actions], bytes(std))),
        Some(ActionStd::Features(v)) => {
            tensors.push((
                "feature_variance".to_owned(),
                vec![v.len() / actions, actions],
                bytes(v),
            ));
        }
        Some(ActionStd::Logs(l)) => {
            tensors.push((
                "log_std.weight".to_owned(),
                vec![l.outputs, l.inputs],
                bytes(&l.weight),
            ));
            tensors.push(("log_std.bias".to_owned(), vec![l.outputs], bytes(&l.bias)));
        }
    }
    let views: std::result::Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect();
    let file = views
        .and_then(|views| safetensors::serialize(views, Some(header)))
        .map_err(|e: safetensors::SafeTensorError| Error::file(path, e.to_string()))?;
    write_together(&[(path.to_owned(), seal(with_sorted_header(file)))])
}
