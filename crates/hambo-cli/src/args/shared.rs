//! Flags that several commands share.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub const ENV: &str = "Environment: point-safety, point, pendulum, hopper or halfcheetah; also hopper-v5 or \
halfcheetah-v5, without a suffix they are -v4; or as Gymnasium writes them, such as Pendulum-v1";

pub const POLICY: &str = "The policy: builtin:NAME[,GAIN=VALUE...] or a file";
pub const POLICIES: &str =
    "The policies, separated by spaces: each builtin:NAME[,GAIN=VALUE...] or a file";

/// `help`, and which policies there are.
pub fn with_kinds(help: &str) -> String {
    format!(
        "{help}\n\nBuilt-in policies are waypoint (for point-safety), proportional (point) and swing-up (pendulum). A \
         file is a Stable-Baselines3 agent (.zip; a vecnormalize.pkl beside it, or in a folder of its name, is applied), a D4RL file with \
         a policy in it (.hdf5), an ONNX model (.onnx), the weights of a PyTorch network (.pt, .pth, .pkl; with --activation and \
         --squash), or a network saved by `hambo train` (.safetensors)."
    )
}

/// How the policy takes its actions.
#[derive(Args, Debug)]
pub struct Acting {
    /// Sample actions from the policy's own distribution [default: take its mean]
    #[arg(long)]
    pub stochastic: bool,
    /// Standard deviation of Gaussian noise added to the policy's actions, 0 or larger, in units of the action
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, allow_negative_numbers = true)]
    pub policy_noise: f64,
    #[command(flatten)]
    pub normalizer: PolicyReading,
}

/// What has to be said to read a file with a policy.
#[derive(Args, Debug)]
pub struct PolicyReading {
    /// Observation normalizer of the Stable-Baselines3 agents, a file written by VecNormalize.save, or none
    /// [default: vecnormalize.pkl or its like beside the agent, or in a folder of the agent's name]
    #[arg(long, value_name = "FILE")]
    pub normalizer: Option<PathBuf>,
    /// Activation between the layers of a PyTorch file, which does not say it: relu, tanh, elu, silu, gelu, leakyrelu,
    /// softplus or identity
    #[arg(long, value_name = "NAME")]
    pub activation: Option<String>,
    /// What follows the last layer of a PyTorch file: none, tanh (actions within ±1, or within its action_scale), or
    /// tanh:LIMIT (within ±LIMIT)
    #[arg(long, value_name = "HOW")]
    pub squash: Option<String>,
    /// Output of an ONNX model that is the action, where there are several [default: found by its usual names]
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
}

/// The log and the part of it to use.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub struct Data {
    /// Logged transitions; several files make up one data set
    ///
    /// HDF5 (D4RL, Minari, robomimic), NPZ, CSV or Parquet files, a folder of Minari or LeRobot, or
    /// minari:NAMESPACE/NAME-v0 for a data set that Minari has downloaded.
    #[arg(long = "data", value_name = "PATH", num_args = 1.., required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub columns: Columns,
    /// Use only a random part of the data: random episodes with N transitions in all, or rows:N for N single
    /// transitions [default: use all data]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub subsample: Option<String>,
}

#[derive(Args, Debug)]
pub struct Columns {
    /// Which columns of a CSV or Parquet file, or datasets of a demonstration in HDF5, to use [default: found by their usual names]
    ///
    /// WHAT is state, action, reward, terminal, timeout, episode or next (the next state); NAMES is a list, as in
    /// state=x,y action=u. x* stands for x0, x1 and so on. Usual names are s0 or obs_0, a0 or action_0, reward,
    /// terminal, timeout, episode and next_s0.
    #[arg(long, value_name = "WHAT=NAMES", num_args = 1..)]
    pub columns: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Machine {
    /// Device to compute on
    #[arg(long, value_enum, default_value_t = DeviceName::Auto)]
    pub device: DeviceName,
    /// Number of CPU threads, 1 to 1024; results do not depend on it [default: one per core]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DeviceName {
    /// The first NVIDIA GPU where it helps and can be used, otherwise the CPU
    Auto,
    /// The CPU
    Cpu,
    /// The first NVIDIA GPU; an error if it cannot be used
    Cuda,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    Quick,
    Paper,
}
