//! Gaussian-process models of the dynamics (the paper's Section 3.2): one GP for each predicted dimension, with exact
//! posteriors in f64.

mod factor;
mod files;
mod hyperparameters;
mod kernel;
mod pass;
mod posterior;
mod strips;
mod subset;

pub(super) use files::SCHEMA;
pub use hyperparameters::{Hyperparameters, LikelihoodSearch};
pub use kernel::{Family, Kernel};
pub use posterior::Posterior;
pub use subset::farthest_first;

use super::frame::{Frame, Target, check_target};
use crate::data::{Fold, Split, Transitions, check_holdout};
use crate::run::Run;
use crate::{Error, Result};
use hambo_engine::backend::Gaussian;
use hambo_engine::rng::Stream;
use serde::{Deserialize, Serialize};

/// Settings of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpConfig {
    /// The kernel's family.
    pub kernel: Family,
    /// Whether every input has a length scale of its own.
    pub ard: bool,
    /// Whether all predicted dimensions have the same hyper-parameters. Then they have the same deviation, too, which
    /// is computed once.
    pub shared: bool,
    /// Hyper-parameters in standardized units, one set or one a predicted dimension; none: by marginal likelihood.
    pub hyperparameters: Vec<Hyperparameters>,
    /// σ_ε, the deviation of the transition noise in standardized units; none: by marginal likelihood.
    pub noise_std: Option<f64>,
    /// Starts of the search for hyper-parameters.
    pub starts: usize,
    /// Rows that they are learned on at the most; the posterior is of all rows.
    pub likelihood_rows: usize,
    /// Condition on that many rows at the most, which cover the others best; none: on all of them.
    pub subset: Option<usize>,
    /// Memory that the posterior may take, in GiB.
    pub memory_gib: f64,
    /// Whether inputs and targets are standardized by the data; off: the GP has mean 0 in plain units, as the paper
    /// writes it.
    pub standardize: bool,
    /// What is predicted; the prior's mean is 0 on it.
    pub target: Target,
    /// Share of the data held out, to measure confidence sets on; 0: nothing is.
    pub holdout: f64,
    /// Entries of the state that are angles: the kernel sees their cosine and sine.
    pub angles: Vec<usize>,
    /// Whether the reward is one of the predicted values.
    pub reward: bool,
}

impl Default for GpConfig {
    fn default() -> Self {
        GpConfig {
            kernel: Family::Rbf,
            ard: true,
            shared: true,
            hyperparameters: Vec::new(),
            noise_std: None,
            starts: 3,
            likelihood_rows: 500,
            subset: None,
            memory_gib: 4.0,
            standardize: true,
            target: Target::Change,
            holdout: 0.1,
            angles: Vec::new(),
            reward: false,
        }
    }
}

/// Starts of the search for hyper-parameters, at the most.
const MOST_STARTS: usize = 1000;
/// Rows that they are learned on, at the most: the square of them is computed with, in several copies.
const MOST_LIKELIHOOD_ROWS: usize = 10_000;

impl GpConfig {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        Error::check_count("starts", self.starts, MOST_STARTS)?;
        Error::check_count("likelihood_rows", self.likelihood_rows, MOST_LIKELIHOOD_ROWS)?;
        if self.subset == Some(0) {
            return Err(Error::setting("subset", 0, "at least 1 row"));
        }
        if let Some(noise) = self.noise_std.filter(|noise| !(*noise >= 0.0 && noise.is_finite())) {
            return Err(Error::setting("noise_std", noise, "0 or a positive, finite number"));
        }
        for given in &self.hyperparameters {
            given.kernel.validate(given.kernel.length_scales.len())?; // against the data's width later
            if !(given.noise_std >= 0.0 && given.noise_std.is_finite()) {
                return Err(Error::setting(
                    "hyperparameters.noise_std",
                    given.noise_std,
                    "0 or a positive, finite number",
                ));
            }
        }
        if !(self.memory_gib > 0.0 && self.memory_gib.is_finite()) {
            return Err(Error::setting("memory_gib", self.memory_gib, "a positive, finite number"));
        }
        if self.holdout != 0.0 {
            check_holdout(self.holdout)?;
        }
        check_target(self.target, &self.angles, self.reward)
    }
}

