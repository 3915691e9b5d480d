//! The CUDA implementation of the kernels: one stream on one GPU, everything resident there.
//!
//! Calls return before the work is done. What fails is remembered, and nothing runs after it, until
//! [`Cuda::check`] reports it: results are never taken from a device that has a problem.

mod background_compiler;
mod compiler;
mod heads;
mod memory;
mod mlp;
mod moving;
mod muon;
mod optimize;
mod programs;
mod rl;
mod rollout_step;
mod sampling;
mod sources;
mod stream;
mod trajectories;

use crate::{Error, Result};
pub(crate) use background_compiler::BackgroundCompiler;
use compiler::Compiler;
use cudarc::driver::{result, sys};
pub(crate) use memory::DeviceMemory;
pub use muon::muon_words;
use sources::{Kernel, Section, Source};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{Argument, Grid, Last, NextPass, argument, launch};

/// Smallest compute capability with tensor cores for TF32.
const CAPABILITY: [i32; 2] = [8, 0];
/// Smallest with kernels that wait for each other by themselves.
const EARLY: [i32; 2] = [9, 0];

/// The environment variable that says how many gigabytes of the card may be used.
const LIMIT: &str = "HAMBO_GPU_MEMORY";

/// A GPU.
pub(crate) struct Cuda {
    name: String,
    context: sys::CUcontext,
    stream: sys::CUstream,
    multiprocessors: u32,
    /// Bytes of shared memory that a block may use.
    shared: u32,
    /// Whether a kernel may be started before the one before it has ended.
    starts_early: bool,
    pool: sys::CUmemoryPool,
    /// Bytes that may be used at most.
    limit: u64,
    /// What compiles. Not held here: what this holds may hold this, and would never end.
    compiler: Weak<BackgroundCompiler>,
    functions: Mutex<HashMap<Kernel, sys::CUfunction>>,
    tapes: Mutex<HashMap<String, programs::UploadedTape>>,
    /// Zeros with which blocks find out which of them is the last, and room for what each of them sums up.
    tickets: u64,
    partials: u64,
    /// What the SVGD kernels leave for each other.
    svgd: Mutex<Option<optimize::SvgdWorkspace>>,
    /// Gradients of parts of a batch.
    gradients: Mutex<Option<DeviceMemory>>,
    next_pass: Mutex<NextPass>,
    problem: Mutex<Option<String>>,
}

