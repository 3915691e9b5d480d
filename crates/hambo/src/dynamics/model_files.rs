//! A fitted model on disk: the networks in `model.safetensors`, everything else in `model.json`; and what the files of all
//! kinds of models have in common.

use super::Dynamics;
use super::bnn::{Bnn, BnnConfig, FitReport};
use super::frame::Frame;
use super::gp::{self, Gp};
use super::layout::Layout;
use super::seal::{check_weights, seal, unseal};
use crate::data::{Split, Standardizer};
use crate::{Error, Result};
use hambo_engine::backend::{Device, Gaussian, Shape};
use hambo_engine::files::write_together;
use hambo_engine::nn::Ensemble;
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "hambo/bnn/3";
const DESCRIPTION: &str = "model.json";
const TENSORS: &str = "model.safetensors";
const PARAMS: &str = "params";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    schema: String,
    config: BnnConfig,
    layout: Layout,
    action_dim: usize,
    shape: Shape,
    head: Gaussian,
    inputs: Standardizer,
    targets: Standardizer,
    range: Vec<Option<[f32; 2]>>,
    tau: Vec<f32>,
    report: FitReport,
    held_out: Split,
}

impl Bnn {
    /// Writes `model.json` and `model.safetensors` into `folder`, which must exist: both or none.
    pub fn save(&self, device: &Device, folder: &Path) -> Result<()> {
        write_together(&self.to_files(device, folder)?)
    }

    pub(super) fn to_files(
        &self,
        device: &Device,
        folder: &Path,
    ) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let shape = &self.ensemble.shape;
        let description = Description {
            schema: SCHEMA.to_owned(),
            config: self.config.clone(),
            layout: self.frame.layout.clone(),
            action_dim: self.frame.action_dim,
            shape: shape.clone(),
            head: self.head,
            inputs: self.frame.inputs.clone(),
            targets: self.frame.targets.clone(),
            range: self.frame.range.clone(),
            tau: self.tau.clone(),
            report: self.report.clone(),
            held_out: self.held_out.clone(),
        };
        let params = shape.dense(&device.download(&self.ensemble.params)?);
        to_files(folder, &description, &[(PARAMS, &params, shape.parameters())])
    }

    /// Reads what [`Bnn::save`] wrote. The files are not trusted: every size is checked against the others.
    pub fn load(device: &Device, folder: &Path) -> Result<Self> {
        let (path, d, weights) = read_description::<Description>(folder, SCHEMA)?;
        let named = |e: Error| Error::file(&path, e.to_string());
        d.config.validate().map_err(named)?;
        let shape =
            Shape::new(d.shape.members, d.shape.widths.clone(), d.shape.hidden).map_err(named)?;
        if !(d.head.floor > 0.0 && d.head.floor.is_finite()) {
            let problem =
                format!("head.floor = {}: expected a positive, finite number", d.head.floor);
            return Err(Error::file(&path, problem));
        }
        let units = [d.inputs, d.targets];
        let frame = Frame::restore(d.layout, d.action_dim, d.config.target, units, d.range)
            .map_err(named)?;
        let state_dim = frame.state_dim();
        let fits = frame.layout.angles.iter().map(|a| a.index).eq(d.config.angles.iter().copied())
            && frame.layout.reward == d.config.reward
            && frame.input_dim() == shape.inputs()
            && d.config.activation == Some(shape.hidden)
            && state_dim.checked_mul(2) == Some(shape.outputs())
            && d.shape == shape
            && (1..=d.shape.members).contains(&d.report.folds)
            && d.report.folds == d.held_out.folds.len()
            && d.config.particles.checked_mul(d.report.folds) == Some(shape.members)
            && d.head == (Gaussian { dims: state_dim, floor: d.config.std_floor })
            && d.tau.len() == state_dim;
        if !fits {
            return Err(Error::file(
                &path,
                "the sizes of state, action, networks and units do not fit each other",
            ));
        }
        if !d.tau.iter().all(|t| *t >= 0.0 && t.is_finite()) {
            return Err(Error::file(&path, "temperatures (tau) must be finite and not negative"));
        }
        let n: usize = d.report.rows.iter().fold(0, |sum, &rows| sum.saturating_add(rows));
        check_held_out(&path, &d.held_out, n)?;
        let (path, bytes) = read_tensors(folder, &weights)?;
        let params = read_tensor(&path, &bytes, PARAMS, shape.parameters())?;
        if params.len() != shape.members * shape.parameters() {
            let found = params.len() / shape.parameters();
            return Err(Error::file(
                &path,
                format!("{PARAMS} has {found} rows, expected {}", shape.members),
            ));
        }
        Ok(Bnn {
            frame,
            config: d.config,
            ensemble: Ensemble { params: device.adopt(shape.spread(&params)), shape },
            head: d.head,
            tau: d.tau,
            report: d.report,
            held_out: d.held_out,
        })
    }
}

