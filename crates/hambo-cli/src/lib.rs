//! The command `hambo` (arguments in, library call, text out), and what the Python package shares with it.

mod args;
mod color;
mod commands;
mod config;
pub mod embedded;
mod folder;
mod found;
#[doc(hidden)]
pub mod fuzzing;
mod given;
mod interrupt;
mod output;
mod plane;
mod plot;
mod progress;
mod reproduce;
mod shard;
mod sweep;
mod toml_file;
mod validate;
mod web;

use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// From now on Ctrl-C says what was kept, and ends the program.
pub fn stop_by_hand() {
    interrupt::listen();
}

/// Runs the command with these words after its name.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    output::set_command_line(&words);
    let words = match config::expanded(words) {
        Ok(words) => words,
        Err(error) => return failed(&error),
    };
    let arguments = match parsed(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            say(&error);
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    if arguments.quiet {
        progress::be_quiet();
    }
    commands::run(arguments.command).unwrap_or_else(|error| failed(error.as_ref()))
}

/// What is wrong with the words, or the help that they ask for, without what Rust calls numbers that are none.
fn say(error: &clap::Error) {
    let text = error.render().to_string();
    let plain = text
        .replace("invalid digit found in string", "expected a whole number")
        .replace("invalid float literal", "expected a number");
    // What needs no other words keeps its colors.
    let _ = match plain == text {
        true => error.print(),
        false => write!(std::io::stderr(), "{plain}"),
    };
}

/// The words as a command, which is remembered for the folder of `--out`.
fn parsed(words: Vec<OsString>) -> Result<args::Arguments, clap::Error> {
    let words = [OsString::from("hambo")].into_iter().chain(words);
    let matches = args::Arguments::command().try_get_matches_from(words)?;
    config::remember(&matches);
    args::Arguments::from_arg_matches(&matches)
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    // Not `eprintln!`, which panics where standard error is closed or full.
    let error = hambo::report::printable(&error.to_string());
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::from(2)
}
