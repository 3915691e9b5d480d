//! The command line: commands, flags and their help.

#![allow(rustdoc::broken_intra_doc_links)] // these are help texts, and `s[0]` in them is an expression

mod demo;
mod evaluate;
mod inspect;
mod learn;
mod reproduce;
mod shared;
mod shell;
mod simulate;
mod sweep;
mod validate;

pub use demo::Demo;
pub use evaluate::{Adversary, Evaluate, Model};
pub use inspect::Inspect;
pub use learn::Learn;
pub use reproduce::{Experiment, Reproduce};
pub use shared::{Acting, Data, DeviceName, Machine, PolicyReading, Scale};
pub use shell::{Completions, Doctor, Man};
pub use simulate::{Collect, Return, Train};
pub use sweep::Sweep;
pub use validate::Validate;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// How badly could this policy do, given only what these logs know?
///
/// hambo computes a lower bound on a policy's return from logged transitions, without running the policy.
#[derive(Parser)]
#[command(name = "hambo", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    /// Show no progress on standard error
    #[arg(long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// TOML file with options of the command, by their names; those on the command line come first
    ///
    /// Every folder of --out has one, run.toml, that repeats its run. Paths in it are relative to the working folder.
    #[arg(long, global = true, value_name = "FILE.toml", help_heading = "Output")]
    pub config: Option<PathBuf>,
}

impl Arguments {
    /// What these flags of a command say, or what is wrong with them in one line.
    pub fn of(command: &str, flags: &[String]) -> Result<Command, String> {
        let words = ["hambo", command].into_iter().chain(flags.iter().map(String::as_str));
        Arguments::try_parse_from(words).map(|arguments| arguments.command).map_err(|e| {
            // The first paragraph, without the usage and the hints for a terminal.
            let text = e.to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            first.lines().map(str::trim).collect::<Vec<_>>().join(" ")
        })
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a complete example: collect data, learn a model, evaluate a safe and an unsafe policy
    ///
    /// The example is the paper's PointSafety task. It takes under a minute on two CPU cores, and writes a report on
    /// each policy.
    #[command(after_help = demo::DEMO_EXAMPLES)]
    Demo(Demo),
    /// Estimate a policy's return and bound it from below, from logged data alone
    #[command(after_help = evaluate::EVALUATE_EXAMPLES)]
    Evaluate(Box<Evaluate>),
    /// Bound several policies with one model and sort them by their bounds
    #[command(after_help = evaluate::RANK_EXAMPLES)]
    #[command(mut_arg("policy", |policy| policy.help(shared::POLICIES).long_help(shared::with_kinds(shared::POLICIES))))]
    #[command(mut_arg("curves", |curves| curves.hide(true)))]
    Rank(Box<Evaluate>),
    /// Learn a policy that is good in the worst case, from logged data alone, and bound its return
    ///
    /// The policy plays against an adversary inside the model's uncertainty: max over policies, min over adversaries. It ends
    /// with the bound of `hambo evaluate`. If the run is interrupted, run the same command again to continue it.
    #[command(after_help = learn::EXAMPLES)]
    #[command(mut_arg("policy", |policy| policy.required(false).hide(true)))]
    #[command(mut_arg("stochastic", |arg| arg.hide(true)))]
    #[command(mut_arg("policy_noise", |arg| arg.hide(true)))]
    #[command(mut_arg("normalizer", |arg| arg.hide(true)))]
    #[command(mut_arg("activation", |arg| arg.hide(true)))]
    #[command(mut_arg("squash", |arg| arg.hide(true)))]
    #[command(mut_arg("output", |arg| arg.hide(true)))]
    #[command(mut_arg("curves", |arg| arg.hide(true)))]
    #[command(mut_arg("adversary", |search| search.long("search").help(learn::SEARCH).long_help(learn::SEARCH)))]
    #[command(mut_arg("horizon", |horizon| horizon.required(false).default_value("0").hide_default_value(true).help(learn::HORIZON)))]
    #[command(mut_arg("method", |method| method.help(learn::METHOD).long_help(learn::METHOD)))]
    #[command(mut_arg("out", |out| out.required(true).help(learn::OUT).long_help(learn::OUT)))]
    Learn(Box<Learn>),
    /// Measure a policy's true return in a simulated environment
    #[command(after_help = simulate::RETURN_EXAMPLES)]
    Return(Return),
    /// Run policies in a simulated environment and log their transitions to a D4RL HDF5 file
    #[command(after_help = simulate::COLLECT_EXAMPLES)]
    Collect(Collect),
    /// Train a policy in a simulated environment with Soft Actor-Critic
    ///
    /// If the training is interrupted, run the same command again to continue it.
    #[command(after_help = simulate::TRAIN_EXAMPLES)]
    Train(Train),
    /// Repeat an experiment of the paper; writes a table, plots, and all numbers as JSON
    ///
    /// If the experiment is interrupted, run the same command again to continue it.
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce(Reproduce),
    /// Measure how often bounds hold: a suite of cases whose true returns are known
    ///
    /// Makes the data, the true returns and the evaluations of a suite, and writes one table, one JSON-lines file and one page.
    #[command(after_help = validate::EXAMPLES)]
    Validate(Validate),
    /// Run many evaluations, a grid of data, policies, seeds and settings, on one machine or many
    ///
    /// Workers share a folder, and nothing else: each takes a job that nobody has, and takes up the job of a worker that died.
    /// What is done is not done again.
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(Sweep),
    /// Show what is in a data or policy file
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(Inspect),
    /// Check that this device computes what the CPU computes
    ///
    /// Runs every kernel on the device and compares the results with those of the CPU. Exit code 0 if all agree, 2 if
    /// one does not: do not use such a device.
    #[command(after_help = demo::SELFTEST_EXAMPLES)]
    Selftest(Machine),
    /// Look for what is missing or broken on this machine, and say what to do about it
    ///
    /// Looks at the processor, threads, GPU, driver, NVRTC, MuJoCo and the cache.
    #[command(after_help = shell::DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Print a script that completes the command line in a shell
    #[command(after_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Print the manual page
    #[command(after_help = shell::MAN_EXAMPLES)]
    Man(Man),
}
