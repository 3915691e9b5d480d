//! `hambo evaluate`

use super::describe::{Told, command_line};
use super::truth::{Simulator, simulator};
use super::{Outcome, device, policy};
use crate::arguments::{Data, Evaluate, Model, Scale};
use crate::folder::Folder;
use crate::output::{Bars, number, print, table};
use hambo::adversary::SearchConfig;
use hambo::compute::Device;
use hambo::curves::{Basis, curves};
use hambo::data::{ColumnNames, Loaded, ReadOptions, Transitions, digest, read_all};
use hambo::dynamics::{Bnn, BnnConfig};
use hambo::envs::EnvName;
use hambo::estimate::{Estimate, Method};
use hambo::evaluate::{Evaluation, Question, evaluate_all, fit};
use hambo::policy::Policy;
use hambo::report::{Page, headline, markdown};
use hambo::task::{Asked, Declaration, Task};
use hambo::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Everything up to the first trajectory.
pub(super) struct Prepared {
    pub question: Question,
    pub declaration: Declaration,
    pub policies: Vec<Policy>,
    pub simulator: Option<Simulator>,
    pub config: BnnConfig,
    pub device: Device,
    pub loaded: Loaded,
    pub asked: Asked,
    pub out: Option<Folder>,
    pub bars: Bars,
    pub model: Bnn,
}

/// Reads and checks all that was given, then learns the model.
pub(super) fn prepare(arguments: &Evaluate) -> std::result::Result<Prepared, Box<dyn std::error::Error>> {
    let question = Question {
        horizon: arguments.horizon,
        discount: arguments.discount,
        methods: Method::parse_list(&arguments.method)?,
        delta: arguments.delta,
        rollouts: arguments.rollouts,
        seed: arguments.seed,
        allow_constant: arguments.allow_constant,
        explain: false,
        beta: arguments.beta.parse()?,
        search: match arguments.scale {
            Scale::Quick => SearchConfig::default(),
            Scale::Paper => SearchConfig::paper_scale(),
        },
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
    let mut config = model_config(arguments)?;
    let device = device(&arguments.machine)?;
    let options = read_options(&arguments.data, arguments.seed)?;
    let loaded = read_all(&arguments.data.paths, &options)?;
    let data = &loaded.transitions;
    env.as_ref().map_or(Ok(()), |env| env.check_data(data)).map_err(|e| about(&arguments.data, e))?;
    let asked = resolve(arguments, &declaration, env, data)?;
    policies.iter().try_for_each(|policy| policy.check_task(&asked.task))?;
    let tasks = || asked.constraints.iter().map(|c| &c.task).chain([&asked.task]);
    config.reward |= tasks().any(|task| task.learns_reward());
    config.angles.extend(&asked.angles);
    let out = arguments.out.as_deref().map(Folder::prepare).transpose()?;

    let bars = Bars::logging(out.as_ref());
    let model = match (&arguments.fitted, arguments.model) {
        (Some(folder), _) => fitted(&device, folder, &config)?,
        (None, Model::Bnn) => device
            .run(|| fit(&device, data, &config, &question, &bars))
            .map_err(|e| about(&arguments.data, e))?,
    };
    Ok(Prepared {
        question,
        declaration,
        policies,
        simulator,
        config,
        device,
        loaded,
        asked,
        out,
        bars,
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
    let Prepared { declaration, simulator, config, device, loaded, asked, bars, model, .. } = &prepared;
    let (data, policy) = (&loaded.transitions, &prepared.policies[0]);
    let question = &Question { explain: arguments.out.is_some(), ..prepared.question.clone() };
    let Asked { task, constraints, declared, notes, .. } = asked;
    let mut evaluation = evaluate_all(device, data, model, task, constraints, policy, question, bars)?;
    let truth =
        simulator.as_ref().map(|s| s.truth(&arguments.machine, policy, question, bars)).transpose()?;
    let refit = |data: &Transitions| device.run(|| fit(device, data, config, question, bars));
    let basis = Basis { device, data, model, task, policy, question };
    let curves = match arguments.curves {
        true => curves(basis, &evaluation, &refit, bars)?,
        false => None,
    };
    evaluation.warnings.splice(0..0, loaded.notes.iter().chain(notes).cloned());

    let told = Told {
        question,
        task,
        declared,
        env: declaration.env.as_deref(),
        data,
        sha256: Some(digest(&arguments.data.paths)?),
        policy,
        acting: Some(&arguments.acting),
        evaluation: &evaluation,
        model,
        config,
        truth: truth.as_ref(),
        threshold: arguments.threshold,
        curves: curves.as_ref(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let result = told.result()?;
    bars.check()?;
    if let Some(folder) = out {
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

/// A model of an earlier run, which has to predict what the task asks for.
fn fitted(device: &Device, folder: &Path, config: &BnnConfig) -> Result<Bnn> {
    let model = Bnn::load(device, folder)?;
    let (layout, angles) = (model.layout(), &config.angles);
    let same = layout.angles.len() == angles.len() && layout.angles.iter().all(|a| angles.contains(&a.index));
    if (config.reward && !layout.reward) || !same {
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

fn model_config(arguments: &Evaluate) -> Result<BnnConfig> {
    let config = match &arguments.model_config {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
            let config: BnnConfig = serde_json::from_slice(&bytes)
                .map_err(|e| Error::file(path, format!("not settings of a model in JSON: {e}")))?;
            config.validate().map_err(|e| Error::file(path, e.to_string()))?;
            config
        }
        None if arguments.scale == Scale::Paper => BnnConfig::paper_scale(),
        None => BnnConfig::default(),
    };
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
    if let Some(truth) = result["truth"]["value"].as_f64() {
        lines.push(format!(
            "true return, by simulation of {} episodes: {}",
            result["truth"]["episodes"],
            number(truth)
        ));
    }
    lines.extend(evaluation.warnings.iter().map(|w| format!("note: {w}")));
    if let Some(out) = &arguments.out {
        lines.push(format!("report: {}", out.join("report.html").display()));
    }
    lines.push(headline(result)); // last, where the log of a build ends
    lines.join("\n")
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
