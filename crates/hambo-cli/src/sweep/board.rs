//! The folder that workers share: which jobs are done, failed, or somebody's.

use super::lease::{self, file_of, job_of};
use super::record::Record;
use hambo::{Error, Result};
use hambo_engine::files::{make_folder, write_atomically};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The page that shows how far it is.
pub const PAGE: &str = "index.html";

/// A folder of a sweep.
pub struct Board {
    folder: PathBuf,
}

/// The names in the folder at one moment; what is in the files is not read.
#[derive(Default)]
pub struct Seen {
    pub done: HashSet<String>,
    pub failed: HashSet<String>,
    /// The latest generation of each lease.
    pub leases: HashMap<String, u64>,
}

impl Seen {
    pub fn ended(&self, job: &str) -> bool {
        self.done.contains(job) || self.failed.contains(job)
    }
}

impl Board {
    /// A folder to look at, which need not be there.
    pub fn at(folder: &Path) -> Self {
        Board { folder: folder.to_owned() }
    }

    /// A folder to work in; made if it is not there.
    pub fn make(folder: &Path) -> Result<Self> {
        if folder.exists() && !folder.is_dir() {
            return Err(Error::file(folder, "not a folder; name an existing folder or a new one"));
        }
        let board = Board::at(folder);
        [board.done(), board.failed(), board.leases(), board.jobs(), board.fits()]
            .iter()
            .try_for_each(|folder| make_folder(folder))?;
        Ok(board)
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Records of jobs that have an answer.
    fn done(&self) -> PathBuf {
        self.folder.join("done")
    }

    /// Records of jobs that have none.
    fn failed(&self) -> PathBuf {
        self.folder.join("failed")
    }

    pub fn leases(&self) -> PathBuf {
        self.folder.join("leases")
    }

    fn jobs(&self) -> PathBuf {
        self.folder.join("jobs")
    }

    /// Models that jobs share.
    pub fn fits(&self) -> PathBuf {
        self.folder.join("fits")
    }

    /// The folder of a job.
    pub fn job(&self, job: &str) -> PathBuf {
        self.jobs().join(job)
    }

    /// What there is.
    pub fn look(&self) -> Result<Seen> {
        let mut seen = Seen::default();
        // Leases first: a job that ends meanwhile is seen as ended.
        for name in names(&self.leases())? {
            if let Some((job, generation)) = job_of(&name) {
                let latest = seen.leases.entry(job.to_owned()).or_insert(generation);
                *latest = generation.max(*latest);
            }
        }
        let job = |name: String| name.strip_suffix(".json").map(str::to_owned);
        seen.failed = names(&self.failed())?.into_iter().filter_map(job).collect();
        seen.done = names(&self.done())?.into_iter().filter_map(job).collect();
        Ok(seen)
    }

    /// Whether a job has ended by now.
    pub fn ended(&self, job: &str) -> bool {
        [self.done(), self.failed()].iter().any(|folder| record_in(folder, job).exists())
    }

    /// What came out of a job that has ended.
    pub fn record(&self, seen: &Seen, job: &str) -> Result<Option<Record>> {
        let folder = match (seen.done.contains(job), seen.failed.contains(job)) {
            (true, _) => self.done(),
            (false, true) => self.failed(),
            (false, false) => return Ok(None),
        };
        let path = record_in(&folder, job);
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None), // it is tried again
            other => other.map_err(|e| Error::io(&path, "read", e))?,
        };
        let damaged = |e| {
            format!("not a record of a job, or a damaged one ({e}); delete it to do the job again")
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| Error::file(&path, damaged(e)))
    }

    /// Makes known what came out, in one step; the first answer to a job stays.
    pub fn publish(&self, record: &Record) -> Result<()> {
        if record_in(&self.done(), &record.job).exists() {
            return Ok(());
        }
        let failed = record_in(&self.failed(), &record.job);
        let path = match record.error.is_some() {
            true => failed.clone(),
            false => record_in(&self.done(), &record.job),
        };
        let text = serde_json::to_string(record).map_err(|e| Error::file(&path, e.to_string()))?;
        write_atomically(&path, |temporary| {
            fs::write(temporary, &text).map_err(|e| Error::io(temporary, "write", e))
        })?;
        if record.error.is_none() {
            let _ = fs::remove_file(failed);
        }
        Ok(())
    }

    /// Lets a job that failed be done again, without what was begun.
    pub fn forget_failure(&self, job: &str, unfinished: &str) -> Result<()> {
        let (begun, record) = (self.job(job).join(unfinished), record_in(&self.failed(), job));
        gone(fs::remove_dir_all(&begun)).map_err(|e| Error::io(&begun, "remove", e))?;
        gone(fs::remove_file(&record)).map_err(|e| Error::io(&record, "remove", e))
    }

    /// Removes leases of jobs that are done, which workers left that were killed in between. Those of failed jobs stay: they may be
    /// of somebody who tries again.
    pub fn remove_left_leases(&self, seen: &Seen) {
        for (job, &latest) in seen.leases.iter().filter(|(job, _)| seen.done.contains(*job)) {
            for generation in 0..=latest {
                let _ = fs::remove_file(file_of(&self.leases(), job, generation));
            }
        }
    }

    /// What the lease of a job says, and how long ago by the clock of the file system.
    pub fn lease(&self, job: &str, generation: u64, now: SystemTime) -> Option<(lease::Said, f64)> {
        let path = file_of(&self.leases(), job, generation);
        let changed = fs::metadata(&path).and_then(|found| found.modified()).ok()?;
        let age = now.duration_since(changed).map_or(0.0, |age| age.as_secs_f64());
        Some((lease::read(&path)?, age))
    }

    /// The time by the clock of the file system: that of a file which is made for it, where one can be made.
    pub fn now(&self) -> SystemTime {
        let path = self.folder.join(format!(".now-{}", std::process::id()));
        let time = fs::write(&path, "").and_then(|()| fs::metadata(&path)?.modified());
        let _ = fs::remove_file(&path);
        time.unwrap_or_else(|_| SystemTime::now())
    }

    /// Writes a file of the folder as a whole.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_atomically(&self.folder.join(name), |temporary| {
            fs::write(temporary, bytes).map_err(|e| Error::io(temporary, "write", e))
        })
    }
}

/// What is not there need not be removed.
fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn record_in(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}.json"))
}

/// The names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>> {
    let problem = |e| Error::io(folder, "read", e);
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(problem)?,
    };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        Ok(entry.map_err(problem)?.file_name().to_string_lossy().into_owned())
    };
    let names: Vec<String> = entries.map(name).collect::<Result<_>>()?;
    Ok(names.into_iter().filter(|name| !name.starts_with('.')).collect())
}
