//! The search for the worst adversary: several restarts of several optimisers, the lowest of all kept.
//!
//! Every candidate is an attainable adversary, so the lowest value over all of them is only nearer to the
//! true minimum. All are compared on the same fixed starts and noise; the value that is reported comes from
//! fresh ones, so that taking the minimum does not bias it.

use super::dqn::{DqnAdversary, DqnConfig};
use super::pathwise::Pathwise;
use super::sac::{SacAdversary, SacConfig};
use crate::compute::{Adam, Device};
use crate::data::Transitions;
use crate::hallucination::{ConfidenceSet, Continuous, Discrete};
use crate::progress::Progress;
use crate::rng::Stream;
use crate::rollout::{Chooser, Propagation, Rollout, World};
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
    /// The paper's DQN adversary, which chooses among the particles.
    pub dqn: DqnConfig,
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
            dqn: DqnConfig::default(),
        }
    }
}

impl SearchConfig {
    /// The rounds of the paper's experiments for the paper's adversaries.
    pub fn paper_scale() -> Self {
        SearchConfig {
            sac: SacConfig { rounds: 12, ..Default::default() },
            dqn: DqnConfig::paper_scale(),
            ..Default::default()
        }
    }

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
        self.sac.validate()?;
        self.dqn.validate()
    }
}

/// One of the adversaries that were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// What found it: `pathwise` or `sac`; for DA1 `dqn`, `dqn, a step ahead`, or
    /// `constant`, which is none.
    pub optimiser: &'static str,
    /// Its number among those: the restart, the round, or the particle.
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<f64>,
    /// All that was compared: every restart at its lowest, the SAC adversary after every round; for DA1 every
    /// particle for the whole trajectory, the DQN adversary after every round.
    pub candidates: Vec<Candidate>,
    /// The lowest of all.
    pub lowest: f64,
    /// Lowest value so far after each measurement.
    pub curve: Vec<f64>,
    /// Iterations of the pathwise adversary, or rounds of DQN.
    pub iterations: usize,
    /// Whether the lowest value had stopped falling.
    pub converged: bool,
}

impl SearchReport {
    /// Before anything was tried.
    fn new(neutral: f64, lowest: f64) -> Self {
        SearchReport {
            neutral,
            restarts: Vec::new(),
            candidates: Vec::new(),
            lowest,
            curve: vec![neutral],
            iterations: 0,
            converged: false,
        }
    }

    /// Lists a candidate, and says whether it is the lowest so far.
    fn compare(&mut self, optimiser: &'static str, index: usize, value: f64) -> bool {
        self.candidates.push(Candidate { optimiser, index, value });
        let lower = value < self.lowest;
        self.lowest = self.lowest.min(value);
        lower
    }

    /// Lowest value that one of the optimisers reached.
    pub(super) fn lowest_of(&self, optimiser: &str) -> f64 {
        let values = self.candidates.iter().filter(|c| c.optimiser == optimiser).map(|c| c.value);
        values.fold(f64::INFINITY, f64::min)
    }

    /// The difference of values that counts as none.
    fn slack(&self, tolerance: f64) -> f64 {
        tolerance * ((self.neutral - self.lowest).abs() + 0.1 * self.neutral.abs())
    }

    /// Whether the lowest value has stopped falling.
    fn settled(&self, tolerance: f64, patience: usize) -> bool {
        let before = self.curve.len().checked_sub(patience + 1);
        before.is_some_and(|before| self.curve[before] - self.lowest <= self.slack(tolerance))
    }
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
    let noise = stream.child("fixed noise");
    let measure = |adversary: &Continuous| measure(world, Propagation::Shifted(adversary), &fixed, noise);

