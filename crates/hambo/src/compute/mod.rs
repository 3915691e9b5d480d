//! Buffers on a device, and the few kernels that all else is made of.
//!
//! Algorithms call the methods of [`Device`] and know no device: each method is one kernel (or a fixed
//! sequence of kernels) that neither allocates nor waits for the host, so that a training step or a whole
//! rollout can be recorded once and replayed. What changes from step to step is therefore read from a
//! [`Counter`] that lives on the device.

mod adjoint;
mod cpu;
mod cuda;
mod elementwise;
mod mlp;
mod optimise;
mod rl;
mod sampling;
mod shape;
mod travel;

pub use elementwise::{Gaussian, Power, Shift, Status, Step};
pub use mlp::Input;
pub use optimise::{Adam, Kernel, Svgd};
pub(crate) use rl::LOG_STD;
pub(crate) use sampling::FEATURE_VARIANCE;
pub(crate) use shape::Layer;
pub use shape::{Activation, Shape};
pub use travel::{Travel, Way};

use crate::Result;
use cpu::Cpu;
use cuda::{Ahead, Cuda, Memory};
use std::marker::PhantomData;
use std::sync::Arc;

/// Where the work is done.
#[derive(Clone)]
pub enum Device {
    /// The processor's cores.
    #[doc(hidden)]
    Cpu(CpuHandle),
    /// An NVIDIA GPU.
    #[doc(hidden)]
    Cuda(CudaHandle),
}

/// What a card was seen to do at best, each by a kernel that does nothing else.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Bytes a second read and written in its memory.
    pub memory: f64,
    /// Bytes a second that come from the second-level cache.
    pub cache: f64,
    /// Multiplications and additions a second on tensor cores, TF32 by `mma.sync`.
    pub products: f64,
    /// Kernels a second, each waiting for the one before it.
    pub kernels: f64,
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
    /// What compiles lives as long as a device does.
    _ahead: Arc<Ahead>,
}

/// What a buffer holds.
pub trait Number: Copy + Default + Send + Sync + 'static + private::Sealed {}

impl Number for f32 {}
impl Number for f64 {}
impl Number for u32 {}

mod private {
    /// Numbers of other sizes would need other kernels.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for u32 {}
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// Numbers on a device.
#[derive(Debug)]
pub struct Buffer<T = f32>(Storage<T>);

#[derive(Debug)]
enum Storage<T> {
    Cpu(Vec<T>),
    Cuda(Memory, PhantomData<T>),
}

impl<T> Buffer<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Cpu(v) => v.len(),
            Storage::Cuda(memory, _) => memory.bytes / size_of::<T>(),
        }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cpu(&self) -> &[T] {
        match &self.0 {
            Storage::Cpu(v) => v,
            Storage::Cuda(..) => unreachable!("{ELSEWHERE}"),
        }
    }

    fn cpu_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Storage::Cpu(v) => v,
            Storage::Cuda(..) => unreachable!("{ELSEWHERE}"),
        }
    }

    fn gpu(&self) -> &Memory {
        match &self.0 {
            Storage::Cuda(memory, _) => memory,
            Storage::Cpu(_) => unreachable!("{ELSEWHERE}"),
        }
    }
}

/// Buffers and devices that do not belong together are a mistake of this library, never of its user.
const ELSEWHERE: &str = "a buffer of another device";

/// A step number that kernels read.
#[derive(Debug)]
pub struct Counter(Buffer<u32>);

impl Device {
    /// The CPU with that many threads, or one per core.
    pub fn cpu(threads: Option<usize>) -> Result<Self> {
        Ok(Device::Cpu(CpuHandle { pool: Arc::new(Cpu::new(threads)?), fast: false }))
    }

