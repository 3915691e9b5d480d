//! `hambo evaluate` and `hambo rank`

use super::shared::{Acting, Data, Machine, POLICY, Scale, with_kinds};
use clap::{Args, ValueEnum};
use hambo::evaluate::Effort;
use std::path::PathBuf;

pub const EVALUATE_EXAMPLES: &str = "\
Examples:
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up \\
        --horizon 200

  # Does the return reach -200? Exit code 0 if the bound says so, 1 if not:
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up \\
        --horizon 200 --method dainf --threshold -200 --out run1

  # Your own data and policy, with a reward learned from the log:
  hambo evaluate --data log.npz --policy agent.zip --horizon 100

  # With a reward and a termination that you know:
  hambo evaluate --data log.npz --policy agent.zip --horizon 100 \\
        --reward \"-s[0]^2\" --termination \"n[1] < 0.5\"

  # With a task file, which may have constraints (see docs/tasks.md):
  hambo evaluate --data log.npz --policy agent.zip --horizon 100 \\
        --task cart.toml

  # Two CSV files, and only 5000 transitions of them:
  hambo evaluate --data monday.csv tuesday.csv --subsample 5000 \\
        --columns state=cos,sin,speed action=torque --env pendulum \\
        --policy builtin:swing-up --horizon 200

  # A Gaussian process in place of neural networks:
  hambo evaluate --data pend.hdf5 --env pendulum --policy builtin:swing-up \\
        --horizon 50 --model gp

Conservative methods give a lower bound:
  ca      an adversary shifts every step within the model's confidence set
  da1     an adversary picks one of the model's particles at every step (slow)
  dainf   the worst particle, for the whole trajectory

Neutral methods give an estimate only:
  ds      a Gaussian with the mean and variance of all particles
  ts1     a random particle at every step
  tsinf   a random particle for the whole trajectory
  mean    the mean of all particles, without noise

A Gaussian process (--model gp) has no particles, so its methods are ca, ds and mean.

Exit codes: 0 done, and the threshold is met if there is one; 1 a threshold is not met; 2 error.";

pub const RANK_EXAMPLES: &str = "\
Examples:
  hambo rank --data pend.hdf5 --env pendulum --horizon 200 \\
        --policies a2c.zip ppo.zip sac.zip --out ranking

  # Compare the bounds with the true returns in the simulator:
  hambo rank --data pend.hdf5 --env pendulum --horizon 200 \\
        --policies a2c.zip ppo.zip sac.zip --truth-episodes 1000

  # A closer look at the best policy, with the same model:
  hambo evaluate --data pend.hdf5 --env pendulum --horizon 200 \\
        --policy sac.zip --fitted ranking --out best

The failure probability --delta is split among the policies, so that all bounds hold together.

Exit codes: 0 done, and some policy meets the threshold if there is one; 1 no policy meets it; 2 error.";

