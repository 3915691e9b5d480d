//! What was done: a line for each run, and for each truth.

use super::record::{Record, TruthRecord};
use hambo::{Error, Result};
use hambo_engine::files::write_atomically;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};

const RUNS: &str = "runs.jsonl";
const TRUTHS: &str = "truths.jsonl";

/// What was done, in the folder's files; each is replaced as a whole with every new line.
pub struct Book {
    folder: PathBuf,
    pub runs: Vec<Record>,
    pub truths: Vec<TruthRecord>,
    /// Lines that are of other shards, and not written again: as many of the first ones of each.
    others: [usize; 2],
}

impl Book {
    /// What is there, of the folder itself and of the shards that are given. All must be of this build and device.
    pub fn open(folder: &Path, shards: &[PathBuf], program: &[String; 2]) -> Result<Self> {
        let (mut runs, mut truths) = (Vec::new(), Vec::new());
        for shard in shards {
            runs.extend(lines(&shard.join(RUNS))?);
            truths.extend(lines(&shard.join(TRUTHS))?);
        }
        let others = [runs.len(), truths.len()];
        runs.extend(lines(&folder.join(RUNS))?);
        truths.extend(lines(&folder.join(TRUTHS))?);
        let other = runs
            .iter()
            .find(|run: &&Record| [&run.build, &run.device] != [&program[0], &program[1]]);
        if let Some(run) = other {
            let problem = format!(
                "it has runs of build {} on {}, and this is build {} on {}: name another folder with --out",
                run.build, run.device, program[0], program[1]
            );
            return Err(Error::file(&folder.join(RUNS), problem));
        }
        Ok(Book { folder: folder.to_owned(), runs, truths, others })
    }

    pub fn add_run(&mut self, run: Record) -> Result<()> {
        self.runs.push(run);
        write_lines(&self.folder.join(RUNS), &self.runs[self.others[0]..])
    }

    pub fn add_truth(&mut self, truth: TruthRecord) -> Result<()> {
        self.truths.push(truth);
        write_lines(&self.folder.join(TRUTHS), &self.truths[self.others[1]..])
    }

    /// Forgets runs that ended in an error, so that they are made again; those of other shards stay.
    pub fn forget_errors(&mut self) {
        let own = self.runs.split_off(self.others[0]);
        self.runs.extend(own.into_iter().filter(|run| run.error.is_none()));
    }

    /// The truth of a policy that was simulated with the most episodes.
    pub fn truth(&self, key: &str) -> Option<&TruthRecord> {
        self.truths.iter().filter(|t| t.key == key).max_by_key(|t| t.episodes)
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|e| Error::io(path, "read", e))?,
    };
    let line = |(i, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| Error::file(path, format!("line {}: {e}", i + 1)))
    };
    text.lines().enumerate().map(line).collect()
}

fn write_lines<T: Serialize>(path: &Path, values: &[T]) -> Result<()> {
    let mut text = String::new();
    for value in values {
        let line = serde_json::to_string(value).map_err(|e| Error::file(path, e.to_string()))?;
        text += &line;
        text.push('\n');
    }
    write_atomically(path, |temporary| {
        fs::write(temporary, &text).map_err(|e| Error::io(temporary, "write", e))
    })
}
