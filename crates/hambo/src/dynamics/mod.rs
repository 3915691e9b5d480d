//! Learned models of the dynamics that know what they do not know.

pub mod bnn;
pub mod calibration;
mod frame;
pub mod gp;
mod layout;
mod config;
mod model_files;
mod range;
mod seal;

pub use bnn::{Bnn, BnnConfig, FitReport};
pub use config::ModelConfig;
pub use frame::{Frame, Target};
pub use gp::{Gp, GpConfig, GpReport};
pub use layout::{Angle, Layout};
pub use model_files::load;
pub use range::WIDENED;
pub use seal::seal;

use crate::data::{Split, Transitions};
use crate::{Error, Result};
use hambo_engine::backend::{Buffer, Device, Gaussian, Input};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A learned model, as rollouts, adversaries and estimates see it.
///
/// What it predicts of a row is told by a few Gaussians, its members: μ and σ_e are the mean and the deviation of their
/// means, σ²_a is the mean of their variances. The networks of a [`Bnn`] are members by themselves; those of a [`Gp`]
/// are only the two sides of its confidence interval, which nothing can follow.
pub trait Dynamics: std::fmt::Debug + Sync {
    /// Coordinates and units.
    fn frame(&self) -> &Frame;
    /// Number of members.
    fn members(&self) -> usize;
    /// How their outputs become Gaussians.
    fn head(&self) -> &Gaussian;
    /// All members' outputs `[members, rows, 2·state]`, from standardized (s, a). With several [folds](Dynamics::folds)
    /// the rows, a multiple of their number, are in as many equal parts, and each part goes through the members of its
    /// fold.
    fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer);
    /// Rows of the data that the model was not trained on, and whose data they are of; its lists of training rows are
    /// empty.
    fn held_out(&self) -> &Split;

    /// Models in one: each was fitted without another part of the data, and a trajectory follows one of them. A return
    /// is the mean over all. 1 unless said otherwise.
    fn folds(&self) -> usize {
        1
    }

    /// The same as [`Dynamics::infer`] for `rows` rows, so that it can be differentiated; none: adversaries are searched for
    /// without gradients.
    fn pass<'a>(&'a self, _device: &Device, _rows: usize) -> Option<Box<dyn Pass + 'a>> {
        None
    }
    /// Whether a member is a possible dynamics, which an adversary can choose and a trajectory can follow.
    fn has_particles(&self) -> bool {
        true
    }
    /// Whether it computes on that device; one that does not needs the host in every step.
    fn on_device(&self, device: &Device) -> bool {
        device.is_host()
    }
    /// τ per dimension, by which σ_e is recalibrated.
    fn tau(&self) -> Vec<f32> {
        vec![1.0; self.state_dim()]
    }
    /// What happened in the fit.
    fn fit_report(&self) -> ModelReport {
        ModelReport::Custom(format!("{self:?}"))
    }
    /// With which settings, by the name of the kind of model.
    fn settings(&self) -> Value {
        Value::Null
    }
    /// The files that keep it in a folder, for a caller to write; [`load`] reads them. None by default.
    fn files(&self, _device: &Device, _folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        Ok(Vec::new())
    }
    /// Itself, where it is a Gaussian process, of which there is a theory.
    fn as_gp(&self) -> Option<&Gp> {
        None
    }
    /// Length of a state as trajectories carry it.
    fn state_dim(&self) -> usize {
        self.frame().state_dim()
    }
    /// Length of an action.
    fn action_dim(&self) -> usize {
        self.frame().action_dim
    }
    /// Numbers that the model sees of a state and an action.
    fn input_dim(&self) -> usize {
        self.frame().input_dim()
    }
    /// What the coordinates of states are.
    fn layout(&self) -> &Layout {
        &self.frame().layout
    }

    /// An error if these are not the data that the model was fitted on, row for row.
    fn check_data(&self, data: &Transitions) -> Result<()> {
        let (own, given) = (&self.held_out().data_sha256, data.digest());
        if *own != given {
            return Err(Error::Mismatch(format!(
                "the model was fitted on other data: their rows have the SHA-256 {}…, these have {}…; what it does not know \
                 was measured on its own data, so fit a new one",
                &own[..own.len().min(12)],
                &given[..12]
            )));
        }
        let folds = self.held_out().folds.iter();
        let mut rows = folds.flat_map(|fold| fold.validation.iter().chain(&fold.held_out));
        match rows.any(|&row| row as usize >= data.len()) {
            true => Err(Error::Mismatch(format!(
                "the model has held-out rows beyond the {} rows of its data: its description is damaged, so fit a new one",
                data.len()
            ))),
            false => Ok(()),
        }
    }

    /// Moments of the next state at given states, as the data have them, and actions, on the host; with several folds
    /// the mean of what they say.
    fn predict(&self, device: &Device, states: &[f32], actions: &[f32]) -> Result<Prediction> {
        let frame = self.frame();
        let (seen, ds, da) = (frame.layout.observed, frame.state_dim(), frame.action_dim);
        let rows = states.len() / seen;
        let mut prediction =
            Prediction { mean: vec![], epistemic_std: vec![], aleatoric_std: vec![] };
        for first in (0..rows).step_by(CHUNK) {
            let n = CHUNK.min(rows - first);
            let x = frame.standardized_inputs(
                &states[first * seen..][..n * seen],
                &actions[first * da..][..n * da],
            );
            let folds = self.folds();
            let moments = self.moments(device, &device.adopt(x.repeat(folds)), folds * n)?;
            let [mean, epistemic, aleatoric] = moments.map(|of_folds| {
                let at = |i: usize| of_folds.iter().skip(i).step_by(n * ds).sum::<f32>();
                (0..n * ds).map(|i| at(i) / folds as f32).collect::<Vec<f32>>()
            });
            for i in 0..n * ds {
                let (offset, scale) = (frame.targets.mean[i % ds], frame.targets.std[i % ds]);
                let state = &states[(first + i / ds) * seen..][..seen];
                let from = state.get(i % ds).filter(|_| frame.relative()).copied().unwrap_or(0.0);
                prediction.mean.push(from + offset + scale * mean[i]);
                prediction.epistemic_std.push(scale * epistemic[i].sqrt());
                prediction.aleatoric_std.push(scale * aleatoric[i].sqrt());
            }
        }
        Ok(prediction)
    }

    /// (s' − μ) / σ on logged rows, one list of rows for each fold; one list a dimension, all in the same order.
    fn standardized_residuals(
        &self,
        device: &Device,
        data: &Transitions,
        rows: &[&[u32]],
    ) -> Result<Vec<Vec<f32>>> {
        residuals(self, device, data, rows, |epistemic, aleatoric| (epistemic + aleatoric).sqrt())
    }

    /// (s' − μ) / σ_e likewise.
    fn epistemic_residuals(
        &self,
        device: &Device,
        data: &Transitions,
        rows: &[&[u32]],
    ) -> Result<Vec<Vec<f32>>> {
        residuals(self, device, data, rows, |epistemic, _| epistemic.sqrt())
    }

    /// Mean, epistemic and aleatoric variance in standardized units, on the host.
    fn moments(&self, device: &Device, x: &Buffer, rows: usize) -> Result<[Vec<f32>; 3]> {
        let (members, ds) = (self.members(), self.state_dim());
        let mut output = device.zeros(members * rows * 2 * ds);
        self.infer(device, Input::Shared(x), rows, &mut output);
        let [mut mean, mut epistemic, mut aleatoric] =
            std::array::from_fn(|_| device.zeros(rows * ds));
        device.moments(self.head(), members, &output, &mut mean, &mut epistemic, &mut aleatoric);
        Ok([device.download(&mean)?, device.download(&epistemic)?, device.download(&aleatoric)?])
    }
}

