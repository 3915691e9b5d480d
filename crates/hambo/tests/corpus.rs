//! Small files that once made a reader panic, hang or ask for too much memory, or that show the fuzzers the way. What
//! each must do is in `common/readers.rs`; `fuzz/run` looks for more.

#![allow(clippy::unwrap_used)]

#[path = "common/mutate.rs"]
mod mutate;
#[path = "common/readers.rs"]
mod readers;

use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn no_reader_panics_or_hangs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut seen = 0;
    for target in std::fs::read_dir(folder).unwrap() {
        let target = target.unwrap().path();
        for file in std::fs::read_dir(&target).unwrap() {
            let path = file.unwrap().path();
            println!("{}", path.display());
            let start = Instant::now();
            readers::run(
                target.file_name().unwrap().to_str().unwrap(),
                &std::fs::read(&path).unwrap(),
            );
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{} took {:?}",
                path.display(),
                start.elapsed()
            );
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} files");
}

#[test]
fn changed_files_do_no_harm() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpora = [here.join("tests/corpus"), here.join("../../fuzz/corpus")];
    let seen = mutate::mutate(&readers::READERS, &[&corpora[0], &corpora[1]]);
    assert!(seen > 100, "{seen}");
}
