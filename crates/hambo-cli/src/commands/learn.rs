//! `hambo learn`: a policy that is good in the worst case, and its bound.

use super::Outcome;
use super::prepare::Prepared;
use crate::args::{Evaluate, Learn};
use crate::found::{Found, Told};
use crate::given::Inputs;
use crate::output::{keep, number, show, table};
use hambo::confidence::Evidence;
use hambo::evaluate::Ranked;
use hambo::learn::{Checkpoint, CurvePoint, LearnConfig, candidates, check, csv};
use hambo::report::{Verdict, html, markdown};
use hambo::{Answer, Error, Policy, Result};
use hambo_engine::files::{make_folder, write_together};
use hambo_envs::EnvName;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// The folder of checkpoints, in that of `--out`.
const CHECKPOINTS: &str = "checkpoints";

pub fn run(mut arguments: Box<Learn>) -> Outcome {
    let Found { answer, .. } = learn(&mut arguments, None)?;
    show(&answer, &arguments.evaluate)?;
    Ok(match answer.answer.verdict.is_some_and(|verdict| !verdict.passes()) {
        true => ExitCode::from(1),
        false => ExitCode::SUCCESS,
    })
}

/// Learns a policy and bounds it, and writes the folder of `--out`.
pub fn learn(arguments: &mut Learn, given: Option<Inputs>) -> Result<Found<Learned>> {
    refuse(&arguments.evaluate)?;
    arguments.evaluate.method.get_or_insert_with(|| "ca,ds".to_owned());
    if arguments.evaluate.horizon == 0 {
        arguments.evaluate.horizon = time_limit(&arguments.evaluate)?;
    }
    learned(arguments, given)
}

/// Flags of an evaluation that mean nothing here.
fn refuse(arguments: &Evaluate) -> Result<()> {
    let expected = |what: &str| format!("no such setting here: {what}");
    if let Some(policy) = arguments.policy.first() {
        return Err(Error::setting(
            "policy",
            policy,
            expected("the policy is learned; `hambo evaluate` takes one"),
        ));
    }
    let acting = &arguments.acting;
    if acting.stochastic || acting.policy_noise != 0.0 || acting.normalizer.normalizer.is_some() {
        let what = "the learned policy acts by its mean; `hambo evaluate` adds noise to one";
        return Err(Error::setting("stochastic, policy-noise or normalizer", true, expected(what)));
    }
    match arguments.curves {
        true => Err(Error::setting("curves", true, expected("`hambo evaluate` draws them"))),
        false => Ok(()),
    }
}

/// Steps of an episode of the environment.
fn time_limit(arguments: &Evaluate) -> Result<usize> {
    let Some(env) = &arguments.env else {
        let expected = "the number of steps in an episode, 1 or more: without --env there is no time limit to take";
        return Err(Error::setting("horizon", "not given", expected));
    };
    Ok(env.parse::<EnvName>()?.spec()?.time_limit)
}

/// Whether the settings can be, as far as that is known without the logs.
pub fn check_learning(arguments: &Learn) -> Result<()> {
    refuse(&arguments.evaluate)?;
    learn_config(arguments, LearnConfig::default())?;
    super::check_evaluation(&arguments.evaluate)
}

/// Learns, bounds, chooses, and writes the folder of `--out`.
fn learned(arguments: &Learn, given: Option<Inputs>) -> Result<Found<Learned>> {
    let start = Instant::now();
    let asked = [
        ("learn.adversary", hambo::learn::Against::from(arguments.opponent).name().to_owned()),
        ("learn.steps", format!("{:?}", arguments.steps)),
        ("learn.config", learn_settings(arguments)?.to_string()),
    ];
    learn_config(arguments, LearnConfig::default())?; // what is wrong with it is said before minutes of work
    let (mut prepared, inputs) = Prepared::for_work(&arguments.evaluate, true, given, &asked)?;
    prepared.config.learned_from_logs = true;
    check(&inputs.1.task, &inputs.0.transitions).map_err(|e| inputs.0.name_file(e))?;
    let evaluator = prepared.evaluator(inputs)?;
    let config = learn_config(arguments, LearnConfig::for_device(evaluator.device()))?;
    let out = arguments.evaluate.out.as_deref().unwrap_or(Path::new("."));
    let write = &mut |checkpoints: &[Checkpoint]| write_checkpoints(out, checkpoints);
    let checkpoints = hambo::learn::learn(&evaluator.problem(), &config, evaluator.run(), write)?;

    let chosen = candidates(&checkpoints, config.candidates);
    let policies: Vec<Policy> = chosen.iter().map(|&i| checkpoints[i].policy.clone()).collect();
    let bounded = evaluator.bounds(&policies)?;
    let summary = Summary::new(config, &checkpoints, (&chosen, &bounded));
    let best = best(bounded)?;
    let policy = write_policy(out, &policies[best.index])?;
    let mut answer = evaluator.answer(&policy, best.evaluation)?;
    answer.truth = prepared.truth_of(&policy)?;
    prepared.sign(&mut answer.setup, start);
    keep(Learned { answer, learned: summary }, &evaluator, &prepared)
}

