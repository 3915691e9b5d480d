//! Random inputs, and results as the host sees them.

use crate::backend::{Buffer, Device, Number};
use crate::rng::{Generator, Stream};

pub(super) fn numbers(seed: u64) -> impl FnMut(usize) -> Vec<f32> {
    let mut generator: Generator = Stream::new(seed).generator();
    move |n| (0..n).map(|_| generator.normal() as f32).collect()
}

pub(super) fn all(device: &Device, buffers: &[&Buffer]) -> Vec<Vec<f64>> {
    buffers.iter().map(|b| contents(device, b)).collect()
}

/// What is in a buffer; nothing that equals anything where the device failed.
pub(super) fn contents<T: Number + Into<f64>>(device: &Device, buffer: &Buffer<T>) -> Vec<f64> {
    let values = device.download(buffer).map(|values| values.into_iter().map(Into::into).collect());
    values.unwrap_or_else(|_| vec![f64::NAN; buffer.len()])
}
