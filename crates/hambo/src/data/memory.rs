//! Memory for large arrays.

/// This many zeros. Of a large array the system is asked for large pages before the first is written: taking them one by
/// one in the usual 4 KiB costs as much as reading a file of that size from its cache.
pub(crate) fn zeros(n: usize) -> Vec<f32> {
    let mut values = vec![0.0; n];
    prefer_large_pages(&mut values);
    values
}

/// Room for this many numbers, in large pages like that of [`zeros`].
pub(crate) fn room(n: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(n);
    prefer_large_pages(&mut values);
    values
}

/// Asks Linux for large pages wherever a whole one fits in; elsewhere, or if it refuses, nothing changes but the speed.
#[cfg(target_os = "linux")]
fn prefer_large_pages(values: &mut Vec<f32>) {
    const PAGE: usize = 2 << 20;
    let start = values.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(PAGE);
    let bytes = (values.capacity() * size_of::<f32>()).saturating_sub(before) / PAGE * PAGE;
    if bytes > 0 {
        // SAFETY: the range lies within the allocation, and the advice changes nothing that can be read there.
        let _ = unsafe { libc::madvise(start.add(before).cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_: &mut Vec<f32>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_any_size_are_zeros_that_can_be_written() {
        for n in [0, 1, 1000, (4 << 20) / 4 + 3, (16 << 20) / 4] {
            let mut values = zeros(n);
            assert!(values.len() == n && values.iter().all(|v| *v == 0.0));
            values.fill(1.0);
            assert!(values.iter().all(|v| *v == 1.0));
            assert!(room(n).capacity() >= n && room(n).is_empty());
        }
    }
}
