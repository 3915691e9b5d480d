//! The command `hambo`: arguments in, library call, text out.

mod arguments;
mod commands;
mod folder;
mod output;
mod plot;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            // Not `eprintln!`, which panics where standard error is closed or full.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}
