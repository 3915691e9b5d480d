//! `hambo sweep`

use super::Outcome;
use super::resume::UNFINISHED;
use crate::args::Sweep;
use crate::output::print;
use crate::shard::part;
#[cfg(feature = "parquet")]
use crate::sweep::parquet;
use crate::sweep::{Board, Job, PAGE, Plan, Status, Worker, columns, csv, live, ranked, records};
use hambo::{Error, Result};
use hambo_engine::files::{make_folder, sha256_of};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Seconds without a sign of life that can be asked for.
const SILENCE: [f64; 2] = [0.1, 86_400.0];

pub fn run(arguments: &Sweep) -> Outcome {
    let plan = Plan::read(&arguments.plan)?;
    let all: Vec<&Job> = plan.jobs.iter().collect();
    let jobs = arguments.shard.map_or(all.clone(), |shard| part(all, shard));
    if arguments.list {
        print(&list(&plan, &jobs, &Board::at(&arguments.out))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let works = !arguments.status && !arguments.collect;
    let board = match works {
        true => work(&plan, jobs.clone(), arguments)?,
        false => Board::at(&arguments.out),
    };
    let status = Status::of(&plan, &jobs, &board)?;
    // A part of the jobs is no reason to write the table of all.
    if arguments.collect || works && arguments.shard.is_none() {
        collect(&plan, &board)?;
    } else if board.path().is_dir() {
        // Whoever may only look is not kept from it.
        let jobs: Vec<&Job> = plan.jobs.iter().collect();
        let _ = board.write(PAGE, live(&plan, &Status::of(&plan, &jobs, &board)?).as_bytes());
    }
    print(&if arguments.json { json!(status).to_string() } else { status.to_string() })?;
    let is_good = if arguments.status { !status.has_trouble() } else { status.is_good() };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The jobs, for programs that run them elsewhere.
fn list(plan: &Plan, jobs: &[&Job], board: &Board) -> Result<String> {
    let seen = board.look()?;
    let line = |job: &&Job| {
        let fit = sha256_of(plan.fit_content(job).as_bytes());
        json!({
            "job": job.id, "fit": fit, "what": plan.told(job), "flags": plan.flags(job), "ended": seen.ended(&job.id),
        })
        .to_string()
    };
    Ok(jobs.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Does the jobs.
fn work(plan: &Plan, jobs: Vec<&Job>, arguments: &Sweep) -> Result<Board> {
    let (seconds, [least, most]) = (arguments.stale_after, SILENCE);
    if !(least..=most).contains(&seconds) {
        let expected = format!("seconds, from {least} to {most}");
        return Err(Error::setting("stale-after", seconds, expected));
    }
    let board = Board::make(&arguments.out)?;
    let failed = board.look()?.failed;
    for job in jobs.iter().filter(|job| arguments.retry_failed && failed.contains(&job.id)) {
        board.forget_failure(&job.id, UNFINISHED)?;
    }
    let silence = Duration::from_secs_f64(seconds);
    Worker::new((plan, &board), jobs, &arguments.machine, silence)?.work()?;
    Ok(board)
}

/// Writes the table, in three forms.
fn collect(plan: &Plan, board: &Board) -> Result<()> {
    let found = records(plan, board)?;
    let jobs: Vec<&Job> = plan.jobs.iter().collect();
    let status = Status::of(plan, &jobs, board)?;
    let (columns, path) = (columns(plan, &found), |name: &str| board.path().join(name));
    make_folder(board.path())?;
    #[cfg(feature = "parquet")]
    board.write("table.parquet", &parquet(&columns, &path("table.parquet"))?)?;
    board.write("table.csv", &csv(&columns, &path("table.csv"))?)?;
    board.write("table.html", ranked(plan, &status, &found).as_bytes())?;
    board.write(PAGE, live(plan, &status).as_bytes())
}
