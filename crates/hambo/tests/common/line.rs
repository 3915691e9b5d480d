//! The small data sets of `reference/make_formats.py` and `make_folders.py`, whose values follow from a closed formula.

#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::panic)]

use hambo::data::{Logs, ReadOptions, Transitions};
use std::path::{Path, PathBuf};

pub const EPISODES: [usize; 7] = [0, 1, 2, 3, 4, 10, 11];
pub const TERMINAL: usize = 1;

pub fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/formats").join(name)
}

/// A path of this process in the system's folder for temporary files; removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let path =
            std::env::temp_dir().join(format!("hambo-formats-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The error of reading `path`, without the name of the file, which must come first.
pub fn error_of(path: &Path, options: &ReadOptions) -> String {
    let error = Logs::read_with(&[path], options).unwrap_err().to_string();
    let prefix = format!("{}: ", path.display());
    error
        .strip_prefix(&prefix)
        .unwrap_or_else(|| panic!("{error} does not name the file"))
        .to_owned()
}

pub fn error_in(name: &str, content: impl AsRef<[u8]>) -> String {
    error_of(&Scratch::new(name, content).0, &ReadOptions::default())
}

// The closed form of `reference/make_formats.py`.
pub fn steps(e: usize) -> usize {
    3 + e % 3
}
pub fn state(e: usize, t: usize) -> Vec<f32> {
    (0..3).map(|j| (100 * e + t) as f32 + j as f32 / 8.0).collect()
}
pub fn action(e: usize, t: usize) -> Vec<f32> {
    (0..2).map(|j| t as f32 / 4.0 - (j + e) as f32).collect()
}

/// Requires all of these episodes, but for their `left_out` last rows, in this order.
pub fn assert_episodes(
    t: &Transitions,
    episodes: &[usize],
    left_out: usize,
    terminal: Option<usize>,
) {
    assert_eq!(t.episodes().len(), episodes.len());
    for (range, &e) in t.episodes().zip(episodes) {
        assert_eq!(range.len(), steps(e) - left_out, "episode {e}");
        for (t_, row) in range.clone().enumerate() {
            let last = row + 1 == range.end;
            assert_eq!(t.state(row), state(e, t_), "state {t_} of episode {e}");
            assert_eq!(t.action(row), action(e, t_), "action {t_} of episode {e}");
            assert_eq!(t.next_state(row), state(e, t_ + 1), "next state {t_} of episode {e}");
            assert_eq!(t.rewards()[row], t_ as f32 / 2.0 + e as f32, "reward {t_} of episode {e}");
            assert_eq!(
                t.terminals()[row],
                last && terminal == Some(e),
                "terminal {t_} of episode {e}"
            );
            assert_eq!(
                t.timeouts()[row],
                last && terminal != Some(e),
                "timeout {t_} of episode {e}"
            );
        }
    }
}
