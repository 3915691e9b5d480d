//! Arguments and files of settings that once went wrong, or that show the fuzzers the way. What each must do is in
//! `common/written.rs`; `fuzz/run` looks for more.

#![allow(clippy::unwrap_used)]

#[path = "../../hambo/tests/common/mutate.rs"]
mod mutate;
#[path = "common/written.rs"]
mod written;

use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn nothing_that_is_written_panics_or_hangs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for (target, reader) in written::WRITTEN {
        let files: Vec<_> = std::fs::read_dir(folder.join(target)).unwrap().collect();
        assert!(!files.is_empty(), "{target}");
        for file in files {
            let path = file.unwrap().path();
            println!("{}", path.display());
            let start = Instant::now();
            reader(&std::fs::read(&path).unwrap());
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        }
    }
}

#[test]
fn changed_settings_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let seen = mutate::mutate(&written::WRITTEN, &[&corpus]);
    assert!(seen > 100, "{seen}");
}
