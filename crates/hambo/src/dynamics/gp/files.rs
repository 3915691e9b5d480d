//! A fitted Gaussian process on disk: what it is conditioned on in `model.safetensors`, everything else in `model.json`.
//! The posterior is computed anew from them, so that nothing in the files can contradict it.

use super::{Gp, GpConfig, Hyperparameters};
use crate::data::{Split, Standardizer};
use crate::dynamics::frame::Frame;
use crate::dynamics::layout::Layout;
use crate::dynamics::model_files::{DESCRIPTION, TENSORS, read_tensor};
use crate::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensorError, TensorView};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The layout of `model.json`.
pub(crate) const SCHEMA: &str = "hambo/gp/1";
const INPUTS: &str = "inputs";
const OUTPUTS: &str = "targets";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    schema: String,
    config: GpConfig,
    layout: Layout,
    action_dim: usize,
    inputs: Standardizer,
    targets: Standardizer,
    hyperparameters: Vec<Hyperparameters>,
    learned_on: Option<usize>,
    held_out: Split,
    data_rows: usize,
}

impl Gp {
    pub(super) fn to_files(&self, folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let description = Description {
            schema: SCHEMA.to_owned(),
            config: self.config.clone(),
            layout: self.frame.layout.clone(),
            action_dim: self.frame.action_dim,
            inputs: self.frame.inputs.clone(),
            targets: self.frame.targets.clone(),
            hyperparameters: self.report.hyperparameters.clone(),
            learned_on: self.report.learned_on,
            held_out: self.held_out.clone(),
            data_rows: self.report.data_rows,
        };
        let path = folder.join(DESCRIPTION);
        let mut text =
            serde_json::to_vec_pretty(&description).map_err(|e| Error::file(&path, e.to_string()))?;
        text.push(b'\n');
        let tensor_path = folder.join(TENSORS);
        let problem = |e: SafeTensorError| Error::file(&tensor_path, e.to_string());
        let bytes = [&self.data[0], &self.data[1]]
            .map(|v| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let shape = |i: usize| vec![self.report.rows, self.data[i].len() / self.report.rows];
        let view = |i: usize| TensorView::new(Dtype::F32, shape(i), &bytes[i]).map_err(problem);
        let tensors =
            safetensors::serialize([(INPUTS, view(0)?), (OUTPUTS, view(1)?)], None).map_err(problem)?;
        Ok(vec![(path, text), (tensor_path, tensors)])
    }

    /// Reads what was saved. The files are not trusted: every size is checked against the others.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(DESCRIPTION);
        let bytes = std::fs::read(&path).map_err(|e| Error::io(&path, "read", e))?;
        let d: Description = serde_json::from_slice(&bytes)
            .map_err(|e| Error::file(&path, format!("does not describe a fitted Gaussian process: {e}")))?;
        if d.schema != SCHEMA {
            return Err(Error::file(
                &path,
                format!("schema is {:?}, this version reads {SCHEMA:?}", d.schema),
            ));
        }
        let named = |e: Error| Error::file(&path, e.to_string());
        d.config.validate().map_err(named)?;
        let layout = &d.layout;
        let indices = || layout.angles.iter().map(|a| a.index);
        let (Some(width), Some(ds)) = (
            layout.observed.checked_add(layout.angles.len()).and_then(|w| w.checked_add(d.action_dim)),
            layout.observed.checked_add(layout.reward.into()),
        ) else {
            return Err(Error::file(&path, "the sizes of state and action are too large"));
        };
        let units = |u: &Standardizer, width: usize| {
            let finite = u.mean.iter().chain(&u.std).all(|x| x.is_finite());
            finite && u.mean.len() == width && u.std.len() == width && u.std.iter().all(|&s| s > 0.0)
        };
        let fits = layout.observed > 0
            && d.action_dim > 0
            && layout.angles.windows(2).all(|w| w[0].index < w[1].index)
            && indices().all(|index| index < layout.observed)
            && layout.angles.iter().all(|a| a.from.is_none_or(f32::is_finite))
            && units(&d.inputs, width)
            && units(&d.targets, ds);
        if !fits {
            return Err(Error::file(&path, "the sizes and units of state and action do not fit each other"));
        }
        let held_out = d.held_out.validation.iter().chain(&d.held_out.calibration);
        if held_out.clone().any(|&row| row as usize >= d.data_rows) {
            let problem = format!("held-out rows beyond the {} rows of its data", d.data_rows);
            return Err(Error::file(&path, problem));
        }
        let held_out_rows = held_out.count();
        let tensor_path = folder.join(TENSORS);
        let bytes = std::fs::read(&tensor_path).map_err(|e| Error::io(&tensor_path, "read", e))?;
        let x = read_tensor(&tensor_path, &bytes, INPUTS, width)?;
        let y = read_tensor(&tensor_path, &bytes, OUTPUTS, ds)?;
        let rows = x.len() / width;
        if rows == 0 || y.len() != rows * ds || rows.saturating_add(held_out_rows) > d.data_rows {
            let problem =
                format!("{INPUTS} and {OUTPUTS} do not have the same rows, some of those of its data");
            return Err(Error::file(&tensor_path, problem));
        }
        let frame = Frame {
            views: d.layout.views().map_err(named)?,
            layout: d.layout,
            action_dim: d.action_dim,
            target: d.config.target,
            inputs: d.inputs,
            targets: d.targets,
        };
        Gp::new(d.config, frame, d.hyperparameters, d.learned_on, [x, y], d.held_out, d.data_rows)
            .map_err(named)
    }
}
