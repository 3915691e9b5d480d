//! Settings of the networks.

use crate::data::check_holdout;
use crate::dynamics::frame::{Target, check_target};
use crate::{Error, Result};
use hambo_engine::backend::{Activation, Device, Shape, SteinKernel};
use serde::{Deserialize, Serialize};

/// Models that are fitted side by side, at the most.
const MOST_FOLDS: usize = 20;

/// Settings of the model; the defaults are the paper's where it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BnnConfig {
    /// Number of networks, K.
    pub particles: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// What follows each of them. None: tanh or ReLU, whichever predicts validation episodes better over several steps;
    /// the likelihood's weight and the prior come with it, unless they are given. With too few episodes to hold out whole
    /// ones, ReLU.
    pub activation: Option<Activation>,
    /// How the particles see each other.
    pub kernel: SteinKernel,
    /// Exponent of the standard normal prior over parameters. None: 10⁻⁴ or 10⁻³, as chosen together with the activation
    /// (with more than 10⁴ rows to train on less, in proportion), and 10⁻⁴ where that is given. Networks of 10⁴ transitions
    /// of a high-dimensional state need the stronger one; with 10⁵ it costs 8 to 10 nats of HalfCheetah's transitions.
    pub prior_temperature: Option<f32>,
    /// Weigh the likelihood with the number of data, as the posterior literally asks for. Off: the mean
    /// log-likelihood stands against the tempered prior, so that the prior's pull does not depend on n.
    pub literal_posterior: bool,
    /// The likelihood's gradient of each predicted value is weighed with ν^(2·weight), between 0, the likelihood
    /// as it is, and 1, where the means learn as from squared errors (Seitzer et al. 2022, "On the pitfalls of
    /// heteroscedastic uncertainty estimation"). Unweighed, networks call noise what is hard to learn, and stop
    /// learning it: in such a model Hopper falls where the real one does not. None: 0.5 with ReLU, 1 with tanh, and 0 where the data have
    /// too few episodes to hold out whole ones, so that nothing would tell of networks that agree on what is wrong.
    pub variance_weight: Option<f32>,
    /// Adam's learning rate at the start.
    pub learning_rate: f32,
    /// Learning rate at the start of the weights between hidden layers, which move along orthogonal matrices (Muon, Jordan
    /// et al. 2024): on HalfCheetah 3,000 such steps are worth 30,000 of Adam's. 0: these move by Adam, too.
    pub hidden_rate: f32,
    /// Whether the learning rate falls to 0 along a cosine over `steps`. A constant rate leaves single
    /// particles that spike, and estimates that are no good.
    pub decay: bool,
    /// Training steps at the most. None: 40 passes over the data, but from 3,000 to 10,000 steps; three times as
    /// many where all weights move by Adam.
    pub steps: Option<u32>,
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
    /// Models, each fitted without another part of the episodes, on which it is then tried (cross-fitting); a return is
    /// the mean over all. None: 5, or 3 with 50,000 transitions and more, whose models lack less. With fewer than 10
    /// episodes there is one.
    pub folds: Option<usize>,
    /// Whether every particle draws its own minibatches, or all of a model share them.
    pub own_minibatches: bool,
    /// With one fold the share of the data held out for validation, and as much again for calibration; half of it for
    /// the validation of each model with several.
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
            activation: None,
            kernel: SteinKernel::Rbf { length_scale: 10.0 },
            prior_temperature: None,
            literal_posterior: false,
            variance_weight: None,
            learning_rate: 1e-3,
            hidden_rate: 0.02,
            decay: true,
            steps: None,
            batch: 256,
            check_every: 200,
            patience: 10_000,
            std_floor: 1e-3,
            target: Target::Change,
            folds: None,
            own_minibatches: true,
            holdout: 0.1,
            angles: Vec::new(),
            reward: false,
        }
    }
}

