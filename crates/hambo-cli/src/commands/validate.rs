//! `hambo validate`

use super::resume::build;
use super::{Outcome, device};
use crate::args::Validate;
use crate::folder::Folder;
use crate::output::print;
use crate::validate::{Book, Fit, Lab, Plan, Table, Written, fits, html, markdown, shard};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(arguments: &Validate) -> Outcome {
    let written = Written::read(&arguments.suite)?;
    let plan = Plan::of(&written)?;
    let device = device(&arguments.machine)?;
    let build = build(&device);
    let lab = Lab::new(&plan, device, arguments.machine.threads, &build)?;
    let all = fits(&plan, lab.device.is_host())?;
    let (own, path, shards) = match arguments.shard {
        Some((i, n)) => {
            (shard(all, (i, n))?, arguments.out.join(format!("shard-{i}-of-{n}")), Vec::new())
        }
        None => (all, arguments.out.clone(), shards_in(&arguments.out)),
    };
    let folder = Folder::prepare(&path)?;
    let mut book = Book::open(folder.path(), &shards, &lab.program)?;
    if arguments.again {
        book.forget_errors();
    }
    lab.work(&own, &mut book)?;
    let table = table(&plan, &own, &book);
    let result = json!(table);
    folder.write(&files(folder.path(), &table))?;
    print(&if arguments.json {
        result.to_string()
    } else {
        markdown(&table).trim_end().to_owned()
    })?;
    Ok(if table.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What was asked and is in the book.
fn table(plan: &Plan, fits: &[Fit<'_>], book: &Book) -> Table {
    let names: Vec<&str> =
        fits.iter().flat_map(|f| &f.cases).map(|case| case.name.as_str()).collect();
    let found = names.iter().filter_map(|name| book.runs.iter().find(|run| run.case == *name));
    let runs: Vec<_> = found.cloned().collect();
    let mut fitted: Vec<f64> = runs.iter().map(|run| run.fit_seconds).collect();
    fitted.dedup(); // runs on the same data share a fit, and follow each other
    let seconds = runs.iter().map(|run| run.seconds).chain(fitted).sum::<f64>();
    let simulated: f64 = book.truths.iter().map(|truth| truth.seconds).sum();
    Table {
        suite: plan.name.clone(),
        about: plan.about.clone(),
        asked: names.len(),
        seconds: seconds + simulated,
        ..Table::of(&runs, &|key| book.truth(key).cloned())
    }
}

fn files(folder: &Path, table: &Table) -> Vec<(PathBuf, Vec<u8>)> {
    let file = |name: &str, text: String| (folder.join(name), text.into_bytes());
    vec![
        file("table.json", format!("{:#}\n", json!(table))),
        file("table.md", markdown(table)),
        file("index.html", html(table)),
    ]
}

/// Folders of shards.
fn shards_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("shard-")) && path.is_dir()
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_shard).collect();
    found.sort();
    found
}
