//! The search for DA1's adversary, which chooses one of the particles at every step.

use super::config::SearchConfig;
use super::dqn::DqnAdversary;
use super::learning::LearningConfig;
use super::report::{FoundBy, SearchReport};
use super::search::{Search, restore_best};
use crate::Result;
use crate::data::Transitions;
use crate::rollout::{Chooser, MemberAdversary, Propagation, World};
use crate::run::Run;
use hambo_engine::rng::Stream;

/// Searches for the adversary that chooses among the particles at every step such that the policy's return is
/// lowest. Those that always choose the same are among the candidates: DA1 is not above DAinf.
pub(crate) fn search_members(
    world: &World<'_>,
    config: &SearchConfig,
    data: &Transitions,
    stream: Stream,
    work: (&Run<'_>, &str),
) -> Result<(MemberAdversary, SearchReport)> {
    let search = Search::new(world, config, data, stream, work)?;
    let World { device, model, .. } = *world;
    let mut best = MemberAdversary::constant(device, model, 0)?;
    let saved = search.load()?;
    let mut report = match &saved {
        Some(saved) => saved.read(|arrays| {
            best.networks = restore_best(device, &best.networks.shape, arrays)?;
            best.look_ahead = arrays.get("best.look_ahead")?.first().copied();
            SearchReport::restore(arrays)
        })?,
        None => {
            let (neutral, _) = search.measure_neutral(Propagation::DrawEveryStep, 1)?;
            // Drawn particles are choices, too: where they leave the finite numbers, so does the worst choice.
            let lowest = if neutral.0.is_finite() { f64::INFINITY } else { f64::NEG_INFINITY };
            let mut report = SearchReport::new(neutral, lowest);
            for (member, value) in
                search.measure(Propagation::EachMember, model.members())?.into_iter().enumerate()
            {
                if report.compare(FoundBy::Constant, member, value) {
                    best = MemberAdversary::constant(device, model, member)?;
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
    let LearningConfig { rounds, episodes, .. } = config.dqn.learning;
    search.run.report("adversary (dqn)", report.iterations, rounds, "");
    let stopped_falling =
        |report: &SearchReport| report.stopped_falling(config.tolerance, config.dqn.patience);
    for index in report.iterations..rounds {
        if index >= config.dqn.exploration_rounds && stopped_falling(&report) {
            break;
        }
        let round = stream.child("round").index(index as u64);
        dqn.round(&search.draw(episodes, round.child("starts"))?, round)?;
        let mut lowest = f64::INFINITY;
        for candidate in dqn.candidates() {
            let ahead = candidate.look_ahead.is_some();
            let found_by = if ahead { FoundBy::DqnLookAhead } else { FoundBy::Dqn };
            let greedy = Chooser { adversary: &candidate, exploration: 0.0 };
            let value = search.measure(Propagation::Chosen(greedy), 1)?[0];
            lowest = value.min(lowest);
            if report.compare(found_by, index, value) {
                best = candidate;
            }
        }
        report.curve.push(report.lowest);
        report.iterations += 1;
        search.save(&report, &best.networks, |arrays| {
            arrays.put("best.look_ahead", best.look_ahead.as_slice());
            dqn.store(arrays)
        })?;
        let note = format!("this round {lowest:.2}, lowest {:.2}", report.lowest);
        search.run.report("adversary (dqn)", index + 1, rounds, &note);
        let figures = [("this round", lowest), ("lowest", report.lowest)];
        search.run.figures("adversary (dqn)", index + 1, &figures);
    }
    // An adversary above one that never switches has not learned to choose.
    let trained = report.lowest_of(FoundBy::Dqn).min(report.lowest_of(FoundBy::DqnLookAhead));
    let learned = trained <= report.lowest + report.slack(config.tolerance);
    report.converged = learned && stopped_falling(&report);
    Ok((best, report))
}
