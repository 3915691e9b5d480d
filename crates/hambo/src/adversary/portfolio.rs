//! The search for the worst adversary: several restarts of several optimisers, the lowest of all kept.
//!
//! Every candidate is an attainable adversary, so the lowest value over all of them is only nearer to the
//! true minimum. All are compared on the same fixed starts and noise; the value that is reported comes from
//! fresh ones, so that taking the minimum does not bias it.

use super::dqn::{DqnAdversary, DqnConfig};
use super::learning::Learning;
use super::pathwise::Pathwise;
use super::sac::{SacAdversary, SacConfig};
use super::saved::{restore_best, store_best};
use crate::checkpoint::{Arrays, Saved};
use crate::compute::Adam;
use crate::data::Transitions;
use crate::hallucination::{ConfidenceSet, Continuous, Discrete};
use crate::nn::{Ensemble, restore_parts, store_parts};
use crate::progress::Progress;
use crate::rng::Stream;
use crate::rollout::{Chooser, Propagation, Rollout, World};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which optimisers search for CA's adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimisers {
    /// Back-propagation through the model, several restarts; SAC where returns change in steps alone.
    Pathwise,
    /// The paper's: Soft Actor-Critic alone.
    Sac,
    /// Both, the second for a second opinion; SAC where returns change in steps alone.
    Portfolio,
}

