//! `hambo sweep`

use super::shared::Machine;
use crate::shard::{Shard, shard};
use clap::Args;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  # All jobs of a plan (docs/scaling.md says how to write one):
  hambo sweep plan.toml --out results

  # The same on as many machines as there are, which share the folder:
  hambo sweep plan.toml --out results --device cuda

  # Or split beforehand, as for a Slurm array:
  hambo sweep plan.toml --out results --shard 2/8

  # How far is it, and what came out?
  hambo sweep plan.toml --out results --status
  hambo sweep plan.toml --out results --collect

Files in the folder:
  index.html      how far it is, as a page that looks again by itself
  table.csv       what came out, a row for each method of each job
  table.parquet   the same
  table.html      the policies of each data set in the order of their bounds
  jobs            a folder for each job, as hambo evaluate writes it

If it is interrupted, run the same command again: what is done is not done again, what was begun goes on.

Exit codes: 0 all jobs are done, and meet their thresholds if they have some; 1 a job failed or does not meet its threshold, or, with --collect, is not done; 2 error, such as a plan with a mistake.";

#[derive(Args)]
pub struct Sweep {
    /// The plan, a TOML file
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// Folder for the jobs and the table; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Do the i-th of n parts of the plan only, i from 1 [default: any job that nobody has]
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
    /// Do jobs again that failed
    #[arg(long, conflicts_with_all = ["status", "collect", "list"])]
    pub retry_failed: bool,
    /// Seconds without a sign of life after which this worker counts as dead, and its job is taken up
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, allow_negative_numbers = true)]
    pub stale_after: f64,
    /// Do nothing, show how far it is
    #[arg(long)]
    pub status: bool,
    /// Do nothing, write the table of all that is done
    #[arg(long, conflicts_with = "status")]
    pub collect: bool,
    /// Do nothing, print each job as a line of JSON: its name, that of its model, its flags, whether it has ended
    #[arg(long, conflicts_with_all = ["status", "collect", "json"])]
    pub list: bool,
    #[command(flatten)]
    pub machine: Machine,
    /// Print how far it is as one JSON object
    #[arg(long)]
    pub json: bool,
}
