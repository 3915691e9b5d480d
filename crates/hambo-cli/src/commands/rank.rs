//! `hambo rank`: many policies on one model.

use super::Outcome;
use super::prepare::Prepared;
use crate::args::Evaluate;
use crate::output::{Formats, publish};
use hambo::Error;
use hambo::report::{ranking_html, ranking_markdown};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(arguments: &Evaluate) -> Outcome {
    let start = Instant::now();
    if arguments.curves {
        let expected =
            "no such setting here: the curves of one policy are for `hambo evaluate --curves`";
        return Err(Error::setting("curves", true, expected).into());
    }
    let (prepared, inputs) = Prepared::new(arguments, false)?;
    let evaluator = prepared.evaluator(inputs)?;
    let mut ranking = evaluator.rank(&prepared.policies, &prepared.truths()?)?;
    prepared.sign(&mut ranking.setup, start);
    let formats = Formats { html: ranking_html, markdown: ranking_markdown };
    publish(&ranking, formats, &evaluator, &prepared)?;
    Ok(if ranking.verdict.is_some_and(|verdict| !verdict.passes()) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}
