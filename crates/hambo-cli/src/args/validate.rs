//! `hambo validate`

use super::shared::Machine;
use crate::shard::{Shard, shard};
use clap::Args;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  # The suite that comes with hambo, within 10 minutes on two cores; run it in
  # the root of the repository, whose checkpoints/ it evaluates:
  hambo validate quick --out quick

  # A suite of your own (docs/validate.md says how to write one):
  hambo validate suite.toml --out results

  # A large one on four machines that share a folder, then one table of all:
  hambo validate full --out results --shard 1/4 --device cuda
  hambo validate full --out results --device cuda

Files in the folder:
  index.html     what the runs say, as a page
  table.md       the same as Markdown
  table.json     the same for programs
  runs.jsonl     one line for each run
  truths.jsonl   one line for each true return

If it is interrupted, run the same command again: what is done is not done again.

Exit codes: 0 done, and every run has an answer; 1 a run has none (the table says why); 2 error.";

#[derive(Args)]
pub struct Validate {
    /// The suite: a TOML file, or the name of one that comes with hambo: quick, or full (for a GPU)
    #[arg(value_name = "SUITE")]
    pub suite: PathBuf,
    /// Folder for the runs and the table; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Do the i-th of n parts of the suite only, in a folder of its own within --out; i from 1
    ///
    /// Without this flag the command takes what all shards in --out have done, does the rest, and writes the table.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
    /// Make runs again that ended in an error
    #[arg(long)]
    pub again: bool,
    #[command(flatten)]
    pub machine: Machine,
    /// Print the table as one JSON object
    #[arg(long)]
    pub json: bool,
}
