//! The CUDA implementation of the kernels: one stream on one GPU, everything resident there.
//!
//! Calls return before the work is done. What fails is remembered, and nothing runs after it, until
//! [`Cuda::check`] reports it: results are never taken from a device that has a problem.

mod ahead;
mod compiler;
mod elementwise;
mod floor;
mod mlp;
mod optimise;
mod rl;
mod sampling;
mod sources;
mod travel;

use crate::{Error, Result};
pub(crate) use ahead::Ahead;
use compiler::Compiler;
use cudarc::driver::{result, sys};
use sources::{Kernel, Section, Source};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Smallest compute capability with tensor cores for TF32.
const CAPABILITY: [i32; 2] = [8, 0];
/// Smallest with kernels that wait for each other by themselves.
const EARLY: [i32; 2] = [9, 0];
/// Steps in one recording of repeated work. Even, so that work may swap two buffers.
const RECORDED: usize = 8;

/// The environment variable that says how many gigabytes of the card may be used.
const LIMIT: &str = "HAMBO_GPU_MEMORY";
/// Bytes from which on it is asked whether they are free.
const LARGE: usize = 1 << 20;

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
    ahead: Weak<Ahead>,
    functions: Mutex<HashMap<Kernel, sys::CUfunction>>,
    tapes: Mutex<HashMap<String, elementwise::KeptTape>>,
    /// Zeros with which blocks find out which of them is the last, and room for what each of them sums up.
    tickets: u64,
    partials: u64,
    /// What the SVGD kernels leave for each other.
    svgd: Mutex<Option<optimise::SvgdRoom>>,
    /// Gradients of parts of a batch.
    gradients: Mutex<Option<Memory>>,
    turn: Mutex<Turn>,
    problem: Mutex<Option<String>>,
}

// SAFETY: CUDA's handles may be used from any thread that has made the context current, which every call does.
unsafe impl Send for Cuda {}
// SAFETY: as above; one stream orders all the work.
unsafe impl Sync for Cuda {}

/// How the next pass through networks stands to the kernel before it.
#[derive(Clone, Copy)]
struct Turn {
    last: Last,
    /// It may run beside that kernel.
    beside: bool,
    /// It takes as few blocks as it can.
    few: bool,
}

/// What was started last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A pass that may have been started before the kernel before it had ended.
    Beside,
    /// A kernel that may write networks' parameters.
    Writer,
    /// Any other, which was started when all before it had ended.
    Other,
}

/// Blocks, threads a block, and bytes of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    blocks: [u32; 3],
    threads: u32,
    shared: u32,
}

impl Grid {
    /// One thread for each of n.
    fn over(n: usize) -> Self {
        Grid { blocks: [n.div_ceil(256) as u32, 1, 1], threads: 256, shared: 0 }
    }

    /// Blocks of many threads, which sum up.
    fn blocks(n: usize) -> Self {
        Grid { blocks: [n as u32, 1, 1], threads: 1024, shared: 0 }
    }
}

/// What a kernel may be given: these types have the same form in Rust and in CUDA.
///
/// # Safety
/// Only for types whose bytes mean the same on both sides.
pub(super) unsafe trait Argument {}
// SAFETY: numbers of the same size; addresses on the device are 64 bits.
unsafe impl Argument for u32 {}
unsafe impl Argument for u64 {}
unsafe impl Argument for f32 {}
unsafe impl Argument for f64 {}

/// Where an argument lies.
pub(super) fn argument<A: Argument>(value: &A) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Starts a kernel: `launch!(gpu, "name", grid, arguments…)`, in the order of its parameters.
macro_rules! launch {
    ($gpu:expr, $kernel:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: the arguments are those of the kernel of that name in order, number and type.
        unsafe { $gpu.launch($kernel.into(), $grid, &mut [$($crate::compute::cuda::argument(&$argument)),+]) }
    };
}
use launch;

/// Memory on the GPU.
pub(crate) struct Memory {
    pub address: u64,
    pub bytes: usize,
    device: Arc<Cuda>,
}

