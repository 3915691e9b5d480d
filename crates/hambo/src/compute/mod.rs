//! Buffers on a device, and the few kernels that all else is made of.
//!
//! Algorithms call the methods of [`Device`] and know no device: each method is one kernel (or a fixed
//! sequence of kernels) that neither allocates nor waits for the host, so that a training step or a whole
//! rollout can be recorded once and replayed. What changes from step to step is therefore read from a
//! [`Counter`] that lives on the device.

mod adjoint;
mod cpu;
mod cuda;
mod rl;
mod sampling;
mod shape;
mod travel;

pub(crate) use rl::LOG_STD;
pub(crate) use sampling::FEATURE_VARIANCE;
pub(crate) use shape::Layer;
pub use shape::{Activation, Shape};
pub use travel::{Travel, Way};

use crate::Result;
use crate::expression::Program;
use crate::rng::Stream;
use cpu::Cpu;
use cuda::{Ahead, Cuda, Memory};
use serde::{Deserialize, Serialize};
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
pub struct CpuHandle(Arc<Cpu>);

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

/// The input of an ensemble: one batch for all members, or a batch of its own for each.
#[derive(Debug)]
pub enum Input<'a, B: ?Sized = Buffer> {
    /// `[rows, inputs]`
    Shared(&'a B),
    /// `[members, rows, inputs]`
    PerMember(&'a B),
}

impl<B: ?Sized> Clone for Input<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: ?Sized> Copy for Input<'_, B> {}

/// A Gaussian head: of the `2·dims` outputs of a network the first half are means, the second half become
/// standard deviations by softplus, with a floor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gaussian {
    /// Number of predicted values.
    pub dims: usize,
    /// Smallest standard deviation.
    pub floor: f32,
}

impl Gaussian {
    /// ν = softplus(raw) + floor
    #[inline(always)]
    pub fn std(&self, raw: f32) -> f32 {
        // ln(1 + eˣ), written so that neither tail overflows or vanishes.
        raw.max(0.0) + (-raw.abs()).exp().ln_1p() + self.floor
    }

    /// dν / d raw = sigmoid(raw)
    #[inline(always)]
    pub fn std_slope(&self, raw: f32) -> f32 {
        1.0 / (1.0 + (-raw).exp())
    }
}

/// How the next state is drawn from the members' predictions.
#[derive(Debug)]
pub enum Step<'a, F: ?Sized = Buffer, U: ?Sized = Buffer<u32>> {
    /// μ_Θ: the mean of all members, without noise.
    Mean,
    /// DS: N(μ_Θ, σ²_e + σ²_a).
    Moments {
        /// Standard normal numbers `[rows, state]`.
        noise: &'a F,
    },
    /// TS1: N(h_k, ν²_k) of the member chosen for each row.
    Chosen {
        /// Member of each row.
        members: &'a U,
        /// Standard normal numbers `[rows, state]`.
        noise: &'a F,
    },
    /// HAMBO-CA: the mean of all members, shifted by an adversary.
    Shifted(Shift<'a, F>),
    /// Each group of rows has its own member for the whole trajectory; all groups share the same noise.
    Own {
        /// Standard normal numbers `[rows / members, state]`.
        noise: &'a F,
    },
}

/// A step that an adversary shifts within the confidence set, HAMBO-CA:
/// N(μ_Θ + amount · σ_e, σ²_a), or amount · σ²_e as the paper literally writes.
#[derive(Debug)]
pub struct Shift<'a, F: ?Sized = Buffer> {
    /// β · τ · η, `[rows, state]`.
    pub amount: &'a F,
    /// What it is multiplied with.
    pub power: Power,
    /// Standard normal numbers `[rows, state]`, or fewer rows that repeat.
    pub noise: &'a F,
}

/// The width of the confidence set as a function of the epistemic variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// σ_e
    Deviation,
    /// σ²_e
    Variance,
}

impl Power {
    /// The width, and its derivative by the variance.
    #[inline(always)]
    fn reach(self, variance: f32) -> (f32, f32) {
        match self {
            Power::Deviation => {
                let std = variance.sqrt();
                (std, if std > 0.0 { 0.5 / std } else { 0.0 })
            }
            Power::Variance => (variance, 1.0),
        }
    }
}

