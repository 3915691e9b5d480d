//! How far a sweep is.

use super::board::Board;
use super::plan::{Job, Plan};
use crate::output::table;
use hambo::Result;
use serde::Serialize;

/// Of long lists so many rows are printed.
const SHOWN: usize = 20;

/// Where a sweep stands.
#[derive(Debug, Serialize)]
pub struct Status {
    pub jobs: usize,
    pub done: usize,
    pub running: Vec<Held>,
    /// Those whose workers said nothing for a while: others take them up.
    pub stale: Vec<Held>,
    pub waiting: usize,
    pub failed: Vec<Trouble>,
    /// Jobs with an answer that does not meet its threshold.
    pub gates_failed: Vec<Trouble>,
    /// Seconds of a job, on average; none before the first has ended.
    pub seconds_each: Option<f64>,
    /// Seconds that the rest takes with the workers that are there, or one.
    pub seconds_left: Option<f64>,
}

/// A job that is somebody's.
#[derive(Debug, Serialize)]
pub struct Held {
    pub job: String,
    pub what: String,
    pub worker: String,
    pub doing: String,
    /// Seconds since its worker was last heard of, by the clock of the file system.
    pub silent: f64,
}

/// A job that failed, or whose answer did.
#[derive(Debug, Serialize)]
pub struct Trouble {
    pub job: String,
    pub what: String,
    pub problem: String,
}

impl Status {
    /// Looks at the folder for these jobs.
    pub fn of(plan: &Plan, jobs: &[&Job], board: &Board) -> Result<Self> {
        let (seen, now) = (board.look()?, board.now());
        let (mut done, mut waiting, mut seconds) = (0, 0, Vec::new());
        let (mut running, mut stale, mut failed, mut gates_failed) = Default::default();
        for job in jobs {
            let (id, what) = (&job.id, || plan.told(job));
            let trouble = |problem: &str| Trouble {
                job: id.clone(),
                what: what(),
                problem: problem.to_owned(),
            };
            if let Some(record) = board.record(&seen, id)? {
                seconds.push(record.seconds);
                done += usize::from(record.error.is_none());
                let troubles: &mut Vec<Trouble> = match record.error.is_some() {
                    true => &mut failed,
                    false => &mut gates_failed,
                };
                troubles.extend((!record.is_good()).then(|| trouble(record.trouble())));
                continue;
            }
            let lease =
                seen.leases.get(id).and_then(|&generation| board.lease(id, generation, now));
            let Some((said, silent)) = lease else {
                waiting += 1;
                continue;
            };
            let held: &mut Vec<Held> = match silent > said.stale_after {
                true => &mut stale,
                false => &mut running,
            };
            let (worker, doing) = (said.worker, said.doing);
            held.push(Held { job: id.clone(), what: what(), worker, doing, silent });
        }
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        let seconds_each = (!seconds.is_empty()).then_some(mean);
        let left = (waiting + running.len() + stale.len()) as f64 / running.len().max(1) as f64;
        Ok(Status {
            jobs: jobs.len(),
            done,
            running,
            stale,
            waiting,
            failed,
            gates_failed,
            seconds_each,
            seconds_left: seconds_each.map(|mean| mean * left),
        })
    }

    /// Whether every job has an answer, and every answer meets what was asked.
    pub fn is_good(&self) -> bool {
        self.done == self.jobs && !self.has_trouble()
    }

    /// Whether some job failed, or its gate did.
    pub fn has_trouble(&self) -> bool {
        !self.failed.is_empty() || !self.gates_failed.is_empty()
    }

    /// How many there are of each kind, in one line.
    pub fn counts(&self) -> String {
        let Status { jobs, done, running, stale, waiting, failed, .. } = self;
        let kinds = [
            (*done, "done"),
            (running.len(), "running"),
            (stale.len(), "stale"),
            (*waiting, "waiting"),
            (failed.len(), "failed"),
        ];
        let there = kinds.iter().filter(|(count, kind)| *count > 0 || *kind == "done");
        let kinds: Vec<String> = there.map(|(count, kind)| format!("{count} {kind}")).collect();
        let jobs = if *jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
        format!("{jobs}: {}", kinds.join(", "))
    }

    /// What the rest takes, in words; empty where there is none, or nothing to go by.
    pub fn estimate(&self) -> String {
        match (self.seconds_each, self.seconds_left) {
            (Some(each), Some(left)) if left > 0.0 => {
                let workers = self.running.len().max(1);
                format!(
                    "{} a job; the rest takes about {} with {workers} at work",
                    time(each),
                    time(left)
                )
            }
            _ => String::new(),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.counts())?;
        let estimate = self.estimate();
        if !estimate.is_empty() {
            write!(f, "\n{estimate}")?;
        }
        let held = |(held, state): (&Held, &str)| {
            vec![held.what.clone(), held.worker.clone(), state.to_owned(), held.doing.clone()]
        };
        let running = self.running.iter().map(|held| (held, "running"));
        let all: Vec<_> =
            running.chain(self.stale.iter().map(|held| (held, "stale"))).map(held).collect();
        if !all.is_empty() {
            write!(f, "\n\n{}", table(&["job", "worker", "state", "doing"], &all))?;
        }
        for (title, troubles) in [("failed", &self.failed), ("gate failed", &self.gates_failed)] {
            let shown = troubles.iter().take(SHOWN);
            let rows: Vec<_> = shown.map(|t| vec![t.what.clone(), t.problem.clone()]).collect();
            if !rows.is_empty() {
                write!(f, "\n\n{}", table(&[title, "why"], &rows))?;
            }
            if troubles.len() > SHOWN {
                write!(f, "\nand {} more: --json has all", troubles.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// Seconds, minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}
