//! One file a command.

mod collect;
mod demo;
mod doctor;
mod evaluate;
mod inspect;
mod learn;
mod prepare;
mod rank;
mod reproduce;
mod resume;
mod returns;
mod selftest;
mod shell;
mod sweep;
mod train;
mod truth;
mod validate;

pub use evaluate::{evaluate, fit};
pub use inspect::inspect;
pub use learn::{Learned, check_learning, learn};
pub use prepare::{Prepared, check_evaluation, evaluation_config};
pub use rank::rank;
pub use resume::{UNFINISHED, program};

use crate::args::{Acting, Command, DeviceName, Machine, PolicyReading};
use hambo::policy::{NormalizerFile, Policy, PolicyHints};
use hambo::report::SCHEMA;
use hambo_engine::backend::Device;
use std::error::Error;
use std::process::ExitCode;

/// Any error, with its message for the user.
pub type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Does what was asked.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Evaluate(arguments) => resume::with_place(evaluate::run(&arguments), &arguments),
        Command::Rank(arguments) => resume::with_place(rank::run(&arguments), &arguments),
        Command::Learn(arguments) => {
            let out = arguments.evaluate.out.clone();
            learn::run(arguments).map_err(|problem| resume::placed(problem, out.as_deref()))
        }
        Command::Return(arguments) => returns::run(&arguments),
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Selftest(machine) => selftest::run(&machine),
        Command::Doctor(_) => doctor::run(),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
    }
}

/// The device that is asked for.
pub fn device(machine: &Machine) -> hambo::Result<Device> {
    match machine.device {
        DeviceName::Cpu => Device::cpu(machine.threads),
        DeviceName::Cuda => Device::cuda(),
        DeviceName::Auto => Device::cuda().or_else(|problem| {
            let device = Device::cpu(machine.threads)?;
            if Device::has_gpu() {
                eprintln!("the GPU cannot be used, so {} is used: {problem}", device.name());
            }
            Ok(device)
        }),
    }
}

/// The policy, as it is to act.
pub fn policy(spec: &str, acting: &Acting) -> hambo::Result<Policy> {
    as_asked(read_policy(spec, &acting.normalizer)?, acting)
}

fn as_asked(policy: Policy, acting: &Acting) -> hambo::Result<Policy> {
    let policy = policy.with_noise(acting.policy_noise)?;
    if acting.stochastic { policy.sampling() } else { Ok(policy) }
}

/// The policy with the normalizer that is asked for.
fn read_policy(spec: &str, asked: &PolicyReading) -> hambo::Result<Policy> {
    let normalizer = match &asked.normalizer {
        None => NormalizerFile::Found,
        Some(file) if file.as_os_str() == "none" => NormalizerFile::Without,
        Some(file) => NormalizerFile::At(file.clone()),
    };
    let PolicyReading { activation, squash, output, .. } = asked;
    let (activation, squash) = (activation.clone(), squash.clone());
    Policy::read_as(spec, &PolicyHints { normalizer, activation, squash, output: output.clone() })
}

/// The CPU unless a GPU is asked for by name, for work that is mostly done there: a simulator, a Gaussian process.
fn host_device(machine: &Machine) -> hambo::Result<Device> {
    match machine.device {
        DeviceName::Auto | DeviceName::Cpu => Device::cpu(machine.threads),
        DeviceName::Cuda => Device::cuda(),
    }
}
