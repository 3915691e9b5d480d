//! From a suite to single runs, each with a name that tells its content.

use super::plan::{Plan, Source, Variant, World};
use crate::shard::{Shard, part};
use hambo::{Error, Policy, Result};
use hambo_engine::files::{sha256, sha256_of};
use serde_json::{Value, json};
use std::path::Path;

/// One data set and the model that is fitted on it, with all that is asked of it.
pub struct Fit<'a> {
    pub world: &'a World,
    pub data: usize,
    /// The policy that the data are of, where they are of the evaluated one.
    pub own: Option<usize>,
    pub n: usize,
    pub seed: u64,
    pub cases: Vec<Case<'a>>,
}

/// One run: a policy, a horizon and a rule for β.
pub struct Case<'a> {
    /// Readable, and with a digest of all that decides what comes out.
    pub name: String,
    pub policy: usize,
    pub horizon: usize,
    pub variant: &'a Variant,
}

/// All fits of a suite, by seed, then size: what is cut off early has something of everything.
pub fn fits<'a>(plan: &'a Plan, is_host: bool) -> Result<Vec<Fit<'a>>> {
    let mut found = Vec::new();
    for (place, world) in plan.worlds.iter().enumerate() {
        for (i, &seed) in world.seeds.iter().enumerate() {
            for (j, &n) in world.sizes.iter().enumerate() {
                for data in 0..world.data.len() {
                    let own: Vec<Option<usize>> = match world.data[data].is_own() {
                        true => (0..world.policies.len()).map(Some).collect(),
                        false => vec![None],
                    };
                    for own in own {
                        let fit = Fit { world, data, own, n, seed, cases: Vec::new() };
                        let cases = cases(plan, &fit, is_host)?;
                        found.push(((i, j, place), Fit { cases, ..fit }));
                    }
                }
            }
        }
    }
    found.sort_by_key(|(order, _)| *order);
    Ok(found.into_iter().map(|(_, fit)| fit).collect())
}

/// Those of one of several shards, `i/n` with i from 1.
pub fn shard<'a>(fits: Vec<Fit<'a>>, (index, count): Shard) -> Result<Vec<Fit<'a>>> {
    if count > fits.len() {
        let expected = format!("at most as many shards as there are data sets, {}", fits.len());
        return Err(Error::setting("shard", format!("{index}/{count}"), expected));
    }
    Ok(part(fits, (index, count)))
}

fn cases<'a>(plan: &'a Plan, fit: &Fit<'a>, is_host: bool) -> Result<Vec<Case<'a>>> {
    let (world, mut found) = (fit.world, Vec::new());
    let data = described(fit)?;
    for (policy, candidate) in world.policies.iter().enumerate() {
        if fit.own.is_some_and(|own| own != policy) {
            continue;
        }
        for &horizon in &world.horizons {
            for variant in &plan.variants {
                let config = world.question(variant, horizon, fit.seed, is_host);
                let methods: Vec<&str> = config.methods.iter().map(|m| m.name()).collect();
                let content = json!({
                    "data": data, "policy": policy_content(&candidate.policy)?, "horizon": horizon, "methods": methods,
                    "beta": config.beta.to_string(), "delta": config.delta, "rollouts": config.rollouts,
                    "model": config.model, "search": config.search,
                });
                let digest = &sha256_of(content.to_string().as_bytes())[..10];
                let name = format!(
                    "{}-{}-{}-n{}-T{horizon}-s{}-{}-{digest}",
                    world.name,
                    candidate.name,
                    world.data[fit.data].name,
                    fit.n,
                    fit.seed,
                    variant.name
                );
                found.push(Case { name, policy, horizon, variant });
            }
        }
    }
    Ok(found)
}

/// All that decides what the data are.
fn described(fit: &Fit<'_>) -> Result<Value> {
    let world = fit.world;
    let source = match &world.data[fit.data].source {
        source @ Source::Collected { stochastic, horizon, .. } => {
            let own = fit.own.map(|own| &world.policies[own].policy);
            let behavior =
                |b: &hambo_envs::Behavior| Ok(json!([policy_content(&b.policy)?, b.noise]));
            let behaviors: Vec<Value> =
                source.behaviors(own)?.iter().map(behavior).collect::<Result<_>>()?;
            json!({"behaviors": behaviors, "stochastic": stochastic, "horizon": horizon})
        }
        Source::Files(files) => {
            let digests: Vec<String> =
                files.iter().map(|file| sha256(file)).collect::<Result<_>>()?;
            json!({"files": digests, "task": format!("{:?}", world.spec)})
        }
    };
    Ok(json!({"world": world.name, "source": source, "n": fit.n, "seed": fit.seed}))
}

/// A policy as written, with the digest of its file.
pub fn policy_content(policy: &Policy) -> Result<Value> {
    let digest = |path: &Path| if path.is_file() { sha256(path) } else { Ok(String::new()) };
    let normalizer = policy.normalizer_file().map(digest).transpose()?;
    let own = digest(Path::new(&policy.spec))?;
    let spec = if own.is_empty() { policy.spec.as_str() } else { "" }; // a file may lie elsewhere
    Ok(json!([spec, own, normalizer]))
}
