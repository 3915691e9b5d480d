//! What was asked, of which data and model: the part of an answer that a ranking has, too.

use crate::Result;
use crate::adversary::SearchConfig;
use crate::data::{Logs, digest};
use crate::dynamics::{Layout, ModelReport};
use crate::evaluate::{MONTE_CARLO_SHARE, Problem};
use crate::policy::Policy;
use crate::task::{ResolvedTask, TaskSummary};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The layout of all JSON output.
pub const SCHEMA: &str = "hambo/1";

/// What was asked, of which data, with which settings.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// [`SCHEMA`]
    pub schema: &'static str,
    /// Version of `hambo`.
    pub version: &'static str,
    /// What computed.
    pub device: String,
    /// Name of the task.
    pub task: String,
    /// Reward, termination and initial states.
    pub declared: TaskSummary,
    /// The logged transitions.
    pub data: DataSummary,
    /// Whether actions were drawn from the policy's own distribution.
    pub stochastic: bool,
    /// Standard deviation of the noise on the policy's actions.
    pub policy_noise: f64,
    /// Steps of a trajectory, T.
    pub horizon: usize,
    /// γ
    pub discount: f64,
    /// Failure probability of all bounds together.
    pub delta: f64,
    /// Share of δ that pays for the Monte-Carlo error.
    pub monte_carlo_share: f64,
    /// The worst share of episodes that bounds, estimates and truth are about (CVaR); none: they are about the mean return.
    pub risk: Option<f64>,
    /// What the bound has to reach.
    pub threshold: Option<f64>,
    /// The model.
    pub model: ModelSummary,
    /// How adversaries were searched for.
    pub search: SearchConfig,
    /// Names of the entries of states and actions.
    pub names: EntryNames,
    /// Further settings.
    pub settings: RunSettings,
    /// The master seed.
    pub seed: u64,
    /// Seconds that all of it took.
    pub seconds: f64,
    /// What was noticed while data and task were read: the first of the warnings.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// How the run is repeated.
    #[serde(skip)]
    pub command: String,
    /// Where the page is.
    #[serde(skip)]
    pub page: Option<PathBuf>,
}

/// The logged transitions in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct DataSummary {
    /// How many there are.
    pub transitions: usize,
    /// In how many episodes.
    pub episodes: usize,
    /// SHA-256 of their files.
    pub sha256: Option<String>,
}

/// What the entries of states and actions are called.
#[derive(Clone, Debug, Serialize)]
pub struct EntryNames {
    /// Those of the state.
    pub state: Vec<String>,
    /// Those of the action.
    pub action: Vec<String>,
}

/// Settings that are nowhere else in an answer, so that the run can be repeated.
#[derive(Clone, Debug, Serialize)]
pub struct RunSettings {
    /// Trajectories of an estimate, L.
    pub rollouts: usize,
    /// The rule for the size of the confidence set.
    pub beta: String,
    /// Settings of the model, by the name of its kind.
    pub model: Value,
}

/// What the model is, and what happened in its fit.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    /// Its kind: `bnn` or `gp`.
    pub kind: &'static str,
    /// What happened in the fit.
    pub fit: ModelReport,
    /// τ per state dimension.
    pub tau: Vec<f32>,
    /// What the coordinates of its states are.
    pub layout: Layout,
}

impl Setup {
    /// What was asked of a problem that was made from these logs for this task.
    pub fn new(problem: &Problem<'_>, task: &ResolvedTask, logs: &Logs) -> Self {
        let Problem { device, data, model, config, .. } = *problem;
        let (fit, [state, action]) = (model.fit_report(), task.task.entry_names());
        Setup {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            device: device.kind(),
            task: task.task.name.clone(),
            declared: task.declared.clone(),
            data: DataSummary {
                transitions: data.len(),
                episodes: data.episodes().len(),
                sha256: logs.sha256.clone(),
            },
            stochastic: false,
            policy_noise: 0.0,
            horizon: config.horizon,
            discount: config.discount,
            delta: config.delta,
            monte_carlo_share: MONTE_CARLO_SHARE,
            risk: config.risk,
            threshold: config.threshold,
            model: ModelSummary {
                kind: fit.kind(),
                fit,
                tau: model.tau(),
                layout: model.layout().clone(),
            },
            search: config.search.clone(),
            names: EntryNames { state, action },
            settings: RunSettings {
                rollouts: config.rollouts,
                beta: config.beta.to_string(),
                model: model.settings(),
            },
            seed: config.seed,
            seconds: 0.0,
            notes: logs.notes.iter().chain(&task.notes).cloned().collect(),
            command: String::new(),
            page: None,
        }
    }

    /// The same for a policy that acts in its own way.
    pub(crate) fn acting_as(self, policy: &Policy) -> Self {
        Setup { stochastic: policy.is_sampling(), policy_noise: policy.noise_std(), ..self }
    }
}

impl EntryNames {
    /// Name of an entry of the state, or of what a learned reward has paid.
    pub fn of_state(&self, dimension: usize) -> &str {
        self.state.get(dimension).map_or("learned reward", String::as_str)
    }

    /// Name of a coordinate of (s, a).
    pub fn of_coordinate(&self, coordinate: usize) -> &str {
        match coordinate.checked_sub(self.state.len()) {
            None => self.of_state(coordinate),
            Some(action) => self.action.get(action).map_or("action", String::as_str),
        }
    }
}

/// The SHA-256 of a policy's file, and of the normalizer beside it; none for a built-in one.
pub(super) fn policy_digest(policy: &Policy) -> Result<Option<String>> {
    let path = Path::new(&policy.spec);
    if !policy.is_from_file() {
        return Ok(None);
    }
    let files = [Some(path), policy.normalizer_file()];
    digest(&files.into_iter().flatten().map(Path::to_owned).collect::<Vec<_>>()).map(Some)
}
