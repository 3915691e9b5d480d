//! The search for CA's adversary: several restarts of several optimizers, the lowest of all kept.

use super::config::{Optimizers, SearchConfig};
use super::learning::LearningConfig;
use super::pathwise::Pathwise;
use super::report::{Candidate, FoundBy, SearchReport};
use super::sac::SacAdversary;
use super::search::{Search, restore_best};
use crate::Result;
use crate::confidence::ConfidenceSet;
use crate::data::Transitions;
use crate::rollout::{Propagation, ShiftAdversary, World};
use crate::run::Run;
use crate::run::checkpoint::{Saved, restore_parts, store_parts};
use hambo_engine::backend::Adam;
use hambo_engine::rng::Stream;

/// Searches the confidence set for the adversary under which the policy's return is lowest.
pub(crate) fn search_shifts(
    world: &World<'_>,
    set: &ConfidenceSet,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    work: (&Run<'_>, &str),
) -> Result<(ShiftAdversary, SearchReport)> {
    // Where there is no gradient a descent stays where it is, and would seem to have converged.
    let by_sac = SearchConfig { optimizers: Optimizers::Sac, ..config.clone() };
    let config = if world.lacks_gradient() { &by_sac } else { config };
    let search = Search::new(world, config, data, stream, work)?;
    let World { device, model, .. } = *world;
    let initialization = stream.child("pathwise");
    let adversary = ShiftAdversary::random(
        device,
        model,
        set,
        config.restarts,
        &config.hidden,
        initialization,
    )?;
    let mut best = adversary.idle(device);
    let saved = search.load()?;
    let mut report = match &saved {
        Some(saved) => saved.read(|arrays| {
            best.networks = restore_best(device, &best.networks.shape, arrays)?;
            SearchReport::restore(arrays)
        })?,
        None => {
            let neutral = search.measure(Propagation::Shifted(&best))?[0];
            SearchReport::new(neutral, neutral)
        }
    };
    if set.reach.iter().all(|&r| r == 0.0) {
        report.converged = true; // there is nothing to choose
        return Ok((best, report));
    }
    let in_second_part = saved.as_ref().filter(|saved| saved.has("updates"));
    if config.optimizers != Optimizers::Sac && in_second_part.is_none() {
        search.pathwise(adversary, (&mut best, &mut report), saved.as_ref())?;
    }
    if config.optimizers != Optimizers::Pathwise {
        search.sac(set, (&mut best, &mut report), in_second_part)?;
    }
    Ok((best, report))
}

impl Search<'_> {
    /// All restarts side by side, until their lowest value has stopped falling.
    fn pathwise(
        &self,
        mut adversary: ShiftAdversary,
        (best, report): (&mut ShiftAdversary, &mut SearchReport),
        saved: Option<&Saved>,
    ) -> Result<()> {
        let (config, device) = (self.config, self.world.device);
        let adam = Adam::cosine(config.learning_rate, config.iterations as u32);
        let mut pathwise = Pathwise::new(self.world, &adversary, config.batch, adam)?;
        match saved {
            Some(saved) => {
                saved
                    .read(|arrays| restore_parts(device, pathwise.parts(&mut adversary), arrays))?;
                pathwise.set_steps(report.iterations);
            }
            None => report.restarts = vec![report.neutral; config.restarts],
        }
        while !report.converged && report.iterations < config.iterations {
            let iteration = self.stream.child("training").index(report.iterations as u64);
            let starts = self.draw(config.batch, iteration.child("starts"))?;
            pathwise.descend(&mut adversary, &starts, iteration)?;
            report.iterations += 1;
            if report.iterations.is_multiple_of(config.check_every)
                || report.iterations == config.iterations
            {
                let values = self.measure(Propagation::Shifted(&adversary))?;
                for (restart, value) in values.into_iter().enumerate() {
                    report.restarts[restart] = report.restarts[restart].min(value);
                    if value < report.lowest {
                        report.lowest = value;
                        *best = adversary.restart(device, restart);
                    }
                }
                report.curve.push(report.lowest);
                // Where the descent cannot move, nothing says that there is no lower value.
                let stuck = report.lowest.is_finite() && pathwise.stands_still()?;
                report.converged =
                    report.stopped_falling(config.tolerance, config.patience) && !stuck;
                let figures = [("lowest", report.lowest), ("neutral", report.neutral)];
                self.run.figures("adversary (pathwise)", report.iterations, &figures);
            }
            self.save(report, &best.networks, |arrays| {
                store_parts(device, pathwise.parts(&mut adversary), arrays)
            })?;
            let note = format!("lowest {:.2}, neutral {:.2}", report.lowest, report.neutral);
            self.run.report("adversary (pathwise)", report.iterations, config.iterations, &note);
        }
        let restarts = report.restarts.iter().enumerate();
        report.candidates = restarts
            .map(|(index, &value)| Candidate { found_by: FoundBy::Pathwise, index, value })
            .collect();
        Ok(())
    }

    /// The paper's adversary, compared after every round.
    fn sac(
        &self,
        set: &ConfidenceSet,
        (best, report): (&mut ShiftAdversary, &mut SearchReport),
        saved: Option<&Saved>,
    ) -> Result<()> {
        let (config, stream) = (self.config, self.stream.child("sac"));
        let LearningConfig { rounds, episodes, .. } = config.sac.learning;
        let mut sac = SacAdversary::new(self.world, set, &config.sac, stream)?;
        saved.map_or(Ok(()), |saved| saved.read(|arrays| sac.restore(arrays)))?;
        self.run.report("adversary (sac)", report.count_of(FoundBy::Sac), rounds, "");
        for index in report.count_of(FoundBy::Sac)..rounds {
            let round = stream.child("round").index(index as u64);
            sac.round(&self.draw(episodes, round.child("starts"))?, round)?;
            let candidate = sac.candidate()?;
            let value = self.measure(Propagation::Shifted(&candidate))?[0];
            if report.compare(FoundBy::Sac, index, value) {
                *best = candidate;
            }
            report.curve.push(report.lowest);
            self.save(report, &best.networks, |arrays| sac.store(arrays))?;
            let note = format!("this round {value:.2}, lowest {:.2}", report.lowest);
            self.run.report("adversary (sac)", index + 1, rounds, &note);
            let figures = [("this round", value), ("lowest", report.lowest)];
            self.run.figures("adversary (sac)", index + 1, &figures);
        }
        let alone = config.optimizers == Optimizers::Sac;
        report.converged = (report.converged || alone)
            && report.stopped_falling(config.tolerance, config.patience);
        Ok(())
    }
}
