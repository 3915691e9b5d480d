//! `hambo selftest`

use super::{Outcome, device};
use crate::args::Machine;
use crate::output::print;
use hambo_engine::selftest::selftest;
use std::process::ExitCode;

pub fn run(machine: &Machine) -> Outcome {
    let device = device(machine)?;
    let title = "compared with the CPU: largest difference, relative to 1 + the largest number";
    print(&format!("{} {title}", device.name()))?;
    let passed = selftest(&device, |check| {
        let verdict = if check.passed() { "ok" } else { "WRONG" };
        let line =
            format!("{verdict:5} {:8.1e} of {:.0e}  {}", check.worst, check.tolerance, check.name);
        let _ = print(&line); // whoever reads the lines may stop; the verdict is the exit code
    })?;
    print(if passed { "all checks passed" } else { "some checks failed: do not use this device" })?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
