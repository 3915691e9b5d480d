//! `hambo rank`: many policies on one model.

use super::Outcome;
use super::prepare::Prepared;
use crate::args::Evaluate;
use crate::found::Found;
use crate::given::Inputs;
use crate::output::{keep, show};
use hambo::{Error, Ranking, Result};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let Found { answer, .. } = rank(arguments, None)?;
    show(&answer, arguments)?;
    Ok(if answer.verdict.is_some_and(|verdict| !verdict.passes()) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Ranks the policies, and writes the folder of `--out`.
pub fn rank(arguments: &Evaluate, given: Option<Inputs>) -> Result<Found<Ranking>> {
    let start = Instant::now();
    if arguments.curves {
        let expected =
            "no such setting here: the curves of one policy are for `hambo evaluate --curves`";
        return Err(Error::setting("curves", true, expected));
    }
    let (prepared, inputs) = Prepared::new(arguments, false, given)?;
    let evaluator = prepared.evaluator(inputs)?;
    let mut ranking = evaluator.rank(&prepared.policies, &prepared.truths()?)?;
    prepared.sign(&mut ranking.setup, start);
    keep(ranking, &evaluator, &prepared)
}
