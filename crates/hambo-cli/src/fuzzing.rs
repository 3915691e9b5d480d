//! What people write (arguments, TOML, settings in JSON), read and checked as the commands do it before they compute: for the
//! fuzz targets.

use crate::args::Command;
use crate::commands::{check_evaluation, check_learning};
use crate::{config, parsed, sweep, validate};
use std::error::Error;
use std::ffi::OsString;

/// Whether these words after `hambo` are a command with settings that can be. Nothing is computed or written.
pub fn check(words: Vec<OsString>) -> Result<(), Box<dyn Error>> {
    match parsed(config::expanded(words)?)?.command {
        Command::Evaluate(arguments) | Command::Rank(arguments) => check_evaluation(&arguments)?,
        Command::Learn(arguments) => check_learning(&arguments)?,
        Command::Sweep(arguments) => drop(sweep::Plan::read(&arguments.plan)?),
        Command::Validate(arguments) => {
            validate::Plan::of(&validate::Written::read(&arguments.suite)?)?;
        }
        _ => {}
    }
    Ok(())
}
