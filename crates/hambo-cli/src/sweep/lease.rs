//! Who is at work on a job: a file that its worker made and keeps changing.
//!
//! Whether a worker lives is seen by its counter, and how long that stands still is measured by the clock of whoever looks: no
//! two clocks are compared. A lease is never taken away from its file: whoever takes over makes the file of the next
//! generation, which only one can.

use hambo::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// A lease has always so many bytes: it changes in place, and needs no room on a disk that became full.
const BYTES: usize = 512;
/// So many times a worker changes its lease while others still think that it lives.
const BEATS: f64 = 5.0;
/// Seconds between two changes at the most.
const LONGEST: f64 = 10.0;

/// What a lease says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Who holds it.
    pub worker: String,
    /// Goes up as long as the worker lives.
    pub counter: u64,
    /// Seconds since 1970 by the worker's clock, for people.
    pub time: u64,
    /// Seconds that the counter stands still when the worker is dead.
    pub stale_after: f64,
    /// What is being done.
    pub doing: String,
}

/// A job that is this worker's as long as this lives.
pub struct Lease {
    folder: PathBuf,
    job: String,
    generation: u64,
    stop: Option<(Sender<()>, JoinHandle<()>)>,
    /// What is being done, for those who look.
    pub doing: Arc<Mutex<String>>,
}

impl Lease {
    /// Takes a job, unless somebody else was faster.
    pub fn take(
        folder: &Path,
        (job, generation): (&str, u64),
        worker: &str,
        stale_after: Duration,
    ) -> Result<Option<Lease>> {
        let path = file_of(folder, job, generation);
        let mut file = match File::options().write(true).create_new(true).open(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            other => other.map_err(|e| Error::io(&path, "write", e))?,
        };
        // Tells those on the same system for sure that this process lives.
        let _ = file.try_lock();
        let doing = Arc::new(Mutex::new(String::new()));
        let mut said = Said {
            worker: worker.to_owned(),
            counter: 0,
            time: 0,
            stale_after: stale_after.as_secs_f64(),
            doing: String::new(),
        };
        if let Err(e) = beat(&mut file, &mut said, &doing) {
            let _ = fs::remove_file(&path);
            return Err(Error::io(&path, "write", e));
        }
        let (sender, receiver) = channel();
        let pause = Duration::from_secs_f64((stale_after.as_secs_f64() / BEATS).min(LONGEST));
        let told = doing.clone();
        let thread = std::thread::spawn(move || {
            while receiver.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // What cannot be said now may be said the next time.
                let _ = beat(&mut file, &mut said, &told);
            }
        });
        let (folder, job) = (folder.to_owned(), job.to_owned());
        Ok(Some(Lease { folder, job, generation, stop: Some((sender, thread)), doing }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.stop.take() {
            drop(sender);
            let _ = thread.join();
        }
        // Those of dead workers first: as long as there is one, this one counts.
        for generation in 0..=self.generation {
            let _ = fs::remove_file(file_of(&self.folder, &self.job, generation));
        }
    }
}

fn beat(file: &mut File, said: &mut Said, doing: &Mutex<String>) -> std::io::Result<()> {
    said.counter += 1;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    said.time = now.map_or(0, |now| now.as_secs());
    said.doing = doing.lock().map_or(String::new(), |doing| doing.chars().take(60).collect());
    let text = serde_json::to_string(said)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{text:<width$}\n", width = BYTES - 1).as_bytes())
}

/// The lease of a job in this generation.
pub fn file_of(folder: &Path, job: &str, generation: u64) -> PathBuf {
    folder.join(format!("{job}.{generation}"))
}

/// The job and the generation of a lease by the name of its file.
pub fn job_of(name: &str) -> Option<(&str, u64)> {
    let (job, generation) = name.split_once('.')?;
    Some((job, generation.parse().ok()?)).filter(|(job, _)| !job.is_empty())
}

/// What a lease says; none where it is gone, or not yet written.
pub fn read(path: &Path) -> Option<Said> {
    let mut text = String::new();
    File::open(path).ok()?.take(2 * BYTES as u64).read_to_string(&mut text).ok()?;
    serde_json::from_str(text.trim()).ok()
}

/// The leases of others, as this worker has seen them.
#[derive(Default)]
pub struct Watch(BTreeMap<PathBuf, (Option<u64>, Instant)>);

impl Watch {
    /// Whether the holder of a lease has not changed it for as long as it said that it would; `usual` where it says nothing.
    pub fn is_dead(&mut self, path: &Path, usual: Duration) -> bool {
        let said = read(path);
        let counter = said.as_ref().map(|said| said.counter);
        let declared = said.and_then(|said| Duration::try_from_secs_f64(said.stale_after).ok());
        let now = Instant::now();
        let (last, since) = self.0.entry(path.to_owned()).or_insert((counter, now));
        if *last != counter {
            (*last, *since) = (counter, now);
        }
        since.elapsed() >= declared.unwrap_or(usual) && !is_held(path)
    }
}

/// Whether a process on this system, or one whose locks are seen here, has the file open: a worker that was stopped lives.
fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    #[test]
    fn one_of_many_gets_a_job_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Lease::take(folder.path(), ("a", 0), "me", SOON).unwrap();
        let leases: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(leases.len(), 1);
        drop(leases);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(take().is_some());
    }

    #[test]
    fn a_lease_that_moves_or_is_held_is_alive_and_one_that_stands_still_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_of(folder.path(), "a", 0);
        let lease = Lease::take(folder.path(), ("a", 0), "me", SOON).unwrap().unwrap();
        let before = read(&path).unwrap().counter;
        let mut watch = Watch::default();
        for _ in 0..8 {
            assert!(!watch.is_dead(&path, SOON));
            std::thread::sleep(SOON / 3);
        }
        assert!(read(&path).unwrap().counter > before + 2);
        let said = read(&path).unwrap();
        drop(lease);
        // A dead worker's, whose clock is a century ahead.
        let dead = Said { time: said.time + 3_000_000_000, ..said };
        fs::write(&path, serde_json::to_string(&dead).unwrap()).unwrap();
        let mut watch = Watch::default();
        assert!(!watch.is_dead(&path, SOON), "it was seen for the first time");
        std::thread::sleep(SOON * 2);
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        assert!(!watch.is_dead(&path, SOON), "its worker was stopped, and lives");
        drop(held);
        assert!(watch.is_dead(&path, SOON));
        let next = Lease::take(folder.path(), ("a", 1), "me", SOON).unwrap().unwrap();
        assert!(Lease::take(folder.path(), ("a", 1), "you", SOON).unwrap().is_none());
        drop(next);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the dead one's goes with it");
    }

    #[test]
    fn names_of_leases_are_told_from_others() {
        assert_eq!(job_of("ab12.3"), Some(("ab12", 3)));
        for other in ["ab12", "ab12.x", ".3", ".ab.1-2.tmp"] {
            assert_eq!(job_of(other), None, "{other}");
        }
    }
}
