//! A fitted Gaussian process on disk: what it is conditioned on in `model.safetensors`, everything else in `model.json`.
//! The posterior is computed anew from them, so that nothing in the files can contradict it.

use super::{Gp, GpConfig, Hyperparameters};
use crate::data::{Split, Standardizer};
use crate::dynamics::frame::Frame;
use crate::dynamics::layout::Layout;
use crate::dynamics::model_files::{
    check_held_out, read_description, read_tensor, read_tensors, to_files,
};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The layout of `model.json`.
pub(crate) const SCHEMA: &str = "hambo/gp/3";
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
    range: Vec<Option<[f32; 2]>>,
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
            range: self.frame.range.clone(),
            hyperparameters: self.report.hyperparameters.clone(),
            learned_on: self.report.learned_on,
            held_out: self.held_out.clone(),
            data_rows: self.report.data_rows,
        };
        let [x, y] = &self.data;
        let matrices =
            [(INPUTS, &x[..], self.frame.input_dim()), (OUTPUTS, &y[..], self.frame.state_dim())];
        to_files(folder, &description, &matrices)
    }

    /// Reads what was saved. The files are not trusted: every size is checked against the others.
    pub fn load(folder: &Path) -> Result<Self> {
        let (path, d, weights) = read_description::<Description>(folder, SCHEMA)?;
        let named = |e: Error| Error::file(&path, e.to_string());
        d.config.validate().map_err(named)?;
        let units = [d.inputs, d.targets];
        let frame = Frame::restore(d.layout, d.action_dim, d.config.target, units, d.range)
            .map_err(named)?;
        check_held_out(&path, &d.held_out, d.data_rows)?;
        let held_out_rows = d.held_out.held_out().len();
        let (tensor_path, bytes) = read_tensors(folder, &weights)?;
        let x = read_tensor(&tensor_path, &bytes, INPUTS, frame.input_dim())?;
        let y = read_tensor(&tensor_path, &bytes, OUTPUTS, frame.state_dim())?;
        let rows = x.len() / frame.input_dim();
        let paired = rows > 0 && y.len() / frame.state_dim() == rows;
        if !paired || rows.saturating_add(held_out_rows) > d.data_rows {
            let problem = format!(
                "{INPUTS} and {OUTPUTS} do not have the same rows, some of those of its data"
            );
            return Err(Error::file(&tensor_path, problem));
        }
        Gp::new(d.config, frame, d.hyperparameters, d.learned_on, [x, y], d.held_out, d.data_rows)
            .map_err(named)
    }
}
