//! What the user may say.

#![allow(rustdoc::broken_intra_doc_links)] // these are help texts, and `s[0]` in them is an expression

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// How badly could this policy do, given only what these logs know?
///
/// hambo computes a lower bound on a policy's return from logged transitions, without running the policy.
#[derive(Parser)]
#[command(name = "hambo", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// PointSafety end to end: collect data, learn, evaluate a safe and an unsafe policy, write a report
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
    /// Estimate a policy's return, and bound it from below, from logged data alone
    #[command(after_help = EVALUATE_EXAMPLES)]
    Evaluate(Box<Evaluate>),
    /// Bound many policies on one model, and put them in order; all bounds hold together
    #[command(after_help = RANK_EXAMPLES)]
    Rank(Box<Evaluate>),
    /// The truth: a policy's return in a simulated environment
    #[command(after_help = RETURN_EXAMPLES)]
    Return(Return),
    /// Log transitions of policies in a simulated environment, as a D4RL HDF5 file
    #[command(after_help = COLLECT_EXAMPLES)]
    Collect(Collect),
    /// Train a policy in a simulated environment by Soft Actor-Critic, with checkpoints; the same command again goes on
    /// where it was interrupted
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(Train),
    /// Repeat an experiment of the paper: a table, its numbers as JSON, and plots
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(Reproduce),
    /// Tell what is in a data or policy file
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(Inspect),
    /// Hold every kernel of a device against the CPU's: a GPU that computes something else must not be trusted
    #[command(after_help = SELFTEST_EXAMPLES)]
    Selftest(Machine),
}

const SELFTEST_EXAMPLES: &str = "\
Example:
  hambo selftest --device cuda";

const REPRODUCE_EXAMPLES: &str = "\
Example:
  hambo reproduce fig2 --scale quick --out fig2      # a minute; writes fig2/fig2.{txt,json,svg,png}";

const DEMO_EXAMPLES: &str = "\
Example:
  hambo demo --seed 1";

const EVALUATE_EXAMPLES: &str = "\
Examples:
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up --horizon 200
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up,angle=4 --horizon 200 \\
        --method dainf --threshold -200 --out run1      # exit code 0: met, 1: not met
  hambo evaluate --data monday.csv tuesday.csv --columns state=angle,speed action=torque --subsample 5000 \\
        --env pendulum --policy builtin:swing-up --horizon 200      # two files, one data set
  hambo evaluate --data log.npz --policy agent.zip --horizon 100      # the reward is learned from the log
  hambo evaluate --data log.npz --policy agent.zip --horizon 100 --reward \"-s[0]^2\" --termination \"n[1] < 0.5\"
  hambo evaluate --data log.npz --policy agent.zip --horizon 100 --task cart.toml      # with constraints, see docs/tasks.md
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up --horizon 50 --model gp

Conservative methods (they have a lower bound):
  ca     an adversary shifts every step within the model's confidence set
  da1    an adversary chooses one of the model's particles at every step; trained by DQN, which takes long
  dainf  the worst particle
Neutral methods: ds, ts1, tsinf, mean.
A Gaussian process (--model gp) has no particles: ca, ds, mean.";

const RANK_EXAMPLES: &str = "\
Examples:
  hambo rank --data pend.hdf5 --env pendulum --policies a2c.zip ppo.zip sac.zip --horizon 200 --out ranking
  hambo rank --data pend.hdf5 --env pendulum --policies a2c.zip ppo.zip sac.zip --horizon 200 --truth-episodes 1000
  hambo evaluate --data pend.hdf5 --env pendulum --policy sac.zip --horizon 200 --fitted ranking --out best

The probability δ is shared by the policies, so that all bounds hold together. Exit code 1: a threshold was given, and no policy
meets it.";

const RETURN_EXAMPLES: &str = "\
Examples:
  hambo return --env pendulum --policy builtin:swing-up --horizon 200 --episodes 1000 --json
  hambo return --env pendulum --policy sac/Pendulum-v1.zip --horizon 200 --episodes 200
  hambo return --env pendulum --policy sac/Pendulum-v1.zip --stochastic --horizon 200 --episodes 200";

const COLLECT_EXAMPLES: &str = "\
Example:
  hambo collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps 10000 --out pend.hdf5";

