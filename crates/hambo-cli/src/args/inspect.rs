//! `hambo inspect`

use super::shared::{Columns, Machine, PolicyReading};
use clap::Args;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  hambo inspect pend.hdf5 --policy builtin:swing-up
  hambo inspect sac/Pendulum-v1.zip
  hambo inspect log.csv --columns state=angle,speed action=torque";

#[derive(Args)]
pub struct Inspect {
    /// Files or folders of logged transitions, or one policy file
    ///
    /// Data: HDF5 (D4RL, Minari, robomimic), NPZ, CSV or Parquet files, a folder of Minari or LeRobot, or
    /// minari:NAMESPACE/NAME-v0. Several make up one data set; of any other folder it is listed what is in it. Policy: whatever `hambo evaluate --policy` takes.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Also show how well the data cover this policy's actions in the logged states; a SPEC as for `hambo evaluate`
    #[arg(long, value_name = "SPEC")]
    pub policy: Option<String>,
    #[command(flatten)]
    pub reading: PolicyReading,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub machine: Machine,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}
