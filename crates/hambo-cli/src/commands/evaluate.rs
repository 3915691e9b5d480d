//! `hambo evaluate`

use super::describe::{Told, command_line};
use super::truth::{Simulator, simulator};
use super::unfinished::{UNFINISHED, identity, save_every};
use super::{Outcome, device, host_device, policy};
use crate::arguments::{Adversary, Data, Evaluate, Model, Scale};
use crate::folder::Folder;
use crate::output::{Bars, Kept, number, print, table};
use hambo::adversary::{Beta, Optimisers, SearchConfig};
use hambo::checkpoint::Checkpoints;
use hambo::compute::Device;
use hambo::curves::{Basis, curves};
use hambo::data::{ColumnNames, Loaded, ReadOptions, Transitions, digest, read_all};
use hambo::dynamics::{self, BnnConfig, Dynamics, GpConfig};
use hambo::envs::EnvName;
use hambo::estimate::{Estimate, Method};
use hambo::evaluate::{Evaluation, Question, evaluate_all, fit, fit_gp};
use hambo::policy::Policy;
use hambo::progress::Progress;
use hambo::report::{Page, headline, markdown};
use hambo::task::{Asked, Declaration, Task};
use hambo::theory::{Known, TheoryReport};
use hambo::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Everything up to the first trajectory.
pub(super) struct Prepared {
    pub question: Question,
    pub declaration: Declaration,
    pub policies: Vec<Policy>,
    pub simulator: Option<Simulator>,
    pub config: Settings,
    pub device: Device,
    pub loaded: Loaded,
    pub sha256: String,
    pub asked: Asked,
    pub out: Option<Folder>,
    pub progress: Kept,
    pub model: Box<dyn Dynamics>,
}

/// Reads and checks all that was given, then learns the model.
pub(super) fn prepare(arguments: &Evaluate) -> Result<Prepared> {
    let mut question = Question {
        horizon: arguments.horizon,
        discount: arguments.discount,
        methods: arguments.method.as_deref().map_or(Ok(Method::USUAL.to_vec()), Method::parse_list)?,
        delta: arguments.delta,
        rollouts: arguments.rollouts,
        seed: arguments.seed,
        allow_constant: arguments.allow_constant,
        explain: false,
        beta: beta(arguments)?,
        known: Known { norm_bound: arguments.gp.norm_bound, lipschitz: arguments.gp.lipschitz },
        search: search_config(arguments)?,
    };
    question.validate()?;
    let declaration = declaration(arguments)?;
    check_thresholds(arguments.threshold, &declaration, &question)?;
    let env = declaration.env.as_deref().map(|name| name.parse::<EnvName>()?.task()).transpose()?;
    let read = |spec: &String| policy(spec, &arguments.acting);
    let policies: Vec<Policy> = arguments.policy.iter().map(read).collect::<Result<_>>()?;
    let simulator = simulator(arguments.truth_episodes, declaration.env.as_deref())?;
    for policy in &policies {
        env.as_ref().map_or(Ok(()), |env| policy.check_task(env))?;
    }
    let mut config = Settings::of(arguments)?;
    let device = match &config {
        Settings::Bnn(_) => device(&arguments.machine)?,
        Settings::Gp(_) => host_device(&arguments.machine)?,
    };
    if let (Settings::Bnn(config), None) = (&config, &arguments.fitted) {
        config.announce(&device);
    }
    let options = read_options(&arguments.data, arguments.seed)?;
    let loaded = read_all(&arguments.data.paths, &options)?;
    let data = &loaded.transitions;
    env.as_ref().map_or(Ok(()), |env| env.check_data(data)).map_err(|e| about(&arguments.data, e))?;
    let asked = resolve(arguments, &declaration, env, data)?;
    policies.iter().try_for_each(|policy| policy.check_task(&asked.task))?;
    let tasks = || asked.constraints.iter().map(|c| &c.task).chain([&asked.task]);
    let learns_reward = tasks().any(|task| task.learns_reward());
    config.extend(learns_reward, &asked.angles);
    let sha256 = digest(&arguments.data.paths)?;
    let checkpoints = match &arguments.out {
        Some(folder) => {
            let log = (&device, data, sha256.as_str());
            let identity = identity(arguments, &question, &config, &asked, &policies, log)?;
            Some(Checkpoints::open(&folder.join(UNFINISHED), identity, save_every(arguments)?)?)
        }
        None => None,
    };
    let out = arguments.out.as_deref().map(Folder::prepare).transpose()?;

    let progress = Kept { bars: Bars::logging(out.as_ref()), checkpoints };
    let model = match &arguments.fitted {
        Some(folder) => fitted(&device, folder, learns_reward, &config, arguments.model)?,
        None => config.fit(&device, data, &question, &progress).map_err(|e| about(&arguments.data, e))?,
    };
    // What was not asked for by name is what the model can answer.
    if arguments.method.as_deref().is_none_or(|text| text == "all") && !model.has_particles() {
        question.methods.retain(|method| !method.needs_particles());
    }
    Ok(Prepared {
        question,
        declaration,
        policies,
        simulator,
        config,
        device,
        loaded,
        sha256,
        asked,
        out,
        progress,
        model,
    })
}

