//! What tells the unfinished work of one evaluation or ranking from that of another.

use super::Outcome;
use crate::args::Evaluate;
use hambo::data::{Logs, Transitions, digest};
use hambo::evaluate::EvaluationConfig;
use hambo::task::ResolvedTask;
use hambo::{Device, Error, Policy, Result};
use hambo_engine::files::{sha256 as sha256_of_file, sha256_of};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Where unfinished work is kept, in the folder of `--out`.
pub const UNFINISHED: &str = "unfinished";

/// What came out; a problem of the device, such as memory that ran out, with the place of what was done before it.
pub(super) fn with_place(outcome: Outcome, arguments: &Evaluate) -> Outcome {
    outcome.map_err(|problem| placed(problem, arguments.out.as_deref()))
}

/// A problem with the place of what was done before it.
pub(super) fn placed(
    problem: Box<dyn std::error::Error>,
    out: Option<&Path>,
) -> Box<dyn std::error::Error> {
    let kept = out.map(|folder| folder.join(UNFINISHED)).filter(|folder| folder.is_dir());
    match (problem.downcast_ref(), kept) {
        (Some(Error::Device(_)), Some(kept)) => {
            let kept = kept.display();
            format!("{problem}. What was done is kept in {kept}: the same command again goes on from there")
                .into()
        }
        _ => problem,
    }
}

pub(super) fn save_every(arguments: &Evaluate) -> Result<Duration> {
    Duration::try_from_secs_f64(arguments.save_every).map_err(|_| {
        Error::setting(
            "save-every",
            arguments.save_every,
            "seconds, 0 or a positive, finite number",
        )
    })
}

/// All that decides what comes out: work that was kept under another identity is not this work.
pub(super) fn identity(
    arguments: &Evaluate,
    config: &EvaluationConfig,
    asked: &ResolvedTask,
    policies: &[Policy],
    (device, logs, file): (&Device, &Logs, Option<&Path>),
) -> Result<BTreeMap<String, String>> {
    let data = &logs.transitions;
    let of_file = |policy: &Policy| match Path::new(&policy.spec) {
        file if file.is_file() => sha256_of_file(file),
        _ => Ok(String::new()),
    };
    let files: Vec<String> = policies.iter().map(of_file).collect::<Result<_>>()?;
    let actions: Vec<String> = policies
        .iter()
        .map(|policy| actions_digest(device, data, policy))
        .collect::<Result<_>>()?;
    let model = match &arguments.fitted {
        Some(folder) => digest(&[folder.join("model.json"), folder.join("model.safetensors")])?,
        None => model_settings(config, asked).to_string(),
    };
    let constraints: Vec<String> =
        asked.constraints.iter().map(|c| format!("{}: {}", c.task.name, c.task.reward)).collect();
    let values = [
        ("data", logs.sha256.clone().unwrap_or_else(|| data.digest())),
        ("data.columns", arguments.data.columns.columns.join(" ")),
        ("data.subsample", arguments.data.subsample.clone().unwrap_or_default()),
        ("policy", arguments.policy.join(" ")),
        ("policy.file", files.join(" ")),
        ("policy.actions", actions.join(" ")),
        ("policy.stochastic", arguments.acting.stochastic.to_string()),
        ("policy.noise", arguments.acting.policy_noise.to_string()),
        ("task", format!("{} {}", asked.task.name, json!(asked.declared))),
        ("task.details", sha256_of(format!("{:?}{:?}", asked.task, asked.constraints).as_bytes())),
        ("constraints", constraints.join("; ")),
        ("horizon", config.horizon.to_string()),
        ("discount", config.discount.to_string()),
        ("methods", config.methods.iter().map(|m| m.name()).collect::<Vec<_>>().join(",")),
        ("delta", config.delta.to_string()),
        ("risk", config.risk.map_or(String::new(), |share| share.to_string())),
        ("beta", arguments.beta.clone()),
        ("theory", format!("{:?}", config.theory)),
        ("rollouts", config.rollouts.to_string()),
        ("seed", config.seed.to_string()),
        ("search", json!(config.search).to_string()),
        ("model", model),
        ("task.functions", functions_digest(asked, data)?),
    ];
    let values = values.map(|(name, value)| (name.to_owned(), value));
    Ok(program(device, file).into_iter().chain(values).collect())
}

/// What functions of the task say of the log: their names alone do not tell them apart.
fn functions_digest(asked: &ResolvedTask, data: &Transitions) -> Result<String> {
    if !asked.task.calls_functions() {
        return Ok(String::new());
    }
    let (rewards, ends) = asked.task.logged(data)?;
    let rewards = rewards.iter().flat_map(|r| r.to_le_bytes());
    Ok(sha256_of(&rewards.chain(ends.into_iter().map(u8::from)).collect::<Vec<u8>>()))
}

/// Settings of the model, with what the task asks of it.
fn model_settings(config: &EvaluationConfig, task: &ResolvedTask) -> serde_json::Value {
    let mut model = config.model.clone();
    model.extend(task.learns_reward(), &task.angles);
    json!(model)
}

/// What computes: another build of the same version may sum in another order, and so may another kind of device, but
/// not another number of threads.
/// `file` holds the code, where that is not the program itself.
pub fn program(device: &Device, file: Option<&Path>) -> BTreeMap<String, String> {
    let running = || std::env::current_exe().ok();
    let path = file.map(Path::to_owned).or_else(running);
    let program = path.and_then(|path| sha256_of_file(&path).ok());
    let values = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("version.program", program.unwrap_or_default()),
        ("device", device.kind()),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// SHA-256 of this program; empty where it cannot be read.
pub(super) fn build(device: &Device) -> String {
    program(device, None).remove("version.program").unwrap_or_default()
}

/// What the policy does in the first of the logged states: other files beside it (a normalizer) have a say in it too.
pub(super) fn actions_digest(
    device: &Device,
    data: &Transitions,
    policy: &Policy,
) -> Result<String> {
    let rows = data.len().min(256);
    let states = device.upload(&data.states()[..rows * data.state_dim()]);
    let mut actions = device.zeros(rows * data.action_dim());
    policy.act(device, &states, &mut actions);
    let bytes: Vec<u8> = device.download(&actions)?.iter().flat_map(|a| a.to_le_bytes()).collect();
    Ok(sha256_of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_the_device_name_the_place_of_unfinished_work() {
        let place = tempfile::tempdir().unwrap();
        let out = Some(place.path());
        let told = |problem: Error| placed(problem.into(), out).to_string();
        let short = || Error::Device("4.1 MB are asked for, 2.4 MB are free".to_owned());
        assert_eq!(told(short()), short().to_string()); // nothing was kept
        let kept = place.path().join(UNFINISHED);
        std::fs::create_dir(&kept).unwrap();
        let expected = format!(
            "{}. What was done is kept in {}: the same command again goes on from there",
            short(),
            kept.display()
        );
        assert_eq!(told(short()), expected);
        assert_eq!(told(Error::Numeric("it diverged".to_owned())), "it diverged");
    }
}
