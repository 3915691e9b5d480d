//! `hambo return`

use super::{Outcome, SCHEMA, host_device, policy};
use crate::args::Return;
use crate::output::{number, print};
use crate::progress::Bars;
use hambo::stats::Mean;
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, Episodes, simulate};
use serde_json::json;
use std::process::ExitCode;

pub fn run(arguments: &Return) -> Outcome {
    let episodes = Episodes {
        horizon: arguments.horizon,
        count: arguments.episodes,
        discount: arguments.discount,
        stream: Stream::new(arguments.seed).child("simulation"),
    };
    episodes.validate()?;
    let env = arguments.env.parse::<EnvName>()?.spec()?;
    let policy = policy(&arguments.policy, &arguments.acting)?;
    let device = host_device(&arguments.machine)?;
    let found = simulate(&device, &env, &policy, &episodes, &Bars::default())?;
    let returns = &found.values;
    let mean = Mean::of(returns.iter().copied());
    let (min, max) =
        returns.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &r| (l.min(r), h.max(r)));
    let std = mean.std_error * (returns.len() as f64).sqrt();
    if arguments.json {
        let result = json!({
            "schema": SCHEMA,
            "env": env.name,
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
            env.name,
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
                "note: in {} episodes the simulator broke down; their returns are what they had earned until then",
                found.diverged
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