    /// The first NVIDIA GPU.
    pub fn cuda() -> Result<Self> {
        let (cuda, ahead) = Cuda::new()?;
        Ok(Device::Cuda(CudaHandle { cuda: Arc::new(cuda), fast: false, _ahead: ahead }))
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
            Device::Cpu(cpu) => format!("cpu ({} threads, {})", cpu.pool.threads(), cpu::instructions()),
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

    /// Does work whose passes through networks leave a GPU's room to what runs beside them, though they take longer.
    pub fn sparingly(&self, work: impl FnOnce()) {
        match self {
            Device::Cpu(_) => work(),
            Device::Cuda(gpu) => gpu.cuda.sparingly(work),
        }
    }

    /// Does work that begins with a pass through networks that need nothing of what the call before it writes, and
    /// write nothing that it reads: on a GPU the two may run at the same time.
    pub fn beside(&self, work: impl FnOnce()) {
        match self {
            Device::Cpu(_) => work(),
            Device::Cuda(gpu) => gpu.cuda.beside(work),
        }
    }

    /// Says that networks of that shape will be trained on so many rows at a time. A GPU's kernels are made for a shape: if
    /// there are none yet, other threads begin to compile them.
    pub fn expect_training(&self, shape: &Shape, rows: usize) {
        if let Device::Cuda(gpu) = self {
            gpu.cuda.expect_training(shape, rows, !gpu.fast);
        }
    }

    /// What a GPU can do at best, for benchmarks; none of a CPU.
    #[doc(hidden)]
    pub fn floor(&self) -> Option<Result<Floor>> {
        match self {
            Device::Cpu(_) => None,
            Device::Cuda(gpu) => Some(gpu.cuda.floor()),
        }
    }

    /// Waits for the work so far, and reports what went wrong in it: memory that ran out, a card that failed.
    /// Results downloaded before a check that succeeds are what they seem.
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

    /// A copy for the host. Waits for the device.
    pub fn download<T: Number>(&self, buffer: &Buffer<T>) -> Vec<T> {
        match self {
            Device::Cpu(_) => buffer.cpu().to_vec(),
            Device::Cuda(gpu) => gpu.cuda.download(buffer.gpu()),
        }
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
                let [start_from, start_to, bytes] = [start_from, start_to, len].map(|n| n * size_of::<T>());
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

    /// A counter at 0.
    pub fn counter(&self) -> Counter {
        Counter(self.zeros(1))
    }

    /// counter ← counter + 1
    pub fn advance(&self, counter: &mut Counter) {
        match self {
            Device::Cpu(_) => counter.0.cpu_mut()[0] += 1,
            Device::Cuda(gpu) => gpu.cuda.count(counter.0.gpu(), 1),
        }
    }

    /// counter ← counter − 1
    pub fn retreat(&self, counter: &mut Counter) {
        match self {
            Device::Cpu(_) => counter.0.cpu_mut()[0] -= 1,
            Device::Cuda(gpu) => gpu.cuda.count(counter.0.gpu(), u32::MAX),
        }
    }

    /// All of `out` ← values\[step\].
    pub fn fill_at(&self, values: &Buffer, step: &Counter, out: &mut Buffer) {
        match self {
            Device::Cpu(_) => out.cpu_mut().fill(values.cpu()[step.0.cpu()[0] as usize]),
            Device::Cuda(gpu) => gpu.cuda.fill_at(values.gpu(), step.0.gpu(), out.gpu()),
        }
    }

    /// out ← part number step + `ahead` of `parts`, which are as long as `out`.
    pub fn load_at<T: Number>(&self, parts: &Buffer<T>, step: &Counter, ahead: usize, out: &mut Buffer<T>) {
        match self {
            Device::Cpu(_) => {
                let first = (step.0.cpu()[0] as usize + ahead) * out.len();
                let n = out.len();
                out.cpu_mut().copy_from_slice(&parts.cpu()[first..first + n]);
            }
            Device::Cuda(gpu) => gpu.cuda.load_at(parts.gpu(), step.0.gpu(), ahead, out.gpu()),
        }
    }

    /// out ← part number step − `first` of `parts`.
    pub fn load_since<T: Number>(&self, parts: &Buffer<T>, step: &Counter, first: u32, out: &mut Buffer<T>) {
        match self {
            Device::Cpu(_) => {
                let n = out.len();
                let start = (step.0.cpu()[0] - first) as usize * n;
                out.cpu_mut().copy_from_slice(&parts.cpu()[start..start + n]);
            }
            Device::Cuda(gpu) => {
                // The counter is 32 bits wide, and so is the sum.
                gpu.cuda.load_at(parts.gpu(), step.0.gpu(), first.wrapping_neg() as usize, out.gpu());
            }
        }
    }

    /// Part number step − `behind` of `parts`, which begin at `start` and are as long as `from`, ← from.
    pub fn store_at<T: Number>(
        &self,
        from: &Buffer<T>,
        step: &Counter,
        behind: usize,
        start: usize,
        parts: &mut Buffer<T>,
    ) {
        match self {
            Device::Cpu(_) => {
                let first = start + (step.0.cpu()[0] as usize - behind) * from.len();
                parts.cpu_mut()[first..first + from.len()].copy_from_slice(from.cpu());
            }
            Device::Cuda(gpu) => gpu.cuda.store_at(from.gpu(), step.0.gpu(), behind, start, parts.gpu()),
        }
    }

    /// counter ← value
    pub fn set(&self, counter: &mut Counter, value: u32) {
        match self {
            Device::Cpu(_) => counter.0.cpu_mut()[0] = value,
            Device::Cuda(gpu) => gpu.cuda.fill(counter.0.gpu(), value),
        }
    }
}

/// A size that does not fit is a mistake of this library, never of its user.
fn check(what: &str, len: usize, expected: usize) {
    assert_eq!(len, expected, "{what}: {len} elements where {expected} belong");
}
