//! A worker: takes jobs that nobody has, and those of workers that died, until all have ended.

use super::board::{Board, PAGE, Seen};
use super::fits::Fits;
use super::lease::{Lease, Watch, file_of};
use super::page::live;
use super::plan::{Job, Plan};
use super::record::Record;
use super::status::Status;
use crate::args::Machine;
use crate::commands::{UNFINISHED, device, evaluate, program};
use crate::given::Inputs;
use hambo::run::Observer;
use hambo::task::TaskFunctions;
use hambo::{Answer, Error, Result};
use hambo_engine::files::sha256;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What others did is looked for at most so often.
const LOOK: Duration = Duration::from_secs(1);
/// The page is written at most so often.
const PAGE_EVERY: Duration = Duration::from_secs(5);
/// Seconds that are waited when the folder cannot be read or written, time after time.
const PAUSES: [u64; 3] = [1, 2, 4];
/// Looking and writing the page take at most this share of the time.
const SHARE: u32 = 100;

/// One process at work.
pub struct Worker<'a> {
    pub plan: &'a Plan,
    pub board: &'a Board,
    /// Those of the plan's jobs that it may do.
    pub jobs: Vec<&'a Job>,
    pub machine: &'a Machine,
    pub stale_after: Duration,
    name: String,
    /// What computes, by name, as unfinished work knows it.
    program: BTreeMap<String, String>,
    fits: Fits<'a>,
    start: Instant,
}

impl<'a> Worker<'a> {
    pub fn new(
        (plan, board): (&'a Plan, &'a Board),
        jobs: Vec<&'a Job>,
        machine: &'a Machine,
        stale_after: Duration,
    ) -> Result<Self> {
        let program = program(&device(machine)?, None);
        let name = format!("{}:{}", host(), std::process::id());
        let (fits, start) = (Fits::new(plan, board, &program), Instant::now());
        Ok(Worker { plan, board, jobs, machine, stale_after, name, program, fits, start })
    }

