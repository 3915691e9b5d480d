//! Where numbers lie.

use crate::backend::cuda::DeviceMemory;
use std::marker::PhantomData;

/// Numbers on a device.
#[derive(Debug)]
pub struct Buffer<T = f32>(pub(super) Storage<T>);

#[derive(Debug)]
pub(super) enum Storage<T> {
    Cpu(Vec<T>),
    Cuda(DeviceMemory, PhantomData<T>),
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

    pub(super) fn cpu(&self) -> &[T] {
        match &self.0 {
            Storage::Cpu(v) => v,
            Storage::Cuda(..) => unreachable!("{ELSEWHERE}"),
        }
    }

    pub(super) fn cpu_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Storage::Cpu(v) => v,
            Storage::Cuda(..) => unreachable!("{ELSEWHERE}"),
        }
    }

    pub(super) fn gpu(&self) -> &DeviceMemory {
        match &self.0 {
            Storage::Cuda(memory, _) => memory,
            Storage::Cpu(_) => unreachable!("{ELSEWHERE}"),
        }
    }
}

/// Buffers and devices that do not belong together are a mistake of this library, never of its user.
const ELSEWHERE: &str = "a buffer of another device";

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
