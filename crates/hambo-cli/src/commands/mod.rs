//! One file a command.

mod collect;
mod demo;
mod describe;
mod evaluate;
mod inspect;
mod rank;
mod reproduce;
mod returns;
mod selftest;
mod train;
mod truth;
mod unfinished;

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
        Command::Evaluate(arguments) => unfinished::with_place(evaluate::run(&arguments), &arguments),
        Command::Rank(arguments) => unfinished::with_place(rank::run(&arguments), &arguments),
        Command::Return(arguments) => returns::run(&arguments),
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Selftest(machine) => selftest::run(&machine),
    }
}

fn device(machine: &Machine) -> hambo::Result<Device> {
    match machine.device {
        DeviceName::Cpu => Device::cpu(machine.threads),
        DeviceName::Cuda => Device::cuda(),
        DeviceName::Auto => Device::cuda().or_else(|problem| {
            let device = Device::cpu(machine.threads)?;
            if Device::has_gpu() {
                eprintln!("the GPU cannot be used, {} is: {problem}", device.name());
            }
            Ok(device)
        }),
    }
}

/// The policy, as it is to act.
fn policy(spec: &str, acting: &Acting) -> hambo::Result<Policy> {
    let policy = Policy::read(spec)?.with_noise(acting.policy_noise)?;
    if acting.stochastic { policy.sampling() } else { Ok(policy) }
}

/// For work that is mostly done on the processor (a simulator, a Gaussian process): there, unless a GPU was asked for by name.
fn host_device(machine: &Machine) -> hambo::Result<Device> {
    match machine.device {
        DeviceName::Auto | DeviceName::Cpu => Device::cpu(machine.threads),
        DeviceName::Cuda => Device::cuda(),
    }
}
