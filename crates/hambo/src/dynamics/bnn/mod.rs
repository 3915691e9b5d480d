//! A Bayesian neural network model of the dynamics, trained by Stein variational gradient descent
//! (the paper's Section 4 and Algorithm 2).

mod broken;
mod choice;
mod config;
mod train;
mod windows;

pub use choice::Compared;
pub use config::BnnConfig;

use super::frame::Frame;
use super::{Dynamics, ModelReport, Pass};
use crate::Result;
use crate::data::{Fold, Split, Transitions};
use crate::run::Run;
use hambo_engine::backend::{Activation, Buffer, Device, Gaussian, Input, Shape};
use hambo_engine::nn::{Ensemble, PassBuffers};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What happened in training and calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitReport {
    /// Training steps done.
    pub steps: u32,
    /// Whether training stopped before the last step because nothing improved any more.
    pub stopped_early: bool,
    /// Held-out negative log-likelihood of each particle as kept, in nats of a standardized transition.
    pub validation_nll: Vec<f64>,
    /// Particles that were far worse than the others on held-out data: the best other one of their fold took their place.
    pub broken_particles: Vec<usize>,
    /// Rows trained on, validated on, calibrated on, over all folds.
    pub rows: [usize; 3],
    /// Models that were fitted, each without another part of the data.
    pub folds: usize,
    /// The networks that were compared, where the settings left the choice open.
    pub compared: Vec<Compared>,
    /// Whether whole episodes were held out.
    pub held_out_episodes: bool,
    /// Calibration error of each dimension before recalibration.
    pub calibration_error_before: Vec<f64>,
    /// And after.
    pub calibration_error_after: Vec<f64>,
}

/// A fitted model: K networks h_k(s, a) with aleatoric deviations ν_k(s, a), and the calibration τ. With F folds there are
/// K networks for each: network k · F + f is the k-th of fold f, so that what all say of rows in F equal parts is laid out
/// as if K networks had said it of all rows.
#[derive(Debug)]
pub struct Bnn {
    pub(super) config: BnnConfig,
    pub(super) frame: Frame,
    pub(super) ensemble: Ensemble,
    pub(super) head: Gaussian,
    pub(super) tau: Vec<f32>,
    pub(super) report: FitReport,
    pub(super) held_out: Split,
}

impl Bnn {
    /// Holds out a part of the data and trains on the rest; all randomness is from the seed.
    pub fn learn(
        device: &Device,
        data: &Transitions,
        config: &BnnConfig,
        seed: u64,
        run: &Run<'_>,
    ) -> Result<Self> {
        let stream = Stream::new(seed).child("model");
        let folds = config.folds_for(data.len());
        let split = Split::cross(data, folds, config.holdout, stream.child("split"))?;
        Bnn::choose(device, data, &split, config, stream, run)
    }

