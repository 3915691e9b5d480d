//! `hambo learn`

use super::evaluate::Evaluate;
use clap::{Args, ValueEnum};
use hambo::learn::Against;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  # Logs of a mediocre policy, and a better one learned from them:
  hambo collect --env pendulum --noise 0.3 --steps 10000 --out pend.hdf5 \\
        --policy checkpoints/pendulum/mediocre.safetensors
  hambo learn --data pend.hdf5 --env pendulum --adversary ca --out learned

  # Does the bound of what was learned reach -250? Exit code 0 if so, 1 if not:
  hambo learn --data pend.hdf5 --env pendulum --adversary ca --threshold -250 \\
        --accept extrapolation --out learned

  # The same model for the other adversary, and the truth beside the bound:
  hambo learn --data pend.hdf5 --env pendulum --adversary da1 --fitted learned \\
        --truth-episodes 1000 --out learned-da1

  # Your own logs, with a task file that gives reward and action bounds:
  hambo learn --data log.npz --task cart.toml --horizon 100 --adversary ca \\
        --out learned

  # What was learned is a policy like any other; only logs that it was not
  # learned from can support its bound:
  hambo evaluate --data fresh.hdf5 --env pendulum --horizon 200 \\
        --policy learned/policy.safetensors

Of all checkpoints those that are best in the model under the adversary are bounded, and the one with the highest bound is
taken; the simulator has no say in it. The failure probability --delta is split among them. See docs/learn.md.

Exit codes: 0 done, and the threshold is met if there is one; 1 the threshold is not met; 2 error.";

pub const SEARCH: &str = "How to search for ca's adversary when the bound is computed: see --adversary of `hambo evaluate`";
pub const HORIZON: &str =
    "Number of steps in an episode, 1 or more [default: the time limit of --env]";
pub const METHOD: &str =
    "Methods of the bound, see `hambo evaluate`; the first one counts [default: ca,ds]";
pub const OUT: &str = "Folder for the policy (policy.safetensors, policy.onnx), its checkpoints and curve, and all that \
`hambo evaluate` writes";

#[derive(Args)]
pub struct Learn {
    /// Who plays against the policy
    #[arg(
        id = "opponent",
        long = "adversary",
        value_enum,
        value_name = "WHO",
        help_heading = "Learning"
    )]
    pub opponent: Opponent,
    /// Gradient steps of policy and adversary [default: 20,000, on a GPU 300,000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Learning")]
    pub steps: Option<usize>,
    /// JSON file with settings of the learning; settings it does not name keep their defaults (see docs/learn.md)
    #[arg(long, value_name = "FILE", help_heading = "Learning")]
    pub learn_config: Option<PathBuf>,
    #[command(flatten)]
    pub evaluate: Evaluate,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Opponent {
    /// A continuous adversary that shifts every step within the model's confidence set, learned by Soft Actor-Critic
    Ca,
    /// One that picks one of the model's particles at every step, learned by DQN
    Da1,
}

impl From<Opponent> for Against {
    fn from(opponent: Opponent) -> Self {
        match opponent {
            Opponent::Ca => Against::Ca,
            Opponent::Da1 => Against::Da1,
        }
    }
}
