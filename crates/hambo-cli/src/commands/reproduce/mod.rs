//! `hambo reproduce`: the paper's experiments, one file each. An experiment gives a table, numbers and plots; all are
//! written together.

mod fig2;

use super::unfinished::{UNFINISHED, program};
use super::{Outcome, SCHEMA, device};
use crate::arguments::{Experiment, Reproduce, Scale};
use crate::folder::Folder;
use crate::output::{Bars, Kept, print};
use crate::plot;
use hambo::checkpoint::Checkpoints;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What an experiment gives.
struct Reproduced {
    /// For people.
    text: String,
    numbers: Value,
    plot: Vec<plot::Panel>,
}

pub fn run(arguments: &Reproduce) -> Outcome {
    let start = Instant::now();
    let device = device(&arguments.machine)?;
    let folder = Folder::prepare(&arguments.out)?;
    let name = arguments.what.name();
    let scale = match arguments.scale {
        Scale::Quick => "quick",
        Scale::Paper => "paper",
    };
    let mut identity = program(&device);
    identity.extend([("experiment", name), ("scale", scale)].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let checkpoints = Checkpoints::open(&folder.path().join(UNFINISHED), identity, Duration::ZERO)?;
    let progress = Kept { bars: Bars::default(), checkpoints: Some(checkpoints) };
    let found = match arguments.what {
        Experiment::Fig2 => fig2::run(&device, arguments.scale, &progress)?,
    };
    let result = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "device": device.kind(),
        "experiment": name,
        "scale": scale,
        "result": found.numbers,
        "seconds": start.elapsed().as_secs_f64(),
    });
    let file = |ending: &str, bytes: Vec<u8>| (folder.path().join(format!("{name}.{ending}")), bytes);
    let files = [
        file("json", format!("{result:#}\n").into_bytes()),
        file("txt", format!("{}\n", found.text).into_bytes()),
        file("svg", plot::svg(&found.plot)?.into_bytes()),
        file("png", plot::png(&found.plot)?),
    ];
    folder.write(&files)?;
    progress.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    print(&if arguments.json { result.to_string() } else { found.text })?;
    Ok(ExitCode::SUCCESS)
}
