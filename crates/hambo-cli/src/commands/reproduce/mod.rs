//! `hambo reproduce`: the paper's experiments, one file each. An experiment gives a table, numbers and plots; all are
//! written together.

mod fig2;

use super::{Outcome, SCHEMA, device};
use crate::arguments::{Experiment, Reproduce, Scale};
use crate::folder::Folder;
use crate::output::{Bars, print};
use crate::plot;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

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
    let bars = Bars::default();
    let found = match arguments.what {
        Experiment::Fig2 => fig2::run(&device, arguments.scale, &bars)?,
    };
    let name = arguments.what.name();
    let result = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "experiment": name,
        "scale": match arguments.scale { Scale::Quick => "quick", Scale::Paper => "paper" },
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
    print(&if arguments.json { result.to_string() } else { found.text })?;
    Ok(ExitCode::SUCCESS)
}
