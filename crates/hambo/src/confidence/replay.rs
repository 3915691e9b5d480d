//! How large the confidence set has to be, measured by replaying held-out episodes with the policy in the loop.
//!
//! In the model an episode starts where it was logged to start, and acts with a = π(s̃_t) + (a_t − π(s_t)): the policy under
//! evaluation, with the logged deviation from it on top. In the world these very actions made the logged episode, so the
//! logged return is the truth of that experiment, with the policy's feedback, over the whole horizon, falls included. The
//! mean over episodes of (return in the model − logged return) is what the model overstates, for policies near this one;
//! its upper confidence limit says what has to be taken off.
//!
//! β is the smallest at which that limit is not above 0, looked for from the largest down, to the first that fails: so the
//! whole search fails no more often than a single test (Learn then Test, Angelopoulos et al. 2021, fixed sequence). Where
//! even the largest fails, the limit itself is subtracted from the bound.
//!
//! Episodes of another policy drift apart in the model whatever its quality, so only those near the policy count. What the
//! model is off by on near ones that are not the policy's own, in either direction, the set has to take as well, in
//! proportion to how far they are from it. Where there are none, nothing in the data can show that a bound holds: that is
//! what the [`Evidence`] says.

use super::course::off_course;
use super::episode::{Episode, NEAR, episodes};
use super::set::ConfidenceSet;
use crate::Result;
use crate::data::Transitions;
use crate::rollout::{Propagation, Rollout, Setting, ShiftAdversary, World, valued};
use crate::run::Run;
use crate::stats::upper_limit;
use hambo_engine::backend::Buffer;
use hambo_engine::rng::Stream;
use serde::Serialize;

/// Shares of the largest β that are tried, one after the other.
const SHARES: [f64; 11] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.06, 0.03, 0.0];
/// Near episodes that it takes to support a bound (where it is about the worst of them, so many of those), and to say
/// anything about it.
const ENOUGH: usize = 10;
const SOME: usize = 3;
/// Share of its steps at which the policy may be away from where the near episodes were.
const OFF_COURSE: f64 = 0.1;
/// Trajectories in the model at the least, and of one episode at the most.
const TRAJECTORIES: usize = 1024;
const MOST_OF_ONE: usize = 16;

/// What the data can say about a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Held-out episodes near the policy show that the bound holds.
    Supported,
    /// There are a few such episodes, or short ones, or the policy goes where they did not: the bound is that of a large
    /// set, and extrapolates.
    Extrapolated,
    /// There are none, or nothing was measured.
    Unsupported,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Evidence::Supported => "supported",
            Evidence::Extrapolated => "extrapolated",
            Evidence::Unsupported => "unsupported",
        })
    }
}

/// What replaying held-out episodes showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// The size of the set that it asks for.
    pub beta: f64,
    /// What the model may overstate without an adversary, which the set has to take from the policy, too.
    pub needed: f64,
    /// What no set covers, or the set does not take: to be subtracted from the bound.
    pub subtracted: f64,
    /// What that rests on.
    pub evidence: Evidence,
    /// The level at which it was shown, 1 − δ; none where it was not.
    pub level: Option<f64>,
    /// Held-out episodes.
    pub episodes: usize,
    /// Those near the policy.
    pub near: usize,
    /// Those of them that last the horizon, or ended for good.
    pub whole: usize,
    /// Median deviation of all episodes from the policy, in half ranges of the action: the systematic part, and all of it.
    pub deviation: [f64; 2],
    /// Mean systematic deviation of the near ones.
    pub deviation_of_near: f64,
    /// Share of its steps at which the policy is away from where the near episodes were, in one entry of the state.
    pub off_course: f64,
    /// What the model overstates at each β that was tried, on the near episodes.
    pub tried: Vec<Overstated>,
}

impl Replay {
    /// The same of a policy that goes where the logs do not: what episodes near it in their actions say is not about there.
    pub(crate) fn elsewhere(mut self) -> Self {
        if self.evidence == Evidence::Supported {
            (self.evidence, self.level) = (Evidence::Extrapolated, None);
        }
        self
    }

