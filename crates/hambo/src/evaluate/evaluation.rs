//! A policy's return in a learned model, bounded by every method asked for.

use super::bounds::{Bounds, Reward, Why, bound};
use super::budget::Budget;
use super::estimate::{Estimate, Method};
use super::logged::LoggedReturn;
use super::notes::by_rank;
use super::noticed;
use super::problem::Problem;
use super::warning::Warning;
use crate::Result;
use crate::adversary::SearchReport;
use crate::confidence::theory::{self, TheoryReport};
use crate::confidence::{Beta, Evidence, SetReport};
use crate::explain::support::{SupportReport, support};
use crate::policy::Policy;
use crate::rollout::Setting;
use crate::run::Run;
use crate::task::{Constraint, Initial, Task};
use hambo_engine::rng::Stream;
use serde::Serialize;

/// A policy goes where the logs do not if at more than this share of its steps most of its states are less known than 99 %
/// of held-out data. (Of fifty steps one is so by chance.)
const ELSEWHERE: f64 = 0.1;

/// What was found of a policy.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// The confidence set that CA's adversary chose from.
    pub set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub search: Option<SearchReport>,
    /// How DA1's adversary was searched for.
    pub search_members: Option<SearchReport>,
    /// Bounds of the constraints.
    pub constraints: Vec<ConstraintBound>,
    /// The failure probability of each bound: all hold together but for a share δ.
    pub delta_each: f64,
    /// What the theory says, where the model is a Gaussian process.
    pub theory: Option<TheoryReport>,
    /// How far the policy leaves the data.
    pub support: SupportReport,
    /// What the logged behavior earned.
    pub logged: LoggedReturn,
    /// What the reader of the numbers must know, what matters most first.
    pub warnings: Vec<Warning>,
    /// Where the bound comes from, if [`EvaluationConfig::explain`](super::EvaluationConfig::explain) asked for it.
    pub why: Option<Why>,
}

/// The bound of a constraint.
#[derive(Clone, Debug, Serialize)]
pub struct ConstraintBound {
    /// Its name.
    pub name: String,
    /// Its reward.
    pub expression: String,
    /// One per method, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// The bound of the method asked for first.
    pub lower_bound: Option<f64>,
    /// What the bound has to reach.
    pub threshold: Option<f64>,
    /// Whether it does.
    pub met: Option<bool>,
    /// The confidence set that CA's adversary chose from.
    pub set: Option<SetReport>,
    /// How CA's adversary was searched for.
    pub search: Option<SearchReport>,
    /// How DA1's adversary was searched for.
    pub search_members: Option<SearchReport>,
}

impl Evaluation {
    /// Whether the method asked for first shows that the return reaches a threshold.
    pub fn meets(&self, threshold: f64) -> bool {
        self.estimates.first().is_some_and(|estimate| estimate.meets(threshold))
    }

    /// What the data say about the bound of the method asked for first.
    pub fn evidence(&self) -> Option<Evidence> {
        self.estimates.first().and_then(|e| e.evidence)
    }

    /// The bound of the method asked for first; none if that method is neutral.
    pub fn lower_bound(&self) -> Option<f64> {
        self.estimates.first().and_then(|e| e.lower_bound)
    }
}

impl Problem<'_> {
    /// Rolls the policy out in the model by every method asked for.
    pub fn evaluate(&self, policy: &Policy, run: &Run<'_>) -> Result<Evaluation> {
        self.evaluate_within(Budget::new(self.config.delta)?, policy, run)
    }

    /// What trajectories of a policy answer, for one of the rewards, and the largest size of a reward, logged or declared.
    pub(super) fn setting<'b>(
        &'b self,
        task: &'b Task,
        policy: &'b Policy,
    ) -> Result<(Setting<'b>, f32)> {
        let [worst_reward, best] = task.reward_range(self.data)?;
        let (horizon, discount) = (self.config.horizon, self.config.discount);
        let setting = Setting { task, policy, horizon, discount, worst_reward, tail: None };
        Ok((setting, worst_reward.abs().max(best.abs())))
    }

    /// The same with a budget of its own, as for one of several policies.
    pub(super) fn evaluate_within(
        &self,
        budget: Budget,
        policy: &Policy,
        run: &Run<'_>,
    ) -> Result<Evaluation> {
        let Problem { device, data, model, task, constraints, config } = *self;
        self.check(policy)?;
        let logged_starts = matches!(task.initial, Initial::EpisodeStarts);
        let budget = budget.shared_by(1 + constraints.len()).with_logged_starts(logged_starts);
        let (setting, _) = self.setting(task, policy)?;
        let stream = Stream::new(config.seed).child("support");
        let starts = task.initial.sample(config.rollouts, data, stream.child("initial states"))?;
        run.report("what the logs cover", 0, 1, "");
        let support = support(device, data, model, setting, &starts, stream)?;
        let leaves_data = config.learned_from_logs || support.steps_outside() > ELSEWHERE;
        let threshold = config.threshold;
        let own = Reward { task, index: 0, least_beta: 0.0, budget, leaves_data, threshold };
        let bounds = bound(self, &own, policy, config.explain, run)?;

        let mut warnings: Vec<Warning> = support
            .leaves_data()
            .map(Warning::LeavesData)
            .into_iter()
            .chain(noticed::of_model(model))
            .collect();
        if config.learned_from_logs {
            warnings.push(Warning::LearnedFromLogs);
        }
        if !model.on_device(device) {
            warnings.push(Warning::ModelOnHost { device: device.name() });
        }
        warnings.extend(bounds.warnings(self, task, policy));
        let mut constraint_bounds = Vec::with_capacity(constraints.len());
        // The set is of the dynamics: what one reward asks for, others may need where the log does not show it.
        let least_beta = match (config.beta, &bounds.set) {
            (Beta::Trajectory, Some(set)) => set.beta.unwrap_or(0.0),
            _ => 0.0,
        };
        for (i, Constraint { task, threshold }) in constraints.iter().enumerate() {
            let (index, threshold) = (i + 1, *threshold);
            let reward = Reward { task, index, least_beta, budget, leaves_data, threshold };
            let bounds = bound(self, &reward, policy, false, run)?;
            let own = bounds.warnings(self, task, policy).into_iter();
            warnings.extend(own.map(|warning| warning.about(&task.name)));
            constraint_bounds.push(constraint_bound(task, threshold, bounds));
        }
        if bounds.estimates.iter().any(|e| e.method == Method::DaInf) {
            warnings.push(Warning::DaInf);
        }
        Ok(Evaluation {
            estimates: bounds.estimates,
            set: bounds.set,
            search: bounds.search,
            search_members: bounds.search_members,
            constraints: constraint_bounds,
            delta_each: budget.total(),
            theory: model.as_gp().map(|gp| {
                theory::report(
                    gp,
                    config.theory,
                    budget.model(),
                    config.horizon,
                    support.mean_deviation,
                )
            }),
            support,
            logged: LoggedReturn::of(task, data, config.horizon, config.discount)?,
            warnings: by_rank(warnings),
            why: bounds.why,
        })
    }
}

fn constraint_bound(task: &Task, threshold: Option<f64>, bounds: Bounds) -> ConstraintBound {
    let first = bounds.estimates.first();
    ConstraintBound {
        name: task.name.clone(),
        expression: task.reward.to_string(),
        lower_bound: first.and_then(|e| e.lower_bound),
        threshold,
        met: threshold.map(|threshold| first.is_some_and(|e| e.meets(threshold))),
        estimates: bounds.estimates,
        set: bounds.set,
        search: bounds.search,
        search_members: bounds.search_members,
    }
}