/// Settings of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// What searches for CA's adversary.
    pub optimisers: Optimisers,
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
    /// The paper's SAC adversary.
    pub sac: SacConfig,
    /// The paper's DQN adversary, which chooses among the particles.
    pub dqn: DqnConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        SearchConfig {
            optimisers: Optimisers::Pathwise,
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
    /// The rounds of the paper's experiments, and the paper's adversary as a second opinion.
    pub fn paper_scale() -> Self {
        SearchConfig {
            optimisers: Optimisers::Portfolio,
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
        self.sac.learning.validate()?;
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

    /// Whether SAC alone was asked.
    pub(crate) fn by_sac_alone(&self) -> bool {
        self.count_of("sac") > 0 && self.count_of("pathwise") == 0
    }

    /// How many candidates one of the optimisers brought.
    fn count_of(&self, optimiser: &str) -> usize {
        self.candidates.iter().filter(|c| c.optimiser == optimiser).count()
    }

    /// The difference of values that counts as none.
    fn slack(&self, tolerance: f64) -> f64 {
        tolerance * ((self.neutral - self.lowest).abs() + 0.1 * self.neutral.abs())
    }

    /// Whether the lowest value has stopped falling; there is nothing below −∞.
    fn settled(&self, tolerance: f64, patience: usize) -> bool {
        if self.lowest == f64::NEG_INFINITY {
            return true;
        }
        let before = self.curve.len().checked_sub(patience + 1);
        before.is_some_and(|before| self.curve[before] - self.lowest <= self.slack(tolerance))
    }
}

/// A search under way: what it is about, and the starts and the noise that all candidates are compared on.
struct Search<'a> {
    world: &'a World<'a>,
    data: &'a Transitions,
    config: &'a SearchConfig,
    stream: Stream,
    starts: Vec<f32>,
    /// Where it tells of its progress, and the name by which it is kept.
    progress: &'a dyn Progress,
    name: &'a str,
}

impl<'a> Search<'a> {
    fn new(
        world: &'a World<'a>,
        config: &'a SearchConfig,
        data: &'a Transitions,
        stream: Stream,
        (progress, name): (&'a dyn Progress, &'a str),
    ) -> Result<Self> {
        config.validate()?;
        let mut search = Search { world, data, config, stream, starts: Vec::new(), progress, name };
        search.starts = search.draw(config.evaluation, stream.child("fixed starts"))?;
        Ok(search)
    }

    /// Initial states to learn from.
    fn draw(&self, n: usize, stream: Stream) -> Result<Vec<f32>> {
        self.world.setting.task.initial.sample(n, self.data, stream)
    }

    /// Mean return of each group of trajectories.
    fn measure(&self, propagation: Propagation<'_>) -> Vec<f64> {
        let World { device, model, setting, .. } = *self.world;
        let mut rollout = Rollout::new(self.world, propagation, &self.starts);
        let noise = self.stream.child("fixed noise");
        self.world.repeat(setting.horizon, || rollout.step(noise));
        let returns = rollout.returns(device).values;
        let each = self.starts.len() / model.layout().observed;
        let mean = |group: &[f32]| group.iter().map(|&x| f64::from(x)).sum::<f64>() / each as f64;
        returns.chunks_exact(each).map(mean).collect()
    }

    /// Keeps the search as it stands, with what its optimiser adds, if it is time for that.
    fn keep(&self, report: &SearchReport, best: &Ensemble, more: impl FnOnce(&mut Arrays)) -> Result<()> {
        let device = self.world.device;
        device.check()?; // what a device that failed on the way seems to have found is not searched further
        self.progress.keep(self.name, || {
            let mut arrays = Arrays::default();
            report.store(&mut arrays);
            store_best(device, best, &mut arrays);
            more(&mut arrays);
            device.check().map(|()| arrays) // nor is it kept
        })
    }
}

/// Searches the confidence set for the adversary under which the policy's return is lowest.
pub(crate) fn search(
    world: &World<'_>,
    set: &ConfidenceSet,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    work: (&dyn Progress, &str),
) -> Result<(Continuous, SearchReport)> {
    // Where there is no gradient a descent stays where it is, and would seem to have converged.
    let by_sac = SearchConfig { optimisers: Optimisers::Sac, ..config.clone() };
    let config = if world.pays_in_steps() { &by_sac } else { config };
    let search = Search::new(world, config, data, stream, work)?;
    let World { device, model, .. } = *world;
    let initialisation = stream.child("pathwise");
    let adversary = Continuous::random(device, model, set, config.restarts, &config.hidden, initialisation)?;
    let mut best = adversary.idle(device);
    let saved = work.0.take_up(work.1)?;
    let mut report = match &saved {
        Some(saved) => saved.read(|arrays| {
            best.networks = restore_best(device, &best.networks.shape, arrays)?;
            SearchReport::restore(arrays)
        })?,
        None => {
            let neutral = search.measure(Propagation::Shifted(&best))[0];
            SearchReport::new(neutral, neutral)
        }
    };
    if set.reach.iter().all(|&r| r == 0.0) {
        report.converged = true; // there is nothing to choose
        return Ok((best, report));
    }
    let in_second_part = saved.as_ref().filter(|saved| saved.has("updates"));
    if config.optimisers != Optimisers::Sac && in_second_part.is_none() {
        search.pathwise(adversary, (&mut best, &mut report), saved.as_ref())?;
    }
    if config.optimisers != Optimisers::Pathwise {
        search.sac(set, (&mut best, &mut report), in_second_part)?;
    }
    Ok((best, report))
}

impl Search<'_> {
    /// All restarts side by side, until their lowest value has stopped falling.
    fn pathwise(
        &self,
        mut adversary: Continuous,
        (best, report): (&mut Continuous, &mut SearchReport),
        saved: Option<&Saved>,
    ) -> Result<()> {
        let (config, device) = (self.config, self.world.device);
        let adam = Adam::cosine(config.learning_rate, config.iterations as u32);
        let mut pathwise = Pathwise::new(self.world, &adversary, config.batch, adam);
        match saved {
            Some(saved) => {
                saved.read(|arrays| restore_parts(device, pathwise.parts(&mut adversary), arrays))?;
                pathwise.set_steps(report.iterations);
            }
            None => report.restarts = vec![report.neutral; config.restarts],
        }
        while !report.converged && report.iterations < config.iterations {
            let iteration = self.stream.child("training").index(report.iterations as u64);
            let starts = self.draw(config.batch, iteration.child("starts"))?;
            pathwise.descend(&mut adversary, &starts, iteration);
            report.iterations += 1;
            if report.iterations.is_multiple_of(config.check_every) || report.iterations == config.iterations
            {
                let values = self.measure(Propagation::Shifted(&adversary));
                for (restart, value) in values.into_iter().enumerate() {
                    report.restarts[restart] = report.restarts[restart].min(value);
                    if value < report.lowest {
                        report.lowest = value;
                        *best = adversary.restart(device, restart);
                    }
                }
                report.curve.push(report.lowest);
                // Where the descent cannot move, nothing says that there is no lower value.
                let stuck = report.lowest.is_finite() && pathwise.stands_still();
                report.converged = report.settled(config.tolerance, config.patience) && !stuck;
                let figures = [("lowest", report.lowest), ("neutral", report.neutral)];
                self.progress.figures("adversary (pathwise)", report.iterations, &figures);
            }
            self.keep(report, &best.networks, |arrays| {
                store_parts(device, pathwise.parts(&mut adversary), arrays);
            })?;
            let note = format!("lowest {:.2}, neutral {:.2}", report.lowest, report.neutral);
            self.progress.report("adversary (pathwise)", report.iterations, config.iterations, &note);
        }
        let restarts = report.restarts.iter().enumerate();
        report.candidates =
            restarts.map(|(index, &value)| Candidate { optimiser: "pathwise", index, value }).collect();
        Ok(())
    }

    /// The paper's adversary, compared after every round.
    fn sac(
        &self,
        set: &ConfidenceSet,
        (best, report): (&mut Continuous, &mut SearchReport),
        saved: Option<&Saved>,
    ) -> Result<()> {
        let (config, stream) = (self.config, self.stream.child("sac"));
        let Learning { rounds, episodes, .. } = config.sac.learning;
        let mut sac = SacAdversary::new(self.world, set, &config.sac, stream)?;
        saved.map_or(Ok(()), |saved| saved.read(|arrays| sac.restore(arrays)))?;
        self.progress.report("adversary (sac)", report.count_of("sac"), rounds, "");
        for index in report.count_of("sac")..rounds {
            let round = stream.child("round").index(index as u64);
            sac.round(&self.draw(episodes, round.child("starts"))?, round);
            let candidate = sac.candidate();
            let value = self.measure(Propagation::Shifted(&candidate))[0];
            if report.compare("sac", index, value) {
                *best = candidate;
            }
            report.curve.push(report.lowest);
            self.keep(report, &best.networks, |arrays| sac.store(arrays))?;
            let note = format!("this round {value:.2}, lowest {:.2}", report.lowest);
            self.progress.report("adversary (sac)", index + 1, rounds, &note);
            let figures = [("this round", value), ("lowest", report.lowest)];
            self.progress.figures("adversary (sac)", index + 1, &figures);
        }
        let alone = config.optimisers == Optimisers::Sac;
        report.converged = (report.converged || alone) && report.settled(config.tolerance, config.patience);
        Ok(())
    }
}

