//! `hambo selftest`

use super::{Outcome, device};
use crate::arguments::Machine;
use crate::output::print;
use hambo::selftest::selftest;
use std::process::ExitCode;

pub fn run(machine: &Machine) -> Outcome {
    let device = device(machine)?;
    let title = "against the CPU: largest difference, relative to 1 + the largest number";
    print(&format!("{} {title}", device.name()))?;
    let passed = selftest(&device, |check| {
        let verdict = if check.passed() { "ok" } else { "WRONG" };
        let line = format!("{verdict:5} {:8.1e} of {:.0e}  {}", check.worst, check.tolerance, check.name);
        let _ = print(&line); // whoever reads the lines may stop; the verdict is the exit code
    })?;
    print(if passed { "all as they should be" } else { "this device must not be used" })?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
