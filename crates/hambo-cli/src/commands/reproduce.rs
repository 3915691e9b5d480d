//! `hambo reproduce`

use super::resume::{UNFINISHED, program};
use super::{Outcome, SCHEMA, device};
use crate::args::{Experiment, Reproduce, Scale};
use crate::folder::Folder;
use crate::output::{Bars, print};
use crate::plot;
use crate::reproduce::fig2;
use hambo::run::Run;
use hambo::run::checkpoint::Checkpoints;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub fn run(arguments: &Reproduce) -> Outcome {
    let start = Instant::now();
    let device = device(&arguments.machine)?;
    let folder = Folder::prepare(&arguments.out)?;
    let name = arguments.what.name();
    let scale = match arguments.scale {
        Scale::Quick => "quick",
        Scale::Paper => "paper",
    };
    let mut identity = program(&device, None);
    identity.extend(
        [("experiment", name), ("scale", scale)].map(|(k, v)| (k.to_owned(), v.to_owned())),
    );
    let checkpoints = Checkpoints::open(&folder.path().join(UNFINISHED), identity, Duration::ZERO)?;
    let bars = Bars::default();
    let work = Run::new(&bars, Some(&checkpoints));
    let reproduced = match arguments.what {
        Experiment::Fig2 => fig2::run(&device, arguments.scale, &work)?,
    };
    let result = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "device": device.kind(),
        "experiment": name,
        "scale": scale,
        "result": reproduced.numbers,
        "seconds": start.elapsed().as_secs_f64(),
    });
    let file =
        |ending: &str, bytes: Vec<u8>| (folder.path().join(format!("{name}.{ending}")), bytes);
    let files = [
        file("json", format!("{result:#}\n").into_bytes()),
        file("txt", format!("{}\n", reproduced.text).into_bytes()),
        file("svg", plot::svg(&reproduced.plot)?.into_bytes()),
        file("png", plot::png(&reproduced.plot)?),
    ];
    folder.write(&files)?;
    checkpoints.finish()?;
    print(&if arguments.json { result.to_string() } else { reproduced.text })?;
    Ok(ExitCode::SUCCESS)
}
