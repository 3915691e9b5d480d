//! A Bayesian neural network model of the dynamics, trained by Stein variational gradient descent
//! (the paper's Section 4 and Algorithm 2).

use super::calibration::{calibration_error, recalibrate};
use super::frame::{Frame, Target, check_target};
use super::minibatches::Minibatches;
use super::{Dynamics, ModelReport, Pass};
use crate::checkpoint::Arrays;
use crate::compute::{Activation, Adam, Buffer, Device, Gaussian, Input, Kernel, Shape, Svgd};
use crate::data::{Split, Transitions, check_holdout};
use crate::nn::{Ensemble, Optimiser, Trace, restore_parts, store_parts};
use crate::progress::Progress;
use crate::rng::Stream;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Settings of the model; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BnnConfig {
    /// Number of networks, K.
    pub particles: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// What follows each of them.
    pub activation: Activation,
    /// How the particles see each other.
    pub kernel: Kernel,
    /// Exponent of the standard normal prior over parameters.
    pub prior_temperature: f32,
    /// Weigh the likelihood with the number of data, as the posterior literally asks for. Off: the mean
    /// log-likelihood stands against the tempered prior, so that the prior's pull does not depend on n.
    pub literal_posterior: bool,
    /// The likelihood's gradient of each predicted value is weighed with ν^(2·weight), between 0, the likelihood
    /// as it is, and 1, where the means learn as from squared errors (Seitzer et al. 2022, "On the pitfalls of
    /// heteroscedastic uncertainty estimation"). Unweighed, networks call noise what is hard to learn, and stop
    /// learning it: in such a model Hopper falls where the real one does not. None: 0.5, and 0 where the data have
    /// too few episodes to hold out whole ones, so that nothing would tell of networks that agree on what is wrong.
    pub variance_weight: Option<f32>,
    /// Adam's learning rate at the start.
    pub learning_rate: f32,
    /// Whether the learning rate falls to 0 along a cosine over `steps`. A constant rate leaves single
    /// particles that spike, and estimates that are no good.
    pub decay: bool,
    /// Training steps at the most.
    pub steps: u32,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Steps between two looks at the held-out likelihood.
    pub check_every: u32,
    /// Training stops after that many steps in which no particle's held-out likelihood improved.
    pub patience: u32,
    /// Smallest predicted standard deviation, in standardized units.
    pub std_floor: f32,
    /// What is predicted.
    pub target: Target,
    /// Share of the data held out for validation, and as much again for calibration.
    pub holdout: f64,
    /// Entries of the state that are angles: the networks see their cosine and sine.
    pub angles: Vec<usize>,
    /// Whether the reward is one of the predicted values.
    pub reward: bool,
}

impl Default for BnnConfig {
    fn default() -> Self {
        BnnConfig {
            particles: 5,
            hidden: vec![256; 4],
            activation: Activation::Relu,
            kernel: Kernel::Rbf { length_scale: 10.0 },
            prior_temperature: 1e-4,
            literal_posterior: false,
            variance_weight: None,
            learning_rate: 1e-3,
            decay: true,
            steps: 8_000,
            batch: 256,
            check_every: 200,
            patience: 2_000,
            std_floor: 1e-3,
            target: Target::Change,
            holdout: 0.1,
            angles: Vec::new(),
            reward: false,
        }
    }
}

impl BnnConfig {
    /// The settings of the paper's experiments, with the learning-rate decay that makes them work.
    pub fn paper_scale() -> Self {
        BnnConfig { steps: 30_000, patience: 10_000, ..Default::default() }
    }

    /// Tells the device what will be trained, before there are data: what it has to prepare need not wait for them.
    pub fn announce(&self, device: &Device) {
        // Inputs and outputs are not known, and do not matter: the hidden layers are wider.
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        if let Ok(shape) = Shape::new(self.particles, widths, self.activation) {
            device.expect_training(&shape, self.batch);
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let positive = |name: &'static str, value: f64, ok: bool| {
            if ok { Ok(()) } else { Err(Error::setting(name, value, "a positive, finite number")) }
        };
        let real = |x: f32| x > 0.0 && x.is_finite();
        positive("particles", self.particles as f64, self.particles > 0)?;
        positive("steps", f64::from(self.steps), self.steps > 0)?;
        positive("batch", self.batch as f64, self.batch > 0)?;
        if self.batch > 1_000_000 {
            return Err(Error::setting("batch", self.batch, "at most 1000000 rows"));
        }
        if self.hidden.contains(&0) {
            return Err(Error::setting("hidden", format!("{:?}", self.hidden), "widths of at least 1"));
        }
        check_holdout(self.holdout)?;
        check_target(self.target, &self.angles, self.reward)?;
        positive("check_every", f64::from(self.check_every), self.check_every > 0)?;
        positive("patience", f64::from(self.patience), self.patience > 0)?;
        positive("learning_rate", self.learning_rate.into(), real(self.learning_rate))?;
        positive("std_floor", self.std_floor.into(), real(self.std_floor))?;
        if let Kernel::Rbf { length_scale } = self.kernel {
            positive("kernel.length_scale", length_scale.into(), real(length_scale))?;
        }
        if let Some(weight) = self.variance_weight.filter(|weight| !(0.0..=1.0).contains(weight)) {
            return Err(Error::setting("variance_weight", weight, "a number from 0 to 1"));
        }
        if !(self.prior_temperature >= 0.0 && self.prior_temperature.is_finite()) {
            return Err(Error::setting(
                "prior_temperature",
                self.prior_temperature,
                "0 or a positive number",
            ));
        }
        Ok(())
    }
}

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

