//! `hambo return`

use super::{Outcome, SCHEMA, host_device, policy};
use crate::arguments::Return;
use crate::output::{Bars, number, print};
use hambo::Error;
use hambo::envs::{EnvName, simulate};
use hambo::rng::Stream;
use hambo::stats::Mean;
use serde_json::json;
use std::process::ExitCode;

/// All returns are kept in memory.
const MOST_EPISODES: usize = 100_000_000;

pub fn run(arguments: &Return) -> Outcome {
    if arguments.horizon == 0 {
        return Err(Error::setting("horizon", 0, "at least 1 step").into());
    }
    if !(2..=MOST_EPISODES).contains(&arguments.episodes) {
        let expected = format!("at least 2, for a standard error, and at most {MOST_EPISODES}");
        return Err(Error::setting("episodes", arguments.episodes, expected).into());
    }
    if !(arguments.discount > 0.0 && arguments.discount <= 1.0) {
        return Err(Error::setting("discount", arguments.discount, "a number in (0, 1]").into());
    }
    let env: EnvName = arguments.env.parse()?;
    let policy = policy(&arguments.policy, &arguments.acting)?;
    let device = host_device(&arguments.machine)?;
    let found = simulate(
        &device,
        env,
        &policy,
        arguments.horizon,
        arguments.episodes,
        arguments.discount,
        Stream::new(arguments.seed).child("simulation"),
        &Bars::default(),
    )?;
    let returns = &found.values;
    let mean = Mean::of(returns.iter().copied());
    let (min, max) =
        returns.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &r| (l.min(r), h.max(r)));
    let std = mean.std_error * (returns.len() as f64).sqrt();
    if arguments.json {
        let result = json!({
            "schema": SCHEMA,
            "env": env.name(),
            "policy": policy.spec,
            "stochastic": arguments.acting.stochastic,
            "policy_noise": arguments.acting.policy_noise,
            "horizon": arguments.horizon,
            "discount": arguments.discount,
            "episodes": arguments.episodes,
            "value": mean.value,
            "std_error": mean.std_error,
            "std": std,
            "min": min,
            "max": max,
            "diverged_episodes": found.diverged,
            "seed": arguments.seed,
        });
        print(&result.to_string())?;
    } else {
        print(&format!(
            "{} on {}, horizon {}: {} ± {} over {} episodes (each {} ± {}, from {} to {})",
            policy.spec,
            env.name(),
            arguments.horizon,
            number(mean.value),
            number(mean.std_error),
            arguments.episodes,
            number(mean.value),
            number(std),
            number(min),
            number(max)
        ))?;
        if found.diverged > 0 {
            print(&format!(
                "note: in {} episodes the simulator broke down; they count what they had earned till then",
                found.diverged
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