/// The settings file, as far as it is needed to tell one learning from another.
fn learn_settings(arguments: &Learn) -> Result<Value> {
    let Some(path) = &arguments.learn_config else { return Ok(Value::Null) };
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
    let not_json = |e| Error::file(path, format!("not settings of a learning in JSON: {e}"));
    serde_json::from_slice(&bytes).map_err(not_json)
}

/// The defaults, what the file says, and what the flags say.
fn learn_config(arguments: &Learn, defaults: LearnConfig) -> Result<LearnConfig> {
    let mut settings = json!(defaults);
    let given = learn_settings(arguments)?;
    let problem = |e: String| match &arguments.learn_config {
        Some(path) => Error::file(path, e),
        None => Error::Mismatch(e),
    };
    if let (Some(settings), Some(given)) = (settings.as_object_mut(), given.as_object()) {
        settings.extend(given.clone());
    }
    let config: LearnConfig = serde_json::from_value(settings)
        .map_err(|e| problem(format!("not settings of a learning in JSON: {e}")))?;
    let (adversary, steps) = (arguments.opponent.into(), arguments.steps.unwrap_or(config.steps));
    let config = LearnConfig { adversary, steps, ..config };
    config.validate()?;
    Ok(config)
}

/// The policies so far and their curve.
fn write_checkpoints(out: &Path, checkpoints: &[Checkpoint]) -> Result<()> {
    let folder = out.join(CHECKPOINTS);
    make_folder(&folder)?;
    if let Some(Checkpoint { policy, .. }) = checkpoints.last() {
        policy.save(&folder.join(format!("{}.safetensors", policy.spec)))?;
    }
    let curve = csv(checkpoints.iter().map(|checkpoint| &checkpoint.point));
    write_together(&[(out.join("curve.csv"), curve.into_bytes())])
}

/// The policy in both of its forms, as it is read from its file.
fn write_policy(out: &Path, policy: &Policy) -> Result<Policy> {
    let file = out.join("policy.safetensors");
    policy.save(&file)?;
    policy.save_onnx(&out.join("policy.onnx"))?;
    Policy::read(&file.to_string_lossy())
}

/// The highest of the bounds that the data support; of the others where they support none.
fn best(bounded: Vec<Ranked>) -> Result<Ranked> {
    let supported = |r: &Ranked| r.evaluation.evidence() == Some(Evidence::Supported);
    let place = bounded.iter().position(supported).unwrap_or(0);
    let nothing = || Error::Numeric("no checkpoint was kept".to_owned());
    bounded.into_iter().nth(place).ok_or_else(nothing)
}

/// The answer for the policy that was learned, and how it came about.
#[derive(Serialize)]
pub struct Learned {
    #[serde(flatten)]
    answer: Answer,
    learned: Summary,
}

/// How a policy was learned.
#[derive(Serialize)]
struct Summary {
    config: LearnConfig,
    curve: Vec<CurvePoint>,
    /// Those that were bounded, the one that was taken first.
    bounds: Vec<Bounded>,
}

/// The bound of a checkpoint.
#[derive(Serialize)]
struct Bounded {
    step: usize,
    worst: f64,
    lower_bound: Option<f64>,
    evidence: Option<Evidence>,
}

impl Summary {
    fn new(
        config: LearnConfig,
        checkpoints: &[Checkpoint],
        (chosen, bounded): (&[usize], &[Ranked]),
    ) -> Self {
        let bounds = bounded.iter().map(|Ranked { index, evaluation, .. }| {
            let CurvePoint { step, worst, .. } = checkpoints[chosen[*index]].point;
            let (lower_bound, evidence) = (evaluation.lower_bound(), evaluation.evidence());
            Bounded { step, worst, lower_bound, evidence }
        });
        let bounds = bounds.collect();
        Summary { config, curve: checkpoints.iter().map(|c| c.point).collect(), bounds }
    }

    /// The curve, with the bounds beside it.
    fn rows(&self) -> Vec<Vec<String>> {
        let bound = |step: usize| self.bounds.iter().find(|b| b.step == step)?.lower_bound;
        let row = |point: &CurvePoint| {
            let CurvePoint { step, value, worst, gain, left, .. } = *point;
            let left = format!("{:.1} %", 100.0 * left);
            let bound = bound(step).map_or(String::new(), number);
            vec![step.to_string(), number(value), number(worst), number(gain), left, bound]
        };
        self.curve.iter().map(row).collect()
    }
}

const HEADER: [&str; 6] =
    ["step", "in the model", "under the adversary", "it takes", "left the data", "bound"];

impl std::fmt::Display for Learned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let learned = table(&HEADER, &self.learned.rows());
        write!(f, "Learning, measured in the model alone:\n\n{learned}\n\n{}", self.answer)
    }
}

impl Told for Learned {
    fn html(&self) -> String {
        html(&self.answer)
    }

    fn markdown(&self) -> String {
        let mut text = markdown(&self.answer);
        text += "\n## Learning\n\nMeasured in the model alone.\n\n";
        text += &format!("| {} |\n|{}\n", HEADER.join(" | "), "---|".repeat(HEADER.len()));
        self.learned.rows().iter().for_each(|row| text += &format!("| {} |\n", row.join(" | ")));
        text
    }

    fn verdict(&self) -> Option<Verdict> {
        self.answer.verdict
    }
}