/// Searches for the adversary that chooses among the particles at every step such that the policy's return is
/// lowest. Those that always choose the same are among the candidates: DA1 is not above DAinf.
pub(crate) fn search_members(
    world: &World<'_>,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    work: (&dyn Progress, &str),
) -> Result<(Discrete, SearchReport)> {
    let search = Search::new(world, config, data, stream, work)?;
    let World { device, model, .. } = *world;
    let mut best = Discrete::constant(device, model, 0)?;
    let saved = work.0.take_up(work.1)?;
    let mut report = match &saved {
        Some(saved) => saved.read(|arrays| {
            best.networks = restore_best(device, &best.networks.shape, arrays)?;
            best.look_ahead = arrays.get("best.look_ahead")?.first().copied();
            SearchReport::restore(arrays)
        })?,
        None => {
            let neutral = search.measure(Propagation::DrawEveryStep)[0];
            let mut report = SearchReport::new(neutral, f64::INFINITY);
            for (member, value) in search.measure(Propagation::EachMember).into_iter().enumerate() {
                if report.compare("constant", member, value) {
                    best = Discrete::constant(device, model, member)?;
                }
            }
            report.curve.push(report.lowest);
            report
        }
    };
    if model.members() == 1 {
        report.converged = true; // there is nothing to choose
        return Ok((best, report));
    }

    let stream = stream.child("dqn");
    let mut dqn = DqnAdversary::new(world, &config.dqn, stream)?;
    saved.map_or(Ok(()), |saved| saved.read(|arrays| dqn.restore(arrays)))?;
    let Learning { rounds, episodes, .. } = config.dqn.learning;
    search.progress.report("adversary (dqn)", report.iterations, rounds, "");
    let settled = |report: &SearchReport| report.settled(config.tolerance, config.dqn.patience);
    for index in report.iterations..rounds {
        if index >= config.dqn.exploration_rounds && settled(&report) {
            break;
        }
        let round = stream.child("round").index(index as u64);
        dqn.round(&search.draw(episodes, round.child("starts"))?, round);
        let mut lowest = f64::INFINITY;
        for candidate in dqn.candidates() {
            let optimiser = if candidate.look_ahead.is_some() { "dqn, a step ahead" } else { "dqn" };
            let greedy = Chooser { adversary: &candidate, exploration: 0.0 };
            let value = search.measure(Propagation::Chosen(greedy))[0];
            lowest = value.min(lowest);
            if report.compare(optimiser, index, value) {
                best = candidate;
            }
        }
        report.curve.push(report.lowest);
        report.iterations += 1;
        search.keep(&report, &best.networks, |arrays| {
            arrays.put("best.look_ahead", best.look_ahead.as_slice());
            dqn.store(arrays);
        })?;
        let note = format!("this round {lowest:.2}, lowest {:.2}", report.lowest);
        search.progress.report("adversary (dqn)", index + 1, rounds, &note);
        let figures = [("this round", lowest), ("lowest", report.lowest)];
        search.progress.figures("adversary (dqn)", index + 1, &figures);
    }
    // An adversary above one that never switches has not learned to choose.
    let trained = report.lowest_of("dqn").min(report.lowest_of("dqn, a step ahead"));
    let learned = trained <= report.lowest + report.slack(config.tolerance);
    report.converged = learned && settled(&report);
    Ok((best, report))
}
