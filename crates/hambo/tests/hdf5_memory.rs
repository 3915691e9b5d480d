//! Damaged data files and large ones: no panic, and no more memory than the data can account for.
//!
//! A test binary of its own, since its allocator counts for the whole process; one test, so that nothing else
//! allocates meanwhile.

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

use hambo::data::{Columns, Logs, Transitions, describe, read_d4rl, write_d4rl};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with the bytes now and at most in use.
struct Counting;

fn grow(bytes: usize) {
    PEAK.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes in use during `f` beyond those before it.
fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = f();
    (result, PEAK.load(Relaxed) - before)
}

#[test]
fn memory_stays_bounded() {
    let scratch = std::env::temp_dir().join(format!("hambo-memory-{}.hdf5", std::process::id()));
    damaged_files_are_refused_or_read(&scratch);
    damaged_files_of_other_formats_are_refused_or_read(&scratch);
    #[cfg(feature = "parquet")]
    parquet_files_that_declare_too_much_are_refused(&scratch);
    large_files_are_read_without_copies(&scratch);
    std::fs::remove_file(&scratch).unwrap();
}

/// A flipped bit of a reward cannot be seen, and what is cut off may not be needed. But nothing may panic, ask
/// for much memory, or read other values than were written from a file that is only cut short.
fn damaged_files_are_refused_or_read(scratch: &Path) {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let mut refused = 0;
    let mut tried = 0;
    for name in [
        "f32_gzip_bool",
        "f64_contiguous_uint8",
        "f64_shuffle_float_flags",
        "int_big_endian_no_flags",
    ] {
        let path = reference.join(format!("{name}.hdf5"));
        let good = std::fs::read(&path).unwrap();
        let expected = read_d4rl(&path).unwrap().transitions;
        let mut check = |bytes: &[u8], what: String| {
            std::fs::write(scratch, bytes).unwrap();
            let ((result, _), peak) = peak_of(|| (read_d4rl(scratch), describe(scratch)));
            assert!(peak < 256 << 20, "{name}, {what}: {peak} bytes in use");
            refused += usize::from(result.is_err());
            tried += 1;
            result
        };
        for (i, position) in (0..good.len()).step_by(good.len() / 400).enumerate() {
            let mask = [0x01, 0x80, 0xff][i % 3];
            let mut bytes = good.clone();
            bytes[position] ^= mask;
            let _ = check(&bytes, format!("byte {position} ^ {mask:#x}"));
        }
        for length in (0..good.len()).step_by(good.len() / 60) {
            if let Ok(loaded) = check(&good[..length], format!("cut to {length} bytes")) {
                assert!(length > good.len() / 2, "{name} cut to {length} bytes is read");
                assert!(
                    loaded.transitions == expected,
                    "{name} cut to {length} bytes is read wrongly"
                );
            }
        }
    }
    println!("{tried} damaged files, {refused} refused");
    assert!(refused > tried / 10, "{refused} of {tried} damaged files refused");
}

/// As above, for Minari, NPZ, CSV and (where it is built in) Parquet; which format it is must not matter.
fn damaged_files_of_other_formats_are_refused_or_read(scratch: &Path) {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/formats");
    for name in [
        "minari/test/line-v0/data/main_data.hdf5",
        "d4rl_names.npz",
        "stable_baselines.npz",
        "usual_names.csv",
        #[cfg(feature = "parquet")]
        "usual_names.parquet",
    ] {
        let good = std::fs::read(reference.join(name)).unwrap();
        let mut refused = 0;
        let mut check = |bytes: &[u8], what: String| {
            std::fs::write(scratch, bytes).unwrap();
            let ((result, _), peak) = peak_of(|| (Logs::read(scratch), describe(scratch)));
            assert!(peak < 256 << 20, "{name}, {what}: {peak} bytes in use");
            refused += usize::from(result.is_err());
        };
        for (i, position) in (0..good.len()).step_by(good.len() / 900).enumerate() {
            let mask = [0x01, 0x80, 0xff][i % 3];
            let mut bytes = good.clone();
            bytes[position] ^= mask;
            check(&bytes, format!("byte {position} ^ {mask:#x}"));
        }
        for length in (0..good.len()).step_by(good.len() / 60) {
            check(&good[..length], format!("cut to {length} bytes"));
        }
        println!("{name}: {refused} refused");
        // NPZ has checksums; elsewhere a changed digit is as good as another.
        let least = if name.ends_with(".npz") { 700 } else { 100 };
        assert!(refused > least, "{name}: {refused} refused");
    }
}

/// Each of these made the reader beneath ask for gigabytes: a dictionary, a page, a schema, a group of rows.
#[cfg(feature = "parquet")]
fn parquet_files_that_declare_too_much_are_refused(scratch: &Path) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/parquet");
    for (name, words) in [
        (
            "dictionary_of_a_billion",
            "column `reward`: a dictionary of 1073741824 values in 4 bytes",
        ),
        ("page_of_two_gigabytes", "column `reward`: "),
        ("schema_of_a_billion_columns", "its list of columns makes no sense"),
        ("group_of_a_trillion_rows", "declares a group of 1099511627776 rows"),
    ] {
        std::fs::copy(corpus.join(name), scratch).unwrap();
        let (result, peak) = peak_of(|| Logs::read(scratch));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
        assert!(peak < 1 << 20, "{name}: {peak} bytes in use");
    }
}

fn large_files_are_read_without_copies(path: &Path) {
    let (n, state_dim, action_dim) = (100_000, 17, 6);
    let transitions = Transitions::new(Columns {
        state_dim,
        action_dim,
        states: (0..n * state_dim).map(|i| (i % 1009) as f32).collect(),
        actions: (0..n * action_dim).map(|i| (i % 1013) as f32).collect(),
        rewards: vec![1.0; n],
        next_states: (0..n * state_dim).map(|i| ((i + state_dim) % 1009) as f32).collect(),
        terminals: vec![false; n],
        timeouts: vec![false; n],
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap();
    let bytes = 4 * n * (2 * state_dim + action_dim + 1);
    let (result, written) = peak_of(|| write_d4rl(path, &transitions, &[]));
    result.unwrap();
    let (loaded, read) = peak_of(|| read_d4rl(path).unwrap());
    assert!(loaded.transitions == transitions);
    println!("{bytes} bytes of arrays: {read} in use while reading, {written} more while writing");
    assert!(read < 2 * bytes, "{read} bytes in use to read {bytes}");
    assert!(written < bytes, "{written} bytes in use to write {bytes}");
}
