//! One file a command.

mod collect;
mod demo;
mod evaluate;
mod inspect;
mod returns;

use crate::arguments::{Acting, Command, DeviceName, Machine};
use hambo::compute::Device;
use hambo::policy::Policy;
use std::error::Error;
use std::process::ExitCode;

/// Any error, with its message for the user.
pub type Outcome = Result<ExitCode, Box<dyn Error>>;

/// The layout of all JSON output.
const SCHEMA: &str = "hambo/1";

/// Does what was asked.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Return(arguments) => returns::run(&arguments),
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
    }
}

fn device(machine: &Machine) -> hambo::Result<Device> {
    match machine.device {
        DeviceName::Auto | DeviceName::Cpu => Device::cpu(machine.threads),
    }
}

/// The policy, as it is to act.
fn policy(spec: &str, acting: &Acting) -> hambo::Result<Policy> {
    let policy = Policy::read(spec)?.with_noise(acting.policy_noise)?;
    if acting.stochastic { policy.sampling() } else { Ok(policy) }
}