#[derive(Args, Debug)]
pub struct Evaluate {
    #[command(flatten)]
    pub data: Data,
    #[arg(long, visible_alias = "policies", value_name = "SPEC", num_args = 1.., required = true)]
    #[arg(help_heading = "Policy", help = POLICY, long_help = with_kinds(POLICY))]
    pub policy: Vec<String>,
    #[command(flatten, next_help_heading = "Policy")]
    pub acting: Acting,
    /// Environment that gives reward, termination, initial states and action bounds [default: none, see --task]
    ///
    /// point-safety, point, pendulum, hopper or halfcheetah; also hopper-v5 or halfcheetah-v5, without a suffix they
    /// are -v4; or as Gymnasium writes them, such as Pendulum-v1.
    #[arg(long, value_name = "NAME", conflicts_with = "task", help_heading = "Task")]
    pub env: Option<String>,
    #[command(flatten)]
    pub task: Task,
    /// Number of steps in an episode, 1 or more
    #[arg(long, value_name = "T", allow_negative_numbers = true, help_heading = "Task")]
    pub horizon: usize,
    /// Discount factor, above 0 and up to 1
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, help_heading = "Task")]
    pub discount: f64,
    /// Return that the lower bound has to reach: exit code 0 if it does, 1 if not [default: none]
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Task")]
    pub threshold: Option<f64>,
    /// Let a bound that the data do not support reach the threshold, too
    ///
    /// Without it only a bound that logged episodes near the policy support makes the exit code 0; others are
    /// extrapolations, and end in NOT ENOUGH EVIDENCE.
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Task")]
    pub accept: Option<Accept>,
    /// Kind of dynamics model to learn [default: bnn, or the kind of the --fitted model]
    #[arg(long, value_enum, help_heading = "Model")]
    pub model: Option<Model>,
    /// JSON file with settings of the model; settings it does not name keep their defaults
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub model_config: Option<PathBuf>,
    /// Use the model that an earlier run wrote to this folder (its --out), instead of training one
    #[arg(long, value_name = "DIR", conflicts_with = "model_config", help_heading = "Model")]
    pub fitted: Option<PathBuf>,
    /// How much time to take: quick (minutes on two cores, looser bounds), standard, or best
    ///
    /// It sets folds, training and search; --model-config and --search-config set them one by one.
    #[arg(long, value_parser = effort, default_value = "standard", help_heading = "Model")]
    pub effort: Effort,
    /// Accept data in which a column never changes; without this flag such data are an error
    ///
    /// Use it only if the column does not change under the evaluated policy either.
    #[arg(long, help_heading = "Model")]
    pub allow_constant: bool,
    #[command(flatten)]
    pub gp: GaussianProcess,
    /// Methods to run: all, or some of ca,da1,dainf,ds,ts1,tsinf,mean [default: all but da1; with --model gp:
    /// ca,ds,mean]
    ///
    /// The bound of the first one counts: it is compared with --threshold. `hambo evaluate --help` explains the
    /// methods at its end.
    #[arg(long, value_name = "LIST", help_heading = "Method")]
    pub method: Option<String>,
    /// Probability with which the bound may fail, between 0 and 1; 0.05 is a confidence of 95 %
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true, help_heading = "Method")]
    pub delta: f64,
    /// Bound CVaR in place of the mean return: the mean over this worst share of episodes, such as 0.2
    ///
    /// The adversary then lowers that, and --threshold is compared with it. It takes ten logged episodes near the policy
    /// among that share: 50 for 0.2. Not with da1.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, help_heading = "Method")]
    pub risk: Option<f64>,
    /// Size of the confidence set for ca, in standard deviations of the model: a rule or a number, 0 or larger
    ///
    /// Rules: trajectory (from held-out episodes that are replayed in the model with the policy in the loop; a large set
    /// where too few are near the policy), gaussian (normal quantile for --delta), conformal (from
    /// held-out single steps), literal (Section 4.1 of the paper to the letter), theory (Lemma 3.6; needs --model gp
    /// and --norm-bound). The paper's experiments use the number 1.
    #[arg(long, default_value = "trajectory", allow_hyphen_values = true, help_heading = "Method")]
    pub beta: String,
    /// How to search for ca's adversary [default: pathwise, or portfolio at --scale paper]
    ///
    /// If returns have no gradient because they change in steps, sac is used whatever you choose.
    #[arg(long, value_enum, help_heading = "Method")]
    pub adversary: Option<Adversary>,
    /// Number of trajectories simulated with the model for each estimate, 100 to 10,000,000 [default: 10,000, on a GPU 100,000]
    ///
    /// Of more than 10,000 each particle of dainf and tsinf has its share alone, but 10,000 at the least.
    #[arg(long, value_name = "L", help_heading = "Method")]
    #[arg(allow_negative_numbers = true)]
    pub rollouts: Option<usize>,
    /// Amount of computation
    ///
    /// quick: 3,000 to 10,000 training steps for the model, by the data, 3 to 10 short rounds of DQN for da1. paper: 30,000 steps,
    /// 12 long rounds of DQN for da1, and 12 rounds of SAC in addition to pathwise for ca.
    #[arg(long, value_enum, default_value_t = Scale::Quick, help_heading = "Method")]
    pub scale: Scale,
    /// JSON file with settings of the search for adversaries; settings it does not name keep their defaults
    ///
    /// The names are those under "search" in result.json.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scale", "adversary"], help_heading = "Method")]
    pub search_config: Option<PathBuf>,
    /// Random seed, 0 or larger
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Computation")]
    #[arg(allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten, next_help_heading = "Computation")]
    pub machine: Machine,
    /// Folder for the report, the result and the fitted model [default: write nothing]
    ///
    /// It gets report.html, summary.md, result.json, the model and logs (see docs/output.md). If the run is
    /// interrupted, run the same command again to continue it.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Replace the finished result that --out holds; without this flag it is an error
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Seconds between saves of unfinished work to --out, longer if a save is slow; 0 saves whenever possible
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        requires = "out",
        help_heading = "Output"
    )]
    #[arg(allow_negative_numbers = true)]
    pub save_every: f64,
    /// Also measure the true return in N simulated episodes, 2 to 100,000,000, and show it beside the estimates
    /// [default: none]
    ///
    /// Needs an environment, by --env or in the task file.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Output")]
    pub truth_episodes: Option<usize>,
    /// Also bound the return for shorter horizons, other values of beta and less data; takes about ten times as long
    #[arg(long, help_heading = "Output")]
    pub curves: bool,
    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print a summary in Markdown
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub markdown: bool,
}

