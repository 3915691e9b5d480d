//! `hambo reproduce`

use super::shared::{Machine, Scale};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Example:
  # Takes a minute; writes fig2/fig2.txt, fig2.json, fig2.svg and fig2.png:
  hambo reproduce fig2 --scale quick --out fig2";

#[derive(Args)]
pub struct Reproduce {
    /// The experiment to repeat
    #[arg(value_enum)]
    pub what: Experiment,
    /// Amount of computation: quick takes about a minute, paper about half an hour
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Folder for the table, the plots and the numbers; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub machine: Machine,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The experiments that can be repeated.
#[derive(Clone, Copy, ValueEnum)]
pub enum Experiment {
    /// With a Gaussian process, the bound approaches the true return as the data grow
    Fig2,
}

impl Experiment {
    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Fig2 => "fig2",
        }
    }
}