    /// The same with what the adversary of the set takes from the policy. On the episodes the set takes what is needed; a
    /// policy that keeps to its course may lose less to the same set, and then the rest is subtracted.
    pub(crate) fn after_taking(mut self, taken: f64) -> Self {
        self.subtracted = self.subtracted.max(self.needed - taken);
        self
    }
}

/// What the model overstates with the adversary of a set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Overstated {
    /// The size of the set.
    pub beta: f64,
    /// Mean over episodes of (return in the model − logged return).
    pub mean: f64,
    /// Its upper confidence limit.
    pub upper: f64,
}

/// Replays held-out episodes against `adversary`, which was found in the largest set, for a failure probability δ.
pub(crate) fn replay(
    world: &World<'_>,
    data: &Transitions,
    (adversary, largest): (&ShiftAdversary, f64),
    delta: f64,
    stream: Stream,
    run: &Run<'_>,
) -> Result<Replay> {
    let episodes = episodes(world, data)?;
    let near: Vec<&Episode> = episodes.iter().filter(|e| e.is_near()).collect();
    let whole = near.iter().filter(|e| e.is_whole(world.setting.horizon)).count();
    let median = |which: usize| {
        let mut sizes: Vec<f64> = episodes.iter().map(|e| e.size[which]).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.get(sizes.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let mut found = Replay {
        beta: largest,
        needed: 0.0,
        subtracted: 0.0,
        evidence: Evidence::Unsupported,
        level: None,
        episodes: episodes.len(),
        near: near.len(),
        whole,
        deviation: [median(0), median(1)],
        deviation_of_near: f64::NAN,
        off_course: f64::NAN,
        tried: Vec::new(),
    };
    if near.len() < SOME {
        return Ok(found);
    }
    let room = Rows::new(world, data, &near);
    let overstated = |beta: f64| -> Result<Overstated> {
        let set = ConfidenceSet::new(world.model, beta)?;
        let values = room.overstated(world, &adversary.within(world.device, &set), stream)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Ok(Overstated { beta, mean, upper: upper_limit(&values, delta) })
    };
    // What near episodes of others say of this policy is the less the further they are from it: of what the model is off by
    // on them, in either direction, the set must take as much.
    let alone = overstated(0.0)?;
    let apart = near.iter().map(|e| e.size[0]).sum::<f64>() / near.len() as f64;
    let owed = (apart / NEAR).min(1.0) * alone.mean.abs();
    let mut passed = None;
    for (i, share) in SHARES.into_iter().enumerate() {
        let tried = if share == 0.0 { alone } else { overstated(largest * share)? };
        found.tried.push(tried);
        run.report("confidence set", i + 1, SHARES.len(), "");
        if !(tried.upper <= 0.0 && alone.mean - tried.mean >= owed) {
            break;
        }
        passed = Some(tried.beta);
    }
    if found.tried.last().is_some_and(|last| last.beta > 0.0) {
        found.tried.push(alone); // for the reader
    }
    run.report("confidence set", SHARES.len(), SHARES.len(), "");
    let widest = found.tried[0];
    if ![widest.upper, widest.mean, alone.mean].iter().all(|x| x.is_finite()) {
        return Ok(found); // what is said of trajectories that leave the finite numbers supports nothing
    }
    found.needed = alone.upper.max(owed).max(0.0);
    found.subtracted = widest.upper.max(owed - (alone.mean - widest.mean)).max(0.0);
    found.deviation_of_near = apart;
    found.evidence = Evidence::Extrapolated;
    let courses: Vec<(usize, usize)> = near.iter().map(|e| (e.start, e.rows)).collect();
    found.off_course = off_course(world, data, &courses, stream.child("course"))?;
    let enough = ENOUGH as f64 / world.setting.tail.map_or(1.0, |tail| tail.share);
    if whole as f64 >= enough && found.off_course <= OFF_COURSE {
        found.evidence = Evidence::Supported;
        found.level = Some(1.0 - delta);
        found.beta = passed.unwrap_or(largest);
    }
    Ok(found)
}

/// Trajectories that replay the near episodes, those of each fold together, as many of each fold.
struct Rows<'a> {
    episodes: &'a [&'a Episode],
    /// The episode of each trajectory, and whether it is there to fill up its fold alone.
    rows: Vec<(usize, bool)>,
    starts: Buffer,
    /// `[horizon, rows, action]`
    deviations: Buffer,
}

