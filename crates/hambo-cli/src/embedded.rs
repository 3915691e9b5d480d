//! Evaluations and rankings for a program that holds data and policies in memory: the same steps as the command's, with
//! the same flags, so that the same seed gives the same digits.

use crate::args::{Arguments, Command};
use crate::commands;
pub use crate::commands::Learned;
pub use crate::found::{Found, Told};
pub use crate::given::{Environment, Inputs, Subject};
use hambo::data::{ColumnNames, ReadOptions};
use hambo::{Answer, Error, Ranking};
pub use hambo_envs::{Simulation, Stepped};
use std::path::PathBuf;

/// Evaluates one policy, as `hambo evaluate` with these flags.
pub fn evaluate(flags: &[String], inputs: Inputs) -> Result<Found<Answer>, Failure> {
    match parse("evaluate", flags)? {
        Command::Evaluate(arguments) => Ok(commands::evaluate(&arguments, Some(inputs), true)?),
        _ => Err(wrong_command()),
    }
}

/// Ranks policies, as `hambo rank` with these flags.
pub fn rank(flags: &[String], inputs: Inputs) -> Result<Found<Ranking>, Failure> {
    match parse("rank", flags)? {
        Command::Rank(arguments) => Ok(commands::rank(&arguments, Some(inputs))?),
        _ => Err(wrong_command()),
    }
}

/// Learns a model, as `hambo evaluate` with these flags and any policy would; returns its files, for `--fitted`.
pub fn fit(flags: &[String], inputs: Inputs) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let flags: Vec<String> = flags.iter().cloned().chain(["--policy=none".to_owned()]).collect();
    match parse("evaluate", &flags)? {
        Command::Evaluate(mut arguments) => {
            arguments.policy.clear();
            Ok(commands::fit(&arguments, Some(inputs))?)
        }
        _ => Err(wrong_command()),
    }
}

/// Learns a policy and bounds it, as `hambo learn` with these flags.
pub fn learn(flags: &[String], inputs: Inputs) -> Result<Found<Learned>, Failure> {
    match parse("learn", flags)? {
        Command::Learn(mut arguments) => Ok(commands::learn(&mut arguments, Some(inputs))?),
        _ => Err(wrong_command()),
    }
}

/// What `hambo inspect` prints with these flags.
pub fn inspect(flags: &[String]) -> Result<String, Failure> {
    match parse("inspect", flags)? {
        Command::Inspect(arguments) => Ok(commands::inspect(&arguments)?),
        _ => Err(wrong_command()),
    }
}

/// How data in memory are read with these settings of `--columns` and `--subsample`.
pub fn read_options(
    columns: &[String],
    subsample: Option<&str>,
    seed: u64,
) -> hambo::Result<ReadOptions> {
    Ok(ReadOptions {
        columns: ColumnNames::parse(columns)?,
        subsample: subsample.map(str::parse).transpose()?,
        seed,
        ..ReadOptions::default()
    })
}

/// Why there is no answer.
pub enum Failure {
    /// Flags that cannot be read.
    Flags(String),
    /// What the library says.
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

fn parse(command: &str, flags: &[String]) -> Result<Command, Failure> {
    Arguments::of(command, flags).map_err(Failure::Flags)
}

fn wrong_command() -> Failure {
    Failure::Flags("flags of another command".to_owned())
}
