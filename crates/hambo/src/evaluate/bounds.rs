//! What every method says of one reward.

use super::budget::Budget;
use super::estimate::{Estimate, Method, adversarial, dainf, mean_return, neutral};
use super::noticed;
use super::problem::Problem;
use super::risk::Risk;
use super::warning::Warning;
use crate::adversary::{SearchConfig, SearchReport, search_members, search_shifts};
use crate::confidence::{
    Beta, ConfidenceSet, Evidence, SetReport, confidence_set, large_set, replay, replayed_set,
};
use crate::explain::reliability::{Distributions, Reliability, reliability};
use crate::explain::trace::{Followed, Trace, trace};
use crate::policy::Policy;
use crate::rollout::{
    Chooser, MemberAdversary, Propagation, Returns, Setting, ShiftAdversary, Tail, World, rollout,
    valued,
};
use crate::run::Run;
use crate::task::Task;
use crate::{Error, Result};
use hambo_engine::rng::Stream;
use serde::Serialize;

/// The set that no evidence makes smaller: the paper's.
const LARGEST_BETA: f64 = 1.0;

/// Where a bound comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    /// Trajectories with and without the adversary; none where no conservative method was asked for.
    pub trace: Option<Trace>,
    /// Returns of all methods; DAinf's are those of the worst particle.
    pub distributions: Distributions,
    /// The model on held-out data.
    pub reliability: Option<Reliability>,
}

/// Estimates of one reward by every method, and how they were come by.
pub(super) struct Bounds {
    pub estimates: Vec<Estimate>,
    pub set: Option<SetReport>,
    pub search: Option<SearchReport>,
    pub search_members: Option<SearchReport>,
    pub why: Option<Why>,
}

impl Bounds {
    pub fn warnings(&self, problem: &Problem<'_>, task: &Task, policy: &Policy) -> Vec<Warning> {
        let Problem { device, model, config, .. } = *problem;
        let mut warnings = noticed::of_estimates(model, &self.estimates);
        warnings.extend(self.set.iter().flat_map(noticed::of_set));
        let asked = config.search.optimizers;
        let has_gradient = model.pass(device, 1).is_some();
        let of_search = |search| noticed::of_search(search, asked, has_gradient, &task.reward);
        warnings.extend(self.search.as_ref().and_then(of_search));
        if let (Some(search), true) = (&self.search, policy.lacks_gradient()) {
            let (name, by_sac) = (policy.spec.clone(), search.by_sac());
            warnings.push(Warning::PolicyWithoutGradient { name, by_sac });
        }
        warnings
    }
}

/// One of the rewards of a problem.
pub(super) struct Reward<'a> {
    pub task: &'a Task,
    /// Its number, 0 for the task's own; unfinished work goes by it.
    pub index: usize,
    /// β is not below this: a set that a constraint shares with the task covers the task, too.
    pub least_beta: f64,
    pub budget: Budget,
    /// Whether the policy goes where the logs do not.
    pub leaves_data: bool,
    /// What its bound has to reach.
    pub threshold: Option<f64>,
}

/// Trajectories of each particle, at the least: of more in all, each has its share.
const ENOUGH_OF_EACH: usize = 10_000;

