//! Buffers on a device, and the few kernels that all else is made of.
//!
//! Algorithms call the methods of [`Device`] and know no device: each method is one kernel (or a fixed
//! sequence of kernels) that neither allocates nor waits for the host, so that a training step or a whole
//! rollout can be recorded once and replayed. What changes from step to step is therefore read from a
//! [`Counter`] that lives on the device.

mod adjoint;
mod buffer;
mod counter;
mod cpu;
mod cuda;
mod elementwise;
mod limits;
mod mlp;
mod optimize;
mod rl;
mod rollout_step;
mod sampling;
mod shape;
mod step;

pub use buffer::{Buffer, Number};
pub use counter::Counter;
pub use elementwise::Gaussian;
pub use limits::{Exit, Limits};
pub use mlp::{Input, Pass};
pub use optimize::{Adam, Muon, Optimizer, SteinKernel, Svgd};
pub use rl::{LOG_STD, SquashedActions, TdTarget};
pub use rollout_step::{RolloutStep, StepKind};
pub use sampling::FEATURE_VARIANCE;
pub use shape::{Activation, Layer, Shape};
pub use step::{Outcome, Power, Prediction, Shift, Status, Step};

use crate::Result;
use buffer::Storage;
use cpu::Cpu;
use cuda::{BackgroundCompiler, Cuda};
use std::marker::PhantomData;
use std::sync::Arc;

/// Where the work is done.
///
/// ```
/// use hambo_engine::backend::Device;
/// let device = Device::cpu(Some(1))?; // Device::cuda() for an NVIDIA GPU
/// assert_eq!(device.download(&device.upload(&[1.0f32, 2.0]))?, [1.0, 2.0]);
/// # Ok::<(), hambo_engine::Error>(())
/// ```
#[derive(Clone)]
pub enum Device {
    /// The processor's cores.
    #[doc(hidden)]
    Cpu(CpuHandle),
    /// An NVIDIA GPU.
    #[doc(hidden)]
    Cuda(CudaHandle),
}

/// An argument of [`Device::launch_source`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum KernelArgument<'a> {
    /// A number.
    Number(u32),
    /// The address of a buffer.
    Buffer(&'a Buffer),
}

/// A shared handle to the thread pool.
#[derive(Clone)]
pub struct CpuHandle {
    pool: Arc<Cpu>,
    /// Whether products may take 16 bits of their factors.
    fast: bool,
}

