//! The native half of the Python package `hambo`, which is thin: the Python half (`python/hambo`) turns what users hold
//! into arrays, files and flags, and this one hands them to the code that the command runs.

#![deny(unsafe_code)]

mod answer;
mod data;
mod errors;
mod policy;
mod task;
mod watch;

use pyo3::prelude::*;

/// The native half of `hambo`.
#[pymodule]
mod _hambo {
    #[pymodule_export]
    use super::answer::{Answer, evaluate, fit, inspect, learn, rank};
    #[pymodule_export]
    use super::data::Logs;
    #[pymodule_export]
    use super::run;
}

/// Runs the command with these words, and returns its exit code.
#[pyfunction]
fn run(py: Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
    use std::process::ExitCode;
    hambo_cli::stop_by_hand();
    let code = py.detach(|| hambo_cli::run(words));
    (0..2).find(|&number| code == ExitCode::from(number)).unwrap_or(2)
}
