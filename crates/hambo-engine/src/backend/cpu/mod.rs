//! The CPU implementation of the kernels.
//!
//! Sums are taken in an order that depends on the problem alone, never on how threads share the work: the same seed gives the
//! same bits on one thread and on sixteen. They do depend on the instructions that the processor has.

mod activation;
mod adjoint;
mod elementwise;
mod mlp;
mod muon;
mod optimize;
mod product;
mod rl;
mod sampling;

pub(crate) use product::instructions;

use crate::{Error, Result};
use rayon::prelude::*;
use std::{marker::PhantomData, ops::Range, sync::Mutex};

/// Threads that a user may ask for; thousands only keep the system busy with starting them.
const MOST_THREADS: usize = 1024;

/// A pool of threads.
pub(crate) struct Cpu {
    pool: rayon::ThreadPool,
    /// Partial sums of the reduction under way, one set a block; grows once, then is reused.
    partials: Mutex<Vec<f64>>,
    mixing: Mutex<optimize::Mixing>,
}

impl Cpu {
    /// A pool of `threads`, or of one per core.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        if let Some(threads) = threads.filter(|n| !(1..=MOST_THREADS).contains(n)) {
            return Err(Error::setting("threads", threads, format!("1 to {MOST_THREADS}")));
        }
        let threads = threads.unwrap_or(0); // rayon: 0 = one per core
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("hambo-{i}"))
            .build()
            .map_err(|e| {
                Error::setting("threads", threads, format!("a number the system grants ({e})"))
            })?;
        Ok(Cpu { pool, partials: Mutex::default(), mixing: Mutex::default() })
    }

    /// Runs `work` on the pool, so that the kernels it calls start without a hand-over between threads.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Calls `work(0) … work(units - 1)`, each once, on all threads.
    fn parallel(&self, units: usize, work: impl Fn(usize) + Sync) {
        if units == 1 {
            return work(0);
        }
        self.pool.install(|| (0..units).into_par_iter().with_max_len(1).for_each(&work));
    }

    /// Calls `work` on consecutive ranges of at most `block` of 0..n.
    fn blocks(&self, n: usize, block: usize, work: impl Fn(Range<usize>) + Sync) {
        self.parallel(n.div_ceil(block), |i| work(i * block..((i + 1) * block).min(n)));
    }
}

/// A slice that several threads write to, each its own part.
#[derive(Clone, Copy)]
struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: a `Parts` gives out memory only through `take`, whose caller promises disjoint ranges.
unsafe impl<T: Send> Send for Parts<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        Parts { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The part `range`.
    ///
    /// # Safety
    /// Ranges taken while another is in use must not overlap it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn take(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "part out of bounds");
        // SAFETY: within the slice (checked above), disjoint (the caller's promise).
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Runs a loop compiled for the widest vector instructions that this processor has.
#[inline(always)]
fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
