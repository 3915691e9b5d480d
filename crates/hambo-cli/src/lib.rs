//! The command `hambo` (arguments in, library call, text out), and what the Python package shares with it.

mod args;
mod commands;
pub mod embedded;
mod folder;
mod found;
mod given;
mod output;
mod plane;
mod plot;
mod reproduce;
mod shard;
mod sweep;
mod toml_file;
mod validate;
mod web;

use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command with these words after its name.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    output::set_command_line(&words);
    let arguments =
        match args::Arguments::try_parse_from([OsString::from("hambo")].into_iter().chain(words)) {
            Ok(arguments) => arguments,
            Err(error) => {
                let _ = error.print();
                return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            }
        };
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
