//! A Bayesian neural network model of the dynamics, trained by Stein variational gradient descent
//! (the paper's Section 4 and Algorithm 2).

mod config;
mod train;

pub use config::BnnConfig;

use super::frame::Frame;
use super::{Dynamics, ModelReport, Pass};
use crate::Result;
use crate::data::{Split, Transitions};
use crate::run::Run;
use hambo_engine::backend::{Buffer, Device, Gaussian, Input, Shape};
use hambo_engine::nn::{Ensemble, PassBuffers};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use train::broken_particles;

/// What happened in training and calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitReport {
    /// Training steps done.
    pub steps: u32,
    /// Whether training stopped before the last step because nothing improved any more.
    pub stopped_early: bool,
    /// Held-out negative log-likelihood of each particle as kept, in nats of a standardized transition.
    pub validation_nll: Vec<f64>,
    /// Particles that are far worse than the others on held-out data.
    pub broken_particles: Vec<usize>,
    /// Rows trained on, validated on, calibrated on.
    pub rows: [usize; 3],
    /// Whether whole episodes were held out.
    pub held_out_episodes: bool,
    /// Calibration error of each dimension before recalibration.
    pub calibration_error_before: Vec<f64>,
    /// And after.
    pub calibration_error_after: Vec<f64>,
}

/// A fitted model: K networks h_k(s, a) with aleatoric deviations ν_k(s, a), and the calibration τ.
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
        let split = Split::new(data, config.holdout, stream.child("split"))?;
        device.run(|| Bnn::fit(device, data, &split, config, stream, run))
    }

    /// Trains on `split.train`, stops on `split.validation`, calibrates on `split.calibration`.
    pub fn fit(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Self> {
        config.validate()?;
        let frame = Frame::fit(data, &split.train, config.target, &config.angles, config.reward)?;
        let (seen, ds) = (frame.input_dim(), frame.state_dim());
        let widths = [&[seen], config.hidden.as_slice(), &[2 * ds]].concat();
        let shape = Shape::new(config.particles, widths, config.activation)?;
        device.expect_training(&shape, config.batch);
        let mut model = Bnn {
            config: BnnConfig {
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
                validation_nll: vec![f64::INFINITY; config.particles],
                broken_particles: Vec::new(),
                rows: [split.train.len(), split.validation.len(), split.calibration.len()],
                held_out_episodes: split.by_episode,
                calibration_error_before: Vec::new(),
                calibration_error_after: Vec::new(),
            },
            held_out: Split { train: Vec::new(), ..split.clone() },
        };
        device.run(|| model.train(device, data, split, stream.child("minibatches"), run))?;
        model.report.broken_particles = broken_particles(&model.report.validation_nll, ds);
        model.calibrate(device, data, &split.calibration)?;
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

    /// Number of networks, K.
    pub fn particles(&self) -> usize {
        self.ensemble.shape.members
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
        self.ensemble.infer(device, input, rows, output);
    }
    fn pass<'a>(&'a self, device: &Device, rows: usize) -> Option<Box<dyn Pass + 'a>> {
        Some(Box::new(NetworksPass {
            ensemble: &self.ensemble,
            trace: PassBuffers::new(device, &self.ensemble.shape, rows),
            d_inputs: device.zeros(self.particles() * rows * self.input_dim()),
        }))
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
    ensemble: &'a Ensemble,
    trace: PassBuffers,
    d_inputs: Buffer,
}

impl Pass for NetworksPass<'_> {
    fn forward(&mut self, device: &Device, inputs: &Buffer) {
        self.ensemble.forward(device, Input::Shared(inputs), &mut self.trace);
    }
    fn output(&mut self) -> (&Buffer, &mut Buffer) {
        self.trace.output()
    }
    fn backward(&mut self, device: &Device, inputs: &Buffer) -> &Buffer {
        let d_inputs = Some(&mut self.d_inputs);
        self.ensemble.backward(device, Input::Shared(inputs), &mut self.trace, None, d_inputs);
        &self.d_inputs
    }
}