/// What became of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Still going.
    Running = 0,
    /// Reached a terminal state: no rewards follow.
    Ended = 1,
    /// Left the finite numbers: counts its own lowest reward for every step that remains.
    Diverged = 2,
}

/// The Adam optimiser (Kingma & Ba 2015) with a learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Learning rate at the start.
    pub rate: f32,
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the root of the latter.
    pub epsilon: f32,
    /// Steps over which the rate falls to 0 along a cosine; none: it stays.
    pub decay_steps: Option<u32>,
}

impl Adam {
    /// The usual constants with a constant rate.
    pub fn constant(rate: f32) -> Self {
        Adam { rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay_steps: None }
    }

    /// The usual constants; the rate falls to 0 in `steps` steps along half a cosine.
    pub fn cosine(rate: f32, steps: u32) -> Self {
        Adam { decay_steps: Some(steps), ..Adam::constant(rate) }
    }

    /// Learning rate of step 0, 1, …
    pub fn rate_at(&self, step: u32) -> f32 {
        match self.decay_steps {
            None => self.rate,
            Some(steps) => {
                let done = (step as f32 / steps.max(1) as f32).min(1.0);
                self.rate * 0.5 * (1.0 + (std::f32::consts::PI * done).cos())
            }
        }
    }
}

/// How particles see each other in SVGD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Kernel {
    /// exp(−‖θ − θ'‖² / 2ℓ), the paper's with ℓ = 10.
    Rbf {
        /// ℓ
        length_scale: f32,
    },
    /// The same with ℓ from the median heuristic at every step, so that the particles do see each other.
    Median,
    /// Not at all: a plain deep ensemble.
    None,
}

/// Stein variational gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Svgd {
    /// The kernel on parameter vectors.
    pub kernel: Kernel,
    /// Exponent of the standard normal prior.
    pub prior_temperature: f32,
    /// Factor of the mean log-likelihood: 1, or the number of data for the literal posterior.
    pub likelihood_scale: f32,
}

