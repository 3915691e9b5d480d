//! The commands that need a simulator: `hambo return`, `hambo collect` and `hambo train`

use super::shared::{Acting, ENV, Machine, POLICY, PolicyReading, with_kinds};
use clap::Args;
use std::path::PathBuf;

pub const RETURN_EXAMPLES: &str = "\
Examples:
  hambo return --env pendulum --policy builtin:swing-up --horizon 200 \\
        --episodes 1000 --json
  hambo return --env pendulum --policy sac/Pendulum-v1.zip --stochastic \\
        --horizon 200 --episodes 200";

pub const COLLECT_EXAMPLES: &str = "\
Example:
  # Every second episode has more noise:
  hambo collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 \\
        --steps 10000 --out pend.hdf5";

pub const TRAIN_EXAMPLES: &str = "\
Examples:
  hambo train --env pendulum --steps 20000 --evaluate-every 2000 --out pendulum
  hambo train --env hopper --steps 300000 --seed 1 --out hopper

Files in the folder:
  step-N.safetensors     the policy after N steps, for --policy
  final.safetensors      the policy at the end
  curve.csv              the measured returns, also as TensorBoard events
  training.safetensors   with replay.bin: what is needed to continue

Hopper and HalfCheetah need the MuJoCo library; scripts/get-mujoco downloads it.";

#[derive(Args)]
pub struct Return {
    #[arg(long, value_name = "NAME", help = ENV)]
    pub env: String,
    #[arg(long, value_name = "SPEC", help = POLICY, long_help = with_kinds(POLICY))]
    pub policy: String,
    #[command(flatten)]
    pub acting: Acting,
    /// Number of steps in an episode, 1 or more
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub horizon: usize,
    /// Number of episodes, 2 to 100,000,000
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub episodes: usize,
    /// Discount factor, above 0 and up to 1
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub discount: f64,
    /// Random seed, 0 or larger
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub machine: Machine,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Collect {
    #[arg(long, value_name = "NAME", help = ENV)]
    pub env: String,
    /// Policies that take turns, episode by episode: builtin:NAME[,GAIN=VALUE...] or files as for `hambo return`
    #[arg(long, value_name = "SPEC", num_args = 1.., required = true)]
    pub policy: Vec<String>,
    /// Sample actions from the policies' own distributions [default: take their means]
    #[arg(long)]
    pub stochastic: bool,
    #[command(flatten)]
    pub normalizer: PolicyReading,
    /// Standard deviation of Gaussian noise added to the actions, 0 or larger, in units of the action; several take
    /// turns, episode by episode
    #[arg(long, value_name = "SIGMA", num_args = 1.., default_value = "0", allow_negative_numbers = true)]
    pub noise: Vec<f64>,
    /// Number of transitions to log, 2 to 100,000,000
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: usize,
    /// Number of steps after which an episode is cut off, 1 or more
    /// [default: the environment's time limit]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub horizon: Option<usize>,
    /// Random seed, 0 or larger
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// File to write
    #[arg(long, value_name = "FILE.hdf5")]
    pub out: PathBuf,
    /// Replace the file if it exists; without this flag that is an error
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args)]
pub struct Train {
    #[arg(long, value_name = "NAME", help = ENV)]
    pub env: String,
    /// Number of environment steps in all, 1 or more, counting those of an earlier training in the folder
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: usize,
    /// Folder for the policies, the learning curve, and what is needed to continue
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Widths of the hidden layers of actor and critics, each 1 or more
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "256,256")]
    pub hidden: Vec<usize>,
    /// Number of transitions in an update, 1 or more
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true)]
    pub batch: usize,
    /// Learning rate of actor, critics and temperature, above 0
    #[arg(long, value_name = "X", default_value_t = 3e-4, allow_negative_numbers = true)]
    pub learning_rate: f32,
    /// Discount factor, above 0 and up to 1
    #[arg(long, default_value_t = 0.99, allow_negative_numbers = true)]
    pub discount: f32,
    /// Number of steps with random actions before the first update, 1 or more
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true)]
    pub learning_starts: usize,
    /// Number of environment steps between updates, 1 or more
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub update_every: usize,
    /// Number of environment steps between evaluations, 1 or more; each evaluation also saves the policy
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true)]
    pub evaluate_every: usize,
    /// Number of episodes in an evaluation, 2 or more
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub evaluation_episodes: usize,
    /// Random seed, 0 or larger
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub machine: Machine,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}
