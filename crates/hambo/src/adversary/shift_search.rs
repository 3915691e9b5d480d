//! The search for CA's adversary: several restarts of several optimizers, the lowest of all kept.

use super::config::{Optimizers, SearchConfig};
use super::learning::LearningConfig;
use super::pathwise::Pathwise;
use super::report::{Candidate, FoundBy, SearchReport};
use super::sac::SacAdversary;
use super::search::{Search, restore_best};
use super::survival::soft_termination;
use crate::Result;
use crate::confidence::ConfidenceSet;
use crate::data::Transitions;
use crate::rollout::{Propagation, ShiftAdversary, World};
use crate::run::Run;
use crate::run::checkpoint::{Saved, restore_parts, store_parts};
use hambo_engine::backend::{Adam, Device};
use hambo_engine::expression::Program;
use hambo_engine::rng::Stream;

/// Searches the confidence set for the adversary under which the policy's return is lowest: one for each fold of the
/// model, since each is a model of its own. What was found in another set, `known`, is where the search begins.
pub(crate) fn search_shifts(
    world: &World<'_>,
    set: &ConfidenceSet,
    known: Option<&ShiftAdversary>,
    (config, data): (&SearchConfig, &Transitions),
    stream: Stream,
    work: (&Run<'_>, &str),
) -> Result<(ShiftAdversary, SearchReport)> {
    let end = soft_termination(world, data)?;
    let optimizers = optimizers(world, config, &end, data);
    let config = &SearchConfig { optimizers, ..config.clone() };
    let search = Search::new(world, config, data, stream, work)?;
    let World { device, model, .. } = *world;
    let initialization = stream.child("pathwise");
    let mut adversary = ShiftAdversary::random(
        device,
        model,
        set,
        config.restarts,
        &config.hidden,
        initialization,
    )?;
    let folds = model.folds();
    let mut best = adversary.idle(device, folds);
    let adversary_shape = best.networks.shape.clone();
    let saved = search.load()?;
    let mut report = match &saved {
        Some(saved) => saved.read(|arrays| {
            best.networks = restore_best(device, &best.networks.shape, arrays)?;
            SearchReport::restore(arrays)
        })?,
        None => {
            let (neutral, each) = search.measure_neutral(Propagation::Shifted(&best), folds)?;
            let mut report = SearchReport::new(neutral, neutral.0);
            report.lowest_of_folds = each;
            report
        }
    };
    if set.reach.iter().all(|&r| r == 0.0) {
        report.converged = true; // there is nothing to choose
        return Ok((best, report));
    }
    let alike = |known: &&ShiftAdversary| known.networks.shape == adversary_shape;
    if let Some(known) = known.filter(alike) {
        let known = known.within(device, set);
        if saved.is_none() {
            let values = search.measure(Propagation::Shifted(&known), folds)?;
            report.keep_lowest(device, (&known, 1), &values, &mut best);
        }
        adversary.begin_with(device, &known, folds);
    }
    let in_second_part = saved.as_ref().filter(|saved| saved.has("updates"));
    if config.optimizers != Optimizers::Sac && in_second_part.is_none() {
        search.pathwise((adversary, end), (&mut best, &mut report), saved.as_ref())?;
    }
    // SAC's adversary is one network for all folds, of a shape of its own.
    if let Some(known) = known.filter(|known| known.networks.shape != adversary_shape) {
        let known = known.within(device, set);
        let value = search.measure(Propagation::Shifted(&known), 1)?[0];
        if value < report.lowest {
            (best, report.lowest) = (known, value);
        }
    }
    if config.optimizers != Optimizers::Pathwise {
        search.sac(set, (&mut best, &mut report), in_second_part)?;
    }
    Ok((best, report))
}

impl SearchReport {
    /// Takes over the networks `[folds, restarts]` that are lower than what was known of their fold.
    fn keep_lowest(
        &mut self,
        device: &Device,
        (adversary, restarts): (&ShiftAdversary, usize),
        values: &[f64],
        best: &mut ShiftAdversary,
    ) {
        let (stride, n) = (best.networks.shape.stride(), best.networks.shape.parameters());
        for (network, &value) in values.iter().enumerate() {
            let fold = network / restarts;
            if value < self.lowest_of_folds[fold] {
                self.lowest_of_folds[fold] = value;
                let (from, to) = (&adversary.networks.params, &mut best.networks.params);
                device.copy_part(from, network * stride, to, fold * stride, n);
            }
        }
        self.lowest = mean(&self.lowest_of_folds);
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What is asked, as far as there is a gradient: where there is none a descent stays where it is, and would seem to have
/// converged. Where only the ends of episodes have one, it vanishes far from them: then SAC gives a second opinion, as it
/// does where the policy acts in jumps.
fn optimizers(
    world: &World<'_>,
    config: &SearchConfig,
    end: &Option<Program>,
    data: &Transitions,
) -> Optimizers {
    let in_part = || world.lacks_gradient(None) || world.setting.policy.jumps(data.states());
    match config.optimizers {
        _ if world.lacks_gradient(end.as_ref()) => Optimizers::Sac,
        Optimizers::Pathwise if in_part() => Optimizers::Portfolio,
        asked => asked,
    }
}

impl Search<'_> {
    /// All restarts side by side, until their lowest value has stopped falling.
    fn pathwise(
        &self,
        (mut adversary, end): (ShiftAdversary, Option<Program>),
        (best, report): (&mut ShiftAdversary, &mut SearchReport),
        saved: Option<&Saved>,
    ) -> Result<()> {
        let (config, device) = (self.config, self.world.device);
        let adam = Adam::cosine(config.learning_rate, config.iterations as u32);
        let mut pathwise = Pathwise::new(self.world, &adversary, config.batch, adam)?
            .with_soft_termination(end)
            .in_units_of(report.unit());
        match saved {
            Some(saved) => {
                saved
                    .read(|arrays| restore_parts(device, pathwise.parts(&mut adversary), arrays))?;
                let since = report.iterations % config.check_every;
                pathwise.set_steps(report.iterations, since);
            }
            None => report.restarts = vec![report.neutral; adversary.networks.shape.members],
        }
        while !report.converged && report.iterations < config.iterations {
            let iteration = self.stream.child("training").index(report.iterations as u64);
            let folds = self.world.model.folds();
            let starts = self.draw(folds * config.batch, iteration.child("starts"))?;
            pathwise.descend(&mut adversary, &starts, iteration)?;
            report.iterations += 1;
            if report.iterations.is_multiple_of(config.check_every)
                || report.iterations == config.iterations
            {
                let networks = adversary.networks.shape.members;
                let values = self.measure(Propagation::Shifted(&adversary), networks)?;
                for (lowest, value) in report.restarts.iter_mut().zip(&values) {
                    *lowest = lowest.min(*value);
                }
                report.keep_lowest(device, (&adversary, config.restarts), &values, best);
                report.curve.push(report.lowest);
                // Where the descent cannot move, nothing says that there is no lower value.
                let stuck = report.lowest.is_finite() && pathwise.stands_still()?;
                report.converged =
                    report.stopped_falling(config.tolerance, config.patience) && !stuck;
                pathwise.count_anew();
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
            let value = self.measure(Propagation::Shifted(&candidate), 1)?[0];
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
        // SAC learns to lower the mean: of the worst episodes alone it does not say that there is nothing lower.
        let of_mean = self.world.setting.tail.is_none();
        let alone = config.optimizers == Optimizers::Sac && of_mean;
        report.converged = (report.converged || alone)
            && report.stopped_falling(config.tolerance, config.patience);
        Ok(())
    }
}