    let initialisation = stream.child("pathwise");
    let mut adversary =
        Continuous::random(device, model, set, config.restarts, &config.hidden, initialisation)?;
    let mut best = adversary.idle(device);
    let neutral = measure(&best)[0];
    let mut report = SearchReport::new(neutral, neutral);
    report.restarts = vec![neutral; config.restarts];
    report.converged = set.reach.iter().all(|&r| r == 0.0);
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
            report.converged = report.settled(config.tolerance, config.patience);
            let step = report.iterations;
            progress.figures(
                "adversary (pathwise)",
                step,
                &[("lowest", report.lowest), ("neutral", neutral)],
            );
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
            if report.compare("sac", index, value) {
                best = candidate;
            }
            report.curve.push(report.lowest);
            let note = format!("this round {value:.2}, lowest {:.2}", report.lowest);
            progress.report("adversary (sac)", index + 1, config.sac.rounds, &note);
            progress.figures(
                "adversary (sac)",
                index + 1,
                &[("this round", value), ("lowest", report.lowest)],
            );
        }
        report.converged &= report.settled(config.tolerance, config.patience);
    }
    Ok((best, report))
}

/// Searches for the adversary that chooses among the particles at every step such that the policy's return is
/// lowest. Those that always choose the same are among the candidates: DA1 is not above DAinf.
pub(crate) fn search_members(
    world: &World<'_>,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    progress: &dyn Progress,
) -> Result<(Discrete, SearchReport)> {
    config.validate()?;
    let World { device, model, setting, .. } = *world;
    let draw = |n: usize, stream: Stream| setting.task.initial.sample(n, data, stream);
    let fixed = draw(config.evaluation, stream.child("fixed starts"))?;
    let measure =
        |propagation: Propagation<'_>| measure(world, propagation, &fixed, stream.child("fixed noise"));

    let neutral = measure(Propagation::DrawEveryStep)[0];
    let mut report = SearchReport::new(neutral, f64::INFINITY);
    let mut best = Discrete::constant(device, model, 0)?;
    for (member, value) in measure(Propagation::EachMember).into_iter().enumerate() {
        if report.compare("constant", member, value) {
            best = Discrete::constant(device, model, member)?;
        }
    }
    report.curve.push(report.lowest);
    if model.particles() == 1 {
        report.converged = true; // there is nothing to choose
        return Ok((best, report));
    }

    let stream = stream.child("dqn");
    let mut dqn = DqnAdversary::new(world, &config.dqn, stream)?;
    for index in 0..config.dqn.rounds {
        let round = stream.child("round").index(index as u64);
        dqn.round(&draw(config.dqn.episodes, round.child("starts"))?, round);
        let mut lowest = f64::INFINITY;
        for candidate in dqn.candidates() {
            let optimiser = if candidate.look_ahead.is_some() { "dqn, a step ahead" } else { "dqn" };
            let greedy = Chooser { adversary: &candidate, exploration: 0.0 };
            let value = measure(Propagation::Chosen(greedy))[0];
            lowest = value.min(lowest);
            if report.compare(optimiser, index, value) {
                best = candidate;
            }
        }
        report.curve.push(report.lowest);
        report.iterations += 1;
        let note = format!("this round {lowest:.2}, lowest {:.2}", report.lowest);
        progress.report("adversary (dqn)", index + 1, config.dqn.rounds, &note);
        progress.figures("adversary (dqn)", index + 1, &[("this round", lowest), ("lowest", report.lowest)]);
    }
    // An adversary above one that never switches has not learned to choose.
    let trained = report.lowest_of("dqn").min(report.lowest_of("dqn, a step ahead"));
    let learned = trained <= report.lowest + report.slack(config.tolerance);
    report.converged = learned && report.settled(config.tolerance, config.dqn.patience);
    Ok((best, report))
}

/// Mean return of each group of trajectories, on given starts and noise.
fn measure(world: &World<'_>, propagation: Propagation<'_>, starts: &[f32], noise: Stream) -> Vec<f64> {
    let device: &Device = world.device;
    let mut rollout = Rollout::new(world, propagation, starts);
    world.repeat(world.setting.horizon, || rollout.step(noise));
    let returns = rollout.returns(device).values;
    let each = starts.len() / world.model.layout().observed;
    returns.chunks_exact(each).map(|r| r.iter().map(|&x| f64::from(x)).sum::<f64>() / each as f64).collect()
}