/// A shared handle to the GPU.
#[derive(Clone)]
pub struct CudaHandle {
    cuda: Arc<Cuda>,
    /// Whether products may round their factors to TF32.
    fast: bool,
    /// The compiler's threads live as long as a device does.
    _compiler: Arc<BackgroundCompiler>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Device {
    /// The CPU with that many threads, or one per core.
    pub fn cpu(threads: Option<usize>) -> Result<Self> {
        Ok(Device::Cpu(CpuHandle { pool: Arc::new(Cpu::new(threads)?), fast: false }))
    }

    /// The first NVIDIA GPU.
    pub fn cuda() -> Result<Self> {
        let (cuda, compiler) = Cuda::new()?;
        Ok(Device::Cuda(CudaHandle { cuda: Arc::new(cuda), fast: false, _compiler: compiler }))
    }

    /// Whether there is an NVIDIA driver, and so a card that one would expect to be used.
    pub fn has_gpu() -> bool {
        Cuda::has_driver()
    }

    /// Bytes that can still be allocated on a GPU; none on a CPU, whose memory the system manages.
    pub fn free_memory(&self) -> Option<u64> {
        match self {
            Device::Cpu(_) => None,
            Device::Cuda(gpu) => Some(gpu.cuda.free_memory()),
        }
    }

    /// The same device, whose products may round their factors where that is faster, on a GPU to 11 significant bits
    /// (TF32), on the tiles of AMX to 16: good enough for the gradients of training.
    pub fn fast(&self) -> Self {
        match self {
            Device::Cpu(cpu) => Device::Cpu(CpuHandle { fast: true, ..cpu.clone() }),
            Device::Cuda(gpu) => Device::Cuda(CudaHandle { fast: true, ..gpu.clone() }),
        }
    }

    /// A name for people.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu(cpu) => {
                format!("cpu ({} threads, {})", cpu.pool.threads(), cpu::instructions())
            }
            Device::Cuda(gpu) => format!("cuda ({})", gpu.cuda.name()),
        }
    }

    /// What the bits of a result depend on: not on the number of threads.
    pub fn kind(&self) -> String {
        match self {
            Device::Cpu(_) => format!("cpu ({})", cpu::instructions()),
            Device::Cuda(_) => self.name(),
        }
    }

    /// Whether it is the processor that the program itself runs on.
    pub fn is_host(&self) -> bool {
        matches!(self, Device::Cpu(_))
    }

    /// Whether buffers of the one are buffers of the other.
    pub fn is(&self, other: &Device) -> bool {
        match (self, other) {
            (Device::Cpu(a), Device::Cpu(b)) => Arc::ptr_eq(&a.pool, &b.pool),
            (Device::Cuda(a), Device::Cuda(b)) => Arc::ptr_eq(&a.cuda, &b.cuda),
            _ => false,
        }
    }

    /// Whether a buffer can be used here.
    pub fn holds<T>(&self, buffer: &Buffer<T>) -> bool {
        match (self, &buffer.0) {
            (Device::Cpu(_), Storage::Cpu(_)) => true,
            (Device::Cuda(gpu), Storage::Cuda(memory, _)) => memory.is_on(&gpu.cuda),
            _ => false,
        }
    }

    /// Runs a long piece of work on the device's own thread; kernels called within start faster.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Device::Cpu(cpu) => cpu.pool.run(work),
            Device::Cuda(_) => work(),
        }
    }

    /// Does the same work many times; a GPU records it once and replays it. What changes from one round to the
    /// next must be read from the device, as from a [`Counter`], and nothing may be allocated, set or downloaded;
    /// two buffers may be swapped.
    pub fn repeat(&self, times: usize, mut work: impl FnMut()) {
        match self {
            Device::Cpu(_) => (0..times).for_each(|_| work()),
            Device::Cuda(gpu) => gpu.cuda.repeat(times, work),
        }
    }

    /// Does work whose passes through networks take as few blocks of a GPU as they can, and longer: what overlaps with
    /// them finds room.
    pub fn with_few_blocks(&self, work: impl FnOnce()) {
        match self {
            Device::Cpu(_) => work(),
            Device::Cuda(gpu) => gpu.cuda.with_few_blocks(work),
        }
    }

    /// Does work that begins with a pass through networks that need nothing of what the call before it writes, and
    /// write nothing that it reads: on a GPU the two may run at the same time.
    pub fn overlapping(&self, work: impl FnOnce()) {
        match self {
            Device::Cpu(_) => work(),
            Device::Cuda(gpu) => gpu.cuda.overlapping(work),
        }
    }

    /// Says that networks of that shape will be trained on so many rows at a time. A GPU's kernels are made for a shape: if
    /// there are none yet, other threads begin to compile them.
    pub fn expect_training(&self, shape: &Shape, groups: usize, rows: usize) {
        if let Device::Cuda(gpu) = self {
            gpu.cuda.expect_training(shape, groups, rows, !gpu.fast);
        }
    }

    /// Starts a kernel that is no part of this library, for benchmarks: two blocks a multiprocessor, whose number it
    /// returns; 0 on a CPU, which does nothing. The source may use what `common.cu` and `products.cu` define.
    ///
    /// # Safety
    /// The arguments are those of the kernel in order, number and type, and it stays within its buffers.
    #[doc(hidden)]
    pub unsafe fn launch_source(
        &self,
        (source, kernel): (&'static str, &'static str),
        threads: u32,
        arguments: &[KernelArgument<'_>],
    ) -> u32 {
        match self {
            Device::Cpu(_) => 0,
            // SAFETY: by the caller's promise.
            Device::Cuda(gpu) => unsafe {
                gpu.cuda.launch_source((source, kernel), threads, arguments)
            },
        }
    }

    /// Waits for the work so far, and reports what went wrong in it: memory that ran out, a card that failed.
    pub fn check(&self) -> Result<()> {
        match self {
            Device::Cpu(_) => Ok(()),
            Device::Cuda(gpu) => gpu.cuda.check(),
        }
    }

    /// A buffer of zeros.
    pub fn zeros<T: Number>(&self, len: usize) -> Buffer<T> {
        Buffer(match self {
            Device::Cpu(_) => Storage::Cpu(vec![T::default(); len]),
            Device::Cuda(gpu) => Storage::Cuda(gpu.cuda.zeros(len * size_of::<T>()), PhantomData),
        })
    }

    /// A copy of the host's values.
    pub fn upload<T: Number>(&self, values: &[T]) -> Buffer<T> {
        Buffer(match self {
            Device::Cpu(_) => Storage::Cpu(values.to_vec()),
            Device::Cuda(gpu) => Storage::Cuda(gpu.cuda.upload(values), PhantomData),
        })
    }

    /// The host's values, moved rather than copied where the device is the host.
    pub fn adopt<T: Number>(&self, values: Vec<T>) -> Buffer<T> {
        match self {
            Device::Cpu(_) => Buffer(Storage::Cpu(values)),
            Device::Cuda(_) => self.upload(&values),
        }
    }

    /// A copy for the host. Waits for the device; an error if anything went wrong in its work so far.
    pub fn download<T: Number>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        match self {
            Device::Cpu(_) => Ok(buffer.cpu().to_vec()),
            Device::Cuda(gpu) => gpu.cuda.download(buffer.gpu()),
        }
    }

    /// The same in the middle of a computation that cannot stop: NaN from a device that failed, so that no result survives it.
    pub fn download_or_nan(&self, buffer: &Buffer) -> Vec<f32> {
        self.download(buffer).unwrap_or_else(|_| vec![f32::NAN; buffer.len()])
    }

    /// to ← from
    pub fn copy<T: Number>(&self, from: &Buffer<T>, to: &mut Buffer<T>) {
        check("copy", to.len(), from.len());
        self.copy_part(from, 0, to, 0, from.len());
    }

    /// to\[start_to ..\] ← from\[start_from ..\], `len` elements.
    pub fn copy_part<T: Number>(
        &self,
        from: &Buffer<T>,
        start_from: usize,
        to: &mut Buffer<T>,
        start_to: usize,
        len: usize,
    ) {
        match self {
            Device::Cpu(_) => to.cpu_mut()[start_to..start_to + len]
                .copy_from_slice(&from.cpu()[start_from..start_from + len]),
            Device::Cuda(gpu) => {
                let [start_from, start_to, bytes] =
                    [start_from, start_to, len].map(|n| n * size_of::<T>());
                gpu.cuda.copy(from.gpu(), start_from, to.gpu(), start_to, bytes);
            }
        }
    }

    /// All elements ← value.
    pub fn fill(&self, buffer: &mut Buffer, value: f32) {
        match self {
            Device::Cpu(_) => buffer.cpu_mut().fill(value),
            Device::Cuda(gpu) => gpu.cuda.fill(buffer.gpu(), value.to_bits()),
        }
    }
}

/// A size that does not fit is a mistake of this library, never of its user.
fn check(what: &str, len: usize, expected: usize) {
    assert_eq!(len, expected, "{what}: {len} elements where {expected} belong");
}
