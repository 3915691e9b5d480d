//! `hambo evaluate`

use super::Outcome;
use super::prepare::Prepared;
use crate::args::Evaluate;
use crate::found::Found;
use crate::given::Inputs;
use crate::output::{keep, show};
use hambo::{Answer, Error, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let explain = arguments.out.is_some();
    let Found { answer, .. } = evaluate(arguments, None, explain)?;
    show(&answer, arguments)?;
    Ok(if answer.verdict.is_some_and(|verdict| !verdict.passes()) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Evaluates the policy, and writes the folder of `--out`.
pub fn evaluate(
    arguments: &Evaluate,
    given: Option<Inputs>,
    explain: bool,
) -> Result<Found<Answer>> {
    let start = Instant::now();
    if arguments.policy.len() > 1 {
        let several = arguments.policy.join(" ");
        return Err(Error::setting("policy", several, "one policy; `hambo rank` takes several"));
    }
    let (prepared, inputs) = Prepared::new(arguments, explain, given)?;
    let (evaluator, policy) = (prepared.evaluator(inputs)?, &prepared.policies[0]);
    let mut answer = evaluator.evaluate(policy)?;
    answer.truth = prepared.truths()?.pop();
    if arguments.curves {
        answer.curves = evaluator.curves(policy, &answer)?;
    }
    prepared.sign(&mut answer.setup, start);
    keep(answer, &evaluator, &prepared)
}

/// Learns the model alone.
pub fn fit(arguments: &Evaluate, given: Option<Inputs>) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let (prepared, inputs) = Prepared::new(arguments, false, given)?;
    let evaluator = prepared.evaluator(inputs)?;
    evaluator.model().files(evaluator.device(), Path::new(""))
}