const TRAIN_EXAMPLES: &str = "\
Examples:
  hambo train --env pendulum --steps 20000 --evaluate-every 2000 --out pendulum
  hambo train --env hopper --steps 300000 --seed 1 --out hopper      # again, to go on after an interruption

The folder gets step-N.safetensors (policies for --policy) and final.safetensors, curve.csv and TensorBoard's events with
their measured returns, and training.safetensors with replay.bin, from which the training goes on. MuJoCo's environments
need its library: scripts/get-mujoco fetches it.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  hambo inspect pend.hdf5 --policy builtin:swing-up
  hambo inspect sac/Pendulum-v1.zip
  hambo inspect log.csv --columns state=angle,speed action=torque";

#[derive(Args)]
pub struct Demo {
    #[command(flatten)]
    pub machine: Machine,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// Folder for report.html, on the policy that cuts the corner, and safe.html, on the one that made the logs
    #[arg(long, value_name = "DIR", default_value = "hambo-demo")]
    pub out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Evaluate {
    #[command(flatten)]
    pub data: Data,
    /// The policy: builtin:NAME[,gain=value…], or a file: Stable-Baselines3 agent (.zip; a vecnormalize.pkl
    /// beside it is applied), D4RL file with a policy in it (.hdf5), ONNX graph (.onnx), network of our own (.safetensors).
    /// Several for `hambo rank`
    #[arg(long, visible_alias = "policies", value_name = "SPEC", num_args = 1.., required = true)]
    pub policy: Vec<String>,
    #[command(flatten)]
    pub acting: Acting,
    /// Whose reward, bounds and initial states: point-safety, point, pendulum, hopper, halfcheetah (-v4, -v5). Where no
    /// task is given either, the
    /// reward is learned from the log
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    pub env: Option<String>,
    #[command(flatten)]
    pub task: Task,
    /// Steps of an episode, T
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub horizon: usize,
    /// Learned model of the dynamics [default: bnn, or the kind of the --fitted one]
    #[arg(long, value_enum)]
    pub model: Option<Model>,
    #[command(flatten)]
    pub gp: GaussianProcess,
    /// Methods, the one whose bound counts first: all, or a list of ca,da1,dainf,ds,ts1,tsinf,mean [default: all but
    /// da1; of a gp: ca,ds,mean]
    #[arg(long, value_name = "LIST")]
    pub method: Option<String>,
    /// The bound may fail with this probability
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true)]
    pub delta: f64,
    /// Size of the confidence set of ca: trajectory, gaussian, conformal, literal, theory (gp, with --norm-bound), or a
    /// number
    #[arg(long, default_value = "trajectory", allow_hyphen_values = true)]
    pub beta: String,
    /// What searches for ca's adversary: pathwise (back-propagation through the model), sac (the paper's, 12 rounds), or
    /// portfolio (both, and the lower counts); sac alone where returns change in steps and have no gradient [default: pathwise,
    /// or portfolio at --scale paper]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub adversary: Option<Adversary>,
    /// Discount factor of rewards
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub discount: f64,
    /// Return that the bound has to reach: exit code 0 if it does, 1 if not
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    /// Trajectories of each estimate, L
    #[arg(long, value_name = "L", default_value_t = 10_000, allow_negative_numbers = true)]
    pub rollouts: usize,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// Effort: quick, or paper (model: 8,000 or 30,000 steps; da1: 3 to 10 quick rounds of DQN or 12 long ones; ca: with 12 rounds
    /// of SAC as a second opinion)
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Settings of the model as a JSON file; what it does not name keeps its default
    #[arg(long, value_name = "FILE")]
    pub model_config: Option<PathBuf>,
    /// Settings of the searches for adversaries as a JSON file, with the names that the result has under "search"; what it
    /// does not name keeps its default
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scale", "adversary"])]
    pub search_config: Option<PathBuf>,
    /// Use the model that an earlier run wrote to its --out instead of training one
    #[arg(long, value_name = "DIR", conflicts_with = "model_config")]
    pub fitted: Option<PathBuf>,
    /// Go on although a column of the data never changes
    #[arg(long)]
    pub allow_constant: bool,
    /// Folder for report.html, summary.md, result.json, the fitted model and logs, see docs/output.md; unfinished work
    /// is kept there, and the same command again goes on where it was interrupted
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seconds from one saving of unfinished work to the next, and more where saving takes long; 0: at every opportunity
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        allow_negative_numbers = true,
        requires = "out"
    )]
    pub save_every: f64,
    /// Also simulate N episodes in the environment for the true return, to be shown beside the estimates
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub truth_episodes: Option<usize>,
    /// Also bound the return for shorter horizons, other sizes of the confidence set and less data; takes about ten times
    /// as long
    #[arg(long)]
    pub curves: bool,
    #[command(flatten)]
    pub machine: Machine,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print a summary in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// What only --model gp looks at.
