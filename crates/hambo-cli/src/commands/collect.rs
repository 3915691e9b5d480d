//! `hambo collect`

use super::{Outcome, host_device, read_policy};
use crate::args::Collect;
use crate::output::print;
use crate::progress::Bars;
use hambo::Error;
use hambo::data::write_d4rl;
use hambo_engine::rng::Stream;
use hambo_envs::{Behavior, Collection, EnvName, collect};
use std::process::ExitCode;

pub fn run(arguments: &Collect) -> Outcome {
    let env = arguments.env.parse::<EnvName>()?.spec()?;
    let mut behaviors = Vec::new();
    for spec in &arguments.policy {
        let policy = read_policy(spec, &arguments.normalizer)?;
        let policy = if arguments.stochastic { policy.sampling()? } else { policy };
        behaviors.extend(
            arguments.noise.iter().map(|&noise| Behavior { policy: policy.clone(), noise }),
        );
    }
    if arguments.out.is_file() && !arguments.force {
        return Err(Error::file(
            &arguments.out,
            "the file exists: name another one, or give --force to replace it",
        )
        .into());
    }
    // Said before the work, not after it.
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let problem =
            format!("cannot write: No such folder as {}: make it first", folder.display());
        return Err(Error::file(&arguments.out, problem).into());
    }
    let device = host_device(&arguments.machine)?;
    let collection = Collection {
        steps: arguments.steps,
        horizon: arguments.horizon.unwrap_or(env.time_limit),
        stream: Stream::new(arguments.seed).child("collection"),
    };
    let data = device.run(|| collect(&device, &env, &behaviors, &collection, &Bars::default()))?;
    let noise: Vec<String> = arguments.noise.iter().map(f64::to_string).collect();
    let mut attributes = vec![
        ("env", env.name.clone()),
        ("policy", arguments.policy.join(" ")),
        ("noise", noise.join(" ")),
        ("horizon", collection.horizon.to_string()),
        ("seed", arguments.seed.to_string()),
        ("made_by", concat!("hambo ", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    if arguments.stochastic {
        attributes.push(("stochastic", "true".to_owned()));
    }
    write_d4rl(&arguments.out, &data, &attributes)?;
    let (path, n, episodes) = (arguments.out.display(), data.len(), data.episodes().len());
    print(&format!("{path}: {n} transitions in {episodes} episodes of {}", env.name))?;
    Ok(ExitCode::SUCCESS)
}