/// Rolls the policy out in the model by every method asked for.
pub(super) fn bound(
    problem: &Problem<'_>,
    reward: &Reward<'_>,
    policy: &Policy,
    explain: bool,
    run: &Run<'_>,
) -> Result<Bounds> {
    let Problem { device, data, model, config, .. } = *problem;
    let Reward { task, index, budget, threshold, .. } = *reward;
    let stream = Stream::new(config.seed).child("rollouts");
    let rollouts = config.rollouts.next_multiple_of(model.folds());
    let draw_starts =
        |n: usize| task.initial.sample_evenly((n, model.folds()), data, config.starts_stream());
    let starts = draw_starts(rollouts)?;
    let (plain, largest_reward) = problem.setting(task, policy)?;
    // Where a model is wrong, a task may pay more than was ever seen, although the state is inside the range of the logs. What
    // it costs there is believed.
    let largest = (f64::from(largest_reward) * plain.total_weight()) as f32;
    let roll = |name: &str, propagation: Propagation<'_>, starts: &[f32]| {
        let name = format!("{index}-{name}");
        if let Some(saved) = run.load(&name)? {
            return saved.read(Returns::restore);
        }
        let mut returns =
            rollout(device, model, &plain, propagation, starts, stream.child("transitions"), run)?;
        returns.values.iter_mut().for_each(|r| *r = r.min(largest));
        run.save(&name, || Ok(returns.stored()))?;
        Ok::<_, Error>(returns)
    };

    let mut of_ds: Option<Returns> = None; // CA is held against DS
    let mut neutral_returns = || once(&mut of_ds, || roll("ds", Propagation::Moments, &starts));
    // The worst episodes are those that are so without an adversary: that is known before anything is replayed.
    let tail = |share: f64| {
        let returns = neutral_returns()?.values;
        Ok::<_, Error>(Tail::of(returns.into_iter().map(f64::from), share))
    };
    let setting = Setting { tail: config.risk.map(tail).transpose()?, ..plain };
    let counted = |returns: &Returns| returns.valued(setting.tail);
    let least = valued(setting.tail, least_return(&plain));
    let floor = valued(setting.tail, plain.floor());
    // What a bound pays for starts that are those of the log, and how its returns spread.
    let pay = |estimate: Estimate, starts: &[f32], returns: &Returns| {
        let risk = Some(Risk::of(returns, threshold, least_return(&plain)));
        let estimate = Estimate { risk, ..estimate };
        match budget.starts() {
            Some(delta) => estimate.paying_for_starts((data, starts, delta), &counted(returns)),
            None => estimate,
        }
    };
    let members = model.members();
    let mut each_member: Option<Returns> = None; // DAinf and TSinf look at the same trajectories
    // Beyond a number that is enough, each particle has its share of them alone.
    let of_each = (rollouts / members).max(ENOUGH_OF_EACH).next_multiple_of(model.folds());
    let starts_of_each = &draw_starts(of_each.min(rollouts))?;
    let mut each =
        || once(&mut each_member, || roll("particles", Propagation::EachMember, starts_of_each));
    let mut bounds =
        Bounds { estimates: Vec::new(), set: None, search: None, search_members: None, why: None };
    let mut explanation = Explanation { wanted: explain, returns: Vec::new(), adversary: None };
    for method in config.methods_for(model) {
        let estimate = match method {
            Method::Ca => {
                let (mut set, (adversary, report)) = device.run(|| {
                    worst_shifts(problem, reward, &World::new(device, model, setting), run)
                })?;
                let returns = roll("ca", Propagation::Shifted(&adversary), &starts)?;
                let mut neutral = None;
                if let Some(shown) = set.trajectory.take() {
                    let without = mean_return(&counted(&neutral_returns()?)).value;
                    neutral = Some(without);
                    let taken = without - mean_return(&counted(&returns)).value;
                    set.trajectory = Some(shown.after_taking(taken));
                }
                let estimate = adversarial(method, &counted(&returns), (budget, floor), &report);
                let estimate = pay(estimate.shown_by(set.trajectory.as_ref()), &starts, &returns);
                let estimate = Estimate { neutral, ..estimate };
                (bounds.set, bounds.search) = (Some(set), Some(report));
                explanation.keep(method, &returns, Some(Adversary::Shift(adversary)));
                estimate
            }
            Method::Da1 => {
                let name = format!("{index}-search-da1");
                let (adversary, report) = device.run(|| {
                    let world = World::new(device, model, setting);
                    let stream = stream.child("discrete adversary");
                    search_members(&world, &config.search, data, stream, (run, &name))
                })?;
                let greedy = Chooser { adversary: &adversary, exploration: 0.0 };
                let returns = roll("da1", Propagation::Chosen(greedy), &starts)?;
                let estimate = adversarial(method, &counted(&returns), (budget, floor), &report);
                let estimate = pay(estimate, &starts, &returns);
                bounds.search_members = Some(report);
                explanation.keep(method, &returns, Some(Adversary::Member(adversary)));
                estimate
            }
            Method::DaInf => {
                let estimate = dainf(&counted(&each()?), members, (budget, floor));
                let worst = estimate
                    .particles
                    .iter()
                    .position(|&value| value == estimate.value)
                    .unwrap_or(0);
                let constant = Adversary::Member(MemberAdversary::constant(device, model, worst)?);
                let returns = each()?.of_member(worst, members);
                explanation.keep(method, &returns, Some(constant));
                pay(estimate, starts_of_each, &returns)
            }
            Method::Ds | Method::Ts1 | Method::TsInf | Method::Mean => {
                let returns = match method {
                    Method::TsInf => each()?.one_member_each(members),
                    Method::Ds => neutral_returns()?,
                    Method::Ts1 => roll("ts1", Propagation::DrawEveryStep, &starts)?,
                    _ => roll("mean", Propagation::Mean, &starts)?,
                };
                explanation.keep(method, &returns, None);
                neutral(method, &counted(&returns))
            }
        };
        bounds.estimates.push(estimate.above(least).accepting(config.accept_extrapolation));
    }
    if explain {
        bounds.why =
            Some(explanation.why(problem, setting, &starts, stream.child("transitions"), run)?);
    }
    Ok(bounds)
}

