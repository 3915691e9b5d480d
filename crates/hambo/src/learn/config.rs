//! Settings of the learning.

use crate::{Error, Result};
use hambo_engine::backend::{Activation, Device, Shape};
use serde::{Deserialize, Serialize};

/// Largest of the counts.
const LARGEST: usize = 1_000_000;
/// Gradient steps at the most.
const MOST_STEPS: usize = 100_000_000;
/// Rows that can be remembered.
const MOST_ROWS: usize = 200_000_000;

/// Who plays against the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// A continuous adversary η in \[−1, 1\]^{d_s} that shifts the model's mean by β σ_e, learned by Soft Actor-Critic.
    Ca,
    /// One that chooses the particle of every step, learned by clipped double DQN.
    Da1,
}

impl Against {
    /// As the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Against::Ca => "ca",
            Against::Da1 => "da1",
        }
    }
}

/// Settings of the learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearnConfig {
    /// Who plays against the policy.
    pub adversary: Against,
    /// Gradient steps of the policy, and of the adversary.
    pub steps: usize,
    /// Rollouts that begin in each round, each at a logged state.
    pub starts: usize,
    /// Steps of a rollout, h.
    pub rollout_steps: usize,
    /// Gradient steps from one round of rollouts to the next.
    pub updates: usize,
    /// Rounds whose rollouts are learned from, the latest ones.
    pub remembered_rounds: usize,
    /// Share of logged transitions among what the policy learns from.
    pub real_share: f64,
    /// Rows of a minibatch.
    pub batch: usize,
    /// Widths of the hidden layers (ReLU) of all networks.
    pub hidden: Vec<usize>,
    /// Adam's learning rate of the policy; below the adversary's, which has to follow it.
    pub policy_rate: f32,
    /// Adam's learning rate of the policy's critics.
    pub critic_rate: f32,
    /// Adam's learning rate of the adversary and its critics.
    pub adversary_rate: f32,
    /// Weight of the policy's entropy at the start, in units of the deviation of rewards.
    pub temperature: f32,
    /// γ of the learning; that of the bound is another matter.
    pub discount: f64,
    /// ε, the share of random choices of DA1's adversary in rollouts.
    pub exploration: f32,
    /// How often the policy is measured and kept, the last time at the end.
    pub checkpoints: usize,
    /// Of those the best in the model, whose bounds decide; δ is shared by them.
    pub candidates: usize,
    /// Rollouts of a measurement, from the task's initial states over its horizon.
    pub measured: usize,
}

impl Default for LearnConfig {
    fn default() -> Self {
        LearnConfig {
            adversary: Against::Ca,
            steps: 20_000,
            starts: 400,
            rollout_steps: 5,
            updates: 200,
            remembered_rounds: 10,
            real_share: 0.05,
            batch: 256,
            hidden: vec![128, 128],
            policy_rate: 3e-4,
            critic_rate: 1e-3,
            adversary_rate: 1e-3,
            temperature: 0.1,
            discount: 0.99,
            exploration: 0.1,
            checkpoints: 10,
            candidates: 2,
            measured: 500,
        }
    }
}

impl LearnConfig {
    /// The defaults for a device: a GPU rolls out thousands of trajectories in the time of one.
    pub fn for_device(device: &Device) -> Self {
        match device.is_host() {
            true => LearnConfig::default(),
            false => LearnConfig {
                steps: 300_000,
                starts: 10_000,
                updates: 1000,
                hidden: vec![256, 256],
                policy_rate: 1e-4,
                critic_rate: 3e-4,
                adversary_rate: 3e-4,
                checkpoints: 20,
                measured: 5000,
                ..LearnConfig::default()
            },
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        Error::check_count("steps", self.steps, MOST_STEPS)?;
        let counts = [
            ("learn.starts", self.starts),
            ("learn.rollout_steps", self.rollout_steps),
            ("learn.updates", self.updates),
            ("learn.remembered_rounds", self.remembered_rounds),
            ("learn.batch", self.batch),
            ("learn.checkpoints", self.checkpoints),
            ("learn.candidates", self.candidates),
            ("learn.measured", self.measured),
        ];
        counts.into_iter().try_for_each(|(name, n)| Error::check_count(name, n, LARGEST))?;
        let positive = [
            ("learn.policy_rate", self.policy_rate),
            ("learn.critic_rate", self.critic_rate),
            ("learn.adversary_rate", self.adversary_rate),
            ("learn.temperature", self.temperature),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a positive, finite number"));
            }
        }
        let within = [
            ("learn.real_share", (0.0..1.0).contains(&self.real_share), "from 0 to below 1"),
            ("learn.discount", self.discount > 0.0 && self.discount <= 1.0, "a number in (0, 1]"),
            ("learn.exploration", (0.0..=1.0).contains(&self.exploration), "a share from 0 to 1"),
        ];
        if let Some((name, _, expected)) = within.into_iter().find(|(_, fits, _)| !fits) {
            return Err(Error::setting(name, "out of range", expected));
        }
        if self.rows() > MOST_ROWS {
            let expected = format!(
                "fewer: {} steps would be remembered, and {MOST_ROWS} are possible",
                self.rows()
            );
            return Err(Error::setting(
                "learn.remembered_rounds",
                self.remembered_rounds,
                expected,
            ));
        }
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        Shape::new(2, widths, Activation::Relu)?.check_rows("learn.batch", self.batch)
    }

    /// Rows of all the rounds that are remembered, one more a rollout than it has transitions.
    fn rows(&self) -> usize {
        let round = self.starts.saturating_mul(self.rollout_steps + 1);
        self.remembered_rounds.saturating_mul(round)
    }

    /// Rounds of rollouts in all.
    pub(super) fn rounds(&self) -> usize {
        self.steps.div_ceil(self.updates)
    }

    /// Gradient steps of a round, from 0 on: the last one may have fewer.
    pub(super) fn updates_of(&self, round: usize) -> usize {
        self.updates.min(self.steps - round * self.updates)
    }

    /// Whether the policy is measured and kept after so many rounds.
    pub(super) fn is_due(&self, rounds: usize) -> bool {
        let checkpoint = |rounds: usize| rounds * self.checkpoints / self.rounds();
        checkpoint(rounds) > checkpoint(rounds - 1)
    }
}
