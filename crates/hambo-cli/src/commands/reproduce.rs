//! `hambo reproduce`

use super::resume::{UNFINISHED, build, program};
use super::{Outcome, SCHEMA, device};
use crate::args::{Experiment, Reproduce, Scale};
use crate::folder::Folder;
use crate::output::print;
use crate::plot;
use crate::progress::Bars;
use crate::reproduce::estimates::{self, Axis};
use crate::reproduce::{Claim, Reproduced, fig1, fig2, page};
use hambo::run::Run;
use hambo::run::checkpoint::Checkpoints;
use hambo::{Device, Result};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub fn run(arguments: &Reproduce) -> Outcome {
    let device = device(&arguments.machine)?;
    let folder = Folder::prepare(&arguments.out)?;
    let figures = arguments.what.figures();
    let mut results = Vec::new();
    for &figure in &figures {
        let work = Work { arguments, figure, device: &device, folder: &folder };
        let result = match figures.len() > 1 {
            true => work.done().map_or_else(|| work.run(), Ok)?,
            false => work.run()?,
        };
        let index = page::figures(folder.path()).into_bytes();
        folder.write(&[(folder.path().join("index.html"), index)])?;
        if !arguments.json {
            let name = figure.name();
            let text = std::fs::read_to_string(folder.path().join(format!("{name}.txt")))?;
            print(text.trim_end())?;
        }
        results.push(result);
    }
    if arguments.json {
        let all =
            json!({"schema": SCHEMA, "experiment": arguments.what.name(), "figures": results});
        print(&if let [one] = &results[..] { one.to_string() } else { all.to_string() })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One figure that is asked for.
struct Work<'a> {
    arguments: &'a Reproduce,
    figure: Experiment,
    device: &'a Device,
    folder: &'a Folder,
}

impl Work<'_> {
    fn scale(&self) -> &'static str {
        match self.arguments.scale {
            Scale::Quick => "quick",
            Scale::Paper => "paper",
        }
    }

    /// The result, if it is there: of this build, device and scale.
    fn done(&self) -> Option<Value> {
        let path = self.folder.path().join(format!("{}.json", self.figure.name()));
        let found: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let same = found["build"] == json!(build(self.device))
            && found["device"] == json!(self.device.kind())
            && found["scale"] == json!(self.scale());
        same.then_some(found)
    }

    fn run(&self) -> Result<Value> {
        let start = Instant::now();
        let (name, folder) = (self.figure.name(), self.folder);
        let reproduced = self.reproduced()?;
        let result = json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "build": build(self.device),
            "device": self.device.kind(),
            "experiment": name,
            "scale": self.scale(),
            "claims": reproduced.claims,
            "result": reproduced.numbers,
            "seconds": start.elapsed().as_secs_f64(),
        });
        let file =
            |ending: &str, bytes: Vec<u8>| (folder.path().join(format!("{name}.{ending}")), bytes);
        let text = reproduced.text + &claims(&reproduced.claims);
        folder.write(&[
            file("json", format!("{result:#}\n").into_bytes()),
            file("txt", format!("{text}\n").into_bytes()),
            file("svg", plot::svg(&reproduced.picture)?.into_bytes()),
            file("png", plot::png(&reproduced.picture)?),
        ])?;
        Ok(result)
    }

    fn reproduced(&self) -> Result<Reproduced> {
        let Work { arguments, figure, device, folder } = *self;
        let (scale, bars) = (arguments.scale, Bars::default());
        let estimates = |axis: Axis| {
            let runs = folder.path().join(format!("{}-{}-runs", figure.name(), self.scale()));
            let machine = (device, arguments.machine.threads, build(device));
            estimates::run(axis, scale, (machine.0, machine.1, &machine.2), &runs)
        };
        match figure {
            Experiment::Fig1 => fig1::run(device, scale, &Run::new(&bars, None)),
            Experiment::Fig2 | Experiment::All => {
                let mut identity = program(device, None);
                let own = [("experiment", figure.name()), ("scale", self.scale())];
                identity.extend(own.map(|(k, v)| (k.to_owned(), v.to_owned())));
                let unfinished = folder.path().join(UNFINISHED);
                let checkpoints = Checkpoints::open(&unfinished, identity, Duration::ZERO)?;
                let reproduced = fig2::run(device, scale, &Run::new(&bars, Some(&checkpoints)))?;
                checkpoints.finish()?;
                Ok(reproduced)
            }
            Experiment::Fig3 => estimates(Axis::Size),
            Experiment::Fig4 => estimates(Axis::Horizon),
        }
    }
}

/// The claims in lines.
fn claims(claims: &[Claim]) -> String {
    let line = |claim: &Claim| {
        let word = match claim.confirmed {
            Some(true) => "confirmed",
            Some(false) => "NOT confirmed",
            None => "cannot be told",
        };
        format!("\n{word}: {} ({})", claim.claim, claim.found)
    };
    let lines: String = claims.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n\nThe paper says:{lines}") }
}
