//! Which networks to take: by how far their predictions are off after several steps, on episodes that did not train them.
//!
//! A model that is best at single steps may be bad at trajectories: its small errors add up, or leave the data. So what is
//! compared is what trajectories are made of, in the same way for all data.

use super::windows::{Prediction, Windows};
use super::{Bnn, BnnConfig};
use crate::data::{Split, Transitions};
use crate::dynamics::Dynamics;
use crate::run::Run;
use crate::{Error, Result};
use hambo_engine::backend::{Activation, Device};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// The networks that are compared: smooth ones whose means learn as from squared errors, with a stronger and a weaker prior,
/// and piecewise linear ones whose means learn less where noise is large. Activation, weight of the likelihood, prior.
const CANDIDATES: [(Activation, f32, f32); 3] =
    [(Activation::Tanh, 1.0, 1e-3), (Activation::Tanh, 1.0, 1e-4), (Activation::Relu, 0.5, 1e-4)];
/// Rows up to which the priors are as strong as that: with more they are weaker in proportion, as in a posterior.
const ROWS: f32 = 10_000.0;
/// Training steps of a comparison, at the most.
const TRAINING: u32 = 1_000;
/// Errors below this many deviations of the data are none.
const NOTHING: f64 = 1e-6;

/// Networks that were compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What follows each hidden layer.
    pub activation: Activation,
    /// How the likelihood was weighed, see [`BnnConfig::variance_weight`].
    pub variance_weight: f32,
    /// How strong the prior was, see [`BnnConfig::prior_temperature`].
    pub prior_temperature: f32,
    /// Steps that were predicted.
    pub steps: usize,
    /// Energy score of predicted states on validation episodes, in deviations of the data; geometric mean over the steps.
    pub error: f64,
}

impl Bnn {
    /// The best of the candidates, where the settings leave the choice open and there are episodes to choose by.
    pub(super) fn choose(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Self> {
        if config.activation.is_some() || !split.by_episode {
            return Bnn::fit(device, data, split, config, stream, run);
        }
        config.validate()?;
        let compared = Bnn::compare(device, data, split, config, stream, run)?;
        let best = compared.iter().min_by(|a, b| a.error.total_cmp(&b.error));
        let config = match best {
            None => config.clone(),
            Some(best) => BnnConfig {
                activation: Some(best.activation),
                variance_weight: Some(best.variance_weight),
                prior_temperature: Some(best.prior_temperature),
                ..config.clone()
            },
        };
        let mut model = Bnn::fit(device, data, split, &config, stream, run)?;
        model.report.compared = compared;
        Ok(model)
    }

    /// Trains one network of each kind for each fold, and tries it.
    fn compare(
        device: &Device,
        data: &Transitions,
        split: &Split,
        config: &BnnConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Vec<Compared>> {
        let rows = split.folds[0].train.len();
        let (steps, weaker) = (config.steps_for(rows).min(TRAINING), (ROWS / rows as f32).min(1.0));
        let mut compared: Vec<Compared> = Vec::new();
        for (i, (activation, weight, prior)) in CANDIDATES.into_iter().enumerate() {
            let variance_weight = config.variance_weight.unwrap_or(weight);
            let prior_temperature = config.prior_temperature.unwrap_or(prior * weaker);
            let is_same = |other: &Compared| {
                (other.activation, other.variance_weight, other.prior_temperature)
                    == (activation, variance_weight, prior_temperature)
            };
            if compared.iter().any(is_same) {
                continue;
            }
            let config = BnnConfig {
                particles: 1,
                steps: Some(steps),
                activation: Some(activation),
                variance_weight: Some(variance_weight),
                prior_temperature: Some(prior_temperature),
                ..config.clone()
            };
            let run = run.part(&format!("comparison-{i}"));
            let model = match Bnn::trained(device, data, split, &config, stream, &run) {
                Err(Error::Numeric(_)) => continue, // its training left the numbers: the others may do better
                fitted => fitted?,
            };
            let (error, steps) = device.run(|| model.multi_step_error(device, data))?;
            compared.push(Compared {
                activation,
                variance_weight,
                prior_temperature,
                steps,
                error,
            });
        }
        Ok(compared)
    }

    /// Energy score (Gneiting & Raftery 2007) of trajectories from logged states with the logged actions, over windows of
    /// validation episodes, in deviations of the data; and the number of steps. It is the distance to what was logged less
    /// half the distance of two such trajectories: too much noise is as bad as a wrong mean. The steps count by their
    /// geometric mean: where a system is chaotic, all models are lost in the end, and one that was far more exact on the way
    /// is the better one.
    fn multi_step_error(&self, device: &Device, data: &Transitions) -> Result<(f64, usize)> {
        let Some(windows) = Windows::of(&self.held_out, data) else {
            return Ok((f64::INFINITY, 0));
        };
        let twice: Vec<usize> = windows.first().iter().flat_map(|&row| [row, row]).collect();
        let (ds, width, rows) = (self.state_dim(), self.input_dim(), twice.len());
        let mut generator = Stream::new(0).child("comparison").generator();
        let mut prediction = Prediction::new(&self.frame, data, twice);
        let mut logarithms = 0.0;
        for _ in 0..windows.steps {
            let x = device.adopt(prediction.inputs());
            let [mean, _, noise] = self.moments(device, &x, rows)?;
            prediction.step(|i, d| {
                mean[i * ds + d] + noise[i * ds + d].sqrt() * generator.normal() as f32
            });
            let [drawn, logged] = prediction.and_logged();
            let pairs = drawn.chunks_exact(2 * width).zip(logged.chunks_exact(2 * width));
            let score = |(pair, logged): (&[f32], &[f32])| {
                let (one, other) = pair.split_at(width);
                let [one_off, other_off, apart] = [(one, logged), (other, logged), (one, other)]
                    .map(|(p, q)| prediction.distance(p, q));
                0.5 * (one_off + other_off - apart)
            };
            let sum = pairs.map(score).sum::<f64>();
            logarithms += (sum / (rows / 2) as f64).max(NOTHING).ln();
        }
        Ok(((logarithms / windows.steps as f64).exp(), windows.steps))
    }
}