/// What happened in the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpReport {
    /// Hyper-parameters in standardized units, one set or one a predicted dimension.
    pub hyperparameters: Vec<Hyperparameters>,
    /// Rows that they were learned on; none where they were given.
    pub learned_on: Option<usize>,
    /// ln p(y | x) of all rows conditioned on, summed over dimensions.
    pub log_likelihood: f64,
    /// Largest jitter that a factorization needed.
    pub jitter: f64,
    /// Rows conditioned on.
    pub rows: usize,
    /// Rows of the data, with those that were held out.
    pub data_rows: usize,
    /// Whether the rows conditioned on are only some of those that could have been.
    pub subset: bool,
    /// Predicted dimensions that never change in the data.
    pub constant_targets: Vec<usize>,
}

/// A fitted model.
pub struct Gp {
    config: GpConfig,
    frame: Frame,
    head: Gaussian,
    /// One for all dimensions, or one for each.
    posteriors: Vec<Posterior>,
    /// Raw outputs that the head turns to the noise of each dimension.
    raw_noise: Vec<f32>,
    held_out: Split,
    report: GpReport,
    /// What it is conditioned on, in its units: `[rows, input]` and `[rows, state]`.
    data: [Vec<f32>; 2],
}

impl std::fmt::Debug for Gp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gp")
            .field("config", &self.config)
            .field("posteriors", &self.posteriors)
            .finish_non_exhaustive()
    }
}

/// Transitions from which on some are held out.
const ENOUGH_TO_HOLD_OUT: usize = 10;

