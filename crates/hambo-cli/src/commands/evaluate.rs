//! `hambo evaluate`

use super::Outcome;
use super::prepare::Prepared;
use crate::args::Evaluate;
use crate::output::{Formats, publish};
use hambo::Error;
use hambo::report::{html, markdown};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let start = Instant::now();
    if arguments.policy.len() > 1 {
        let several = arguments.policy.join(" ");
        return Err(
            Error::setting("policy", several, "one policy; `hambo rank` takes several").into()
        );
    }
    let (prepared, inputs) = Prepared::new(arguments, arguments.out.is_some())?;
    let (evaluator, policy) = (prepared.evaluator(inputs)?, &prepared.policies[0]);
    let mut answer = evaluator.evaluate(policy)?;
    answer.truth = prepared.truths()?.pop();
    if arguments.curves {
        answer.curves = evaluator.curves(policy, &answer)?;
    }
    prepared.sign(&mut answer.setup, start);
    publish(&answer, Formats { html, markdown }, &evaluator, &prepared)?;
    Ok(if answer.verdict.is_some_and(|verdict| !verdict.passes()) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}
