//! Training and calibration of the networks.

use super::Bnn;
use crate::data::{Fold, Split, Transitions};
use crate::dynamics::Dynamics;
use crate::dynamics::calibration::{calibration_error, recalibrate};
use crate::run::Run;
use crate::run::checkpoint::{Arrays, restore_parts, store_parts};
use crate::{Error, Result};
use hambo_engine::backend::{Activation, Adam, Buffer, Device, Input, Muon, Svgd};
use hambo_engine::nn::{BatchSizes, Ensemble, Minibatches, Optimizer, PassBuffers};
use hambo_engine::rng::Stream;
use rayon::prelude::*;

/// The name under which a training is kept.
const NAME: &str = "training";
/// Exponent of the prior where it is not chosen by the data.
const PRIOR_TEMPERATURE: f32 = 1e-4;
/// Held-out rows that are looked at while training.
const VALIDATION_ROWS: usize = 5_000;
/// Numbers of rows for training that are kept beside the log on the host; minibatches of more are made from the log.
const MOST_KEPT: usize = 1 << 27;

impl Bnn {
    pub(super) fn train(
        &mut self,
        device: &Device,
        data: &Transitions,
        split: &Split,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<()> {
        let config = self.config.clone();
        let (folds, members) = (split.folds.len(), self.ensemble.shape.members);
        let (width, ds) = (self.input_dim(), self.state_dim());
        let parameters = self.ensemble.params.len();
        let steps = config.steps_for(split.folds[0].train.len());
        let rows = training_rows(split);
        let is_made = device.is_host() && rows.len() * (width + ds) > MOST_KEPT;
        let own = config.own_minibatches && folds > 1;
        let batches = if own { members } else { folds };
        let sizes = BatchSizes { lists: folds, batches, rows: config.batch };
        let mut batches = if is_made {
            Minibatches::made(device, rows.len() / folds, [width, ds], sizes)
        } else {
            let (x, y) = self.frame.standardized(data, &rows);
            Minibatches::new(device, [x, y], [width, ds], sizes)
        };
        let held_out = self.standardized(device, data, &validation_rows(split));

        let svgd = Svgd {
            kernel: config.kernel,
            prior_temperature: config.prior_temperature.unwrap_or(PRIOR_TEMPERATURE),
            likelihood_scale: match config.literal_posterior {
                true => split.folds[0].train.len() as f32,
                false => 1.0,
            },
            groups: folds,
        };
        let usual = if self.ensemble.shape.hidden == Activation::Tanh { 1.0 } else { 0.5 };
        let weight = config.variance_weight.unwrap_or(if split.by_episode { usual } else { 0.0 });
        let adam = match config.decay {
            true => Adam::cosine(config.learning_rate, steps),
            false => Adam::constant(config.learning_rate),
        };
        let mut optimizer = match config.hidden_rate > 0.0 {
            true => Optimizer::with_muon(
                device,
                adam,
                Muon::new(config.hidden_rate),
                &self.ensemble.shape,
            ),
            false => Optimizer::new(device, adam, parameters),
        };
        let mut trace = PassBuffers::new(device, &self.ensemble.shape, config.batch);
        let mut gradient = device.zeros(parameters);
        let mut losses: Buffer<f64> = device.zeros(members);
        let mut best: Buffer = device.zeros(parameters);
        let mut last_improvement = 0;

        if let Some(saved) = run.load(NAME)? {
            saved.read(|arrays| {
                restore_parts(
                    device,
                    kept_parts(&mut self.ensemble, &mut best, &mut optimizer),
                    arrays,
                )?;
                self.report.validation_nll = arrays.get_exactly("validation_nll", members)?;
                let done: Vec<u32> = arrays.get_exactly("steps", 2)?;
                (self.report.steps, last_improvement) = (done[0], done[1]);
                Ok(())
            })?;
            optimizer.set_steps(device, self.report.steps);
        }
        let fast = &device.fast();
        let mut done = self.report.steps;
        while done < steps {
            if done.saturating_sub(last_improvement) >= config.patience {
                self.report.stopped_early = true;
                break;
            }
            let now = config.check_every.min(steps - done);
            if is_made {
                batches.prepare_made(device, stream, (done, now), |indices| {
                    let drawn: Vec<u32> = indices.iter().map(|&i| rows[i as usize]).collect();
                    self.frame.standardized(data, &drawn).into()
                });
            }
            batches.prepare(device, stream, done, now);
            fast.repeat(now as usize, || {
                batches.draw(fast, stream, optimizer.counter());
                let [inputs, targets] = &batches.now;
                let input = Input::Grouped(inputs, sizes.batches);
                self.ensemble.forward(fast, input, &mut trace);
                let (output, d_output) = trace.output();
                let d_output = Some((d_output, weight));
                fast.gaussian_nll(&self.head, output, targets, d_output, &mut losses);
                self.ensemble.backward(fast, input, &mut trace, Some(&mut gradient), None);
                optimizer.svgd_step(fast, &svgd, &mut self.ensemble, &gradient);
            });
            done += now;
            self.report.steps = done;
            let nll = self.mean_nll(device, &held_out.0, &held_out.1)?;
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
            run.report("training", done as usize, steps as usize, &note);
            run.figures("training", done as usize, &[("held-out NLL", mean)]);
            run.save(NAME, || {
                let mut arrays = Arrays::default();
                store_parts(
                    device,
                    kept_parts(&mut self.ensemble, &mut best, &mut optimizer),
                    &mut arrays,
                )?;
                arrays.put("validation_nll", &self.report.validation_nll);
                arrays.put("steps", &[done, last_improvement]);
                Ok(arrays)
            })?;
        }
        // Each particle as it was when it predicted held-out data best: one that spiked late does no harm.
        self.ensemble.params = best;
        Ok(())
    }

    /// Chooses τ so that the predictive quantiles hold on the calibration rows.
    pub(super) fn calibrate(&mut self, device: &Device, data: &Transitions) -> Result<()> {
        let rows = self.held_out.held_out_by_fold();
        let residuals = self.standardized_residuals(device, data, &rows)?;
        self.report.calibration_error_before =
            residuals.iter().map(|z| calibration_error(z, 1.0)).collect();
        self.tau = residuals.par_iter().map(|z| recalibrate(z) as f32).collect();
        if let Some(i) = self.tau.iter().position(|tau| !tau.is_finite()) {
            return Err(Error::Numeric(format!(
                "the model cannot be calibrated: on held-out rows its error in dimension {i} of the state, by its own \
                 standard deviation, is not finite; train it longer, or look at that column of the data"
            )));
        }
        let after =
            residuals.iter().zip(&self.tau).map(|(z, &tau)| calibration_error(z, tau.into()));
        self.report.calibration_error_after = after.collect();
        Ok(())
    }

    /// Mean negative log-likelihood of each network on standardized rows of its fold.
    fn mean_nll(&self, device: &Device, x: &Buffer, y: &Buffer) -> Result<Vec<f64>> {
        let (folds, members) = (self.report.folds, self.ensemble.shape.members);
        let rows = y.len() / (folds * self.state_dim());
        let mut output = device.zeros(members * rows * 2 * self.state_dim());
        let mut losses = device.zeros(members);
        self.ensemble.infer(device, Input::Grouped(x, folds), rows, &mut output);
        device.gaussian_nll(&self.head, &output, y, None, &mut losses);
        device.download(&losses)
    }

    /// Standardized inputs `[rows, input]` and targets `[rows, state]` on the device.
    fn standardized(&self, device: &Device, data: &Transitions, rows: &[u32]) -> (Buffer, Buffer) {
        let (x, y) = self.frame.standardized(data, rows);
        (device.adopt(x), device.adopt(y))
    }
}

/// The training rows of all folds one after the other, as many of each: those of shorter folds begin again.
fn training_rows(split: &Split) -> Vec<u32> {
    let longest = split.folds.iter().map(|fold| fold.train.len()).max().unwrap_or(0);
    let rows = |fold: &Fold| fold.train.iter().cycle().take(longest).copied().collect::<Vec<u32>>();
    split.folds.iter().flat_map(rows).collect()
}

/// Some validation rows of all folds, as many of each.
fn validation_rows(split: &Split) -> Vec<u32> {
    let fewest = split.folds.iter().map(|fold| fold.validation.len()).min().unwrap_or(0);
    let few = fewest.min(VALIDATION_ROWS);
    let rows = |fold: &Fold| {
        let stride = fold.validation.len() / few;
        fold.validation.iter().step_by(stride).take(few).copied().collect::<Vec<u32>>()
    };
    split.folds.iter().flat_map(rows).collect()
}

/// What the next training steps build on, by name.
fn kept_parts<'b>(
    ensemble: &'b mut Ensemble,
    best: &'b mut Buffer,
    optimizer: &'b mut Optimizer,
) -> [(&'static str, &'b mut Buffer); 4] {
    let [mean, square] = optimizer.moments();
    [("params", &mut ensemble.params), ("best", best), ("adam.mean", mean), ("adam.square", square)]
}
