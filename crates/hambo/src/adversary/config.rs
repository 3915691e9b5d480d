//! Settings of the search for an adversary.

use super::dqn::DqnConfig;
use super::sac::SacConfig;
use crate::{Error, Result};
use hambo_engine::backend::{Activation, Shape};
use serde::{Deserialize, Serialize};

/// Largest of the counts.
const LARGEST: usize = 1_000_000;
/// States that a descent may remember.
const MOST_STATES: usize = 1_000_000_000;

/// Which optimizers search for CA's adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizers {
    /// Back-propagation through the model, several restarts; SAC where returns change in steps alone, and both where the
    /// ends of episodes are all that has a gradient.
    Pathwise,
    /// The paper's: Soft Actor-Critic alone.
    Sac,
    /// Both, the second for a second opinion; SAC where returns change in steps alone.
    Portfolio,
}

/// Settings of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// What searches for CA's adversary.
    #[serde(rename = "optimisers")]
    pub optimizers: Optimizers,
    /// Widths of the adversary's hidden layers (ReLU).
    pub hidden: Vec<usize>,
    /// Independent restarts of the pathwise adversary.
    pub restarts: usize,
    /// Trajectories a restart and iteration.
    pub batch: usize,
    /// Iterations at the most.
    pub iterations: usize,
    /// Adam's learning rate, which falls to 0 along a cosine.
    pub learning_rate: f32,
    /// Iterations between two measurements on the fixed seeds.
    pub check_every: usize,
    /// Trajectories of a measurement.
    pub evaluation: usize,
    /// Converged: the lowest value improved by less than this share of its distance from the neutral value
    /// (and a tenth of the neutral value's standard error) …
    pub tolerance: f64,
    /// … during that many measurements.
    pub patience: usize,
    /// The paper's SAC adversary.
    pub sac: SacConfig,
    /// The paper's DQN adversary, which chooses among the particles.
    pub dqn: DqnConfig,
}

impl Default for SearchConfig {
    fn default() -> Self {
        SearchConfig {
            optimizers: Optimizers::Pathwise,
            hidden: vec![256, 256],
            restarts: 2,
            batch: 64,
            iterations: 60,
            learning_rate: 3e-3,
            check_every: 5,
            evaluation: 250,
            tolerance: 0.03,
            patience: 4,
            sac: SacConfig::default(),
            dqn: DqnConfig::default(),
        }
    }
}

impl SearchConfig {
    /// The rounds of the paper's experiments, and the paper's adversary as a second opinion.
    pub fn paper_scale() -> Self {
        SearchConfig {
            optimizers: Optimizers::Portfolio,
            dqn: DqnConfig::paper_scale(),
            ..Default::default()
        }
    }

    /// Checks every setting against its range.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("restarts", self.restarts),
            ("batch", self.batch),
            ("iterations", self.iterations),
            ("check_every", self.check_every),
            ("evaluation", self.evaluation),
            ("patience", self.patience),
        ];
        counts
            .into_iter()
            .try_for_each(|(name, value)| Error::check_count(name, value, LARGEST))?;
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(Error::setting("tolerance", self.tolerance, "0 or a positive number"));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(Error::setting(
                "learning_rate",
                self.learning_rate,
                "a positive, finite number",
            ));
        }
        let widths = [&[1], self.hidden.as_slice(), &[1]].concat();
        Shape::new(self.restarts, widths, Activation::Relu)?.check_rows("batch", self.batch)?;
        let [temperature, rate] = [self.sac.temperature, self.sac.temperature_rate];
        for (name, value) in [("sac.temperature", temperature), ("sac.temperature_rate", rate)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a positive, finite number"));
            }
        }
        self.sac.learning.validate()?;
        self.dqn.validate()
    }

    /// An error if a descent over this horizon would have to remember more states than there can be room for.
    pub(crate) fn check_size(&self, horizon: usize) -> Result<()> {
        if self.optimizers != Optimizers::Pathwise {
            self.sac.learning.check_size(horizon)?;
        }
        let states = self.restarts.saturating_mul(self.batch).saturating_mul(horizon);
        match states > MOST_STATES {
            true => Err(Error::setting(
                "batch",
                self.batch,
                format!(
                    "at most {MOST_STATES} states in {} restarts over {horizon} steps",
                    self.restarts
                ),
            )),
            false => Ok(()),
        }
    }
}
