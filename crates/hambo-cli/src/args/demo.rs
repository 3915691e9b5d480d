//! `hambo demo` and `hambo selftest`

use super::shared::Machine;
use clap::Args;
use std::path::PathBuf;

pub const DEMO_EXAMPLES: &str = "\
Examples:
  hambo demo
  hambo demo --seed 1 --out demo-1";

pub const SELFTEST_EXAMPLES: &str = "\
Example:
  hambo selftest --device cuda";

#[derive(Args)]
pub struct Demo {
    #[command(flatten)]
    pub machine: Machine,
    /// Random seed, 0 or larger
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// Folder for the reports: report.html on the unsafe policy, which cuts the corner, and safe.html on the policy
    /// that made the logs
    #[arg(long, value_name = "DIR", default_value = "hambo-demo")]
    pub out: PathBuf,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}
