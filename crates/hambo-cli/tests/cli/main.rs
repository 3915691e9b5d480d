//! The real binary from outside: what it prints, where, and with which exit code.

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

#[path = "../../../hambo/tests/common/assets.rs"]
mod assets;
mod answers;
mod bad_data;
mod bad_settings;
mod damage;
mod disk;
mod evaluate;
mod fails_closed;
mod gp;
mod inputs;
mod learn;
mod odd_logs;
mod people;
mod policies;
mod report;
mod resume;
mod simple;
mod sweep;
mod sweep_faults;
mod tasks;
mod validate;

use assets::assets;
use rust_hdf5::H5File;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Settings of a model that trains in a moment.
const SMALL: &str = r#"{"folds": 1, "activation": "relu", "hidden": [32, 32], "steps": 300, "check_every": 100, "patience": 300}"#;
/// Data for [`EVALUATE`], in ten milliseconds.
const COLLECT: &str = "collect --env point-safety --policy builtin:waypoint --noise 0.1 --steps 600 --seed 1 --out data.hdf5";
/// An evaluation that takes well under a second.
const EVALUATE: &str = "evaluate --data data.hdf5 --env point-safety --policy builtin:waypoint --horizon 15 \
                        --model-config small.json --rollouts 200 --method dainf,ds,ts1,tsinf,mean";
/// The methods of [`EVALUATE`], to be replaced by others.
const METHODS: &str = "dainf,ds,ts1,tsinf,mean";

/// An empty folder in which commands are run; removed when dropped.
struct Place(TempDir);

/// What a command did.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// With `data.hdf5` and `small.json`, so that [`EVALUATE`] works.
    fn with_data() -> Self {
        let place = Place::new();
        place.write("small.json", SMALL);
        place.succeeds(COLLECT);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// A file in D4RL's layout with these fields.
    fn write_fields(&self, name: &str, fields: &[(&str, &[usize], Vec<f64>)]) {
        let file = H5File::create(self.path(name)).unwrap();
        for (field, shape, values) in fields {
            assert_eq!(values.len(), shape.iter().product::<usize>());
            file.new_dataset::<f64>()
                .shape(*shape)
                .create(field)
                .unwrap()
                .write_raw(values)
                .unwrap();
        }
        file.close().unwrap();
    }

    /// Everything in it, files with their contents.
    fn listing(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn visit(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => {
                        found.push((path.clone(), Vec::new()));
                        visit(&path, found);
                    }
                    false => found.push((path.clone(), std::fs::read(path).unwrap())),
                }
            }
        }
        let mut found = Vec::new();
        visit(self.0.path(), &mut found);
        found.sort();
        found
    }

    /// `hambo` with the words of `line` as arguments, its output in pipes.
    fn hambo(&self, line: &str) -> Run {
        self.command(line).output().unwrap().into()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hambo"));
        command.args(line.split_whitespace()).arg("--quiet").current_dir(self.0.path());
        command
    }

    /// Runs what must work and say nothing on standard error; returns standard output.
    fn succeeds(&self, line: &str) -> String {
        let run = self.hambo(line);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "hambo {line}\n{}", run.stdout);
        run.stdout
    }

    /// The one JSON object that a command must print.
    fn json(&self, line: &str) -> Value {
        object(&self.succeeds(line))
    }

    /// Runs what must be refused: exit code 2, one line on standard error with all of `words`, and nothing
    /// written anywhere.
    fn refuses(&self, line: &str, words: &[&str]) {
        let before = self.listing();
        let run = self.hambo(line);
        println!("hambo {line}\n  {}", run.stderr);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "hambo {line}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: ") && run.stderr.ends_with('\n'), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "no {word:?} in: {}", run.stderr);
        }
        assert!(self.listing() == before, "hambo {line} left something behind");
    }

    /// Runs what must end with exit code 2 and this word on standard error, whatever it leaves behind.
    fn refuses_once(&self, line: &str, word: &str) {
        let run = self.hambo(line);
        assert!(run.code == Some(2) && run.stderr.contains(word), "hambo {line}: {}", run.stderr);
    }

    /// Runs what the argument parser must refuse: exit code 2 and a message with `words`.
    fn misuses(&self, line: &str, words: &[&str]) {
        let run = self.hambo(line);
        println!("hambo {line}\n  {}", run.stderr);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "hambo {line}");
        for word in words {
            assert!(run.stderr.contains(word), "no {word:?} in: {}", run.stderr);
        }
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Reads output that must be one JSON object on one line.
fn object(output: &str) -> Value {
    assert!(output.ends_with('\n') && output.lines().count() == 1, "{output}");
    let value: Value = serde_json::from_str(output).unwrap_or_else(|e| panic!("{e}: {output}"));
    assert!(value.is_object(), "{output}");
    value
}

/// The result without the one field that may differ between equal runs.
fn timeless(mut result: Value) -> Value {
    assert!(result["seconds"].as_f64().unwrap() >= 0.0);
    result["seconds"] = Value::Null;
    result
}
