//! What evaluations and rankings have in common: all that was given, read and checked before anything is computed.

use super::resume::{UNFINISHED, actions_digest, identity, save_every};
use super::truth::{Simulator, simulator};
use super::{as_asked, device, host_device, policy};
use crate::args::{Adversary, Data, Evaluate, Model, Scale};
use crate::folder::Folder;
use crate::given::{self, Subject};
use crate::output::command_line;
use crate::progress::Bars;
use hambo::adversary::{Optimizers, SearchConfig};
use hambo::confidence::Beta;
use hambo::confidence::theory::TheoryInputs;
use hambo::data::{ColumnNames, Logs, ReadOptions};
use hambo::dynamics::{BnnConfig, GpConfig, ModelConfig};
use hambo::evaluate::{EvaluationConfig, Evaluator, Method, Truth};
use hambo::report::Setup;
use hambo::run::Run;
use hambo::run::checkpoint::Checkpoints;
use hambo::task::{ResolvedTask, Task, TaskSpec};
use hambo::{Device, Error, Policy, Result};
use hambo_envs::EnvName;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Instant;

/// All that was given.
pub struct Prepared<'a> {
    pub arguments: &'a Evaluate,
    pub config: EvaluationConfig,
    pub policies: Vec<Policy>,
    pub out: Option<Folder>,
    pub bars: Bars,
    pub checkpoints: Option<Checkpoints>,
    simulator: Option<Simulator>,
    device: Device,
    /// How the run is repeated, where another program says it.
    command: Option<String>,
}

/// What the evaluator takes: the logs, and the task for them.
pub type Inputs = (Logs, ResolvedTask);

impl<'a> Prepared<'a> {
    /// Reads and checks it.
    pub fn new(
        arguments: &'a Evaluate,
        explain: bool,
        given: Option<given::Inputs>,
    ) -> Result<(Self, Inputs)> {
        Prepared::for_work(arguments, explain, given, &[])
    }

    /// The same for work that more decides about than the flags of an evaluation: `also`, by name.
    pub fn for_work(
        arguments: &'a Evaluate,
        explain: bool,
        mut given: Option<given::Inputs>,
        also: &[(&str, String)],
    ) -> Result<(Self, Inputs)> {
        let mut config = config(arguments, explain)?;
        config.validate()?;
        let mut spec = task_spec(arguments)?;
        if let Some(env) = given.as_mut().and_then(|given| given.environment.take()) {
            spec.name = Some(env.name);
            spec.actions = env.actions.map(Some);
            spec.initial = Some(env.initial);
        }
        if let Some(given) = &mut given {
            spec.functions = std::mem::take(&mut given.functions);
        }
        if spec.constraints.iter().any(|c| c.threshold.is_some()) {
            config.check_threshold_method()?;
        }
        let env = spec.env.as_deref().map(|name| name.parse::<EnvName>()?.task()).transpose()?;
        let subjects = given.as_mut().map(|given| std::mem::take(&mut given.policies));
        let policies = subjects_of(arguments, subjects.unwrap_or_default())?;
        let simulation = given.as_mut().and_then(|given| given.simulation.take());
        let simulator = simulator(arguments.truth_episodes, spec.env.as_deref(), simulation)?;
        for policy in policies.iter().filter_map(|p| p.as_ref().ok()) {
            env.as_ref().map_or(Ok(()), |env| policy.check_task(env))?;
        }
        let device = match &config.model {
            ModelConfig::Bnn(_) => device(&arguments.machine)?,
            ModelConfig::Gp(_) => host_device(&arguments.machine)?,
        };
        if arguments.rollouts.is_none() && !device.is_host() {
            config.rollouts = ROLLOUTS_ON_GPU;
        }
        if let (ModelConfig::Bnn(config), None) = (&config.model, &arguments.fitted) {
            config.announce(&device);
        }
        // A reward that speaks of the logged one needs it, which the task says once the log is there.
        let said = spec.reward.is_some() || spec.functions.reward.is_some();
        let without_rewards = said || env.is_some();
        let options =
            ReadOptions { without_rewards, ..read_options(&arguments.data, arguments.seed)? };
        // Before anything is read that another process may be writing.
        let out = arguments.out.as_deref().map(Folder::prepare).transpose()?;
        out.as_ref().filter(|_| !arguments.force).map_or(Ok(()), Folder::check_unfinished)?;
        let logs = match given.as_mut().and_then(|given| given.logs.take()) {
            Some(logs) => logs,
            None => {
                // Who calls from a program of their own shows progress themselves.
                let bars = given.is_none().then(Bars::default);
                bars.iter().for_each(|bars| bars.begin("reading the logs"));
                Logs::read_with(&arguments.data.paths, &options)?
            }
        };
        let data = &logs.transitions;
        env.as_ref().map_or(Ok(()), |env| env.check_data(data)).map_err(|e| logs.name_file(e))?;
        let task = resolve(arguments, &spec, env, &logs)?;
        let sizes = [data.state_dim(), data.action_dim()];
        let made = |p: Read| p.or_else(|function| as_asked(function(sizes), &arguments.acting));
        let policies: Vec<Policy> = policies.into_iter().map(made).collect::<Result<_>>()?;
        policies.iter().try_for_each(|policy| policy.check_task(&task.task))?;
        if given.is_some() {
            // A function that fails does so here, before minutes of work.
            policies.iter().try_for_each(|p| actions_digest(&device, data, p).map(drop))?;
            if task.task.calls_functions() {
                task.task.logged(data).map_err(|e| logs.name_file(e))?;
            }
        }
        let checkpoints = match &arguments.out {
            Some(folder) => {
                let program = given.as_ref().map(|given| given.program.as_path());
                let computed = (&device, &logs, program);
                let mut identity = identity(arguments, &config, &task, &policies, computed)?;
                identity
                    .extend(also.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
                Some(Checkpoints::open(&folder.join(UNFINISHED), identity, save_every(arguments)?)?)
            }
            None => None,
        };
        let resumed = checkpoints.as_ref().is_some_and(Checkpoints::resumes);
        let (watcher, command) = given.map(|given| (given.observer, given.command)).unzip();
        let bars = Bars::logging(out.as_ref(), resumed).watched(watcher);
        if let (true, Some(out)) = (resumed, &arguments.out) {
            bars.tell(&format!("going on with what is kept in {}", out.join(UNFINISHED).display()));
        }
        let prepared = Prepared {
            arguments,
            config,
            policies,
            out,
            bars,
            checkpoints,
            simulator,
            device,
            command,
        };
        Ok((prepared, (logs, task)))
    }

    /// Learns the model, or takes the one that was named.
    pub fn evaluator(&self, (logs, task): Inputs) -> Result<Evaluator<'_>> {
        let run = Run::new(&self.bars, self.checkpoints.as_ref());
        let builder = Evaluator::builder(logs, task, self.config.clone());
        let builder = builder.device(self.device.clone()).run(run);
        let Some(folder) = &self.arguments.fitted else { return builder.fit() };
        let evaluator = builder.load(folder)?;
        let kind = if evaluator.model().as_gp().is_some() { Model::Gp } else { Model::Bnn };
        match self.arguments.model {
            Some(asked) if asked != kind => Err(Error::file(
                folder,
                "the fitted model is of another kind than --model asks for: leave --model out, or fit anew",
            )),
            _ => Ok(evaluator),
        }
    }