/// A forward pass of a model that can be differentiated by its inputs.
pub trait Pass {
    /// From standardized (s, a) `[rows, input]`.
    fn forward(&mut self, device: &Device, inputs: &Buffer);
    /// The members' outputs `[members, rows, 2·state]` and, beside them, the place for dL/d(output).
    fn output(&mut self) -> (&Buffer, &mut Buffer);
    /// dL/d(inputs), one or more parts `[rows, input]` whose sum it is.
    fn backward(&mut self, device: &Device, inputs: &Buffer) -> &Buffer;
}

/// Predicted next states in the units of the state, each `[rows, state]` with states as trajectories carry them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// μ
    pub mean: Vec<f32>,
    /// σ_e, what the model does not know.
    pub epistemic_std: Vec<f32>,
    /// σ_a, the noise of the transitions.
    pub aleatoric_std: Vec<f32>,
}

/// What happened in the fit of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ModelReport {
    /// Training and calibration of networks.
    Bnn(FitReport),
    /// Hyper-parameters and data of Gaussian processes.
    Gp(GpReport),
    /// What a model of one's own says of itself.
    Custom(String),
}

impl ModelReport {
    /// The name of the kind of model.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelReport::Bnn(_) => "bnn",
            ModelReport::Gp(_) => "gp",
            ModelReport::Custom(_) => "custom",
        }
    }
}

/// Rows predicted at a time where a data set goes through the model.
const CHUNK: usize = 4096;

fn residuals(
    model: &(impl Dynamics + ?Sized),
    device: &Device,
    data: &Transitions,
    rows: &[&[u32]],
    unit: impl Fn(f32, f32) -> f32,
) -> Result<Vec<Vec<f32>>> {
    let ds = model.state_dim();
    let mut residuals = vec![Vec::with_capacity(rows.iter().map(|rows| rows.len()).sum()); ds];
    let longest = rows.iter().map(|rows| rows.len()).max().unwrap_or(0);
    for first in (0..longest).step_by(CHUNK) {
        let n = CHUNK.min(longest - first);
        // Folds that have no more rows are filled up with row 0, and what is said of it is left out.
        let row = |i: usize| rows[i / n].get(first + i % n).copied();
        let filled: Vec<u32> = (0..rows.len() * n).map(|i| row(i).unwrap_or(0)).collect();
        let (x, y) = model.frame().standardized(data, &filled);
        let [mean, epistemic, aleatoric] = model.moments(device, &device.adopt(x), filled.len())?;
        for i in (0..y.len()).filter(|i| row(i / ds).is_some()) {
            residuals[i % ds].push((y[i] - mean[i]) / unit(epistemic[i], aleatoric[i]));
        }
    }
    Ok(residuals)
}
