//! `hambo collect`

use super::{Outcome, host_device};
use crate::arguments::Collect;
use crate::output::{Bars, print};
use hambo::data::write_d4rl;
use hambo::envs::{Behaviour, EnvName, collect};
use hambo::policy::Policy;
use hambo::rng::Stream;
use std::process::ExitCode;

pub fn run(arguments: &Collect) -> Outcome {
    let env: EnvName = arguments.env.parse()?;
    let mut behaviours = Vec::new();
    for spec in &arguments.policy {
        let policy = Policy::read(spec)?;
        let policy = if arguments.stochastic { policy.sampling()? } else { policy };
        behaviours.extend(arguments.noise.iter().map(|&noise| Behaviour { policy: policy.clone(), noise }));
    }
    let device = host_device(&arguments.machine)?;
    let stream = Stream::new(arguments.seed).child("collection");
    let horizon = arguments.horizon.unwrap_or(env.time_limit());
    let data = device
        .run(|| collect(&device, env, &behaviours, horizon, arguments.steps, stream, &Bars::default()))?;
    let noise: Vec<String> = arguments.noise.iter().map(f64::to_string).collect();
    let mut attributes = vec![
        ("env", env.name().to_owned()),
        ("policy", arguments.policy.join(" ")),
        ("noise", noise.join(" ")),
        ("horizon", horizon.to_string()),
        ("seed", arguments.seed.to_string()),
        ("made_by", concat!("hambo ", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    if arguments.stochastic {
        attributes.push(("stochastic", "true".to_owned()));
    }
    write_d4rl(&arguments.out, &data, &attributes)?;
    let (path, n, episodes) = (arguments.out.display(), data.len(), data.episodes().len());
    print(&format!("{path}: {n} transitions in {episodes} episodes of {}", env.name()))?;
    Ok(ExitCode::SUCCESS)
}
