//! Which networks to take: by how far their predictions are off after several steps, on episodes that did not train them.
//!
//! A model that is best at single steps may be bad at trajectories: its small errors add up, or leave the data. So what is
//! compared is what trajectories are made of, in the same way for all data.

use super::{Bnn, BnnConfig};
use crate::{Error, Result};
use crate::data::{Split, Transitions};
use crate::dynamics::Dynamics;
use crate::run::Run;
use hambo_engine::backend::{Activation, Device};
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// The networks that are compared: smooth ones whose means learn as from squared errors, with a stronger and a weaker prior,
/// and piecewise linear ones whose means learn less where noise is large. Activation, weight of the likelihood, prior.
const CANDIDATES: [(Activation, f32, f32); 3] =
    [(Activation::Tanh, 1.0, 1e-3), (Activation::Tanh, 1.0, 1e-4), (Activation::Relu, 0.5, 1e-4)];
/// Training steps of a comparison, at the most.
const TRAINING: u32 = 5_000;
/// Steps of a prediction, the longest that the episodes are long enough for.
const STEPS: [usize; 4] = [20, 10, 5, 1];
/// Predictions of each fold, at the most.
const WINDOWS: usize = 200;
/// Errors are counted up to this many deviations of the data: beyond, a prediction is lost, however far.
const LOST: f64 = 10.0;
/// And from this many: less is nothing.
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
        let mut config = config.clone();
        if config.activation.is_none() && split.by_episode {
            config.validate()?;
            let compared = Bnn::compare(device, data, split, &config, stream, run)?;
            let best = compared.iter().min_by(|a, b| a.error.total_cmp(&b.error));
            if let Some(best) = best {
                config.activation = Some(best.activation);
                config.variance_weight = Some(best.variance_weight);
                config.prior_temperature = Some(best.prior_temperature);
            }
            let mut model = Bnn::fit(device, data, split, &config, stream, run)?;
            model.report.compared = compared;
            return Ok(model);
        }
        Bnn::fit(device, data, split, &config, stream, run)
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
        let steps = config.steps_for(split.folds[0].train.len()).min(TRAINING);
        let mut compared: Vec<Compared> = Vec::new();
        for (i, (activation, weight, prior)) in CANDIDATES.into_iter().enumerate() {
            let variance_weight = config.variance_weight.unwrap_or(weight);
            let prior_temperature = config.prior_temperature.unwrap_or(prior);
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
            let model = match Bnn::fit(device, data, split, &config, stream, &run) {
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
        let folds = self.held_out.validation_by_fold();
        let windows = |steps: usize| -> Vec<Vec<usize>> {
            folds.iter().map(|rows| windows(data, rows, steps)).collect()
        };
        let all = STEPS.map(|steps| (steps, windows(steps)));
        let enough =
            |(_, windows): &&(usize, Vec<Vec<usize>>)| windows.iter().all(|w| !w.is_empty());
        let Some((steps, windows)) = all.iter().find(enough) else { return Ok((f64::INFINITY, 0)) };
        // As many of each fold, and each twice.
        let each = windows.iter().map(Vec::len).min().unwrap_or(0).min(WINDOWS);
        let first: Vec<usize> = windows
            .iter()
            .flat_map(|w| w.iter().step_by(w.len() / each).take(each))
            .flat_map(|&row| [row, row])
            .collect();
        let frame = &self.frame;
        let (seen, ds, width) = (frame.layout.observed, frame.state_dim(), frame.input_dim());
        let at = |t: usize, of: &dyn Fn(usize) -> Vec<f32>| -> Vec<f32> {
            first.iter().flat_map(|&row| of(row + t)).collect()
        };
        let mut generator = Stream::new(0).child("comparison").generator();
        let mut states = at(0, &|row| data.state(row).to_vec());
        let mut logarithms = 0.0;
        for t in 0..*steps {
            let actions = at(t, &|row| data.action(row).to_vec());
            let x = frame.standardized_inputs(&states, &actions);
            let [mean, _, noise] = self.moments(device, &device.adopt(x), first.len())?;
            for (i, row) in states.chunks_exact_mut(seen).enumerate() {
                for (d, s) in row.iter_mut().enumerate() {
                    let from = if frame.relative() { *s } else { 0.0 };
                    let drawn =
                        mean[i * ds + d] + noise[i * ds + d].sqrt() * generator.normal() as f32;
                    *s = from + frame.targets.mean[d] + frame.targets.std[d] * drawn;
                }
            }
            let logged = at(t, &|row| data.next_state(row).to_vec());
            let [drawn, logged] =
                [&states, &logged].map(|states| frame.standardized_inputs(states, &actions));
            let distance = |p: &[f32], q: &[f32]| {
                let pairs = p[..frame.layout.features()].iter().zip(q);
                let square = pairs.map(|(p, q)| f64::from(p - q).powi(2)).sum::<f64>();
                let distance = (square / frame.layout.features() as f64).sqrt();
                if distance < LOST { distance } else { LOST }
            };
            let mut sum = 0.0;
            for (pair, logged) in drawn.chunks_exact(2 * width).zip(logged.chunks_exact(2 * width))
            {
                let (one, other) = pair.split_at(width);
                sum +=
                    0.5 * (distance(one, logged) + distance(other, logged) - distance(one, other));
            }
            logarithms += (sum / (first.len() / 2) as f64).max(NOTHING).ln();
        }
        Ok(((logarithms / *steps as f64).exp(), *steps))
    }
}

/// First rows of windows of that many steps, one after the other, in episodes that begin in `rows`.
fn windows(data: &Transitions, rows: &[u32], steps: usize) -> Vec<usize> {
    let of = |episode: std::ops::Range<usize>| {
        let count = episode.len() / steps;
        (0..count).map(move |i| episode.start + i * steps)
    };
    let begins =
        |episode: &std::ops::Range<usize>| rows.binary_search(&(episode.start as u32)).is_ok();
    data.episodes().filter(begins).flat_map(of).collect()
}
