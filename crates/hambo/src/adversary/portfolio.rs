//! The search for the worst adversary: several restarts of several optimisers, the lowest of all kept.
//!
//! Every candidate is an attainable adversary, so the lowest value over all of them is only nearer to the
//! true minimum. All are compared on the same fixed starts and noise; the value that is reported comes from
//! fresh ones, so that taking the minimum does not bias it.

use super::pathwise::Pathwise;
use super::sac::{SacAdversary, SacConfig};
use crate::compute::{Adam, Device};
use crate::data::Transitions;
use crate::hallucination::{ConfidenceSet, Continuous};
use crate::progress::Progress;
use crate::rng::Stream;
use crate::rollout::{Propagation, Rollout, World};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Widths of the adversary's hidden layers (ReLU).
    pub hidden: Vec<usize>,
    /// Independent restarts of the pathwise adversary.
    pub restarts: usize,
    /// Trajectories a restart and iteration.
    pub batch: usize,
    /// Iterations at the most.
    pub iterations: usize,
    /// Adam's learning rate, which falls to 0 along a cosine.
    pub learning_rate: f32,
    /// Iterations between two measurements on the fixed seeds.
    pub check_every: usize,
    /// Trajectories of a measurement.
    pub evaluation: usize,
    /// Converged: the lowest value improved by less than this share of its distance from the neutral value
    /// (and a tenth of that share of the neutral value itself) …
    pub tolerance: f64,
    /// … during that many measurements.
    pub patience: usize,
    /// The paper's SAC adversary, the second opinion; off unless it is given rounds.
    pub sac: SacConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        SearchConfig {
            hidden: vec![256, 256],
            restarts: 2,
            batch: 64,
            iterations: 60,
            learning_rate: 3e-3,
            check_every: 5,
            evaluation: 250,
            tolerance: 0.03,
            patience: 4,
            sac: SacConfig::default(),
        }
    }
}

impl SearchConfig {
    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("restarts", self.restarts),
            ("batch", self.batch),
            ("iterations", self.iterations),
            ("check_every", self.check_every),
            ("evaluation", self.evaluation),
            ("patience", self.patience),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(Error::setting("learning_rate", self.learning_rate, "a positive, finite number"));
        }
        self.sac.validate()
    }
}

/// One of the adversaries that were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// What found it: `pathwise` or `sac`.
    pub optimiser: &'static str,
    /// Its number among those: the restart, or the round.
    pub index: usize,
    /// Return under it, on the fixed seeds.
    pub value: f64,
}

/// How the search went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchReport {
    /// Return without an adversary, on the fixed seeds.
    pub neutral: f64,
    /// Lowest return of each restart, on the fixed seeds.
    pub restarts: Vec<f64>,
    /// All that was compared: every restart at its lowest, the SAC adversary after every round.
    pub candidates: Vec<Candidate>,
    /// The lowest of all.
    pub lowest: f64,
    /// Lowest value so far after each measurement.
    pub curve: Vec<f64>,
    /// Iterations done.
    pub iterations: usize,
    /// Whether the lowest value had stopped falling.
    pub converged: bool,
}

/// Searches the confidence set for the adversary under which the policy's return is lowest.
pub(crate) fn search(
    world: &World<'_>,
    set: &ConfidenceSet,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    progress: &dyn Progress,
) -> Result<(Continuous, SearchReport)> {
    config.validate()?;
    let World { device, model, setting, .. } = *world;
    let draw = |n: usize, stream: Stream| setting.task.initial.sample(n, data, stream);
    let fixed = draw(config.evaluation, stream.child("fixed starts"))?;
    let measure = |adversary: &Continuous| measure(world, adversary, &fixed, stream.child("fixed noise"));

    let initialisation = stream.child("pathwise");
    let mut adversary =
        Continuous::random(device, model, set, config.restarts, &config.hidden, initialisation)?;
    let mut best = adversary.idle(device);
    let neutral = measure(&best)[0];
    let mut report = SearchReport {
        neutral,
        restarts: vec![neutral; config.restarts],
        candidates: Vec::new(),
        lowest: neutral,
        curve: vec![neutral],
        iterations: 0,
        converged: set.reach.iter().all(|&r| r == 0.0),
    };
    let adam = Adam::cosine(config.learning_rate, config.iterations as u32);
    let mut pathwise = Pathwise::new(world, &adversary, config.batch, adam);
    while !report.converged && report.iterations < config.iterations {
        let iteration = stream.child("training").index(report.iterations as u64);
        let starts = draw(config.batch, iteration.child("starts"))?;
        pathwise.descend(&mut adversary, &starts, iteration);
        report.iterations += 1;
        if report.iterations.is_multiple_of(config.check_every) || report.iterations == config.iterations {
            for (restart, value) in measure(&adversary).into_iter().enumerate() {
                report.restarts[restart] = report.restarts[restart].min(value);
                if value < report.lowest {
                    report.lowest = value;
                    best = adversary.restart(device, restart);
                }
            }
            report.curve.push(report.lowest);
            report.converged = settled(&report, config);
        }
        let note = format!("lowest {:.2}, neutral {neutral:.2}", report.lowest);
        progress.report("adversary (pathwise)", report.iterations, config.iterations, &note);
    }
    let restarts = report.restarts.iter().enumerate();
    report.candidates =
        restarts.map(|(index, &value)| Candidate { optimiser: "pathwise", index, value }).collect();

    // The second opinion.
    if config.sac.rounds > 0 && set.reach.iter().any(|&r| r > 0.0) {
        let stream = stream.child("sac");
        let mut sac = SacAdversary::new(world, set, &config.sac, stream)?;
        for index in 0..config.sac.rounds {
            let round = stream.child("round").index(index as u64);
            sac.round(&draw(config.sac.episodes, round.child("starts"))?, round);
            let candidate = sac.candidate();
            let value = measure(&candidate)[0];
            report.candidates.push(Candidate { optimiser: "sac", index, value });
            if value < report.lowest {
                report.lowest = value;
                best = candidate;
            }
            report.curve.push(report.lowest);
            let note = format!("this round {value:.2}, lowest {:.2}", report.lowest);
            progress.report("adversary (sac)", index + 1, config.sac.rounds, &note);
        }
        report.converged &= settled(&report, config);
    }
    Ok((best, report))
}

/// Mean return under each restart, on given starts and noise.
fn measure(world: &World<'_>, adversary: &Continuous, starts: &[f32], noise: Stream) -> Vec<f64> {
    let device: &Device = world.device;
    let mut rollout = Rollout::new(world, Propagation::Shifted(adversary), starts);
    (0..world.setting.horizon).for_each(|_| rollout.step(noise));
    let returns = rollout.returns(device).values;
    let each = starts.len() / world.model.state_dim();
    returns.chunks_exact(each).map(|r| r.iter().map(|&x| f64::from(x)).sum::<f64>() / each as f64).collect()
}

/// Whether the lowest value has stopped falling.
fn settled(report: &SearchReport, config: &SearchConfig) -> bool {
    let Some(before) = report.curve.len().checked_sub(config.patience + 1) else { return false };
    let fallen = report.neutral - report.lowest;
    let enough = config.tolerance * (fallen + 0.1 * report.neutral.abs());
    report.curve[before] - report.lowest <= enough
}