    /// Works until all of its jobs have ended, here or elsewhere; the page tells how far it is meanwhile.
    pub fn work(&self) -> Result<()> {
        let (working, done) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || self.show_until(&done));
            let result = self.work_patiently();
            drop(working);
            result
        })
    }

    /// A folder that cannot be reached for a moment is no reason to stop.
    fn work_patiently(&self) -> Result<()> {
        let (mut watch, mut pauses) = (Watch::default(), PAUSES.iter());
        loop {
            let pause = match self.round(&mut watch) {
                Ok(None) => return Ok(()),
                Ok(Some(did)) => {
                    pauses = PAUSES.iter();
                    if did { Duration::ZERO } else { LOOK.min(self.stale_after / 4) }
                }
                Err(e) => match pauses.next().filter(|_| is_below(&e, self.board.path())) {
                    Some(&seconds) => {
                        self.say(&format!("{e}; tries again in {seconds} s"));
                        Duration::from_secs(seconds)
                    }
                    None => return Err(e),
                },
            };
            std::thread::sleep(pause);
        }
    }

    /// Looks, and does jobs for a while: whether it did one; none if there is nothing left to do.
    fn round(&self, watch: &mut Watch) -> Result<Option<bool>> {
        let looked = Instant::now();
        let seen = self.board.look()?;
        let enough = LOOK.max(looked.elapsed() * SHARE);
        let open: Vec<&Job> =
            self.jobs.iter().copied().filter(|job| !seen.ended(&job.id)).collect();
        if open.is_empty() {
            self.board.remove_left_leases(&seen);
            return Ok(None);
        }
        let mut did = false;
        for job in self.fits.sorted(open, &seen.leases) {
            match self.attempt(job, &seen, watch)? {
                Attempt::Skipped => {}
                // Whoever was faster learns a model now that is better not learned twice.
                Attempt::Lost => return Ok(Some(true)),
                Attempt::Done => did = true,
            }
            if did && looked.elapsed() >= enough {
                break;
            }
        }
        Ok(Some(did))
    }

    /// Does a job, unless it is somebody's.
    fn attempt(&self, job: &Job, seen: &Seen, watch: &mut Watch) -> Result<Attempt> {
        let leases = self.board.leases();
        let generation = match seen.leases.get(&job.id) {
            None => 0,
            Some(&held) => {
                match watch.is_dead(&file_of(&leases, &job.id, held), self.stale_after) {
                    true => held + 1,
                    false => return Ok(Attempt::Skipped),
                }
            }
        };
        let lease = Lease::take(&leases, (&job.id, generation), &self.name, self.stale_after)?;
        let Some(lease) = lease else { return Ok(Attempt::Lost) };
        // Whoever had it made known what came out before its lease went.
        if self.board.ended(&job.id) {
            return Ok(Attempt::Skipped);
        }
        if generation > 0 {
            self.say(&format!("takes up what a worker left: {}", self.plan.told(job)));
        }
        let start = Instant::now();
        let found = self.found(job, &lease);
        let blank = Record { seconds: start.elapsed().as_secs_f64(), ..self.blank(job) };
        let (record, problem) = match found {
            Ok(answer) => (blank.found(&answer), None),
            // A folder that cannot be written to is no fault of the job.
            Err(e @ Error::Io { .. }) if is_below(&e, self.board.path()) => return Err(e),
            Err(e) => (Record { error: Some(e.to_string()), ..blank }, Some(e)),
        };
        self.board.publish(&record)?;
        let said = record.error.as_ref().map_or(record.summary.clone(), |e| format!("failed: {e}"));
        self.say(&format!("{}: {said}, {:.1} s", self.plan.told(job), record.seconds));
        match problem {
            // On a device that is broken every job would fail.
            Some(e @ Error::Device(_)) => Err(e),
            _ => Ok(Attempt::Done),
        }
    }

    /// Evaluates; a panic is an error of the job.
    fn found(&self, job: &Job, lease: &Lease) -> Result<Answer> {
        let folder = self.board.job(&job.id);
        let mut arguments = self.plan.arguments(job, &folder, self.machine)?;
        // A result that was never made known: its folder is the job's own.
        arguments.force = true;
        let is_lent = self.fits.lend(job, &mut arguments);
        self.clear(&folder.join(UNFINISHED), &arguments.policy, is_lent)?;
        let flags = self.plan.flags(job).join(" ");
        let inputs = Inputs {
            logs: None,
            policies: Vec::new(),
            environment: None,
            simulation: None,
            functions: TaskFunctions::default(),
            observer: Box::new(Note(lease.doing.clone())),
            command: format!("hambo evaluate {flags}"),
            program: std::env::current_exe().unwrap_or_default(),
        };
        let answer = catch_unwind(AssertUnwindSafe(|| evaluate(&arguments, Some(inputs), true)))
            .map_err(|_| Error::Numeric("the program panicked: please report it".to_owned()))??
            .answer;
        self.check_inputs(job, &answer)?;
        self.fits.keep(job, &folder)?;
        Ok(answer)
    }

    /// An error if a file is no longer the one that the job is named for.
    fn check_inputs(&self, job: &Job, answer: &Answer) -> Result<()> {
        let (data, policy) = (self.plan.data(job), self.plan.policy(job));
        let changed = |name: &str| {
            Err(Error::Mismatch(format!(
                "{name} changed while the sweep ran: run it again for the new one"
            )))
        };
        if answer.setup.data.sha256.as_ref() != Some(&data.digest) {
            return changed(&data.name);
        }
        match &policy.own {
            Some(own) if sha256(Path::new(&policy.spec))? != *own => changed(&policy.name),
            _ => Ok(()),
        }
    }

    /// Removes unfinished work of another program or kind of device, which would not end with the same bits, of a plan in another
    /// folder, and of a training whose model was learned elsewhere meanwhile.
    fn clear(&self, unfinished: &Path, policy: &[String], is_lent: bool) -> Result<()> {
        let Ok(bytes) = std::fs::read(unfinished.join("identity.json")) else { return Ok(()) };
        let Ok(there) = serde_json::from_slice::<BTreeMap<String, String>>(&bytes) else {
            return Ok(());
        };
        let same = self.program.iter().all(|(name, value)| there.get(name) == Some(value));
        let same = same && Fits::was_lent(&there) == is_lent;
        if same && there.get("policy") == Some(&policy.join(" ")) {
            return Ok(());
        }
        std::fs::remove_dir_all(unfinished).map_err(|e| Error::io(unfinished, "remove", e))
    }

    fn blank(&self, job: &Job) -> Record {
        let program = |name: &str| self.program.get(name).cloned().unwrap_or_default();
        Record {
            job: job.id.clone(),
            version: program("version"),
            build: program("version.program").chars().take(12).collect(),
            device: program("device"),
            worker: self.name.clone(),
            seconds: 0.0,
            error: None,
            summary: String::new(),
            verdict: None,
            level: None,
            transitions: None,
            episodes: None,
            estimates: Vec::new(),
        }
    }

    /// Writes the page now and then; that it cannot be written is no reason to stop.
    fn show_until(&self, done: &Receiver<()>) {
        let jobs: Vec<&Job> = self.plan.jobs.iter().collect();
        loop {
            let start = Instant::now();
            if let Ok(status) = Status::of(self.plan, &jobs, self.board) {
                let _ = self.board.write(PAGE, live(self.plan, &status).as_bytes());
            }
            let pause = PAGE_EVERY.max(start.elapsed() * SHARE);
            if done.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// A line for people; that nobody reads it is no error.
    fn say(&self, text: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "{seconds:.0} s: {text}");
    }
}

/// What became of the attempt to do a job.
enum Attempt {
    /// It ended, well or not.
    Done,
    /// It is somebody's, or has ended before.
    Skipped,
    /// It was nobody's a moment ago.
    Lost,
}

/// Tells in the lease what is being done.
struct Note(Arc<Mutex<String>>);

impl Observer for Note {
    fn report(&self, stage: &str, done: usize, total: usize, _: &str) {
        if let Ok(mut doing) = self.0.lock() {
            *doing = format!("{stage} {done}/{total}");
        }
    }
}

fn is_below(error: &Error, folder: &Path) -> bool {
    matches!(error, Error::Io { path, .. } if path.starts_with(folder))
}

/// The name of this machine.
fn host() -> String {
    let file = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = file.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    match name.trim() {
        "" => "somewhere".to_owned(),
        name => name.chars().take(100).collect(),
    }
}