/// The name under which a training is kept.
const TRAINING: &str = "training";
/// Held-out rows that are looked at while training.
const VALIDATION_ROWS: usize = 5_000;

impl Bnn {
    /// Trains on `split.train`, stops on `split.validation`, calibrates on `split.calibration`.
    pub fn fit(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        progress: &dyn Progress,
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
        device.run(|| model.train(device, data, split, stream.child("minibatches"), progress))?;
        model.report.broken_particles = broken_particles(&model.report.validation_nll, ds);
        model.calibrate(device, data, &split.calibration);
        device.check()?;
        Ok(model)
    }

    /// A model with given networks, predicting changes in plain units: for tests whose answer is known.
    #[cfg(test)]
    pub(crate) fn by_hand(state_dim: usize, action_dim: usize, ensemble: Ensemble, std_floor: f32) -> Self {
        Bnn {
            config: BnnConfig { particles: ensemble.shape.members, std_floor, ..Default::default() },
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

    fn train(
        &mut self,
        device: &Device,
        data: &Transitions,
        split: &Split,
        stream: Stream,
        progress: &dyn Progress,
    ) -> Result<()> {
        let config = self.config.clone();
        let (members, width, ds) = (config.particles, self.input_dim(), self.state_dim());
        let parameters = self.ensemble.params.len();
        let (x, y) = self.frame.standardized(data, &split.train);
        let mut batches = Minibatches::new(device, [x, y], [width, ds], config.batch);
        let few = split.validation.len().min(VALIDATION_ROWS);
        let stride = split.validation.len() / few;
        let held_out: Vec<u32> = split.validation.iter().step_by(stride).take(few).copied().collect();
        let held_out = self.standardized(device, data, &held_out);

        let svgd = Svgd {
            kernel: config.kernel,
            prior_temperature: config.prior_temperature,
            likelihood_scale: if config.literal_posterior { split.train.len() as f32 } else { 1.0 },
        };
        let weight = config.variance_weight.unwrap_or(if split.by_episode { 0.5 } else { 0.0 });
        let adam = match config.decay {
            true => Adam::cosine(config.learning_rate, config.steps),
            false => Adam::constant(config.learning_rate),
        };
        let mut optimiser = Optimiser::new(device, adam, parameters);
        let mut trace = Trace::new(device, &self.ensemble.shape, config.batch);
        let mut gradient = device.zeros(parameters);
        let mut losses: Buffer<f64> = device.zeros(members);
        let mut best: Buffer = device.zeros(parameters);
        let mut last_improvement = 0;

        if let Some(saved) = progress.take_up(TRAINING)? {
            saved.read(|arrays| {
                restore_parts(device, kept_parts(&mut self.ensemble, &mut best, &mut optimiser), arrays)?;
                self.report.validation_nll = arrays.get_exactly("validation_nll", members)?;
                let steps: Vec<u32> = arrays.get_exactly("steps", 2)?;
                (self.report.steps, last_improvement) = (steps[0], steps[1]);
                Ok(())
            })?;
            optimiser.set_steps(device, self.report.steps);
        }
        let fast = &device.fast();
        let mut done = self.report.steps;
        while done < config.steps {
            if done.saturating_sub(last_improvement) >= config.patience {
                self.report.stopped_early = true;
                break;
            }
            let steps = config.check_every.min(config.steps - done);
            batches.prepare(device, stream, done, steps);
            fast.repeat(steps as usize, || {
                batches.draw(fast, stream, optimiser.counter());
                let [inputs, targets] = &batches.now;
                let input = Input::Shared(inputs);
                self.ensemble.forward(fast, input, &mut trace);
                let (output, d_output) = trace.output();
                let d_output = Some((d_output, weight));
                fast.gaussian_nll(&self.head, output, targets, d_output, &mut losses);
                self.ensemble.backward(fast, input, &mut trace, Some(&mut gradient), None);
                optimiser.svgd_step(fast, &svgd, &mut self.ensemble, &gradient);
            });
            done += steps;
            self.report.steps = done;
            let nll = self.mean_nll(device, &held_out.0, &held_out.1);
            device.check()?;
            if let Some(k) = nll.iter().position(|l| !l.is_finite()) {
                return Err(Error::Numeric(format!(
                    "training diverged: the held-out likelihood of particle {k} is {} after {done} steps; \
                     lower the learning rate ({})",
                    nll[k], config.learning_rate
                )));
            }
            let n = parameters / members;
            for (k, (&now, lowest)) in nll.iter().zip(&mut self.report.validation_nll).enumerate() {
                if now < *lowest {
                    *lowest = now;
                    device.copy_part(&self.ensemble.params, k * n, &mut best, k * n, n);
                    last_improvement = done;
                }
            }
            let mean = nll.iter().sum::<f64>() / members as f64;
            let note = format!("held-out NLL {mean:.3}");
            progress.report("training", done as usize, config.steps as usize, &note);
            progress.figures("training", done as usize, &[("held-out NLL", mean)]);
            progress.keep(TRAINING, || {
                let mut arrays = Arrays::default();
                store_parts(device, kept_parts(&mut self.ensemble, &mut best, &mut optimiser), &mut arrays);
                arrays.put("validation_nll", &self.report.validation_nll);
                arrays.put("steps", &[done, last_improvement]);
                device.check().map(|()| arrays)
            })?;
        }
        // Each particle as it was when it predicted held-out data best: one that spiked late does no harm.
        self.ensemble.params = best;
        Ok(())
    }

    /// Chooses τ so that the predictive quantiles hold on the calibration rows.
    fn calibrate(&mut self, device: &Device, data: &Transitions, rows: &[u32]) {
        let residuals = self.standardized_residuals(device, data, rows);
        self.report.calibration_error_before = residuals.iter().map(|z| calibration_error(z, 1.0)).collect();
        self.tau = residuals.iter().map(|z| recalibrate(z) as f32).collect();
        let after = residuals.iter().zip(&self.tau).map(|(z, &tau)| calibration_error(z, tau.into()));
        self.report.calibration_error_after = after.collect();
    }

    /// Mean negative log-likelihood of each particle on standardized rows.
    fn mean_nll(&self, device: &Device, x: &Buffer, y: &Buffer) -> Vec<f64> {
        let rows = y.len() / self.state_dim();
        let mut output = device.zeros(self.particles() * rows * 2 * self.state_dim());
        let mut losses = device.zeros(self.particles());
        self.ensemble.infer(device, Input::Shared(x), rows, &mut output);
        device.gaussian_nll(&self.head, &output, y, None, &mut losses);
        device.download(&losses)
    }

    /// Standardized inputs `[rows, input]` and targets `[rows, state]` on the device.
    fn standardized(&self, device: &Device, data: &Transitions, rows: &[u32]) -> (Buffer, Buffer) {
        let (x, y) = self.frame.standardized(data, rows);
        (device.adopt(x), device.adopt(y))
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
    fn pass<'a>(&'a self, device: &Device, rows: usize) -> Box<dyn Pass + 'a> {
        Box::new(NetworksPass {
            ensemble: &self.ensemble,
            trace: Trace::new(device, &self.ensemble.shape, rows),
            d_inputs: device.zeros(self.particles() * rows * self.input_dim()),
        })
    }
    fn has_particles(&self) -> bool {
        true
    }
    fn on_device(&self, device: &Device) -> bool {
        device.holds(&self.ensemble.params)
    }
    fn tau(&self) -> &[f32] {
        &self.tau
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

/// What the next training steps build on, by name.
fn kept_parts<'b>(
    ensemble: &'b mut Ensemble,
    best: &'b mut Buffer,
    optimiser: &'b mut Optimiser,
) -> [(&'static str, &'b mut Buffer); 4] {
    let [mean, square] = optimiser.moments();
    [("params", &mut ensemble.params), ("best", best), ("adam.mean", mean), ("adam.square", square)]
}

/// A pass through all networks.
struct NetworksPass<'a> {
    ensemble: &'a Ensemble,
    trace: Trace,
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

/// Particles whose held-out loss is more than one nat a dimension above the median.
fn broken_particles(nll: &[f64], dims: usize) -> Vec<usize> {
    let mut sorted = nll.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[(sorted.len() - 1) / 2];
    (0..nll.len()).filter(|&k| nll[k] > median + dims as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_particle_is_broken_if_it_is_a_nat_a_dimension_worse_than_the_median() {
        assert_eq!(broken_particles(&[-3.0, -2.9, 0.2, -3.1, -2.8], 3), [2]);
        assert_eq!(broken_particles(&[-3.0, -2.9, 0.0, -3.1, -2.8], 3), [] as [usize; 0]);
        assert_eq!(broken_particles(&[5.0, -3.0, 5.0, -3.0, -3.0], 1), [0, 2]);
        assert_eq!(broken_particles(&[7.0, 0.0], 2), [0], "of two the better one is the measure");
        assert_eq!(broken_particles(&[7.0], 2), [] as [usize; 0]);
    }
}
