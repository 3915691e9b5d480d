//! Kernels that are compiled on other threads before they are asked for.

use crate::backend::cuda::compiler::Compiler;
use crate::backend::cuda::{Source, lock};
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};

/// Compilers recurse deeply.
const STACK: usize = 16 << 20;

/// The compiler and what it does on other threads. All of them have ended when this is gone: the process must not end
/// while the compiler runs.
pub(crate) struct BackgroundCompiler {
    compiler: Arc<Compiler>,
    jobs: Mutex<HashMap<Source, JoinHandle<Result<Vec<u8>>>>>,
}

impl BackgroundCompiler {
    pub(super) fn new(compiler: Compiler) -> Self {
        BackgroundCompiler { compiler: compiler.into(), jobs: Mutex::default() }
    }

    /// Begins to compile what will be asked for.
    pub(super) fn begin(&self, source: Source) {
        let mut jobs = self.jobs();
        if jobs.contains_key(&source) {
            return;
        }
        let compiler = self.compiler.clone();
        let job = Builder::new().stack_size(STACK).spawn(move || source.compile(&compiler));
        // Without a thread it is compiled when it is asked for.
        if let Ok(job) = job {
            jobs.insert(source, job);
        }
    }

    /// Machine code of a source, by the thread that is at it or here and now.
    pub(super) fn code(&self, source: Source) -> Result<Vec<u8>> {
        let job = self.jobs().remove(&source);
        match job {
            Some(job) => job.join().unwrap_or_else(|_| {
                Err(Error::Device(format!("the compiler of {source:?} broke off")))
            }),
            None => source.compile(&self.compiler),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<Source, JoinHandle<Result<Vec<u8>>>>> {
        lock(&self.jobs)
    }
}

impl Drop for BackgroundCompiler {
    fn drop(&mut self) {
        for (_, job) in self.jobs().drain() {
            let _ = job.join();
        }
    }
}