impl Device {
    /// The CPU with that many threads, or one per core.
    pub fn cpu(threads: Option<usize>) -> Result<Self> {
        Ok(Device::Cpu(CpuHandle(Arc::new(Cpu::new(threads)?))))
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

    /// The same device, whose products may round their factors to 10 bits of mantissa where that is faster (TF32):
    /// good enough for the gradients of training.
    pub fn fast(&self) -> Self {
        match self {
            Device::Cpu(_) => self.clone(),
            Device::Cuda(gpu) => Device::Cuda(CudaHandle { fast: true, ..gpu.clone() }),
        }
    }

    /// A name for people.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu(cpu) => format!("cpu ({} threads)", cpu.0.threads()),
            Device::Cuda(gpu) => format!("cuda ({})", gpu.cuda.name()),
        }
    }

    /// Whether buffers of the one are buffers of the other.
    pub fn is(&self, other: &Device) -> bool {
        match (self, other) {
            (Device::Cpu(a), Device::Cpu(b)) => Arc::ptr_eq(&a.0, &b.0),
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
            Device::Cpu(cpu) => cpu.0.run(work),
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

    /// All members' outputs `[members, rows, outputs]`, keeping no activations.
    pub fn infer(&self, shape: &Shape, params: &Buffer, input: Input<'_>, rows: usize, output: &mut Buffer) {
        check_ensemble(shape, params, input, rows);
        check("output", output.len(), shape.members * rows * shape.outputs());
        match self {
            Device::Cpu(cpu) => cpu.0.infer(shape, params.cpu(), input.cpu(), rows, output.cpu_mut()),
            Device::Cuda(gpu) => {
                gpu.cuda.infer(shape, params.gpu(), input.gpu(), rows, output.gpu(), !gpu.fast)
            }
        }
    }

    /// [`Device::infer`], then [`Device::squash_to_bounds`].
    pub fn infer_within(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        ([low, high], limit): ([&Buffer; 2], f32),
        output: &mut Buffer,
    ) {
        check("lower bounds", low.len(), shape.outputs());
        check("upper bounds", high.len(), shape.outputs());
        let Device::Cuda(gpu) = self else {
            self.infer(shape, params, input, rows, output);
            return self.squash_to_bounds(low, high, limit, output);
        };
        check_ensemble(shape, params, input, rows);
        check("output", output.len(), shape.members * rows * shape.outputs());
        let (params, bounds) = (params.gpu(), ([low.gpu(), high.gpu()], limit));
        gpu.cuda.infer_within(shape, params, input.gpu(), rows, bounds, output.gpu(), !gpu.fast);
    }

    /// All members' activations, one buffer `[members, rows, width]` a layer; the last is the output.
    pub fn forward(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        activations: &mut [Buffer],
    ) {
        check_ensemble(shape, params, input, rows);
        check_layers(shape, rows, activations);
        match self {
            Device::Cpu(cpu) => cpu.0.forward(shape, params.cpu(), input.cpu(), rows, activations),
            Device::Cuda(gpu) => {
                gpu.cuda.forward(shape, params.gpu(), input.gpu(), rows, activations, !gpu.fast)
            }
        }
    }

    /// Back-propagation through [`Device::forward`]. On entry the last of `deltas` holds dL/d(output); the
    /// others are overwritten. `gradient` `[members, stride]` and `d_input` `[members, rows, inputs]`
    /// are written where given.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        shape: &Shape,
        params: &Buffer,
        input: Input<'_>,
        rows: usize,
        activations: &[Buffer],
        deltas: &mut [Buffer],
        gradient: Option<&mut Buffer>,
        d_input: Option<&mut Buffer>,
    ) {
        check_ensemble(shape, params, input, rows);
        check_layers(shape, rows, activations);
        check_layers(shape, rows, deltas);
        if let Some(g) = &gradient {
            check("gradient", g.len(), params.len());
        }
        if let Some(d) = &d_input {
            check("d_input", d.len(), shape.members * rows * shape.inputs());
        }
        match self {
            Device::Cpu(cpu) => {
                let (gradient, d_input) = (gradient.map(Buffer::cpu_mut), d_input.map(Buffer::cpu_mut));
                cpu.0.backward(
                    shape,
                    params.cpu(),
                    input.cpu(),
                    rows,
                    activations,
                    deltas,
                    gradient,
                    d_input,
                );
            }
            Device::Cuda(gpu) => {
                let (gradient, d_input) = (gradient.map(|g| g.gpu()), d_input.map(|d| d.gpu()));
                let (trace, gradients) = ((activations, &*deltas), (gradient, d_input));
                gpu.cuda.backward(shape, params.gpu(), input.gpu(), rows, trace, gradients, !gpu.fast);
            }
        }
    }

    /// params ← Adam step along `gradient`, at the counter's step, which is then counted.
    pub fn adam(
        &self,
        adam: &Adam,
        step: &mut Counter,
        params: &mut Buffer,
        gradient: &Buffer,
        moments: &mut [Buffer; 2],
    ) {
        check("gradient", gradient.len(), params.len());
        let [m, v] = moments;
        match self {
            Device::Cpu(cpu) => {
                cpu.0.adam(adam, step.0.cpu()[0], params.cpu_mut(), gradient.cpu(), m.cpu_mut(), v.cpu_mut());
                self.advance(step);
            }
            Device::Cuda(gpu) => {
                gpu.cuda.adam(adam, step.0.gpu(), params.gpu(), gradient.gpu(), m.gpu(), v.gpu())
            }
        }
    }

    /// Minus the SVGD direction of every particle, `[members, parameters]`:
    ///
    /// −φᵢ = 1/K Σⱼ k(θⱼ, θᵢ) (λ ∇NLLⱼ + τ θⱼ) − k(θⱼ, θᵢ) (θᵢ − θⱼ) / ℓ
    ///
    /// with the gradients ∇NLL of the mean negative log-likelihood, the likelihood scale λ and the prior's
    /// temperature τ. Without a kernel each particle follows its own gradient.
    pub fn svgd_direction(
        &self,
        svgd: &Svgd,
        members: usize,
        params: &Buffer,
        gradient: &Buffer,
        out: &mut Buffer,
    ) {
        check("gradient", gradient.len(), params.len());
        check("direction", out.len(), params.len());
        match self {
            Device::Cpu(cpu) => {
                cpu.0.svgd_direction(svgd, members, params.cpu(), gradient.cpu(), out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.svgd_direction(svgd, members, params.gpu(), gradient.gpu(), out.gpu())
            }
        }
    }

    /// params ← Adam step along [`Device::svgd_direction`], at the counter's step, which is then counted.
    #[allow(clippy::too_many_arguments)]
    pub fn svgd_adam(
        &self,
        svgd: &Svgd,
        adam: &Adam,
        step: &mut Counter,
        members: usize,
        params: &mut Buffer,
        gradient: &Buffer,
        moments: &mut [Buffer; 2],
    ) {
        check("gradient", gradient.len(), params.len());
        let [m, v] = moments;
        match self {
            Device::Cpu(cpu) => {
                cpu.0.svgd_adam(
                    svgd,
                    adam,
                    step.0.cpu()[0],
                    members,
                    params.cpu_mut(),
                    gradient.cpu(),
                    m.cpu_mut(),
                    v.cpu_mut(),
                );
                self.advance(step);
            }
            Device::Cuda(gpu) => gpu.cuda.svgd_adam(
                svgd,
                adam,
                step.0.gpu(),
                members,
                params.gpu(),
                gradient.gpu(),
                m.gpu(),
                v.gpu(),
            ),
        }
    }

    /// out ← rows `indices` of `from`, each `width` long.
    pub fn gather<T: Number>(
        &self,
        from: &Buffer<T>,
        width: usize,
        indices: &Buffer<u32>,
        out: &mut Buffer<T>,
    ) {
        check("gathered rows", out.len(), indices.len() * width);
        match self {
            Device::Cpu(cpu) => cpu.0.gather(from.cpu(), width, indices.cpu(), out.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.gather(from.gpu(), width, indices.gpu(), out.gpu()),
        }
    }

    /// Uniform random integers below `below`, a function of (stream, counter) alone.
    pub fn uniform_indices(&self, stream: Stream, step: &Counter, below: usize, out: &mut Buffer<u32>) {
        match self {
            Device::Cpu(cpu) => {
                cpu.0.uniform_indices(stream.key(), step.0.cpu()[0], below as u32, out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.uniform_indices(stream.key(), step.0.gpu(), below as u32, out.gpu())
            }
        }
    }

    /// Standard normal numbers, a function of (stream, counter) alone.
    pub fn normals(&self, stream: Stream, step: &Counter, out: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.0.normals(stream.key(), step.0.cpu()[0], out.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.normals(stream.key(), step.0.gpu(), out.gpu()),
        }
    }

    /// out ← ((states, actions) − mean) / std, row by row.
    pub fn standardize(
        &self,
        states: (&Buffer, usize),
        actions: (&Buffer, usize),
        mean: &Buffer,
        std: &Buffer,
        out: &mut Buffer,
    ) {
        check("standardized columns", mean.len(), states.1 + actions.1);
        match self {
            Device::Cpu(cpu) => {
                let parts = [(states.0.cpu(), states.1), (actions.0.cpu(), actions.1)];
                cpu.0.standardize(parts, mean.cpu(), std.cpu(), out.cpu_mut());
            }
            Device::Cuda(gpu) => {
                let parts = [(states.0.gpu(), states.1), (actions.0.gpu(), actions.1)];
                gpu.cuda.standardize(parts, mean.gpu(), std.gpu(), out.gpu());
            }
        }
    }

    /// Mean Gaussian negative log-likelihood of the shared `targets` `[rows, dims]` under each member's
    /// `output` `[members, rows, 2·dims]` into `losses` `[members]`. Where asked for, also dNLL/d(output), the
    /// part of each predicted value times ν^(2w), w being the number beside the buffer: 0 for the plain gradient.
    pub fn gaussian_nll(
        &self,
        head: &Gaussian,
        output: &Buffer,
        targets: &Buffer,
        d_output: Option<(&mut Buffer, f32)>,
        losses: &mut Buffer<f64>,
    ) {
        check("outputs", output.len(), losses.len() * targets.len() * 2);
        match self {
            Device::Cpu(cpu) => {
                let d_output = d_output.map(|(d, weight)| (d.cpu_mut(), weight));
                cpu.0.gaussian_nll(
                    head,
                    losses.len(),
                    output.cpu(),
                    targets.cpu(),
                    d_output,
                    losses.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let d_output = d_output.map(|(d, weight)| (d.gpu(), weight));
                gpu.cuda.gaussian_nll(
                    head,
                    losses.len(),
                    output.gpu(),
                    targets.gpu(),
                    d_output,
                    losses.gpu(),
                );
            }
        }
    }

    /// Moments of the members' mixture, each `[rows, dims]`: μ_Θ = 1/K Σ h_k, σ²_e = 1/K Σ (h_k − μ_Θ)²,
    /// σ²_a = 1/K Σ ν²_k.
    pub fn moments(
        &self,
        head: &Gaussian,
        members: usize,
        output: &Buffer,
        mean: &mut Buffer,
        epistemic: &mut Buffer,
        aleatoric: &mut Buffer,
    ) {
        check("outputs", output.len(), members * mean.len() * 2);
        match self {
            Device::Cpu(cpu) => {
                let (mean, epistemic, aleatoric) = (mean.cpu_mut(), epistemic.cpu_mut(), aleatoric.cpu_mut());
                cpu.0.moments(head, members, output.cpu(), mean, epistemic, aleatoric);
            }
            Device::Cuda(gpu) => {
                let (mean, epistemic, aleatoric) = (mean.gpu(), epistemic.gpu(), aleatoric.gpu());
                gpu.cuda.moments(head, members, output.gpu(), mean, epistemic, aleatoric);
            }
        }
    }

    /// next ← \[states +\] offset + scale · (prediction drawn as `step` says), row by row; the predictions
    /// are in standardized units, `scale` and `offset` take them back.
    #[allow(clippy::too_many_arguments)]
    pub fn propagate(
        &self,
        head: &Gaussian,
        members: usize,
        step: &Step<'_>,
        output: &Buffer,
        (scale, offset): (&Buffer, &Buffer),
        relative: bool,
        states: &Buffer,
        next: &mut Buffer,
    ) {
        let rows = states.len() / scale.len();
        let groups = if matches!(step, Step::Own { .. }) { 1 } else { members };
        check("outputs", output.len(), groups * rows * 2 * head.dims);
        match self {
            Device::Cpu(cpu) => {
                let step = match step {
                    Step::Mean => Step::Mean,
                    Step::Moments { noise } => Step::Moments { noise: noise.cpu() },
                    Step::Chosen { members, noise } => {
                        Step::Chosen { members: members.cpu(), noise: noise.cpu() }
                    }
                    Step::Own { noise } => Step::Own { noise: noise.cpu() },
                    Step::Shifted(shift) => Step::Shifted(shift.cpu()),
                };
                let units = (scale.cpu(), offset.cpu());
                cpu.0.propagate(
                    head,
                    members,
                    &step,
                    output.cpu(),
                    units,
                    relative,
                    states.cpu(),
                    next.cpu_mut(),
                );
            }
            Device::Cuda(gpu) => {
                let step = match step {
                    Step::Mean => Step::Mean,
                    Step::Moments { noise } => Step::Moments { noise: noise.gpu() },
                    Step::Chosen { members, noise } => {
                        Step::Chosen { members: members.gpu(), noise: noise.gpu() }
                    }
                    Step::Own { noise } => Step::Own { noise: noise.gpu() },
                    Step::Shifted(shift) => Step::Shifted(shift.gpu()),
                };
                let units = (scale.gpu(), offset.gpu());
                gpu.cuda.propagate(
                    head,
                    members,
                    &step,
                    output.gpu(),
                    units,
                    relative,
                    states.gpu(),
                    next.gpu(),
                );
            }
        }
    }

    /// Books one step of every trajectory: returns ← returns + discounts\[step\] · reward, states ← next, and the
    /// trajectory's [`Status`]. `lowest` keeps the lowest reward of each trajectory; it starts at infinity, and
    /// a trajectory that diverges before its first reward counts the lowest number there is.
    #[allow(clippy::too_many_arguments)]
    pub fn account(
        &self,
        (discounts, step): (&Buffer, &Counter),
        rewards: &Buffer,
        ended: Option<&Buffer>,
        states: &mut Buffer,
        next: &Buffer,
        returns: &mut Buffer,
        lowest: &mut Buffer,
        status: &mut Buffer<u32>,
    ) {
        match self {
            Device::Cpu(cpu) => cpu.0.account(
                discounts.cpu()[step.0.cpu()[0] as usize],
                rewards.cpu(),
                ended.map(Buffer::cpu),
                states.cpu_mut(),
                next.cpu(),
                returns.cpu_mut(),
                lowest.cpu_mut(),
                status.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.account(
                (discounts.gpu(), step.0.gpu()),
                rewards.gpu(),
                ended.map(Buffer::gpu),
                states.gpu(),
                next.gpu(),
                returns.gpu(),
                lowest.gpu(),
                status.gpu(),
            ),
        }
    }

    /// Each column of `values` ← limited to \[low, high\].
    pub fn clamp(&self, low: &Buffer, high: &Buffer, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.0.clamp(low.cpu(), high.cpu(), values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.clamp(low.gpu(), high.gpu(), values.gpu()),
        }
    }

    /// out ← (values − mean) / std, column by column, limited to ±`limit`; in f64, since a column that hardly
    /// varied is divided by very little.
    pub fn normalize(
        &self,
        values: &Buffer,
        (mean, std): (&Buffer<f64>, &Buffer<f64>),
        limit: f64,
        out: &mut Buffer,
    ) {
        check("normalized values", out.len(), values.len());
        check("deviations", std.len(), mean.len());
        match self {
            Device::Cpu(cpu) => cpu.0.normalize(values.cpu(), (mean.cpu(), std.cpu()), limit, out.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.normalize(values.gpu(), (mean.gpu(), std.gpu()), limit, out.gpu()),
        }
    }

    /// Each column of `values` ← limited to ±`limit`, then taken by tanh into \[low, high\].
    pub fn squash_to_bounds(&self, low: &Buffer, high: &Buffer, limit: f32, values: &mut Buffer) {
        match self {
            Device::Cpu(cpu) => cpu.0.squash_to_bounds(low.cpu(), high.cpu(), limit, values.cpu_mut()),
            Device::Cuda(gpu) => gpu.cuda.squash_to_bounds(low.gpu(), high.gpu(), limit, values.gpu()),
        }
    }

    /// out `[rows, outputs]` ← the program on every row; inputs it does not use may be empty.
    pub fn evaluate(
        &self,
        program: &Program,
        states: &Buffer,
        actions: &Buffer,
        next: &Buffer,
        out: &mut Buffer,
    ) {
        match self {
            Device::Cpu(cpu) => {
                cpu.0.evaluate(program, states.cpu(), actions.cpu(), next.cpu(), out.cpu_mut())
            }
            Device::Cuda(gpu) => {
                gpu.cuda.evaluate(program, states.gpu(), actions.gpu(), next.gpu(), out.gpu())
            }
        }
    }
}

impl<'a> Shift<'a> {
    fn gpu(&self) -> Shift<'a, Memory> {
        Shift { amount: self.amount.gpu(), power: self.power, noise: self.noise.gpu() }
    }

    fn cpu(&self) -> Shift<'a, [f32]> {
        Shift { amount: self.amount.cpu(), power: self.power, noise: self.noise.cpu() }
    }
}

impl<'a> Input<'a> {
    fn gpu(self) -> Input<'a, Memory> {
        match self {
            Input::Shared(b) => Input::Shared(b.gpu()),
            Input::PerMember(b) => Input::PerMember(b.gpu()),
        }
    }

    fn cpu(self) -> Input<'a, [f32]> {
        match self {
            Input::Shared(b) => Input::Shared(b.cpu()),
            Input::PerMember(b) => Input::PerMember(b.cpu()),
        }
    }
}

/// A size that does not fit is a mistake of this library, never of its user.
fn check(what: &str, len: usize, expected: usize) {
    assert_eq!(len, expected, "{what}: {len} elements where {expected} belong");
}

fn check_ensemble(shape: &Shape, params: &Buffer, input: Input<'_>, rows: usize) {
    check("parameters", params.len(), shape.members * shape.stride());
    match input {
        Input::Shared(x) => check("shared input", x.len(), rows * shape.inputs()),
        Input::PerMember(x) => check("input per member", x.len(), shape.members * rows * shape.inputs()),
    }
}

fn check_layers(shape: &Shape, rows: usize, buffers: &[Buffer]) {
    check("layers", buffers.len(), shape.depth());
    for (buffer, width) in buffers.iter().zip(&shape.widths[1..]) {
        check("activations", buffer.len(), shape.members * rows * width);
    }
}