impl<'a> Rows<'a> {
    fn new(world: &World<'_>, data: &Transitions, episodes: &'a [&'a Episode]) -> Self {
        let World { device, model, setting, .. } = *world;
        let of_fold = |fold: usize| (0..episodes.len()).filter(move |&i| episodes[i].fold == fold);
        let folds: Vec<Vec<usize>> = (0..model.folds()).map(|f| of_fold(f).collect()).collect();
        let longest = folds.iter().map(Vec::len).max().unwrap_or(0);
        let times = (TRAJECTORIES / episodes.len()).clamp(1, MOST_OF_ONE);
        let rows: Vec<(usize, bool)> = folds
            .iter()
            .flat_map(|fold| (0..times * longest).map(move |i| fold.get(i / times)))
            .map(|episode| episode.map_or((0, true), |&episode| (episode, false)))
            .collect();
        let start = |&(episode, _): &(usize, bool)| data.state(episodes[episode].start);
        let starts: Vec<f32> = rows.iter().flat_map(start).copied().collect();
        let width = data.action_dim();
        let mut deviations = vec![0.0; setting.horizon * rows.len() * width];
        for (row, (episode, _)) in rows.iter().enumerate() {
            // After the logged end the deviation is 0, and the model may go on: that counts as overstated.
            for (t, logged) in episodes[*episode].deviations.chunks_exact(width).enumerate() {
                deviations[(t * rows.len() + row) * width..][..width].copy_from_slice(logged);
            }
        }
        let (starts, deviations) =
            (device.adopt(model.layout().carry(&starts)), device.adopt(deviations));
        Rows { episodes, rows, starts, deviations }
    }

    /// Return in the model less the logged one of every episode, the mean over its trajectories; what a shorter episode
    /// overstates is taken to go on as it began.
    fn overstated(
        &self,
        world: &World<'_>,
        adversary: &ShiftAdversary,
        stream: Stream,
    ) -> Result<Vec<f64>> {
        let World { device, setting, .. } = *world;
        let (n, horizon) = (self.rows.len(), setting.horizon);
        let mut rollout = Rollout::replaying(
            world,
            Propagation::Shifted(adversary),
            (&self.starts, &self.deviations),
        );
        let mut returns = device.zeros((horizon + 1) * n);
        world.repeat(horizon, || {
            rollout.step(stream);
            device.store_at(&rollout.returns, &rollout.time, 0, 0, &mut returns);
        });
        let returns = device.download(&returns)?;
        let mut sums = vec![(0.0, 0.0); self.episodes.len()];
        for (row, &(episode, _)) in self.rows.iter().enumerate().filter(|(_, (_, fills))| !fills) {
            let Episode { steps, ended, .. } = *self.episodes[episode];
            let at = if ended { horizon } else { steps };
            sums[episode].0 += self.counts_for(world, episode, f64::from(returns[at * n + row]));
            sums[episode].1 += 1.0;
        }
        let overstated = |(episode, (sum, count)): (usize, (f64, f64))| {
            sum / count - self.counts_for(world, episode, self.episodes[episode].logged)
        };
        Ok(sums.into_iter().enumerate().map(overstated).collect())
    }

    /// What a return over the steps of an episode counts for. A shorter one is taken to go on as it began.
    fn counts_for(&self, world: &World<'_>, episode: usize, value: f64) -> f64 {
        let Setting { horizon, tail, .. } = world.setting;
        let Episode { steps, ended, .. } = *self.episodes[episode];
        valued(tail, if ended { value } else { value * (horizon as f64 / steps as f64) })
    }
}

#[cfg(test)]
mod tests;