#[derive(Args)]
pub struct GaussianProcess {
    /// gp: condition on N rows that cover the data instead of on all of them
    #[arg(long, value_name = "N")]
    pub gp_rows: Option<usize>,
    /// gp: B, a bound on the norm of the standardized dynamics in the kernel's Hilbert space; β by theory needs it
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub norm_bound: Option<f64>,
    /// gp: Lipschitz constants of reward and policy, for the worst-case gap of the paper's Theorem 3.5
    #[arg(long, value_name = "R,P", value_parser = pair, allow_hyphen_values = true)]
    pub lipschitz: Option<[f64; 2]>,
}

fn pair(text: &str) -> Result<[f64; 2], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| "expected two numbers, as 2.5,1".to_owned())
}

/// What is asked of the policy, where no built-in environment says it.
#[derive(Args)]
pub struct Task {
    /// Reward, termination, initial states, action bounds, angles and constraints as a TOML file
    #[arg(long = "task", id = "task", value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// The reward: an expression of s, a, n (next state) and r (learned reward), as "-(s[0]^2 + 0.1*a[0]^2)"; or
    /// learned. Comes before what the task or the environment says
    #[arg(long, value_name = "EXPR|learned", allow_hyphen_values = true)]
    pub reward: Option<String>,
    /// What ends an episode for good: an expression, as "abs(n[0]) > 2.4"; learned, from the log's terminal flags;
    /// or none
    #[arg(long, value_name = "EXPR|learned|none", allow_hyphen_values = true)]
    pub termination: Option<String>,
    /// Entries of the state that are angles in radians: the model sees their cosine and sine
    #[arg(long, value_name = "I,J", value_delimiter = ',')]
    pub angles: Option<Vec<usize>>,
}

/// How the policy takes its actions.
#[derive(Args)]
pub struct Acting {
    /// Sample actions from the policy's own distribution instead of taking its mean
    #[arg(long)]
    pub stochastic: bool,
    /// Standard deviation of Gaussian noise on the policy's actions
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, allow_negative_numbers = true)]
    pub policy_noise: f64,
}

/// Which data, and which part of it.
#[derive(Args)]
pub struct Data {
    /// Logged transitions: HDF5 (D4RL, Minari), NPZ, CSV or Parquet files, which make up one data set; a Minari folder;
    /// minari:NAMESPACE/NAME-v0
    #[arg(long = "data", value_name = "PATH", num_args = 1.., required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub columns: Columns,
    /// Keep a random part: whole episodes until there are N transitions, or rows:N single transitions
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub subsample: Option<String>,
}

#[derive(Args)]
pub struct Columns {
    /// Columns of a CSV or Parquet file: state=x,y action=u reward=r terminal=… timeout=… episode=… next=…; x* stands
    /// for x0, x1, … [default: by their usual names]
    #[arg(long, value_name = "WHAT=NAMES", num_args = 1..)]
    pub columns: Vec<String>,
}