/// Flags for `--model gp`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Gaussian process (--model gp)")]
pub struct GaussianProcess {
    /// Condition on at most N transitions, chosen to cover the data; 1 or more [default: use all]
    #[arg(long, value_name = "N")]
    pub gp_rows: Option<usize>,
    /// Bound on the norm of the standardized dynamics in the kernel's Hilbert space, 0 or larger; needed by --beta
    /// theory
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub norm_bound: Option<f64>,
    /// Lipschitz constants of reward and policy, to report the worst-case gap of the paper's Theorem 3.5
    #[arg(long, value_name = "R,P", value_parser = pair, allow_hyphen_values = true)]
    pub lipschitz: Option<[f64; 2]>,
}

fn pair(text: &str) -> Result<[f64; 2], String> {
    let numbers: Result<Vec<f64>, _> =
        text.split(',').map(|number| number.trim().parse()).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| "expected two numbers, such as 2.5,1".to_owned())
}

/// The task, as far as no environment gives it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Task")]
pub struct Task {
    /// TOML file with reward, termination, initial states, action bounds, angles and constraints (see docs/tasks.md)
    ///
    /// Without --env and --task the reward is learned from the log, and episodes start where the logged ones do.
    #[arg(long = "task", id = "task", value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// Reward, in place of that of --env or --task: an expression, or the word learned (from the log)
    ///
    /// Expressions may use s (state), a (action), n (next state) and r (learned reward), as in "-(s[0]^2 +
    /// 0.1*a[0]^2)".
    #[arg(long, value_name = "EXPR|learned", allow_hyphen_values = true)]
    pub reward: Option<String>,
    /// Condition that ends an episode, in place of that of --env or --task: an expression such as "abs(n[0]) >
    /// 2.4", or one of the words learned (from the log's terminal flags) and none
    #[arg(long, value_name = "EXPR|learned|none", allow_hyphen_values = true)]
    pub termination: Option<String>,
    /// Indices, from 0, of state entries that are angles in radians; the model sees their cosine and sine [default:
    /// those of --task]
    #[arg(long, value_name = "I,J", value_delimiter = ',')]
    pub angles: Option<Vec<usize>>,
    /// What a step pays at the least [default: that of --task; no more than the worst reward in the log]
    ///
    /// A rollout that leaves the range of the log gets the worst reward for all steps that remain. Where worse can happen than
    /// was logged, say how much worse.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub worst_reward: Option<f64>,
}

fn effort(text: &str) -> Result<Effort, String> {
    match text {
        "quick" => Ok(Effort::Quick),
        "standard" => Ok(Effort::Standard),
        "best" => Ok(Effort::Best),
        _ => Err("expected quick, standard or best".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Accept {
    /// Bounds that no logged episodes near the policy support
    Extrapolation,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Model {
    /// Bayesian neural network
    Bnn,
    /// Gaussian process, for up to a few thousand transitions; computed mostly on the CPU
    Gp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Adversary {
    /// Both of the following; the lower value counts
    Portfolio,
    /// Soft Actor-Critic, as in the paper; 12 rounds
    Sac,
    /// Backpropagation through the model
    Pathwise,
}