impl Gp {
    /// Conditions on the data, but for what is held out.
    pub fn fit(
        data: &Transitions,
        config: &GpConfig,
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Self> {
        config.validate()?;
        let held_out = hold_out(data, config.holdout, stream.child("split"))?;
        let mut frame = Frame::fit(
            data,
            &held_out.folds[0].train,
            config.target,
            &config.angles,
            config.reward,
        )?;
        if !config.standardize {
            for units in [&mut frame.inputs, &mut frame.targets] {
                units.mean.fill(0.0);
                units.std.fill(1.0);
            }
        }
        let (width, ds) = (frame.input_dim(), frame.state_dim());
        let train = &held_out.folds[0].train;
        let (mut x, mut y) = frame.standardized(data, train);
        let rows = train.len();
        let subset = config.subset.filter(|&most| most < rows);
        let sets = if config.shared { 1 } else { ds };
        check_memory(subset.unwrap_or(rows), sets, config.memory_gib)?;
        if let Some(most) = subset {
            let kept = farthest_first(&x, width, most);
            x = gather(&x, width, &kept);
            y = gather(&y, ds, &kept);
        }
        let (hyperparameters, learned_on) = match config.hyperparameters.as_slice() {
            [] => {
                let few =
                    some_rows(x.len() / width, config.likelihood_rows, stream.child("likelihood"));
                let (x, y) = (gather(&x, width, &few), gather(&y, ds, &few));
                let stream = stream.child("starts");
                (learn(config, &x, &y, [width, ds], stream, run)?, Some(few.len()))
            }
            given => (given.to_vec(), None),
        };
        let held_out = held_out.without_training();
        Gp::new(config.clone(), frame, hyperparameters, learned_on, [x, y], held_out, data.len())
    }

    /// The posterior of given hyper-parameters on data in the model's units.
    fn new(
        config: GpConfig,
        frame: Frame,
        hyperparameters: Vec<Hyperparameters>,
        learned_on: Option<usize>,
        data: [Vec<f32>; 2],
        held_out: Split,
        data_rows: usize,
    ) -> Result<Self> {
        let (width, ds) = (frame.input_dim(), frame.state_dim());
        if ![1, ds].contains(&hyperparameters.len()) {
            let expected = format!("one set, or {ds}: one a predicted dimension");
            return Err(Error::setting(
                "hyperparameters",
                format!("{} sets", hyperparameters.len()),
                expected,
            ));
        }
        let [x, y] =
            [&data[0], &data[1]].map(|v| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
        let rows = x.len() / width;
        check_memory(rows, hyperparameters.len(), config.memory_gib)?;
        let own = |dimension: usize| match hyperparameters.len() {
            1 => y.clone(),
            _ => y.iter().skip(dimension).step_by(ds).copied().collect(),
        };
        let posteriors: Vec<Posterior> = hyperparameters
            .iter()
            .enumerate()
            .map(|(dimension, h)| {
                Posterior::new(
                    h.kernel.clone(),
                    h.noise_std * h.noise_std,
                    &x,
                    &own(dimension),
                    width,
                )
            })
            .collect::<Result<_>>()?;
        let noise = |dimension: usize| hyperparameters[dimension % hyperparameters.len()].noise_std;
        let constant = |d: &usize| y.iter().skip(*d).step_by(ds).all(|v| *v == y[*d]);
        Ok(Gp {
            head: Gaussian { dims: ds, floor: 0.0 },
            raw_noise: (0..ds).map(|d| raw_of(noise(d))).collect(),
            report: GpReport {
                learned_on,
                log_likelihood: posteriors.iter().map(|p| p.log_likelihood).sum(),
                jitter: posteriors.iter().map(|p| p.jitter).fold(0.0, f64::max),
                rows,
                data_rows,
                subset: rows + held_out.held_out().len() < data_rows,
                constant_targets: (0..ds).filter(constant).collect(),
                hyperparameters,
            },
            config,
            frame,
            posteriors,
            held_out,
            data,
        })
    }

    /// The posteriors, one for all dimensions or one for each.
    pub fn posteriors(&self) -> &[Posterior] {
        &self.posteriors
    }
    /// What happened in the fit.
    pub fn report(&self) -> &GpReport {
        &self.report
    }
    /// Its settings.
    pub fn config(&self) -> &GpConfig {
        &self.config
    }
}

/// Which rows are trained on: all but those held out. A GP has no use for rows that stop its training.
fn hold_out(data: &Transitions, share: f64, stream: Stream) -> Result<Split> {
    if share == 0.0 || data.len() < ENOUGH_TO_HOLD_OUT {
        let train = (0..data.len() as u32).collect();
        let folds = vec![Fold { train, ..Fold::default() }];
        return Ok(Split { data_sha256: data.digest(), folds, by_episode: false });
    }
    let mut split = Split::new(data, share, stream)?;
    for Fold { train, validation, .. } in &mut split.folds {
        train.append(validation);
        train.sort_unstable();
    }
    Ok(split)
}

/// An error that says what to use instead, if exact posteriors of that many rows take too much memory: a kernel matrix
/// while it is factored, and half of one for each factor.
fn check_memory(rows: usize, sets: usize, limit_gib: f64) -> Result<()> {
    let gib = (rows as f64).powi(2) * 8.0 * (1.0 + 0.5 * sets as f64) / f64::from(1 << 30);
    if gib > limit_gib {
        let largest = (limit_gib / gib).sqrt() * rows as f64;
        return Err(Error::Data(format!(
            "an exact Gaussian process on {rows} transitions needs {gib:.1} GiB for a kernel matrix and its {sets} \
             factor{}, and {limit_gib} GiB are allowed (memory_gib): condition on a subset (--gp-rows 2000; at most \
             {largest:.0}), or use --model bnn",
            if sets == 1 { "" } else { "s" }
        )));
    }
    Ok(())
}

fn learn(
    config: &GpConfig,
    x: &[f32],
    y: &[f32],
    [width, ds]: [usize; 2],
    stream: Stream,
    run: &Run<'_>,
) -> Result<Vec<Hyperparameters>> {
    let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (x, y) = (wide(x), wide(y));
    let learning = LikelihoodSearch {
        family: config.kernel,
        ard: config.ard,
        noise_std: config.noise_std,
        starts: config.starts,
    };
    if config.shared {
        return Ok(vec![learning.run(&x, &y, width, stream, run)?.0]);
    }
    (0..ds)
        .map(|d| {
            let own: Vec<f64> = y.iter().skip(d).step_by(ds).copied().collect();
            Ok(learning.run(&x, &own, width, stream.index(d as u64), run)?.0)
        })
        .collect()
}

/// Some of 0..n, in ascending order.
fn some_rows(n: usize, most: usize, stream: Stream) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..n as u32).collect();
    if n > most {
        stream.generator().shuffle(&mut rows);
        rows.truncate(most);
        rows.sort_unstable();
    }
    rows
}

fn gather(values: &[f32], width: usize, rows: &[u32]) -> Vec<f32> {
    rows.iter().flat_map(|&row| &values[row as usize * width..][..width]).copied().collect()
}

/// The raw output whose softplus is `std`.
fn raw_of(std: f64) -> f32 {
    const NOTHING: f64 = -104.0; // softplus of it is 0 in f32
    (std + (-(-std).exp_m1()).ln()).max(NOTHING) as f32
}

#[cfg(test)]
mod tests;
