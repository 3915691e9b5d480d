//! Memory on the GPU.

use crate::Result;
use crate::backend::cuda::Cuda;
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// Bytes from which on it is asked whether they are free.
const LARGE: usize = 1 << 20;

/// Memory on the GPU.
pub(crate) struct DeviceMemory {
    pub address: u64,
    pub bytes: usize,
    device: Arc<Cuda>,
}

impl DeviceMemory {
    /// Number of 32-bit words.
    pub(super) fn words(&self) -> usize {
        self.bytes / 4
    }

    /// Whether it lies on that GPU.
    pub fn is_on(&self, device: &Arc<Cuda>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes on {}", self.bytes, self.device.name)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.address != 0 && self.device.enter().is_ok() {
            // SAFETY: allocated on this stream, and all uses of it were enqueued before.
            let _ = unsafe { result::free_async(self.address, self.device.stream) };
        }
    }
}

impl Cuda {
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
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> DeviceMemory {
        let mut memory = DeviceMemory { address: 0, bytes, device: self.clone() };
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
        let allocated = unsafe { result::malloc_async(self.stream, bytes) };
        if let Ok(address) = self.remember("allocating memory", allocated) {
            memory.address = address;
        }
        memory
    }

    /// Memory full of zeros.
    pub fn zeros(self: &Arc<Self>, bytes: usize) -> DeviceMemory {
        let memory = self.allocate(bytes);
        if memory.address != 0 {
            // SAFETY: within the allocation.
            let cleared = unsafe { result::memset_d8_async(memory.address, 0, bytes, self.stream) };
            let _ = self.remember("clearing memory", cleared);
        }
        memory
    }

    /// A copy of the host's values. The host may drop them at once.
    pub fn upload<T>(self: &Arc<Self>, values: &[T]) -> DeviceMemory {
        let memory = self.allocate(size_of_val(values));
        if memory.address != 0 {
            // SAFETY: within the allocation; the copy of pageable memory has left the host when this returns.
            let copied = unsafe { result::memcpy_htod_async(memory.address, values, self.stream) };
            let _ = self.remember("copying to the GPU", copied);
        }
        memory
    }

    /// A copy for the host; an error after any problem, whose memory may hold anything.
    pub fn download<T: Default + Clone>(&self, memory: &DeviceMemory) -> Result<Vec<T>> {
        let mut values = vec![T::default(); memory.bytes / size_of::<T>()];
        if memory.address != 0 && self.enter().is_ok() {
            // SAFETY: as many bytes as both sides have, and the stream is waited for.
            let _ = self.remember("copying from the GPU", unsafe {
                result::memcpy_dtoh_async(&mut values, memory.address, self.stream)
                    .and_then(|()| result::stream::synchronize(self.stream))
            });
        }
        self.sound()?;
        Ok(values)
    }

    /// to\[start_to ..\] ← from\[start_from ..\], in bytes.
    pub fn copy(
        &self,
        from: &DeviceMemory,
        start_from: usize,
        to: &DeviceMemory,
        start_to: usize,
        bytes: usize,
    ) {
        assert!(
            start_from + bytes <= from.bytes && start_to + bytes <= to.bytes,
            "copy out of bounds"
        );
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
    pub fn fill(&self, memory: &DeviceMemory, word: u32) {
        if memory.address != 0 && self.enter().is_ok() {
            // SAFETY: within the allocation.
            let filled = unsafe {
                sys::cuMemsetD32Async(memory.address, word, memory.bytes / 4, self.stream)
            };
            let _ = self.remember("filling memory", filled.result());
        }
    }
}
