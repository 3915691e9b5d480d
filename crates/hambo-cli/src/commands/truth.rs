//! The true return, where there is a simulator.

use super::host_device;
use crate::arguments::Machine;
use hambo::envs::{EnvName, Truth, simulate};
use hambo::evaluate::Question;
use hambo::policy::Policy;
use hambo::progress::Progress;
use hambo::rng::Stream;
use hambo::{Error, Result};

/// Simulated episodes at the most.
const MOST_EPISODES: usize = 100_000_000;

/// The environment in which the true return is to be measured.
pub struct Simulator {
    env: EnvName,
    episodes: usize,
}

/// An error where the truth is asked for and there is no simulator.
pub fn simulator(episodes: Option<usize>, env: Option<&str>) -> Result<Option<Simulator>> {
    let Some(episodes) = episodes else { return Ok(None) };
    if !(2..=MOST_EPISODES).contains(&episodes) {
        let expected = format!("2 to {MOST_EPISODES}");
        return Err(Error::setting("truth-episodes", episodes, expected));
    }
    let Some(env) = env else {
        let expected = "no such setting without an environment (--env) to simulate";
        return Err(Error::setting("truth-episodes", episodes, expected));
    };
    Ok(Some(Simulator { env: env.parse()?, episodes }))
}

impl Simulator {
    /// The mean return of the policy, from seeds that `hambo return` uses, too.
    pub fn truth(
        &self,
        machine: &Machine,
        policy: &Policy,
        question: &Question,
        progress: &dyn Progress,
    ) -> Result<Truth> {
        let device = host_device(machine)?;
        let stream = Stream::new(question.seed).child("simulation");
        let (horizon, discount) = (question.horizon, question.discount);
        let found = simulate(&device, self.env, policy, horizon, self.episodes, discount, stream, progress)?;
        Ok(Truth::from(&found))
    }
}
