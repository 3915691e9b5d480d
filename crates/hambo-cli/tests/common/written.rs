//! All that people write for the command as a function of bytes, for the fuzz targets (`fuzz/`) and for the regression corpus
//! (`written.rs`), so that both do the same. None may panic, hang, or be taken where a setting is out of its range.

#![allow(missing_docs, dead_code, clippy::unwrap_used)]

use hambo::data::{Columns, Transitions};
use hambo::task::TaskSpec;
use hambo_cli::fuzzing::check;
use std::ffi::OsString;
use std::path::PathBuf;

type Reader = fn(&[u8]);

/// Name of a target and what it does with bytes.
pub const WRITTEN: [(&str, Reader); 8] = [
    ("arguments", arguments),
    ("run_toml", run_toml),
    ("task_toml", task_toml),
    ("plan_toml", plan_toml),
    ("suite_toml", suite_toml),
    ("model_config", model_config),
    ("search_config", search_config),
    ("learn_config", learn_config),
];

/// Does what the target of that name does.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, reader) = WRITTEN.iter().find(|(name, _)| *name == target).unwrap();
    reader(bytes);
}

/// The words of a command line, one in each line.
fn arguments(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A word that is a file of this system has nothing to do with what is tried here.
    let words: Vec<&str> = text.lines().collect();
    if words.iter().all(|word| !word.contains('/')) {
        checked(&words);
    }
}

/// A file for `--config`.
fn run_toml(bytes: &[u8]) {
    if bytes.contains(&b'/') {
        return;
    }
    checked(&["--config", &file("run.toml", bytes)]);
}

/// A task; if it can be read, logs can be asked whether it suits them.
fn task_toml(bytes: &[u8]) {
    let path = file("task.toml", bytes);
    if let Ok(spec) = TaskSpec::read(path.as_ref()) {
        let rows = |n: usize| (0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<f32>>();
        let data = Transitions::new(Columns {
            state_dim: 2,
            action_dim: 1,
            episode_starts: vec![0, 2],
            states: rows(8),
            actions: rows(4),
            next_states: rows(8),
            rewards: rows(4),
            terminals: vec![false; 4],
            timeouts: vec![false, true, false, true],
            ..Columns::default()
        });
        let _ = spec.resolve(&data.unwrap(), None);
    }
}

/// A plan of `hambo sweep`.
fn plan_toml(bytes: &[u8]) {
    checked(&["sweep", &file("plan.toml", bytes), "--out", "unused"]);
}

/// A suite of `hambo validate`.
fn suite_toml(bytes: &[u8]) {
    checked(&["validate", &file("suite.toml", bytes), "--out", "unused"]);
}

fn model_config(bytes: &[u8]) {
    let path = file("model.json", bytes);
    for model in ["bnn", "gp"] {
        evaluation(&["--model", model, "--model-config", &path]);
    }
}

fn search_config(bytes: &[u8]) {
    evaluation(&["--search-config", &file("search.json", bytes)]);
}

fn learn_config(bytes: &[u8]) {
    let path = file("learn.json", bytes);
    checked(&["learn", "--data", "d", "--horizon", "5", "--out", "o", "--learn-config", &path]);
}

/// An evaluation with these flags beside those that must be.
fn evaluation(flags: &[&str]) {
    let needed = ["evaluate", "--data", "d", "--policy", "p", "--horizon", "5"];
    checked(&[&needed, flags].concat());
}

fn checked(words: &[&str]) {
    if let Err(problem) = check(words.iter().map(OsString::from).collect()) {
        assert!(!problem.to_string().is_empty());
    }
}

/// A file of this thread's own.
fn file(name: &str, bytes: &[u8]) -> String {
    let own = format!("hambo-written-{}-{:?}", std::process::id(), std::thread::current().id());
    let folder: PathBuf = std::env::temp_dir().join(own);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