    /// The true returns of all policies, if they are to be simulated.
    pub fn truths(&self) -> Result<Vec<Truth>> {
        self.policies.iter().filter_map(|policy| self.truth_of(policy).transpose()).collect()
    }

    /// The true return of a policy, if it is to be simulated.
    pub fn truth_of(&self, policy: &Policy) -> Result<Option<Truth>> {
        let truth = |simulator: &Simulator| {
            simulator.truth(&self.arguments.machine, policy, &self.config, &self.bars)
        };
        self.simulator.as_ref().map(truth).transpose()
    }

    /// Whether another program asks.
    pub fn is_embedded(&self) -> bool {
        self.command.is_some()
    }

    /// Says how the answer can be had again, and where its page is.
    pub fn sign(&self, setup: &mut Setup, start: Instant) {
        setup.command = self.command.clone().unwrap_or_else(command_line);
        setup.page = self.arguments.out.as_ref().map(|out| out.join("report.html"));
        setup.seconds = start.elapsed().as_secs_f64();
    }
}

/// A policy, or a function that becomes one when the sizes of states and actions are known.
type Read = std::result::Result<Policy, Box<dyn Fn([usize; 2]) -> Policy + Send>>;

/// The policies that the flags name, but for those that are given.
fn subjects_of(arguments: &Evaluate, subjects: Vec<Subject>) -> Result<Vec<Read>> {
    let mut subjects = subjects.into_iter();
    let read = |spec: &String| {
        Ok(match subjects.next().unwrap_or(Subject::Named) {
            Subject::Named => Ok(policy(spec, &arguments.acting)?),
            Subject::Ready(policy) => Ok(as_asked(*policy, &arguments.acting)?),
            Subject::Function(function) => Err(function),
        })
    };
    arguments.policy.iter().map(read).collect()
}

/// Trajectories of an estimate; on a GPU so many that their noise is hardly a part of the answer.
const ROLLOUTS: usize = 10_000;
const ROLLOUTS_ON_GPU: usize = 100_000;