pub fn run(arguments: &Evaluate) -> Outcome {
    let start = Instant::now();
    if arguments.policy.len() > 1 {
        let several = arguments.policy.join(" ");
        return Err(Error::setting("policy", several, "one policy; `hambo rank` takes several").into());
    }
    let mut prepared = prepare(arguments)?;
    let out = prepared.out.take();
    let Prepared { declaration, simulator, config, device, loaded, asked, progress, .. } = &prepared;
    let (data, policy, model) = (&loaded.transitions, &prepared.policies[0], prepared.model.as_ref());
    let question = &Question { explain: out.is_some(), ..prepared.question.clone() };
    let Asked { task, constraints, declared, notes, .. } = asked;
    let mut evaluation = evaluate_all(device, data, model, task, constraints, policy, question, progress)?;
    let simulate = |s: &Simulator| s.truth(&arguments.machine, policy, question, progress);
    let truth = simulator.as_ref().map(simulate).transpose()?;
    let refit = |data: &Transitions, progress: &dyn Progress| config.fit(device, data, question, progress);
    let basis = Basis { device, data, model, task, policy, question };
    let curves = match arguments.curves {
        true => curves(basis, &evaluation, &refit, progress)?,
        false => None,
    };
    evaluation.warnings.splice(0..0, loaded.notes.iter().chain(notes).cloned());

    let told = Told {
        device,
        question,
        task,
        declared,
        env: declaration.env.as_deref(),
        data,
        sha256: Some(&prepared.sha256),
        policy,
        acting: Some(&arguments.acting),
        evaluation: &evaluation,
        model,
        truth: truth.as_ref(),
        threshold: arguments.threshold,
        curves: curves.as_ref(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let result = told.result()?;
    if let Some(folder) = out {
        progress.bars.check()?;
        let (why, curves) = (evaluation.why.as_ref(), curves.as_ref());
        let page = Page { result: &result, why, curves, command: &command_line() };
        let file = |name: &str, text: String| (folder.path().join(name), text.into_bytes());
        let mut files = vec![
            file("result.json", format!("{result:#}\n")),
            file("report.html", page.html()),
            file("summary.md", markdown(&result)),
        ];
        files.extend(model.files(device, folder.path())?);
        folder.write(&files)?;
    }
    progress.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => result.to_string(),
        (_, true) => markdown(&result).trim_end().to_owned(),
        _ => text(&result, &evaluation, asked, arguments),
    })?;
    Ok(if result["verdict"] == "fails" { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The task file, and the flags that come before it.
fn declaration(arguments: &Evaluate) -> Result<Declaration> {
    let flags = &arguments.task;
    let mut declaration = match &flags.file {
        Some(path) => Declaration::read(path)?,
        None => Declaration { env: arguments.env.clone(), ..Declaration::default() },
    };
    declaration.reward = flags.reward.clone().or(declaration.reward);
    declaration.termination = flags.termination.clone().or(declaration.termination);
    declaration.angles = flags.angles.clone().unwrap_or(declaration.angles);
    Ok(declaration)
}

/// What is asked of these data; an error names the task file where there is one.
fn resolve(
    arguments: &Evaluate,
    declaration: &Declaration,
    env: Option<Task>,
    data: &Transitions,
) -> Result<Asked> {
    declaration.resolve(data, env).map_err(|error| match (&arguments.task.file, error) {
        (_, error @ Error::Data(_)) => about(&arguments.data, error),
        (Some(path), error) => Error::file(path, error.to_string()),
        (None, error) => error,
    })
}

/// Settings of the model that is to be learned.
pub(super) enum Settings {
    Bnn(BnnConfig),
    Gp(GpConfig),
}

impl Settings {
    fn of(arguments: &Evaluate) -> Result<Self> {
        let path = arguments.model_config.as_deref();
        Ok(match arguments.model.unwrap_or(Model::Bnn) {
            Model::Bnn => Settings::Bnn(match path {
                Some(path) => settings(path, "a model", BnnConfig::validate)?,
                None if arguments.scale == Scale::Paper => BnnConfig::paper_scale(),
                None => BnnConfig::default(),
            }),
            Model::Gp => {
                let config = match path {
                    Some(path) => settings(path, "a model", GpConfig::validate)?,
                    None => GpConfig::default(),
                };
                let config = GpConfig { subset: arguments.gp.gp_rows.or(config.subset), ..config };
                config.validate()?;
                Settings::Gp(config)
            }
        })
    }

    /// All of them.
    pub(super) fn json(&self) -> Value {
        match self {
            Settings::Bnn(config) => json!({"bnn": config}),
            Settings::Gp(config) => json!({"gp": config}),
        }
    }

    /// Adds what the task asks for.
    fn extend(&mut self, learns_reward: bool, asked_angles: &[usize]) {
        let (reward, angles) = match self {
            Settings::Bnn(config) => (&mut config.reward, &mut config.angles),
            Settings::Gp(config) => (&mut config.reward, &mut config.angles),
        };
        *reward |= learns_reward;
        angles.extend(asked_angles);
    }

    fn angles(&self) -> &[usize] {
        match self {
            Settings::Bnn(config) => &config.angles,
            Settings::Gp(config) => &config.angles,
        }
    }

    fn fit(
        &self,
        device: &Device,
        data: &Transitions,
        question: &Question,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Dynamics>> {
        Ok(match self {
            Settings::Bnn(config) => Box::new(device.run(|| fit(device, data, config, question, progress))?),
            Settings::Gp(config) => Box::new(fit_gp(device, data, config, question, progress)?),
        })
    }
}

/// β, of which the theory's needs the bound that the user knows.
fn beta(arguments: &Evaluate) -> Result<Beta> {
    match (arguments.beta.as_str(), arguments.gp.norm_bound) {
        ("theory", Some(norm_bound)) => Ok(Beta::Theory { norm_bound }),
        ("theory", None) => Err(Error::setting(
            "beta",
            "theory",
            "--norm-bound B beside it: a bound on the norm of the dynamics, which data cannot give",
        )),
        (text, _) => text.parse(),
    }
}

/// A model of an earlier run, which has to predict what the task asks for.
fn fitted(
    device: &Device,
    folder: &Path,
    reward: bool,
    config: &Settings,
    asked: Option<Model>,
) -> Result<Box<dyn Dynamics>> {
    let model = dynamics::load(device, folder)?;
    let kind = if model.as_gp().is_some() { Model::Gp } else { Model::Bnn };
    if asked.is_some_and(|asked| asked != kind) {
        let problem =
            "the fitted model is of another kind than --model asks for: leave --model out, or fit anew";
        return Err(Error::file(folder, problem));
    }
    let (layout, angles) = (model.layout(), config.angles());
    let same = layout.angles.len() == angles.len() && layout.angles.iter().all(|a| angles.contains(&a.index));
    if (reward && !layout.reward) || !same {
        let problem =
            "this model was fitted for other angles, or without the reward that is to be learned: fit anew";
        return Err(Error::file(folder, problem));
    }
    Ok(model)
}

/// A verdict needs a bound, and only conservative methods have one.
fn check_thresholds(threshold: Option<f64>, declaration: &Declaration, question: &Question) -> Result<()> {
    if let Some(threshold) = threshold.filter(|x| !x.is_finite()) {
        return Err(Error::setting("threshold", threshold, "a finite number"));
    }
    if threshold.is_none() && declaration.constraints.iter().all(|c| c.threshold.is_none()) {
        return Ok(());
    }
    match question.methods.first() {
        Some(first) if !first.is_conservative() => Err(Error::setting(
            "method",
            first.name(),
            "a conservative method (ca, da1, dainf) first where a threshold is given: a neutral estimate bounds nothing",
        )),
        _ => Ok(()),
    }
}

fn search_config(arguments: &Evaluate) -> Result<SearchConfig> {
    if let Some(path) = &arguments.search_config {
        return settings(path, "a search", SearchConfig::validate);
    }
    let config = match arguments.scale {
        Scale::Quick => SearchConfig::default(),
        Scale::Paper => SearchConfig::paper_scale(),
    };
    let optimisers = arguments.adversary.map_or(config.optimisers, |adversary| match adversary {
        Adversary::Portfolio => Optimisers::Portfolio,
        Adversary::Sac => Optimisers::Sac,
        Adversary::Pathwise => Optimisers::Pathwise,
    });
    Ok(SearchConfig { optimisers, ..config })
}

/// Settings from a JSON file.
fn settings<T: DeserializeOwned>(path: &Path, what: &str, validate: fn(&T) -> Result<()>) -> Result<T> {
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

/// Names the file that the data came from, the first of several, which the library does not know.
fn about(data: &Data, error: Error) -> Error {
    match error {
        Error::Data(problem) | Error::Mismatch(problem) => {
            let path = data.paths.first().map_or(Path::new("data"), PathBuf::as_path);
            Error::file(path, problem)
        }
        other => other,
    }
}

fn text(result: &Value, evaluation: &Evaluation, asked: &Asked, arguments: &Evaluate) -> String {
    let row = |e: &Estimate| {
        let kind = if e.method.is_conservative() { "conservative" } else { "neutral" };
        let bound = e.lower_bound.map_or("–".to_owned(), number);
        vec![e.method.name().to_owned(), kind.to_owned(), number(e.value), number(e.std_error), bound]
    };
    let rows: Vec<Vec<String>> = evaluation.estimates.iter().map(row).collect();
    let mut lines = vec![
        format!(
            "{} on {}, horizon {}, from {} transitions",
            arguments.policy.join(" "),
            asked.task.name,
            arguments.horizon,
            result["data"]["transitions"]
        ),
        format!(
            "reward {}; termination {}; initial states: {}",
            asked.declared.reward, asked.declared.termination, asked.declared.initial
        ),
        String::new(),
        table(&["method", "kind", "estimate", "std error", "lower bound"], &rows),
        String::new(),
    ];
    if !evaluation.constraints.is_empty() {
        lines.extend(constraint_table(evaluation, arguments.delta));
    }
    lines.extend(evaluation.theory.as_ref().map(theory_line));
    if let Some(truth) = result["truth"]["value"].as_f64() {
        let episodes = &result["truth"]["episodes"];
        lines.push(format!("true return, by simulation of {episodes} episodes: {}", number(truth)));
    }
    lines.extend(evaluation.warnings.iter().map(|w| format!("note: {w}")));
    if let Some(out) = &arguments.out {
        lines.push(format!("report: {}", out.join("report.html").display()));
    }
    lines.push(headline(result)); // last, where the log of a build ends
    lines.join("\n")
}

/// What the theory of Gaussian processes says, in a line.
fn theory_line(theory: &TheoryReport) -> String {
    let known = |x: Option<f64>| x.map_or("–".to_owned(), number);
    format!(
        "theory: information gain {}, B {} (norm of the posterior mean: {}), β_n {}, L_k {}, L_f {}, L_σ {}, log₁₀ C_n {}, \
         log₁₀ of the worst-case gap {}",
        number(theory.information_gain),
        known(theory.norm_bound),
        number(theory.posterior_norm),
        known(theory.beta),
        number(theory.metric_constant),
        known(theory.dynamics_constant),
        number(theory.deviation_constant),
        known(theory.log10_gap_constant),
        known(theory.log10_gap)
    )
}

/// Every constraint by every method, and what all bounds share.
fn constraint_table(evaluation: &Evaluation, delta: f64) -> Vec<String> {
    let missing = || "–".to_owned();
    let rows = evaluation.constraints.iter().flat_map(|c| {
        c.estimates.iter().enumerate().map(move |(i, e)| {
            let verdict = c.met.filter(|_| i == 0).map(|met| if met { "meets" } else { "FAILS" });
            vec![
                if i == 0 { c.name.clone() } else { String::new() },
                e.method.name().to_owned(),
                number(e.value),
                e.lower_bound.map_or_else(missing, number),
                c.threshold.filter(|_| i == 0).map_or_else(missing, number),
                verdict.map_or_else(missing, str::to_owned),
            ]
        })
    });
    let header = ["constraint", "method", "estimate", "lower bound", "threshold", "verdict"];
    vec![
        table(&header, &rows.collect::<Vec<_>>()),
        format!(
            "all {} bounds of a method hold together but for a share {delta}: each is for {:.4}",
            1 + evaluation.constraints.len(),
            evaluation.delta_each
        ),
        String::new(),
    ]
}