// SAFETY: CUDA's handles may be used from any thread that has made the context current, which every call does.
unsafe impl Send for Cuda {}
// SAFETY: as above; one stream orders all the work.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Whether the driver's library can be loaded.
    pub fn has_driver() -> bool {
        // SAFETY: only loads the library.
        unsafe { sys::is_culib_present() }
    }

    /// The first GPU, and what compiles for it.
    pub fn new() -> Result<(Self, Arc<BackgroundCompiler>)> {
        if !Self::has_driver() {
            return Err(Error::Device(
                "no NVIDIA driver: libcuda.so (or libcuda.so.1) is not in the loader's folders"
                    .to_owned(),
            ));
        }
        let failed =
            |what: &str, e: result::DriverError| Error::Device(format!("{what}: {}", words(e)));
        result::init().map_err(|e| failed("the NVIDIA driver does not start", e))?;
        let device = result::device::get(0).map_err(|e| failed("no NVIDIA GPU", e))?;
        let name = result::device::get_name(device).map_err(|e| failed("GPU 0", e))?;
        let attribute = |attribute: sys::CUdevice_attribute| {
            // SAFETY: a device that the driver just gave.
            unsafe { result::device::get_attribute(device, attribute) }
                .map_err(|e| failed(&name, e))
        };
        use sys::CUdevice_attribute as A;
        let capability = [
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ];
        if capability < CAPABILITY {
            let [major, minor] = capability;
            return Err(Error::Device(format!(
                "{name} has compute capability {major}.{minor}; {}.{} or higher (Ampere or newer) is needed",
                CAPABILITY[0], CAPABILITY[1]
            )));
        }
        let limit = match std::env::var(LIMIT) {
            Err(_) => u64::MAX,
            Ok(text) => match text.parse::<f64>() {
                Ok(gigabytes) if gigabytes > 0.0 => (gigabytes * 1e9) as u64,
                _ => return Err(Error::setting(LIMIT, text, "a number of gigabytes above 0")),
            },
        };
        let compiler = Arc::new(BackgroundCompiler::new(Compiler::new(capability)?));
        for section in Section::ALL {
            compiler.begin(Source::Kernels(section)); // nothing can do without
        }
        // SAFETY: the context is retained for the life of the process.
        let (context, stream, pool) = unsafe {
            let context = result::primary_ctx::retain(device).map_err(|e| failed(&name, e))?;
            result::ctx::set_current(context).map_err(|e| failed(&name, e))?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
            let stream = stream.map_err(|e| failed(&name, e))?;
            // Freed memory stays with us: the next allocation of the kind costs nothing.
            let pool =
                result::device::get_default_mem_pool(device).map_err(|e| failed(&name, e))?;
            let mut keep = u64::MAX;
            sys::cuMemPoolSetAttribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            );
            (context, stream, pool)
        };
        let (tickets, partials) =
            (4 * heads::MOST_MEMBERS, 8 * heads::MOST_MEMBERS * heads::MOST_PARTS);
        // SAFETY: kept for the life of the process, and cleared before anything uses it.
        let room = unsafe {
            let room = result::malloc_sync(tickets + partials).map_err(|e| failed(&name, e))?;
            result::memset_d8_sync(room, 0, tickets).map_err(|e| failed(&name, e))?;
            room
        };
        let cuda = Cuda {
            tickets: room,
            partials: room + tickets as u64,
            multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            shared: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32,
            starts_early: capability >= EARLY,
            name,
            context,
            stream,
            pool,
            limit,
            compiler: Arc::downgrade(&compiler),
            functions: Mutex::default(),
            tapes: Mutex::default(),
            svgd: Mutex::default(),
            gradients: Mutex::default(),
            next_pass: Mutex::new(NextPass {
                last: Last::Writer,
                overlaps: false,
                few_blocks: false,
            }),
            problem: Mutex::default(),
        };
        Ok((cuda, compiler))
    }

    /// The card's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn enter(&self) -> std::result::Result<(), ()> {
        if lock(&self.problem).is_some() {
            return Err(());
        }
        // SAFETY: the context lives as long as the process.
        self.remember("its context", unsafe { result::ctx::set_current(self.context) })
    }

    /// Keeps the first problem.
    fn remember<T>(
        &self,
        what: &str,
        outcome: std::result::Result<T, result::DriverError>,
    ) -> std::result::Result<T, ()> {
        outcome.map_err(|e| {
            let advice = match e.0 {
                sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => format!("; {}", self.advice()),
                _ => String::new(),
            };
            self.fail(format!("{} failed at {what}: {}{advice}", self.name, words(e)));
        })
    }

    /// What to do where memory is short.
    fn advice(&self) -> String {
        let limit = match self.limit {
            u64::MAX => String::new(),
            bytes => format!("raise {LIMIT} ({} GB), ", bytes as f64 / 1e9),
        };
        format!(
            "{limit}lower the number of rollouts, the batch or the network, or free the card of other processes"
        )
    }

    fn fail(&self, problem: String) {
        lock(&self.problem).get_or_insert(problem);
    }

    /// Waits for the work so far, and reports the first problem there was.
    pub fn check(&self) -> Result<()> {
        if self.enter().is_ok() {
            // SAFETY: the stream lives as long as the process.
            let _ = self.remember("its work", unsafe { result::stream::synchronize(self.stream) });
        }
        self.sound()
    }

    /// An error if there was a problem so far.
    fn sound(&self) -> Result<()> {
        match &*lock(&self.problem) {
            Some(problem) => Err(Error::Device(problem.clone())),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the driver says about an error.
fn words(error: result::DriverError) -> String {
    let text =
        |r: std::result::Result<&std::ffi::CStr, _>| r.map(|s| s.to_string_lossy().into_owned());
    match (text(error.error_name()), text(error.error_string())) {
        (Ok(name), Ok(text)) => format!("{text} ({name})"),
        _ => format!("{error:?}"),
    }
}
