//! What is asked of an evaluation.

use super::budget::Budget;
use super::estimate::Method;
use crate::adversary::SearchConfig;
use crate::confidence::Beta;
use crate::confidence::theory::TheoryInputs;
use crate::data::{Transitions, refuse_constant_columns};
use crate::dynamics::{Dynamics, ModelConfig};
use crate::run::Run;
use crate::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;

/// Trajectories of one estimate; each needs some hundred bytes.
const MOST_ROLLOUTS: usize = 10_000_000;
/// Steps of an episode, at the most.
const LONGEST_HORIZON: usize = 1_000_000;

/// What is asked of an evaluation.
///
/// ```
/// use hambo::EvaluationConfig;
/// let config = EvaluationConfig { horizon: 100, threshold: Some(-160.0), ..Default::default() };
/// config.validate()?;
/// # Ok::<(), hambo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EvaluationConfig {
    /// Steps of an episode, T.
    pub horizon: usize,
    /// Discount factor of rewards, γ.
    pub discount: f64,
    /// The methods; the bound of the first is the one that counts. Empty: the [usual ones](Method::USUAL) that the model has.
    pub methods: Vec<Method>,
    /// The probability with which the bounds may fail, δ.
    pub delta: f64,
    /// Bounds are on CVaR in place of the mean return: on the mean over this worst share of episodes.
    pub risk: Option<f64>,
    /// The return that the bound has to reach, if one is asked for.
    pub threshold: Option<f64>,
    /// Trajectories of each estimate, L.
    pub rollouts: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// The dynamics model that is learned.
    pub model: ModelConfig,
    /// How the confidence set of CA is sized.
    pub beta: Beta,
    /// How the adversaries of CA and DA1 are searched for.
    pub search: SearchConfig,
    /// Whether a bound that nothing in the data supports may reach the threshold.
    pub accept_extrapolation: bool,
    /// Whether the policies were learned from these very logs. Then no episode is one that they have not seen: what is
    /// measured on held-out ones cannot support a bound.
    pub learned_from_logs: bool,
    /// Whether to go on although a column of the data never changes.
    pub allow_constant: bool,
    /// Whether to look at where the bound comes from, for the report.
    pub explain: bool,
    /// What the theory of Gaussian processes has to be told.
    pub theory: TheoryInputs,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        EvaluationConfig {
            horizon: 200,
            discount: 1.0,
            methods: Vec::new(),
            delta: 0.05,
            risk: None,
            threshold: None,
            rollouts: 10_000,
            seed: 0,
            model: ModelConfig::default(),
            beta: Beta::Trajectory,
            search: SearchConfig::default(),
            accept_extrapolation: false,
            learned_from_logs: false,
            allow_constant: false,
            explain: false,
            theory: TheoryInputs::default(),
        }
    }
}

impl EvaluationConfig {
    /// Checks every part against its range.
    pub fn validate(&self) -> Result<()> {
        if self.horizon == 0 {
            return Err(Error::setting("horizon", self.horizon, "at least 1 step"));
        }
        Error::check_count("horizon", self.horizon, LONGEST_HORIZON)?;
        self.search.validate()?;
        self.search.check_size(self.horizon)?;
        Budget::new(self.delta)?;
        if !(self.discount > 0.0 && self.discount <= 1.0) {
            return Err(Error::setting("discount", self.discount, "a number in (0, 1]"));
        }
        if self.rollouts < 100 {
            return Err(Error::setting(
                "rollouts",
                self.rollouts,
                "at least 100, for a Monte-Carlo margin that means something",
            ));
        }
        if self.rollouts > MOST_ROLLOUTS {
            return Err(Error::setting(
                "rollouts",
                self.rollouts,
                format!("at most {MOST_ROLLOUTS}"),
            ));
        }
        if let Some(share) = self.risk {
            if !(share > 0.0 && share < 1.0) {
                return Err(Error::setting(
                    "risk",
                    share,
                    "a share of episodes between 0 and 1, such as 0.2: the bound is then on the mean return of the worst 20 %",
                ));
            }
            if self.methods.contains(&Method::Da1) {
                return Err(Error::setting(
                    "method",
                    "da1",
                    "ca or dainf where --risk is given: DA1's adversary learns to lower the mean return alone",
                ));
            }
        }
        if let Some(threshold) = self.threshold {
            if !threshold.is_finite() {
                return Err(Error::setting("threshold", threshold, "a finite number"));
            }
            self.check_threshold_method()?;
        }
        self.theory.validate()
    }

    /// A verdict needs a bound, and only conservative methods have one.
    pub fn check_threshold_method(&self) -> Result<()> {
        match self.methods.first() {
            Some(first) if !first.is_conservative() => Err(Error::setting(
                "method",
                first.name(),
                "a conservative method (ca, da1, dainf) first where a threshold is given: a neutral estimate bounds nothing",
            )),
            _ => Ok(()),
        }
    }

    /// Learns the model that policies are evaluated in.
    pub fn fit_model(
        &self,
        device: &Device,
        data: &Transitions,
        run: &Run<'_>,
    ) -> Result<Box<dyn Dynamics>> {
        self.validate()?;
        if !self.allow_constant {
            refuse_constant_columns("states", data.states(), data.state_dim())?;
            refuse_constant_columns("actions", data.actions(), data.action_dim())?;
        }
        self.model.fit(device, data, self.seed, run)
    }

    /// The methods for this model: those asked for, or the usual ones that it has. "All" are all that it has.
    pub fn methods_for(&self, model: &dyn Dynamics) -> Vec<Method> {
        let (methods, by_name) = match self.methods.as_slice() {
            [] => (Method::USUAL.to_vec(), false),
            methods => (methods.to_vec(), methods != Method::ALL),
        };
        let has = |method: &Method| by_name || model.has_particles() || !method.needs_particles();
        methods.into_iter().filter(has).collect()
    }

    /// An error if a method needs particles and the model has none.
    pub(super) fn check_model(&self, model: &dyn Dynamics) -> Result<()> {
        match self.methods_for(model).iter().find(|method| method.needs_particles()) {
            Some(method) if !model.has_particles() => {
                let names =
                    Method::ALL.into_iter().filter(|m| !m.needs_particles()).map(Method::name);
                let expected = format!(
                    "one of {}: a Gaussian process has no particles that a trajectory could follow",
                    names.collect::<Vec<_>>().join(", ")
                );
                Err(Error::setting("method", method.name(), expected))
            }
            _ => Ok(()),
        }
    }

    /// Where the initial states of all estimates are drawn.
    pub fn starts_stream(&self) -> Stream {
        Stream::new(self.seed).child("rollouts").child("initial states")
    }
}
