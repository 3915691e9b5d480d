//! What is put on the stream: kernels, and recordings of many of them.

use crate::backend::KernelArgument;
use crate::backend::cuda::background_compiler::BackgroundCompiler;
use crate::backend::cuda::sources::{Kernel, Source};
use crate::backend::cuda::{Cuda, lock};
use cudarc::driver::{result, sys};
use std::collections::HashMap;
use std::ffi::{CString, c_void};

/// Steps in one recording of repeated work. Even, so that work may swap two buffers.
const RECORDED: usize = 8;

/// How the next pass through networks stands to the kernel before it.
#[derive(Clone, Copy)]
pub(super) struct NextPass {
    pub last: Last,
    /// It may overlap with that kernel.
    pub overlaps: bool,
    /// It takes as few blocks as it can.
    pub few_blocks: bool,
}

/// What was started last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// A pass that may have been started before the kernel before it had ended.
    Overlapping,
    /// A kernel that may write networks' parameters.
    Writer,
    /// Any other, which was started when all before it had ended.
    Other,
}

/// Blocks, threads a block, and bytes of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub blocks: [u32; 3],
    pub threads: u32,
    pub shared: u32,
}

impl Grid {
    /// One thread for each of n.
    pub fn over(n: usize) -> Self {
        Grid { blocks: [n.div_ceil(256) as u32, 1, 1], threads: 256, shared: 0 }
    }

    /// Blocks of many threads, which sum up.
    pub fn blocks(n: usize) -> Self {
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
// SAFETY: as above.
unsafe impl Argument for u64 {}
// SAFETY: as above.
unsafe impl Argument for f32 {}
// SAFETY: as above.
unsafe impl Argument for f64 {}

/// Where an argument lies.
pub(super) fn argument<A: Argument>(value: &A) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Starts a kernel: `launch!(gpu, "name", grid, arguments…)`, in the order of its parameters.
macro_rules! launch {
    ($gpu:expr, $kernel:expr, $grid:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: the arguments are those of the kernel of that name in order, number and type.
        unsafe { $gpu.launch($kernel.into(), $grid, &mut [$($crate::backend::cuda::argument(&$argument)),+]) }
    };
}
pub(super) use launch;

impl Cuda {
    /// Does work in which passes take as few blocks as they can.
    pub fn with_few_blocks(&self, work: impl FnOnce()) {
        lock(&self.next_pass).few_blocks = true;
        work();
        lock(&self.next_pass).few_blocks = false;
    }

    /// Does work that begins with a pass that need not wait for the kernel before it.
    pub fn overlapping(&self, work: impl FnOnce()) {
        lock(&self.next_pass).overlaps = true;
        work();
        lock(&self.next_pass).overlaps = false;
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
            if self.remember("recording", result::stream::begin_capture(self.stream, mode)).is_err()
            {
                return;
            }
            for _ in 0..RECORDED {
                work();
            }
            let Ok(graph) = self.remember("recording", result::stream::end_capture(self.stream))
            else {
                return;
            };
            let run = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            if let Ok(run) = self.remember("preparing a recording", run) {
                for _ in 0..recordings {
                    if self.remember("replaying", result::graph::launch(run, self.stream)).is_err()
                    {
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
    pub(super) unsafe fn launch(&self, kernel: Kernel, grid: Grid, arguments: &mut [*mut c_void]) {
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
        let started = unsafe {
            sys::cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), std::ptr::null_mut())
        };
        let _ = self.remember(kernel.name, started.result());
        let mut next = lock(&self.next_pass);
        next.last = if kernel.source.writes_parameters() { Last::Writer } else { Last::Other };
        next.overlaps = false;
    }

    /// See [`crate::backend::Device::launch_source`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn launch_source(
        &self,
        (source, name): (&'static str, &'static str),
        threads: u32,
        arguments: &[KernelArgument<'_>],
    ) -> u32 {
        let grid = Grid { blocks: [2 * self.multiprocessors, 1, 1], threads, shared: 0 };
        // A kernel that takes 32 bits reads the first half.
        let value = |argument: &KernelArgument<'_>| match argument {
            KernelArgument::Number(number) => u64::from(*number),
            KernelArgument::Buffer(buffer) => buffer.gpu().address,
        };
        let values: Vec<u64> = arguments.iter().map(value).collect();
        let mut arguments: Vec<*mut c_void> = values.iter().map(argument).collect();
        // SAFETY: by the caller's promise.
        unsafe {
            self.launch(Kernel { name, source: Source::Foreign(source) }, grid, &mut arguments)
        };
        grid.blocks[0]
    }

    fn function(&self, kernel: Kernel) -> Option<sys::CUfunction> {
        let mut functions = lock(&self.functions);
        if let Some(&function) = functions.get(&kernel) {
            return Some(function);
        }
        let Some(compiler) = self.compiler.upgrade() else {
            self.fail(format!("{} was used after its last device was gone", self.name));
            return None;
        };
        begin(&compiler, &functions, kernel.source.backward_passes());
        let code = match compiler.code(kernel.source) {
            Ok(code) => code,
            Err(e) => {
                self.fail(e.to_string());
                return None;
            }
        };
        begin(&compiler, &functions, kernel.source.other_sizes());
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
                let most =
                    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: a valid function.
                let allowed = unsafe {
                    result::function::set_function_attribute(function, most, self.shared as i32)
                };
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
    pub(super) fn expect(&self, sources: Vec<Source>) {
        if let Some(compiler) = self.compiler.upgrade() {
            begin(&compiler, &lock(&self.functions), sources);
        }
    }
}

/// Begins to compile what is neither there nor being compiled.
fn begin(
    compiler: &BackgroundCompiler,
    functions: &HashMap<Kernel, sys::CUfunction>,
    sources: Vec<Source>,
) {
    for source in sources {
        if !functions.keys().any(|known| known.source == source) {
            compiler.begin(source);
        }
    }
}
