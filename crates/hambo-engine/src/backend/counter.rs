//! The number of the step, on the device, and what is read or written at its place.

use crate::backend::{Buffer, Device, Number};

/// A step number that kernels read.
#[derive(Debug)]
pub struct Counter(pub(super) Buffer<u32>);

impl Device {
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
    pub fn load_at<T: Number>(
        &self,
        parts: &Buffer<T>,
        step: &Counter,
        ahead: usize,
        out: &mut Buffer<T>,
    ) {
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
    pub fn load_since<T: Number>(
        &self,
        parts: &Buffer<T>,
        step: &Counter,
        first: u32,
        out: &mut Buffer<T>,
    ) {
        match self {
            Device::Cpu(_) => {
                let n = out.len();
                let start = (step.0.cpu()[0] - first) as usize * n;
                out.cpu_mut().copy_from_slice(&parts.cpu()[start..start + n]);
            }
            Device::Cuda(gpu) => {
                // The counter is 32 bits wide, and so is the sum.
                gpu.cuda.load_at(
                    parts.gpu(),
                    step.0.gpu(),
                    first.wrapping_neg() as usize,
                    out.gpu(),
                );
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
            Device::Cuda(gpu) => {
                gpu.cuda.store_at(from.gpu(), step.0.gpu(), behind, start, parts.gpu())
            }
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
