//! The true return, if there is a simulator.

use super::host_device;
use crate::args::Machine;
use hambo::evaluate::EvaluationConfig;
use hambo::evaluate::Truth;
use hambo::policy::Policy;
use hambo::run::Observer;
use hambo::{Error, Result};
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, EnvSpec, Episodes, Simulation, simulate, simulate_outside};

/// Simulated episodes at the most.
const MOST_EPISODES: usize = 100_000_000;

/// The environment in which the true return is to be measured.
pub struct Simulator {
    env: Env,
    episodes: usize,
}

enum Env {
    BuiltIn(Box<EnvSpec>),
    /// One that another program holds.
    Given(Box<dyn Simulation>),
}

/// An error if the truth is asked for and there is no simulator.
pub fn simulator(
    episodes: Option<usize>,
    env: Option<&str>,
    given: Option<Box<dyn Simulation>>,
) -> Result<Option<Simulator>> {
    let Some(episodes) = episodes else { return Ok(None) };
    if !(2..=MOST_EPISODES).contains(&episodes) {
        let expected = format!("2 to {MOST_EPISODES}");
        return Err(Error::setting("truth-episodes", episodes, expected));
    }
    let env = match (given, env) {
        (Some(given), _) => Env::Given(given),
        (None, Some(env)) => Env::BuiltIn(Box::new(env.parse::<EnvName>()?.spec()?)),
        (None, None) => {
            let expected = "no such setting without an environment (--env) to simulate";
            return Err(Error::setting("truth-episodes", episodes, expected));
        }
    };
    Ok(Some(Simulator { env, episodes }))
}

impl Simulator {
    /// The mean return of the policy, or of its worst episodes, with the random numbers of `hambo return`.
    pub fn truth(
        &self,
        machine: &Machine,
        policy: &Policy,
        question: &EvaluationConfig,
        progress: &dyn Observer,
    ) -> Result<Truth> {
        let device = host_device(machine)?;
        let episodes = Episodes {
            horizon: question.horizon,
            count: self.episodes,
            discount: question.discount,
            stream: Stream::new(question.seed).child("simulation"),
        };
        let found = match &self.env {
            Env::BuiltIn(env) => simulate(&device, env, policy, &episodes, progress)?,
            Env::Given(env) => {
                simulate_outside(&device, env.as_ref(), policy, &episodes, progress)?
            }
        };
        Ok(found.truth(question.risk))
    }
}