/// Passes over the data, and the steps that there are at the least and at the most, unless their number is given.
const PASSES: usize = 40;
const STEPS: [usize; 2] = [3_000, 10_000];
/// How many of Adam's steps are taken for one with [`BnnConfig::hidden_rate`], unless their number is given.
const ADAMS: usize = 3;
/// Folds, and with how many transitions there are fewer, unless their number is given.
const FOLDS: usize = 5;
const MANY: usize = 50_000;
const FOLDS_OF_MANY: usize = 3;
/// Particles at the most: each of them sees each.
const MOST_PARTICLES: usize = 1024;

impl BnnConfig {
    /// The settings of the paper's experiments, with the learning-rate decay that makes them work.
    pub fn paper_scale() -> Self {
        BnnConfig { steps: Some(30_000), patience: 10_000, hidden_rate: 0.0, ..Default::default() }
    }

    /// Training steps with so many rows.
    pub(super) fn steps_for(&self, rows: usize) -> u32 {
        let times = if self.hidden_rate > 0.0 { 1 } else { ADAMS };
        let usual = times * (PASSES * rows / self.batch).clamp(STEPS[0], STEPS[1]);
        self.steps.unwrap_or(usual as u32)
    }

    /// Folds with so many transitions.
    pub(super) fn folds_for(&self, rows: usize) -> usize {
        self.folds.unwrap_or(if rows < MANY { FOLDS } else { FOLDS_OF_MANY })
    }

    /// Tells the device what will be trained, before there are data: what it has to prepare need not wait for them.
    pub fn announce(&self, device: &Device) {
        // Inputs and outputs are not known, and do not matter: the hidden layers are wider.
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        if let Ok(shape) = Shape::new(
            self.particles * self.folds_for(0),
            widths,
            self.activation.unwrap_or(Activation::Tanh),
        ) {
            device.expect_training(&shape, self.folds_for(0), self.batch);
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let positive = |name: &'static str, value: f64, ok: bool| {
            if ok { Ok(()) } else { Err(Error::setting(name, value, "a positive, finite number")) }
        };
        let real = |x: f32| x > 0.0 && x.is_finite();
        positive("particles", self.particles as f64, self.particles > 0)?;
        if let Some(folds) = self.folds.filter(|folds| !(1..=MOST_FOLDS).contains(folds)) {
            return Err(Error::setting("folds", folds, format!("from 1 to {MOST_FOLDS}")));
        }
        if self.particles > MOST_PARTICLES {
            let expected = format!("at most {MOST_PARTICLES}");
            return Err(Error::setting("particles", self.particles, expected));
        }
        let steps = self.steps.unwrap_or(1);
        positive("steps", f64::from(steps), steps > 0)?;
        positive("batch", self.batch as f64, self.batch > 0)?;
        if self.batch > 1_000_000 {
            return Err(Error::setting("batch", self.batch, "at most 1000000 rows"));
        }
        if self.hidden.contains(&0) {
            return Err(Error::setting(
                "hidden",
                format!("{:?}", self.hidden),
                "widths of at least 1",
            ));
        }
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        Shape::new(self.particles, widths, Activation::Relu)?.check_rows("batch", self.batch)?;
        check_holdout(self.holdout)?;
        check_target(self.target, &self.angles, self.reward)?;
        positive("check_every", f64::from(self.check_every), self.check_every > 0)?;
        positive("patience", f64::from(self.patience), self.patience > 0)?;
        positive("learning_rate", self.learning_rate.into(), real(self.learning_rate))?;
        if !(self.hidden_rate >= 0.0 && self.hidden_rate.is_finite()) {
            let expected = "a finite number of at least 0";
            return Err(Error::setting("hidden_rate", self.hidden_rate, expected));
        }
        positive("std_floor", self.std_floor.into(), real(self.std_floor))?;
        if let SteinKernel::Rbf { length_scale } = self.kernel {
            positive("kernel.length_scale", length_scale.into(), real(length_scale))?;
        }
        if let Some(weight) = self.variance_weight.filter(|weight| !(0.0..=1.0).contains(weight)) {
            return Err(Error::setting("variance_weight", weight, "a number from 0 to 1"));
        }
        if let Some(prior) = self.prior_temperature.filter(|x| !(*x >= 0.0 && x.is_finite())) {
            return Err(Error::setting("prior_temperature", prior, "0 or a positive number"));
        }
        Ok(())
    }
}
