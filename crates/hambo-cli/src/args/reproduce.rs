//! `hambo reproduce`

use super::shared::{Machine, Scale};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  # Takes a minute; writes fig2/fig2.txt, fig2.json, fig2.svg and fig2.png:
  hambo reproduce fig2 --scale quick --out fig2

  # All figures, and one page (figures/index.html) with what the paper says
  # beside them; run from the repository's root, whose checkpoints/ are used:
  hambo reproduce all --scale quick --out figures
  hambo reproduce all --scale paper --device cuda --out figures-paper

Figures 3 and 4 need the MuJoCo library; scripts/get-mujoco downloads it.";

#[derive(Args)]
pub struct Reproduce {
    /// The experiment to repeat
    #[arg(value_enum)]
    pub what: Experiment,
    /// Amount of computation: quick is for two cores, with fewer seeds, sizes and smaller networks; paper takes far longer
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
    /// On PointSafety an adversary finds the danger that a neutral model does not see
    Fig1,
    /// With a Gaussian process, the bound approaches the true return as the data grow
    Fig2,
    /// Estimates of all methods against the number of transitions: Pendulum, Hopper, HalfCheetah
    Fig3,
    /// Estimates of all methods against the horizon
    Fig4,
    /// All of them
    All,
}

impl Experiment {
    /// The single figures that it stands for.
    pub fn figures(self) -> Vec<Experiment> {
        match self {
            Experiment::All => {
                vec![Experiment::Fig1, Experiment::Fig2, Experiment::Fig3, Experiment::Fig4]
            }
            one => vec![one],
        }
    }

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Fig1 => "fig1",
            Experiment::Fig2 => "fig2",
            Experiment::Fig3 => "fig3",
            Experiment::Fig4 => "fig4",
            Experiment::All => "all",
        }
    }
}