impl Memory {
    /// Whether it lies on that GPU.
    pub fn is_on(&self, device: &Arc<Cuda>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes on {}", self.bytes, self.device.name)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address != 0 && self.device.enter().is_ok() {
            // SAFETY: allocated on this stream, and all uses of it were enqueued before.
            let _ = unsafe { result::free_async(self.address, self.device.stream) };
        }
    }
}

impl Cuda {
    /// Whether the driver's library can be loaded.
    pub fn has_driver() -> bool {
        // SAFETY: only loads the library.
        unsafe { sys::is_culib_present() }
    }

    /// The first GPU, and what compiles for it.
    pub fn new() -> Result<(Self, Arc<Ahead>)> {
        if !Self::has_driver() {
            return Err(Error::Device(
                "no NVIDIA driver: libcuda.so (or libcuda.so.1) is not in the loader's folders".to_owned(),
            ));
        }
        let failed = |what: &str, e: result::DriverError| Error::Device(format!("{what}: {}", words(e)));
        result::init().map_err(|e| failed("the NVIDIA driver does not start", e))?;
        let device = result::device::get(0).map_err(|e| failed("no NVIDIA GPU", e))?;
        let name = result::device::get_name(device).map_err(|e| failed("GPU 0", e))?;
        let attribute = |attribute: sys::CUdevice_attribute| {
            // SAFETY: a device that the driver just gave.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(|e| failed(&name, e))
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
        let ahead = Arc::new(Ahead::new(Compiler::new(capability)?));
        for section in Section::ALL {
            ahead.begin(Source::Kernels(section)); // nothing can do without
        }
        // SAFETY: the context is retained for the life of the process.
        let (context, stream, pool) = unsafe {
            let context = result::primary_ctx::retain(device).map_err(|e| failed(&name, e))?;
            result::ctx::set_current(context).map_err(|e| failed(&name, e))?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
            let stream = stream.map_err(|e| failed(&name, e))?;
            // Freed memory stays with us: the next allocation of the kind costs nothing.
            let pool = result::device::get_default_mem_pool(device).map_err(|e| failed(&name, e))?;
            let mut keep = u64::MAX;
            sys::cuMemPoolSetAttribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            );
            (context, stream, pool)
        };
        let (tickets, partials) =
            (4 * elementwise::MOST_MEMBERS, 8 * elementwise::MOST_MEMBERS * elementwise::MOST_PARTS);
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
            ahead: Arc::downgrade(&ahead),
            functions: Mutex::default(),
            tapes: Mutex::default(),
            svgd: Mutex::default(),
            gradients: Mutex::default(),
            turn: Mutex::new(Turn { last: Last::Writer, beside: false, few: false }),
            problem: Mutex::default(),
        };
        Ok((cuda, ahead))
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
        match &*lock(&self.problem) {
            Some(problem) => Err(Error::Device(problem.clone())),
            None => Ok(()),
        }
    }

    /// Bytes that can still be allocated: what the card has left and we have freed, within the limit.
    pub fn free_memory(&self) -> u64 {
        if self.enter().is_err() {
            return 0;
        }
        use sys::CUmemPool_attribute as A;
        let of_pool = |attribute: A| {
            let mut bytes = 0u64;
            // SAFETY: both attributes are 64 bits wide.
            unsafe { sys::cuMemPoolGetAttribute(self.pool, attribute, (&raw mut bytes).cast()) };
            bytes
        };
        let ours = of_pool(A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        let used = of_pool(A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        let left = result::mem_get_info().map_or(0, |(free, _)| free as u64);
        (left + ours).min(self.limit).saturating_sub(used)
    }

    /// Memory of undefined content; none at all after a problem.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Memory {
        let mut memory = Memory { address: 0, bytes, device: self.clone() };
        if bytes == 0 || self.enter().is_err() {
            return memory;
        }
        // Asking takes longer than allocating a little.
        if bytes >= LARGE {
            let free = self.free_memory();
            if bytes as u64 > free {
                let [asked, free] = [bytes as f64, free as f64].map(|n| n / 1e6);
                self.fail(format!(
                    "{}: {asked:.1} MB are asked for, {free:.1} MB are free; {}",
                    self.name,
                    self.advice()
                ));
                return memory;
            }
        }
        // SAFETY: freed on the same stream.
        if let Ok(address) =
            self.remember("allocating memory", unsafe { result::malloc_async(self.stream, bytes) })
        {
            memory.address = address;
        }
        memory
    }

    /// Memory full of zeros.
    pub fn zeros(self: &Arc<Self>, bytes: usize) -> Memory {
        let memory = self.allocate(bytes);
        if memory.address != 0 {
            // SAFETY: within the allocation.
            let cleared = unsafe { result::memset_d8_async(memory.address, 0, bytes, self.stream) };
            let _ = self.remember("clearing memory", cleared);
        }
        memory
    }

    /// A copy of the host's values. The host may drop them at once.
    pub fn upload<T>(self: &Arc<Self>, values: &[T]) -> Memory {
        let memory = self.allocate(size_of_val(values));
        if memory.address != 0 {
            // SAFETY: within the allocation; the copy of pageable memory has left the host when this returns.
            let copied = unsafe { result::memcpy_htod_async(memory.address, values, self.stream) };
            let _ = self.remember("copying to the GPU", copied);
        }
        memory
    }

    /// A copy for the host; default values after a problem.
    pub fn download<T: Default + Clone>(&self, memory: &Memory) -> Vec<T> {
        let mut values = vec![T::default(); memory.bytes / size_of::<T>()];
        if memory.address != 0 && self.enter().is_ok() {
            // SAFETY: as many bytes as both sides have, and the stream is waited for.
            let _ = self.remember("copying from the GPU", unsafe {
                result::memcpy_dtoh_async(&mut values, memory.address, self.stream)
                    .and_then(|()| result::stream::synchronize(self.stream))
            });
        }
        values
    }

    /// to\[start_to ..\] ← from\[start_from ..\], in bytes.
    pub fn copy(&self, from: &Memory, start_from: usize, to: &Memory, start_to: usize, bytes: usize) {
        assert!(start_from + bytes <= from.bytes && start_to + bytes <= to.bytes, "copy out of bounds");
        if bytes == 0 || self.enter().is_err() {
            return;
        }
        // SAFETY: both ranges lie within their allocations.
        let _ = self.remember("copying", unsafe {
            result::memcpy_dtod_async(
                to.address + start_to as u64,
                from.address + start_from as u64,
                bytes,
                self.stream,
            )
        });
    }

    /// All 32-bit words ← word.
    pub fn fill(&self, memory: &Memory, word: u32) {
        if memory.address != 0 && self.enter().is_ok() {
            // SAFETY: within the allocation.
            let filled =
                unsafe { sys::cuMemsetD32Async(memory.address, word, memory.bytes / 4, self.stream) };
            let _ = self.remember("filling memory", filled.result());
        }
    }

    /// Does work in which passes take as few blocks as they can.
    pub fn sparingly(&self, work: impl FnOnce()) {
        lock(&self.turn).few = true;
        work();
        lock(&self.turn).few = false;
    }

    /// Does work that begins with a pass that need not wait for the kernel before it.
    pub fn beside(&self, work: impl FnOnce()) {
        lock(&self.turn).beside = true;
        work();
        lock(&self.turn).beside = false;
    }

    /// Does the same work many times: records a few rounds of it and replays them. Everything that changes from
    /// one round to the next must be read from the device.
    pub fn repeat(&self, times: usize, mut work: impl FnMut()) {
        // What is done once for all, as compiling a kernel, happens before recording.
        let recordings = (times / RECORDED).saturating_sub(1);
        for _ in 0..times - recordings * RECORDED {
            work();
        }
        if recordings == 0 || self.enter().is_err() {
            return;
        }
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is ours; the graph is used here alone, and destroyed after its last launch.
        unsafe {
            if self.remember("recording", result::stream::begin_capture(self.stream, mode)).is_err() {
                return;
            }
            for _ in 0..RECORDED {
                work();
            }
            let Ok(graph) = self.remember("recording", result::stream::end_capture(self.stream)) else {
                return;
            };
            let run = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            if let Ok(run) = self.remember("preparing a recording", run) {
                for _ in 0..recordings {
                    if self.remember("replaying", result::graph::launch(run, self.stream)).is_err() {
                        break;
                    }
                }
                let _ = self.remember("its work", result::stream::synchronize(self.stream));
                let _ = result::graph::exec_destroy(run);
            }
            let _ = result::graph::destroy(graph);
        }
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// `arguments` point to what the kernel's parameters are, in order, number and type.
    unsafe fn launch(&self, kernel: Kernel, grid: Grid, arguments: &mut [*mut c_void]) {
        if grid.blocks.contains(&0) || self.enter().is_err() {
            return;
        }
        let Some(function) = self.function(kernel) else { return };
        let [x, y, z] = grid.blocks;
        // The kernel waits for the one before it by itself, see `in_order` in `common.cu`.
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: self.stream,
            attrs: &raw mut early,
            numAttrs: u32::from(self.starts_early),
        };
        // SAFETY: a function of a module that is never unloaded; the rest is the caller's promise.
        let started =
            unsafe { sys::cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), std::ptr::null_mut()) };
        let _ = self.remember(kernel.name, started.result());
        let mut turn = lock(&self.turn);
        turn.last = if kernel.source.writes_parameters() { Last::Writer } else { Last::Other };
        turn.beside = false;
    }

    fn function(&self, kernel: Kernel) -> Option<sys::CUfunction> {
        let mut functions = lock(&self.functions);
        if let Some(&function) = functions.get(&kernel) {
            return Some(function);
        }
        let Some(ahead) = self.ahead.upgrade() else {
            self.fail(format!("{} was used after its last device was gone", self.name));
            return None;
        };
        begin(&ahead, &functions, kernel.source.companions());
        let code = match ahead.code(kernel.source) {
            Ok(code) => code,
            Err(e) => {
                self.fail(e.to_string());
                return None;
            }
        };
        // SAFETY: the image is what NVRTC compiled for this card; the module stays for the life of the process.
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
        let module = self.remember("loading kernels", module).ok()?;
        let names: Vec<&'static str> = match kernel.source {
            Source::Kernels(section) => section.kernels().collect(),
            _ => vec![kernel.name],
        };
        for name in names {
            let Ok(symbol) = CString::new(name) else { continue };
            // SAFETY: the module was just loaded.
            let function = unsafe { result::module::get_function(module, symbol) };
            let function = self.remember(name, function).ok()?;
            if let Source::Passes { .. } = kernel.source {
                let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: a valid function.
                let allowed =
                    unsafe { result::function::set_function_attribute(function, most, self.shared as i32) };
                self.remember(name, allowed).ok()?;
            }
            functions.insert(Kernel { name, source: kernel.source }, function);
        }
        let function = functions.get(&kernel).copied();
        if function.is_none() {
            self.fail(format!("there is no kernel {}", kernel.name));
        }
        function
    }

    /// Begins to compile what will be asked for.
    fn expect(&self, sources: Vec<Source>) {
        if let Some(ahead) = self.ahead.upgrade() {
            begin(&ahead, &lock(&self.functions), sources);
        }
    }
}

/// Begins to compile what is neither there nor being compiled.
fn begin(ahead: &Ahead, functions: &HashMap<Kernel, sys::CUfunction>, sources: Vec<Source>) {
    for source in sources {
        if !functions.keys().any(|known| known.source == source) {
            ahead.begin(source);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the driver says about an error.
fn words(error: result::DriverError) -> String {
    let text = |r: std::result::Result<&std::ffi::CStr, _>| r.map(|s| s.to_string_lossy().into_owned());
    match (text(error.error_name()), text(error.error_string())) {
        (Ok(name), Ok(text)) => format!("{text} ({name})"),
        _ => format!("{error:?}"),
    }
}