    /// Trains a model for each fold, stops on its validation rows, calibrates all on what they held out.
    pub fn fit(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Self> {
        let mut model = Bnn::trained(device, data, split, config, stream, run)?;
        device.run(|| model.leave_out_broken(device, data))?;
        model.calibrate(device, data)?;
        Ok(model)
    }

    /// A model that is trained, but not calibrated.
    fn trained(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Self> {
        config.validate()?;
        let folds = split.folds.len();
        // All models see and predict in the same units, which are those of all data if every row trains one of them.
        let all: Vec<u32> = (0..data.len() as u32).collect();
        let rows = if folds > 1 { &all } else { &split.folds[0].train };
        let frame = Frame::fit(data, rows, config.target, &config.angles, config.reward)?;
        let (seen, ds) = (frame.input_dim(), frame.state_dim());
        let widths = [&[seen], config.hidden.as_slice(), &[2 * ds]].concat();
        let networks = config.particles * folds;
        let shape = Shape::new(networks, widths, config.activation.unwrap_or(Activation::Relu))?;
        device.expect_training(&shape, folds, config.batch);
        let rows = |of: &dyn Fn(&Fold) -> usize| split.folds.iter().map(of).sum::<usize>();
        let mut model = Bnn {
            config: BnnConfig {
                activation: Some(shape.hidden),
                angles: frame.layout.angles.iter().map(|a| a.index).collect(),
                ..config.clone()
            },
            frame,
            ensemble: Ensemble::random(device, shape, stream.child("initialisation")),
            head: Gaussian { dims: ds, floor: config.std_floor },
            tau: vec![1.0; ds],
            report: FitReport {
                steps: 0,
                stopped_early: false,
                validation_nll: vec![f64::INFINITY; networks],
                broken_particles: Vec::new(),
                rows: [
                    rows(&|f| f.train.len()),
                    rows(&|f| f.validation.len()),
                    rows(&|f| f.held_out.len()),
                ],
                folds,
                compared: Vec::new(),
                held_out_episodes: split.by_episode,
                calibration_error_before: Vec::new(),
                calibration_error_after: Vec::new(),
            },
            held_out: split.without_training(),
        };
        device.run(|| model.train(device, data, split, stream.child("minibatches"), run))?;
        Ok(model)
    }

    /// A model with given networks, predicting changes in plain units: for tests whose answer is known.
    #[cfg(test)]
    pub(crate) fn by_hand(
        state_dim: usize,
        action_dim: usize,
        ensemble: Ensemble,
        std_floor: f32,
    ) -> Self {
        Bnn {
            config: BnnConfig {
                particles: ensemble.shape.members,
                std_floor,
                ..Default::default()
            },
            frame: Frame::plain(state_dim, action_dim, false),
            head: Gaussian { dims: state_dim, floor: std_floor },
            tau: vec![1.0; state_dim],
            report: FitReport {
                steps: 0,
                stopped_early: false,
                validation_nll: vec![0.0; ensemble.shape.members],
                broken_particles: Vec::new(),
                rows: [0; 3],
                folds: 1,
                compared: Vec::new(),
                held_out_episodes: true,
                calibration_error_before: Vec::new(),
                calibration_error_after: Vec::new(),
            },
            held_out: Split { by_episode: true, ..Split::default() },
            ensemble,
        }
    }

    /// The same with the reward as the last of its outputs.
    #[cfg(test)]
    pub(crate) fn by_hand_with_reward(
        state_dim: usize,
        action_dim: usize,
        ensemble: Ensemble,
        std_floor: f32,
    ) -> Self {
        let mut model = Bnn::by_hand(state_dim + 1, action_dim, ensemble, std_floor);
        model.frame = Frame::plain(state_dim, action_dim, true);
        model
    }

    /// The same with these rows held out.
    #[cfg(test)]
    pub(crate) fn holding_out(self, held_out: Split) -> Self {
        Bnn { held_out, ..self }
    }

    /// Replaces the networks' parameters.
    #[cfg(test)]
    pub(crate) fn set_parameters(&mut self, device: &Device, params: Vec<f32>) {
        self.ensemble.params = device.adopt(params);
    }

    /// Number of networks of a model, K.
    pub fn particles(&self) -> usize {
        self.ensemble.shape.members / self.report.folds
    }
    /// Rows of trajectories as the networks of all folds are given them.
    fn by_fold<'b>(&self, input: Input<'b>) -> Input<'b> {
        match input {
            Input::Shared(x) => Input::Grouped(x, self.report.folds),
            own => own,
        }
    }

    /// What happened in training and calibration.
    pub fn report(&self) -> &FitReport {
        &self.report
    }
    /// The networks.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }
}

impl Dynamics for Bnn {
    fn frame(&self) -> &Frame {
        &self.frame
    }
    fn members(&self) -> usize {
        self.particles()
    }
    fn head(&self) -> &Gaussian {
        &self.head
    }
    fn infer(&self, device: &Device, input: Input<'_>, rows: usize, output: &mut Buffer) {
        self.ensemble.infer(device, self.by_fold(input), rows / self.report.folds, output);
    }
    fn pass<'a>(&'a self, device: &Device, rows: usize) -> Option<Box<dyn Pass + 'a>> {
        Some(Box::new(NetworksPass {
            model: self,
            trace: PassBuffers::new(device, &self.ensemble.shape, rows / self.report.folds),
            d_inputs: device.zeros(self.particles() * rows * self.input_dim()),
        }))
    }
    fn folds(&self) -> usize {
        self.report.folds
    }
    fn on_device(&self, device: &Device) -> bool {
        device.holds(&self.ensemble.params)
    }
    fn tau(&self) -> Vec<f32> {
        self.tau.clone()
    }
    fn held_out(&self) -> &Split {
        &self.held_out
    }
    fn fit_report(&self) -> ModelReport {
        ModelReport::Bnn(self.report.clone())
    }
    fn settings(&self) -> Value {
        json!({"bnn": self.config})
    }
    fn files(&self, device: &Device, folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        self.to_files(device, folder)
    }
}

/// A pass through all networks.
struct NetworksPass<'a> {
    model: &'a Bnn,
    trace: PassBuffers,
    d_inputs: Buffer,
}

impl Pass for NetworksPass<'_> {
    fn forward(&mut self, device: &Device, inputs: &Buffer) {
        let input = self.model.by_fold(Input::Shared(inputs));
        self.model.ensemble.forward(device, input, &mut self.trace);
    }
    fn output(&mut self) -> (&Buffer, &mut Buffer) {
        self.trace.output()
    }
    fn backward(&mut self, device: &Device, inputs: &Buffer) -> &Buffer {
        let input = self.model.by_fold(Input::Shared(inputs));
        let d_inputs = Some(&mut self.d_inputs);
        self.model.ensemble.backward(device, input, &mut self.trace, None, d_inputs);
        &self.d_inputs
    }
}
