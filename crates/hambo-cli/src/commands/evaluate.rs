//! `hambo evaluate`

use super::{Outcome, SCHEMA, device};
use crate::arguments::{Data, Evaluate, Model, Scale};
use crate::folder::Folder;
use crate::output::{Bars, number, print, table};
use hambo::adversary::SearchConfig;
use hambo::data::{ColumnNames, ReadOptions, digest, read_all};
use hambo::dynamics::{Bnn, BnnConfig};
use hambo::envs::EnvName;
use hambo::estimate::{Estimate, MONTE_CARLO_SHARE, Method};
use hambo::evaluate::{Evaluation, Question, evaluate, fit};
use hambo::policy::Policy;
use hambo::{Error, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let start = Instant::now();
    let question = Question {
        horizon: arguments.horizon,
        discount: arguments.discount,
        methods: Method::parse_list(&arguments.method)?,
        delta: arguments.delta,
        rollouts: arguments.rollouts,
        seed: arguments.seed,
        allow_constant: arguments.allow_constant,
        beta: arguments.beta.parse()?,
        search: match arguments.scale {
            Scale::Quick => SearchConfig::default(),
            Scale::Paper => SearchConfig::paper_scale(),
        },
    };
    question.validate()?;
    check_threshold(arguments.threshold, &question)?;
    let env: EnvName = arguments.env.parse()?;
    if !env.reward_is_known() {
        let expected = "point-safety, point or pendulum: the reward of this one is no function of what is observed, \
                        and rewards cannot be learned from the data yet";
        return Err(Error::setting("env", env.name(), expected).into());
    }
    let task = env.task()?;
    let policy = Policy::read(&arguments.policy)?;
    policy.check_task(&task)?;
    let config = model_config(arguments)?;
    let device = device(&arguments.machine)?;
    let options = read_options(&arguments.data, arguments.seed)?;
    let loaded = read_all(&arguments.data.paths, &options)?;
    let data = &loaded.transitions;
    task.check_data(data).map_err(|e| about(&arguments.data, e))?;
    let out = arguments.out.as_deref().map(Folder::prepare).transpose()?;

    let bars = Bars::default();
    let model = match (&arguments.fitted, arguments.model) {
        (Some(folder), _) => Bnn::load(&device, folder)?,
        (None, Model::Bnn) => device
            .run(|| fit(&device, data, &config, &question, &bars))
            .map_err(|e| about(&arguments.data, e))?,
    };
    let mut evaluation = evaluate(&device, data, &model, &task, &policy, &question, &bars)?;
    evaluation.warnings.splice(0..0, loaded.notes);

    let met = arguments.threshold.map(|x| evaluation.lower_bound().is_some_and(|bound| bound >= x));
    let result = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "task": task.name,
        "data": {"transitions": data.len(), "episodes": data.episodes().len(), "sha256": digest(&arguments.data.paths)?},
        "policy": policy.spec,
        "horizon": question.horizon,
        "discount": question.discount,
        "estimates": evaluation.estimates,
        "lower_bound": evaluation.lower_bound(),
        "delta": question.delta,
        "monte_carlo_share": MONTE_CARLO_SHARE,
        "threshold": arguments.threshold,
        "verdict": met.map(|met| if met { "meets" } else { "fails" }),
        "model": {"kind": "bnn", "fit": evaluation.model, "tau": evaluation.tau},
        "confidence_set": evaluation.set,
        "adversary": evaluation.search,
        "adversary_da1": evaluation.search_members,
        "warnings": evaluation.warnings,
        "seed": question.seed,
        "seconds": start.elapsed().as_secs_f64(),
    });
    if let Some(folder) = out {
        let mut files = vec![(folder.path().join("result.json"), format!("{result:#}\n").into_bytes())];
        files.extend(model.files(&device, folder.path())?);
        folder.write(&files)?;
    }
    print(&if arguments.json { result.to_string() } else { text(&result, &evaluation, arguments) })?;
    Ok(if met == Some(false) { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A verdict needs a bound, and only conservative methods have one.
fn check_threshold(threshold: Option<f64>, question: &Question) -> Result<()> {
    let Some(threshold) = threshold else { return Ok(()) };
    if !threshold.is_finite() {
        return Err(Error::setting("threshold", threshold, "a finite number"));
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
    Ok(ReadOptions { columns: ColumnNames::parse(&data.columns.columns)?, subsample, seed })
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

fn text(result: &Value, evaluation: &Evaluation, arguments: &Evaluate) -> String {
    let row = |e: &Estimate| {
        let kind = if e.method.is_conservative() { "conservative" } else { "neutral" };
        let bound = e.lower_bound.map_or("–".to_owned(), number);
        vec![e.method.name().to_owned(), kind.to_owned(), number(e.value), number(e.std_error), bound]
    };
    let rows: Vec<Vec<String>> = evaluation.estimates.iter().map(row).collect();
    let mut lines = vec![
        format!(
            "{} on {}, horizon {}, from {} transitions",
            arguments.policy, arguments.env, arguments.horizon, result["data"]["transitions"]
        ),
        String::new(),
        table(&["method", "kind", "estimate", "std error", "lower bound"], &rows),
        String::new(),
    ];
    if let (Some(threshold), Some(bound)) = (arguments.threshold, evaluation.lower_bound()) {
        let verdict = if bound >= threshold { "MEETS" } else { "FAILS" };
        lines.push(format!("{verdict} the threshold: bound {} against {}", number(bound), number(threshold)));
    }
    lines.extend(evaluation.warnings.iter().map(|w| format!("note: {w}")));
    lines.join("\n")
}
