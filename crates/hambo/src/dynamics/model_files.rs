//! A fitted model on disk: the networks in `model.safetensors`, everything else in `model.json`.

use super::Dynamics;
use super::bnn::{Bnn, BnnConfig, FitReport};
use super::frame::Frame;
use super::gp::{self, Gp};
use super::layout::Layout;
use crate::compute::{Device, Gaussian, Shape};
use crate::data::{Split, Standardizer};
use crate::files::write_together;
use crate::nn::Ensemble;
use crate::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "hambo/bnn/1";
pub(super) const DESCRIPTION: &str = "model.json";
pub(super) const TENSORS: &str = "model.safetensors";
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
    tau: Vec<f32>,
    report: FitReport,
    held_out: Split,
}

impl Bnn {
    /// Writes `model.json` and `model.safetensors` into `folder`, which must exist: both or none.
    pub fn save(&self, device: &Device, folder: &Path) -> Result<()> {
        write_together(&self.to_files(device, folder)?)
    }

    pub(super) fn to_files(&self, device: &Device, folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
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
            tau: self.tau.clone(),
            report: self.report.clone(),
            held_out: self.held_out.clone(),
        };
        let path = folder.join(DESCRIPTION);
        let mut text =
            serde_json::to_vec_pretty(&description).map_err(|e| Error::file(&path, e.to_string()))?;
        text.push(b'\n');

        let tensor_path = folder.join(TENSORS);
        let problem = |e: SafeTensorError| Error::file(&tensor_path, e.to_string());
        let params = shape.dense(&device.download(&self.ensemble.params));
        let bytes: Vec<u8> = params.iter().flat_map(|p| p.to_le_bytes()).collect();
        let tensor = TensorView::new(Dtype::F32, vec![shape.members, shape.parameters()], &bytes);
        let tensors = safetensors::serialize([(PARAMS, tensor.map_err(problem)?)], None).map_err(problem)?;
        Ok(vec![(path, text), (tensor_path, tensors)])
    }

    /// Reads what [`Bnn::save`] wrote. The files are not trusted: every size is checked against the others.
    pub fn load(device: &Device, folder: &Path) -> Result<Self> {
        let path = folder.join(DESCRIPTION);
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
        let d: Description = serde_json::from_slice(&bytes)
            .map_err(|e| Error::file(&path, format!("does not describe a fitted model: {e}")))?;
        if d.schema != SCHEMA {
            return Err(Error::file(
                &path,
                format!("schema is {:?}, this version reads {SCHEMA:?}", d.schema),
            ));
        }
        let named = |e: Error| Error::file(&path, e.to_string());
        d.config.validate().map_err(named)?;
        let shape = Shape::new(d.shape.members, d.shape.widths.clone(), d.shape.hidden).map_err(named)?;
        if !(d.head.floor > 0.0 && d.head.floor.is_finite()) {
            let problem = format!("head.floor = {}: expected a positive, finite number", d.head.floor);
            return Err(Error::file(&path, problem));
        }
        let width = shape.inputs();
        let layout = &d.layout;
        let (indices, state_dim) =
            (layout.angles.iter().map(|a| a.index), layout.observed.saturating_add(layout.reward.into()));
        let fits = layout.observed > 0
            && layout.angles.windows(2).all(|w| w[0].index < w[1].index)
            && indices.clone().all(|index| index < layout.observed)
            && indices.eq(d.config.angles.iter().copied())
            && layout.angles.iter().all(|a| a.from.is_none_or(f32::is_finite))
            && layout.reward == d.config.reward
            && d.config.activation == shape.hidden
            && [layout.observed, layout.angles.len()]
                .iter()
                .try_fold(d.action_dim, |sum, n| sum.checked_add(*n))
                == Some(width)
            && state_dim.checked_mul(2) == Some(shape.outputs())
            && d.shape == shape
            && d.config.particles == shape.members
            && d.head == (Gaussian { dims: state_dim, floor: d.config.std_floor })
            && [&d.inputs.mean, &d.inputs.std].iter().all(|v| v.len() == width)
            && [&d.targets.mean, &d.targets.std, &d.tau].iter().all(|v| v.len() == state_dim);
        if !fits {
            return Err(Error::file(
                &path,
                "the sizes of state, action, networks and units do not fit each other",
            ));
        }
        let views = d.layout.views().map_err(named)?;
        let finite = |v: &[f32]| v.iter().all(|x| x.is_finite());
        let numbers = [&d.inputs.mean, &d.inputs.std, &d.targets.mean, &d.targets.std, &d.tau];
        let deviations_hold = d.inputs.std.iter().chain(&d.targets.std).all(|&s| s > 0.0);
        if !numbers.iter().all(|v| finite(v)) || !deviations_hold || d.tau.iter().any(|&t| t < 0.0) {
            let problem =
                "units and temperatures must be finite, deviations positive, temperatures not negative";
            return Err(Error::file(&path, problem));
        }

        let n: usize = d.report.rows.iter().fold(0, |sum, &rows| sum.saturating_add(rows));
        let mut held_out = d.held_out.validation.iter().chain(&d.held_out.calibration);
        if held_out.any(|&row| row as usize >= n) {
            return Err(Error::file(&path, format!("held-out rows beyond the {n} rows of its data")));
        }

        let path = folder.join(TENSORS);
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
        let params = read_tensor(&path, &bytes, PARAMS, shape.parameters())?;
        if params.len() != shape.members * shape.parameters() {
            let found = params.len() / shape.parameters();
            return Err(Error::file(&path, format!("{PARAMS} has {found} rows, expected {}", shape.members)));
        }
        Ok(Bnn {
            frame: Frame {
                layout: d.layout,
                views,
                action_dim: d.action_dim,
                target: d.config.target,
                inputs: d.inputs,
                targets: d.targets,
            },
            config: d.config,
            ensemble: Ensemble { params: device.adopt(shape.spread(&params)), shape },
            head: d.head,
            tau: d.tau,
            report: d.report,
            held_out: d.held_out,
        })
    }
}

/// A matrix of finite numbers with rows of that width from the bytes of a safetensors file.
pub(super) fn read_tensor(path: &Path, bytes: &[u8], name: &str, width: usize) -> Result<Vec<f32>> {
    let damaged =
        |e: SafeTensorError| Error::file(path, format!("not a safetensors file, or a damaged one: {e}"));
    let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let tensor = tensors.tensor(name).map_err(damaged)?;
    if tensor.dtype() != Dtype::F32 || tensor.shape().len() != 2 || tensor.shape()[1] != width {
        let found = format!("{name} is {:?} {:?}", tensor.dtype(), tensor.shape());
        return Err(Error::file(path, format!("{found}, expected F32 with rows of {width}")));
    }
    let values: Vec<f32> =
        tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    match values.iter().all(|x| x.is_finite()) {
        true => Ok(values),
        false => Err(Error::file(path, format!("{name} holds values that are not finite"))),
    }
}

/// Reads a fitted model, whatever its kind.
pub fn load(device: &Device, folder: &Path) -> Result<Box<dyn Dynamics>> {
    let path = folder.join(DESCRIPTION);
    let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
    let description: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|e| Error::file(&path, format!("does not describe a fitted model: {e}")))?;
    Ok(match description["schema"].as_str() {
        Some(gp::SCHEMA) => Box::new(Gp::load(folder)?),
        _ => Box::new(Bnn::load(device, folder)?),
    })
}
