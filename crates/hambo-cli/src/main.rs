//! The command `hambo`: arguments in, library call, text out.

mod args;
mod commands;
mod folder;
mod output;
mod plane;
mod plot;
mod reproduce;
mod validate;
mod web;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            // Not `eprintln!`, which panics where standard error is closed or full.
            let error = hambo::report::printable(&error.to_string());
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}