/// The least return that is known of: the worst reward at every step, or nothing more after an episode has ended.
fn least_return(setting: &Setting<'_>) -> f64 {
    let floor = setting.floor();
    if setting.task.termination.is_some() { floor.min(0.0) } else { floor }
}

/// What was rolled out before, or is now.
fn once(kept: &mut Option<Returns>, roll: impl FnOnce() -> Result<Returns>) -> Result<Returns> {
    match kept {
        Some(returns) => Ok(returns.clone()),
        None => Ok(kept.insert(roll()?).clone()),
    }
}

/// The search in the largest set is this many times as short as the one that counts.
const WIDEST_SHARE: usize = 2;

/// CA's confidence set, and the worst that an adversary finds in it.
///
/// With β by trajectories the worst of the largest set comes first. Replayed on held-out episodes in ever smaller sets it
/// tells how small the set may be, and in that set the search goes on from it.
fn worst_shifts(
    problem: &Problem<'_>,
    &Reward { index, least_beta, budget, leaves_data, .. }: &Reward<'_>,
    world: &World<'_>,
    run: &Run<'_>,
) -> Result<(SetReport, (ShiftAdversary, SearchReport))> {
    let Problem { device, data, model, config, .. } = *problem;
    let stream = Stream::new(config.seed).child("rollouts").child("adversary");
    let name = format!("{index}-search-ca");
    let search = |set: &ConfidenceSet, known: Option<&ShiftAdversary>| {
        let settings = (&config.search, data);
        run.report("adversary", 0, 1, ""); // its first figures take a while
        let found = search_shifts(world, set, known, settings, stream, (run, &name))?;
        if found.1.converged {
            return Ok::<_, Error>(found);
        }
        // Still falling: it goes on from there, once.
        let (again, stream) = (format!("{name}-again"), stream.child("again"));
        search_shifts(world, set, Some(&found.0), settings, stream, (run, &again))
    };
    let delta = budget.model();
    if config.beta != Beta::Trajectory {
        let (set, report) = confidence_set(device, model, data, config.beta, delta)?;
        return Ok((report, search(&set, None)?));
    }
    let largest = least_beta.max(LARGEST_BETA);
    let widest = ConfidenceSet::new(model, largest)?;
    // A weaker adversary only asks for a larger set, so a short search is enough.
    let short = SearchConfig {
        iterations: config.search.iterations.div_ceil(WIDEST_SHARE),
        ..config.search.clone()
    };
    let widest_name = format!("{name}-widest");
    run.report("adversary", 0, 1, "");
    let (known, _) =
        search_shifts(world, &widest, None, (&short, data), stream, (run, &widest_name))?;
    let stream = stream.child("replay");
    let mut shown = replay(world, data, (&known, largest), delta, stream, run)?;
    if leaves_data {
        shown = shown.elsewhere();
    }
    let (set, report) = match shown.evidence {
        Evidence::Supported => {
            shown.beta = shown.beta.max(least_beta);
            replayed_set(device, model, data, shown)?
        }
        _ => large_set(device, model, data, shown, delta)?,
    };
    Ok((report, search(&set, Some(&known))?))
}

/// The adversary of a conservative method.
enum Adversary {
    Shift(ShiftAdversary),
    Member(MemberAdversary),
}

/// What is kept of the methods to explain the bound.
struct Explanation {
    wanted: bool,
    returns: Vec<(Method, Vec<f32>)>,
    /// Of the first conservative method.
    adversary: Option<(Method, Adversary)>,
}

impl Explanation {
    fn keep(&mut self, method: Method, returns: &Returns, adversary: Option<Adversary>) {
        if self.wanted {
            self.returns.push((method, Distributions::keep(returns)));
            self.adversary =
                self.adversary.take().or(adversary.map(|adversary| (method, adversary)));
        }
    }

    fn why(
        &self,
        problem: &Problem<'_>,
        setting: Setting<'_>,
        starts: &[f32],
        stream: Stream,
        run: &Run<'_>,
    ) -> Result<Why> {
        let Problem { device, data, model, .. } = *problem;
        let follow = |(method, adversary): &(Method, Adversary)| {
            let (propagation, shifts) = match adversary {
                Adversary::Shift(adversary) => (Propagation::Shifted(adversary), Some(adversary)),
                Adversary::Member(adversary) => {
                    (Propagation::Chosen(Chooser { adversary, exploration: 0.0 }), None)
                }
            };
            let followed =
                Followed { method: *method, propagation, continuous: shifts, starts, stream, run };
            trace(device, data, model, setting, &followed)
        };
        Ok(Why {
            trace: self.adversary.as_ref().map(follow).transpose()?,
            distributions: Distributions::of(&self.returns),
            reliability: reliability(device, data, model)?,
        })
    }
}