/// Whether the settings can be, as far as that is known without the logs.
pub fn check_evaluation(arguments: &Evaluate) -> Result<()> {
    config(arguments, true)?.validate()?;
    task_spec(arguments)?;
    read_options(&arguments.data, arguments.seed)?;
    save_every(arguments)?;
    Ok(())
}

/// What the flags ask.
pub fn evaluation_config(arguments: &Evaluate) -> Result<EvaluationConfig> {
    config(arguments, true)
}

fn config(arguments: &Evaluate, explain: bool) -> Result<EvaluationConfig> {
    Ok(EvaluationConfig {
        horizon: arguments.horizon,
        discount: arguments.discount,
        methods: arguments.method.as_deref().map_or(Ok(Vec::new()), Method::parse_list)?,
        delta: arguments.delta,
        risk: arguments.risk,
        threshold: arguments.threshold,
        rollouts: arguments.rollouts.unwrap_or(ROLLOUTS),
        seed: arguments.seed,
        model: model_config(arguments)?,
        beta: Beta::parse(&arguments.beta, arguments.gp.norm_bound)?,
        search: search_config(arguments)?,
        accept_extrapolation: arguments.accept.is_some(),
        learned_from_logs: false,
        allow_constant: arguments.allow_constant,
        explain,
        theory: TheoryInputs {
            norm_bound: arguments.gp.norm_bound,
            lipschitz: arguments.gp.lipschitz,
        },
    })
}

/// The task file, and the flags that come before it.
fn task_spec(arguments: &Evaluate) -> Result<TaskSpec> {
    let flags = &arguments.task;
    let mut spec = match &flags.file {
        Some(path) => TaskSpec::read(path)?,
        None => TaskSpec { env: arguments.env.clone(), ..TaskSpec::default() },
    };
    spec.reward = flags.reward.clone().or(spec.reward);
    spec.termination = flags.termination.clone().or(spec.termination);
    spec.angles = flags.angles.clone().unwrap_or(spec.angles);
    spec.worst_reward = flags.worst_reward.or(spec.worst_reward);
    Ok(spec)
}

/// The task for these logs; an error names the task file where there is one.
fn resolve(
    arguments: &Evaluate,
    spec: &TaskSpec,
    env: Option<Task>,
    logs: &Logs,
) -> Result<ResolvedTask> {
    spec.resolve(&logs.transitions, env).map_err(|error| match (&arguments.task.file, error) {
        (_, error @ Error::Data(_)) => logs.name_file(error),
        (Some(path), error) => Error::file(path, error.to_string()),
        (None, error) => error,
    })
}

fn model_config(arguments: &Evaluate) -> Result<ModelConfig> {
    let path = arguments.model_config.as_deref();
    Ok(match arguments.model.unwrap_or(Model::Bnn) {
        Model::Bnn => ModelConfig::Bnn(match path {
            Some(path) => settings(path, "a model", BnnConfig::validate)?,
            None if arguments.scale == Scale::Paper => BnnConfig::paper_scale(),
            None => arguments.effort.networks(),
        }),
        Model::Gp => {
            let config = match path {
                Some(path) => settings(path, "a model", GpConfig::validate)?,
                None => GpConfig::default(),
            };
            let config = GpConfig { subset: arguments.gp.gp_rows.or(config.subset), ..config };
            config.validate()?;
            ModelConfig::Gp(config)
        }
    })
}

fn search_config(arguments: &Evaluate) -> Result<SearchConfig> {
    if let Some(path) = &arguments.search_config {
        return settings(path, "a search", SearchConfig::validate);
    }
    let config = match arguments.scale {
        Scale::Quick => arguments.effort.search(),
        Scale::Paper => SearchConfig::paper_scale(),
    };
    let optimizers = arguments.adversary.map_or(config.optimizers, |adversary| match adversary {
        Adversary::Portfolio => Optimizers::Portfolio,
        Adversary::Sac => Optimizers::Sac,
        Adversary::Pathwise => Optimizers::Pathwise,
    });
    Ok(SearchConfig { optimizers, ..config })
}

/// Settings from a JSON file.
pub(super) fn settings<T: DeserializeOwned>(
    path: &Path,
    what: &str,
    validate: fn(&T) -> Result<()>,
) -> Result<T> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
    let config: T = serde_json::from_slice(&bytes)
        .map_err(|e| Error::file(path, format!("not settings of {what} in JSON: {e}")))?;
    validate(&config).map_err(|e| Error::file(path, e.to_string()))?;
    Ok(config)
}

fn read_options(data: &Data, seed: u64) -> Result<ReadOptions> {
    let subsample = data.subsample.as_deref().map(str::parse).transpose()?;
    Ok(ReadOptions {
        columns: ColumnNames::parse(&data.columns.columns)?,
        subsample,
        seed,
        ..ReadOptions::default()
    })
}
