//! The command `hambo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hambo_cli::stop_by_hand();
    hambo_cli::run(std::env::args_os().skip(1))
}
