//! The JSON object of a result.

use super::SCHEMA;
use crate::arguments::Acting;
use hambo::Result;
use hambo::compute::Device;
use hambo::curves::Curves;
use hambo::data::{Transitions, digest};
use hambo::dynamics::Dynamics;
use hambo::envs::{EnvName, Truth};
use hambo::estimate::MONTE_CARLO_SHARE;
use hambo::evaluate::{Evaluation, Question};
use hambo::policy::Policy;
use hambo::report::{explanation, headline};
use hambo::task::{Declared, Task};
use serde_json::{Value, json};
use std::path::Path;

/// What is told of an evaluation.
pub struct Told<'a> {
    pub device: &'a Device,
    pub question: &'a Question,
    pub task: &'a Task,
    pub declared: &'a Declared,
    pub env: Option<&'a str>,
    pub data: &'a Transitions,
    pub sha256: Option<&'a str>,
    pub policy: &'a Policy,
    pub acting: Option<&'a Acting>,
    pub evaluation: &'a Evaluation,
    pub model: &'a dyn Dynamics,
    pub truth: Option<&'a Truth>,
    pub threshold: Option<f64>,
    pub curves: Option<&'a Curves>,
    pub seconds: f64,
}

impl Told<'_> {
    /// The object that `hambo evaluate --json` prints.
    pub fn result(&self) -> Result<Value> {
        let Told { question, task, data, policy, evaluation, .. } = self;
        let mut result = json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "device": self.device.kind(),
            "task": task.name,
            "declared": self.declared,
            "data": {"transitions": data.len(), "episodes": data.episodes().len(), "sha256": self.sha256},
            "policy": policy.spec,
            "policy_sha256": policy_digest(&policy.spec)?,
            "stochastic": self.acting.is_some_and(|acting| acting.stochastic),
            "policy_noise": self.acting.map_or(0.0, |acting| acting.policy_noise),
            "horizon": question.horizon,
            "discount": question.discount,
            "estimates": evaluation.estimates,
            "lower_bound": evaluation.lower_bound(),
            "delta": question.delta,
            "delta_each": evaluation.delta_each,
            "constraints": evaluation.constraints,
            "monte_carlo_share": MONTE_CARLO_SHARE,
            "threshold": self.threshold,
            "verdict": verdict(met(evaluation, self.threshold)),
            "truth": self.truth,
            "model": model(evaluation, self.model),
            "theory": evaluation.theory,
            "support": evaluation.support,
            "confidence_set": evaluation.set,
            "search": question.search,
            "adversary": evaluation.search,
            "adversary_da1": evaluation.search_members,
            "explanation": evaluation.why.as_ref().map(explanation),
            "curves": self.curves,
            "names": names(task, self.env),
            "settings": settings(question, self.model),
            "warnings": evaluation.warnings,
            "seed": question.seed,
            "seconds": self.seconds,
        });
        result["summary"] = headline(&result).into();
        Ok(result)
    }
}

/// Whether the bound and those of all constraints reach what was asked; none where nothing was.
pub fn met(evaluation: &Evaluation, threshold: Option<f64>) -> Option<bool> {
    let reached = threshold.map(|threshold| evaluation.meets(threshold));
    evaluation.constraints.iter().filter_map(|c| c.met).chain(reached).reduce(|all, one| all && one)
}

/// The word for it.
pub fn verdict(met: Option<bool>) -> Option<&'static str> {
    met.map(|met| if met { "meets" } else { "fails" })
}

/// What the model is, and what happened in its fit.
pub fn model(evaluation: &Evaluation, model: &dyn Dynamics) -> Value {
    let fit = &evaluation.model;
    json!({"kind": fit.kind(), "fit": fit, "tau": evaluation.tau, "layout": model.layout()})
}

/// What is not in the result elsewhere, so that the run can be repeated.
pub fn settings(question: &Question, model: &dyn Dynamics) -> Value {
    json!({"rollouts": question.rollouts, "beta": question.beta.to_string(), "model": model.settings()})
}

/// The SHA-256 of a policy's file, and of the normaliser beside it; none for a built-in one.
pub fn policy_digest(spec: &str) -> Result<Option<String>> {
    let path = Path::new(spec);
    if !path.is_file() {
        return Ok(None);
    }
    let normaliser = path.with_file_name("vecnormalize.pkl");
    let beside = path.extension().is_some_and(|e| e == "zip") && normaliser.is_file();
    digest(&if beside { vec![path.to_owned(), normaliser] } else { vec![path.to_owned()] }).map(Some)
}

/// What the entries of states and actions are called.
pub fn names(task: &Task, env: Option<&str>) -> Value {
    let known = env.and_then(|name| name.parse::<EnvName>().ok()).map_or([&[][..]; 2], EnvName::entries);
    let list = |known: &[&str], letter: char, n: usize| -> Vec<String> {
        let name = |i: usize| known.get(i).map_or(format!("{letter}[{i}]"), |name| (*name).to_owned());
        (0..n).map(name).collect()
    };
    let [state, action] = known;
    json!({"state": list(state, 's', task.state_dim), "action": list(action, 'a', task.action_dim)})
}

/// How this run is repeated.
pub fn command_line() -> String {
    let quoted = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_=.,:/+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(quoted);
    ["hambo".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Warnings about several policies: what holds for all of them once, what holds for some with their names.
pub(super) fn warnings_of_several(each: &[(&str, &[String])]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for (name, warnings) in each {
        for warning in *warnings {
            let common = each.iter().all(|(_, others)| others.contains(warning));
            let text = if common { warning.clone() } else { format!("{name}: {warning}") };
            if !told.contains(&text) {
                told.push(text);
            }
        }
    }
    told
}

/// Policies by what tells them apart: their paths without the folders and file names that all have in common.
pub(super) fn short_names(specs: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = specs.iter().map(|spec| spec.split('/').collect()).collect();
    let spare = parts.iter().map(Vec::len).min().unwrap_or(1) - 1; // parts that can be left out of each
    let common = |nth: &dyn Fn(&Vec<&str>, usize) -> usize, most: usize| {
        let same = |i: &usize| parts.iter().all(|p| p[nth(p, *i)] == parts[0][nth(&parts[0], *i)]);
        (0..most).take_while(same).count()
    };
    let first = common(&|_, i| i, spare);
    let last = common(&|p, i| p.len() - 1 - i, spare - first);
    parts.iter().map(|p| p[first..p.len() - last].join("/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_tells_policies_apart() {
        let names = |specs: &[&str]| short_names(specs).join(" ");
        assert_eq!(names(&["zoo/sac/p.zip", "zoo/a2c/p.zip"]), "sac a2c");
        assert_eq!(names(&["zoo/sac.zip", "zoo/old/sac.zip"]), "sac.zip old/sac.zip");
        assert_eq!(names(&["a.zip", "builtin:swing-up,gain=2"]), "a.zip builtin:swing-up,gain=2");
        assert_eq!(names(&["zoo/p.zip", "zoo/p.zip"]), "p.zip p.zip");
        assert_eq!(names(&["/zoo/p.zip"]), "p.zip");
    }

    #[test]
    fn what_holds_for_all_is_told_once_and_the_rest_with_its_name() {
        let [first, second] = [["far", "slow"], ["far", "broken"]].map(|all| all.map(str::to_owned));
        let told = warnings_of_several(&[("a", &first), ("b", &second)]);
        assert_eq!(told, ["far", "a: slow", "b: broken"]);
    }
}
