//! Long work beside the interpreter: in a thread of its own without Python's lock, shown as it goes on, stopped by Ctrl-C.

use crate::errors::{Files, exception, from_panic};
use hambo::run::Observer;
use hambo_cli::embedded::Failure;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often signals and progress are looked at.
const OFTEN: Duration = Duration::from_millis(50);
/// How long work that was told to stop is waited for: it stops at its next report.
const PATIENCE: Duration = Duration::from_millis(800);

/// What the thread and the interpreter share.
#[derive(Clone, Default)]
pub struct Shared {
    stop: Arc<AtomicBool>,
    /// The latest report of every stage that was not told yet.
    latest: Arc<Mutex<Vec<Progress>>>,
    problem: Arc<Mutex<Option<PyErr>>>,
}

/// Stage, steps done, steps in all, and the latest figure.
type Progress = (String, usize, usize, String);

/// What work unwinds with that was stopped; no panic, so nothing is printed.
struct Stopped;

impl Shared {
    /// Ends the work if that was asked for.
    pub fn check(&self) {
        if self.stop.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Ends the work, which raises this exception.
    pub fn fail(&self, problem: PyErr) -> ! {
        let mut first = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(problem);
        drop(first);
        resume_unwind(Box::new(Stopped))
    }
}

/// Watches the work.
pub struct Watch {
    shared: Shared,
    /// Whether a GPU may be recording what it is to repeat, which is no moment to stop.
    gpu: bool,
}

impl Watch {
    pub fn new(shared: &Shared, gpu: bool) -> Self {
        Watch { shared: shared.clone(), gpu }
    }
}

impl Observer for Watch {
    fn report(&self, stage: &str, done: usize, total: usize, note: &str) {
        let report = (stage.to_owned(), done, total, note.to_owned());
        let mut latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match latest.last_mut() {
            Some(last) if last.0 == stage => *last = report,
            _ => latest.push(report),
        }
        drop(latest);
        let recording = self.gpu && done < total && stage.starts_with("rollouts");
        if !recording {
            self.shared.check();
        }
    }
}

/// Does the work in a thread, and waits for it with an eye on signals.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    shared: &Shared,
    progress: Option<&Bound<'_, PyAny>>,
    files: &Files,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("hambo".to_owned()).spawn(move || {
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    });
    thread.map_err(|e| exception("Error", &format!("no thread can be started: {e}")))?;
    let mut interrupted: Option<(PyErr, Instant)> = None;
    loop {
        let (again, message) = py.detach(move || {
            let message = receiver.recv_timeout(OFTEN);
            (receiver, message)
        });
        receiver = again;
        match (message, interrupted.take()) {
            (Err(RecvTimeoutError::Timeout), None) => {
                if let Err(signal) = py.check_signals().and_then(|()| tell(shared, progress)) {
                    shared.stop.store(true, Ordering::Relaxed);
                    interrupted = Some((signal, Instant::now()));
                }
            }
            (Err(RecvTimeoutError::Timeout), Some((signal, since))) => {
                if since.elapsed() > PATIENCE {
                    return Err(signal);
                }
                interrupted = Some((signal, since));
            }
            (_, Some((signal, _))) => return Err(signal),
            (Err(RecvTimeoutError::Disconnected), None) => {
                return Err(exception("Error", "the computation went away"));
            }
            (Ok(Ok(Ok(found))), None) => {
                tell(shared, progress)?;
                return Ok(found);
            }
            (Ok(Ok(Err(failure))), None) => return Err(files.raise(failure)),
            (Ok(Err(payload)), None) => {
                let mut problem = shared.problem.lock().unwrap_or_else(PoisonError::into_inner);
                return Err(problem.take().unwrap_or_else(|| from_panic(&*payload)));
            }
        }
    }
}

/// Shows the latest progress of every stage, once.
fn tell(shared: &Shared, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let latest = {
        let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *latest)
    };
    let Some(progress) = progress else { return Ok(()) };
    latest.into_iter().try_for_each(|report| progress.call1(report).map(drop))
}