#[derive(Args)]
pub struct Return {
    /// Environment: point-safety, point, pendulum, hopper, halfcheetah (-v4, -v5)
    #[arg(long, value_name = "NAME")]
    pub env: String,
    /// The policy: builtin:NAME[,gain=value…], or a file: Stable-Baselines3 agent (.zip; a vecnormalize.pkl
    /// beside it is applied), D4RL file with a policy in it (.hdf5), ONNX graph (.onnx), network of our own (.safetensors)
    #[arg(long, value_name = "SPEC")]
    pub policy: String,
    #[command(flatten)]
    pub acting: Acting,
    /// Steps of an episode, T
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub horizon: usize,
    /// Number of episodes
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub episodes: usize,
    /// Discount factor of rewards
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub discount: f64,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub machine: Machine,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Collect {
    /// Environment: point-safety, point, pendulum, hopper, halfcheetah (-v4, -v5)
    #[arg(long, value_name = "NAME")]
    pub env: String,
    /// Policies, each builtin:NAME[,gain=value…] or a file (.zip, .hdf5, .onnx, .safetensors); their episodes alternate
    #[arg(long, value_name = "SPEC", num_args = 1.., required = true)]
    pub policy: Vec<String>,
    /// Sample actions from the policies' own distributions instead of taking their means
    #[arg(long)]
    pub stochastic: bool,
    /// Standard deviations of Gaussian noise on the actions; episodes alternate between them
    #[arg(long, value_name = "SIGMA", num_args = 1.., default_value = "0", allow_negative_numbers = true)]
    pub noise: Vec<f64>,
    /// Number of transitions
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: usize,
    /// Steps after which an episode is cut [default: the environment's time limit]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub horizon: Option<usize>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// File to write
    #[arg(long, value_name = "FILE.hdf5")]
    pub out: PathBuf,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Args)]
pub struct Train {
    /// Environment: point-safety, point, pendulum, hopper, halfcheetah (-v4, -v5)
    #[arg(long, value_name = "NAME")]
    pub env: String,
    /// Steps in the environment, of all runs in the folder together
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub steps: usize,
    /// Folder for checkpoints, learning curve and what is needed to go on
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Widths of the hidden layers of actor and critics
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [256, 256])]
    pub hidden: Vec<usize>,
    /// Transitions of an update
    #[arg(long, value_name = "N", default_value_t = 256, allow_negative_numbers = true)]
    pub batch: usize,
    /// Learning rate of actor, critics and temperature
    #[arg(long, value_name = "X", default_value_t = 3e-4, allow_negative_numbers = true)]
    pub learning_rate: f32,
    /// Discount factor of rewards
    #[arg(long, default_value_t = 0.99, allow_negative_numbers = true)]
    pub discount: f32,
    /// Random steps before the first update
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true)]
    pub learning_starts: usize,
    /// Steps from one update to the next
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub update_every: usize,
    /// Steps from one evaluation and checkpoint to the next
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true)]
    pub evaluate_every: usize,
    /// Episodes of an evaluation
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub evaluation_episodes: usize,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub machine: Machine,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Reproduce {
    /// Which experiment
    #[arg(value_enum)]
    pub what: Experiment,
    /// Effort: quick, a minute; or paper, half an hour. The same command again goes on after an interruption
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Folder for table, numbers and plots
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub machine: Machine,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The experiments that can be repeated.
#[derive(Clone, Copy, ValueEnum)]
pub enum Experiment {
    /// The bound of a Gaussian process approaches the truth as the data grow
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

#[derive(Args)]
pub struct Inspect {
    /// Data: HDF5 (D4RL, Minari), NPZ, CSV or Parquet; a Minari folder; minari:NAMESPACE/NAME-v0; several are one data
    /// set. Or a policy, as evaluate takes it
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Beside data: how much of what this policy does in the logged states they cover
    #[arg(long, value_name = "SPEC")]
    pub policy: Option<String>,
    #[command(flatten)]
    pub columns: Columns,
    #[command(flatten)]
    pub machine: Machine,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Machine {
    /// Where to compute
    #[arg(long, value_enum, default_value_t = DeviceName::Auto)]
    pub device: DeviceName,
    /// Threads on the CPU [default: one per core]; results do not depend on it
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum DeviceName {
    /// The GPU if there is one that can be used, else the processor
    Auto,
    /// The processor
    Cpu,
    /// The first NVIDIA GPU
    Cuda,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Model {
    /// Bayesian neural network
    Bnn,
    /// Gaussian process, for up to some thousand transitions; computed on the processor
    Gp,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Adversary {
    Portfolio,
    Sac,
    Pathwise,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    Quick,
    Paper,
}