/// The two files of a model: its description, and matrices by name, values and width.
pub(super) fn to_files(
    folder: &Path,
    description: &impl Serialize,
    matrices: &[(&str, &[f32], usize)],
) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let path = folder.join(DESCRIPTION);
    let text =
        serde_json::to_vec_pretty(description).map_err(|e| Error::file(&path, e.to_string()))?;
    let tensor_path = folder.join(TENSORS);
    let problem = |e: SafeTensorError| Error::file(&tensor_path, e.to_string());
    let bytes: Vec<Vec<u8>> = matrices
        .iter()
        .map(|(_, values, _)| values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let views = matrices.iter().zip(&bytes).map(|((name, values, width), bytes)| {
        let view = TensorView::new(Dtype::F32, vec![values.len() / width, *width], bytes);
        Ok((*name, view.map_err(problem)?))
    });
    let tensors =
        safetensors::serialize(views.collect::<Result<Vec<_>>>()?, None).map_err(problem)?;
    Ok(vec![(path, seal(&text, &tensors)), (tensor_path, tensors)])
}

/// The layout of a description, which all kinds of models have, whatever else is in it.
#[derive(Deserialize)]
struct Kind {
    schema: String,
}

fn read_kind(folder: &Path) -> Result<(PathBuf, Vec<u8>, Kind)> {
    let path = folder.join(DESCRIPTION);
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
    let kind = serde_json::from_slice(&bytes).map_err(|e| no_description(&path, &e))?;
    Ok((path, bytes, kind))
}

fn no_description(path: &Path, e: &serde_json::Error) -> Error {
    Error::file(path, format!("does not describe a fitted model: {e}; fit one anew"))
}

/// The description of a model, of this layout and no other, the path that errors name, and the digest of its weights.
pub(super) fn read_description<D: DeserializeOwned>(
    folder: &Path,
    schema: &str,
) -> Result<(PathBuf, D, String)> {
    let (path, bytes, kind) = read_kind(folder)?;
    if kind.schema != schema {
        let problem = format!(
            "schema is {:?}, this version reads {schema:?}: fit the model anew",
            kind.schema
        );
        return Err(Error::file(&path, problem));
    }
    let (text, weights) = unseal(&path, &bytes)?;
    let description = serde_json::from_slice(&text).map_err(|e| no_description(&path, &e))?;
    Ok((path, description, weights))
}

/// An error if rows that were held out are not among the `n` of the data.
pub(super) fn check_held_out(path: &Path, held_out: &Split, n: usize) -> Result<()> {
    let rows = held_out.folds.iter().flat_map(|fold| fold.validation.iter().chain(&fold.held_out));
    match rows.copied().any(|row| row as usize >= n) {
        true => Err(Error::file(path, format!("held-out rows beyond the {n} rows of its data"))),
        false => Ok(()),
    }
}

/// The bytes of the matrices, which must have this digest.
pub(super) fn read_tensors(folder: &Path, digest: &str) -> Result<(PathBuf, Vec<u8>)> {
    let path = folder.join(TENSORS);
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
    check_weights(&path, &bytes, digest)?;
    Ok((path, bytes))
}

/// A matrix of finite numbers with rows of that width from the bytes of a safetensors file.
pub(super) fn read_tensor(path: &Path, bytes: &[u8], name: &str, width: usize) -> Result<Vec<f32>> {
    let damaged = |e: SafeTensorError| {
        Error::file(path, format!("not a safetensors file, or a damaged one: {e}"))
    };
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let tensor = tensors.tensor(name).map_err(damaged)?;
    if tensor.dtype() != Dtype::F32 || tensor.shape().len() != 2 || tensor.shape()[1] != width {
        let found = format!("{name} is {:?} {:?}", tensor.dtype(), tensor.shape());
        return Err(Error::file(path, format!("{found}, expected F32 with rows of {width}")));
    }
    let values: Vec<f32> = tensor
        .data()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    match values.iter().all(|x| x.is_finite()) {
        true => Ok(values),
        false => Err(Error::file(path, format!("{name} holds values that are not finite"))),
    }
}

/// Reads a fitted model, whatever its kind.
pub fn load(device: &Device, folder: &Path) -> Result<Box<dyn Dynamics>> {
    Ok(match read_kind(folder)?.2.schema.as_str() {
        gp::SCHEMA => Box::new(Gp::load(folder)?),
        _ => Box::new(Bnn::load(device, folder)?),
    })
}
