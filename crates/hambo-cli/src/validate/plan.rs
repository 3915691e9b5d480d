//! A suite that was read and checked: all files are there, all names are known, all settings are within their ranges.

use hambo::adversary::SearchConfig;
use hambo::confidence::Beta;
use hambo::dynamics::BnnConfig;
use hambo::evaluate::{EvaluationConfig, Method, Truth};
use hambo::task::{Task, TaskSpec};
use hambo::{Policy, Result};
use hambo_envs::{Behavior, EnvName, EnvSpec};
use std::path::PathBuf;

/// All that is asked.
pub struct Plan {
    pub name: String,
    pub about: String,
    pub variants: Vec<Variant>,
    pub worlds: Vec<World>,
    /// Episodes that a truth is simulated with at first, and at the most.
    pub episodes: [usize; 2],
}

/// A rule for β, and what it is asked.
#[derive(Clone)]
pub struct Variant {
    pub name: String,
    pub beta: Beta,
    pub delta: f64,
    pub methods: Vec<Method>,
}

/// An environment, or a task with logs.
pub struct World {
    pub name: String,
    pub env: Option<EnvSpec>,
    pub spec: TaskSpec,
    pub policies: Vec<Candidate>,
    pub horizons: Vec<usize>,
    pub sizes: Vec<usize>,
    pub seeds: Vec<u64>,
    pub data: Vec<Recipe>,
    pub model: BnnConfig,
    pub search: SearchConfig,
    pub rollouts: Option<usize>,
    /// True returns that were given: policy, horizon, truth.
    pub truths: Vec<(usize, usize, Truth)>,
}

/// A policy that is evaluated.
pub struct Candidate {
    /// Short, for tables.
    pub name: String,
    pub policy: Policy,
}

/// How data are come by.
pub struct Recipe {
    pub name: String,
    pub source: Source,
}

/// Where they are from.
pub enum Source {
    Collected {
        /// Policies by turns; none is the evaluated one.
        behaviors: Vec<Option<Policy>>,
        noise: Vec<f64>,
        stochastic: bool,
        horizon: usize,
    },
    Files(Vec<PathBuf>),
}

impl Recipe {
    /// Whether the evaluated policy is among the behaviors: then each has data of its own.
    pub fn is_own(&self) -> bool {
        let Source::Collected { behaviors, .. } = &self.source else { return false };
        behaviors.iter().any(Option::is_none)
    }
}

impl Source {
    /// The behaviors with the evaluated policy in its place, each with every noise, as `hambo collect` has them.
    pub fn behaviors(&self, evaluated: Option<&Policy>) -> Result<Vec<Behavior>> {
        let Source::Collected { behaviors, noise, stochastic, .. } = self else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for policy in behaviors.iter().filter_map(|b| b.as_ref().or(evaluated)) {
            let policy = if *stochastic { policy.clone().sampling()? } else { policy.clone() };
            found.extend(noise.iter().map(|&noise| Behavior { policy: policy.clone(), noise }));
        }
        Ok(found)
    }
}

impl World {
    /// What is asked of a policy.
    pub fn question(
        &self,
        variant: &Variant,
        horizon: usize,
        seed: u64,
        is_host: bool,
    ) -> EvaluationConfig {
        EvaluationConfig {
            horizon,
            methods: variant.methods.clone(),
            delta: variant.delta,
            rollouts: self.rollouts.unwrap_or(if is_host { 10_000 } else { 100_000 }),
            seed,
            model: hambo::dynamics::ModelConfig::Bnn(self.model.clone()),
            beta: variant.beta,
            search: self.search.clone(),
            ..EvaluationConfig::default()
        }
    }

    /// The task of the environment, if it is a built-in one.
    pub fn env_task(&self) -> Result<Option<Task>> {
        match (&self.env, &self.spec.env) {
            (Some(env), _) => Ok(Some(env.task.clone())),
            (None, Some(name)) => name.parse::<EnvName>()?.task().map(Some),
            (None, None) => Ok(None),
        }
    }
}
