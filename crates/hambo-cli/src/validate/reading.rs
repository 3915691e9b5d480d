//! From a suite as written to one that was checked: all files are there, all names are known, all settings are within
//! their ranges. Errors name the file and the field.

use super::plan::{Candidate, Plan, Recipe, Source, Variant, World};
use super::settings::{networks, search};
use super::suite::{DataFile, EnvironmentFile, VariantFile, Written};
use hambo::confidence::Beta;
use hambo::data::{Logs, ReadOptions, Subsample};
use hambo::evaluate::{Method, Truth};
use hambo::task::TaskSpec;
use hambo::{Error, Policy, Result};
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, EnvSpec, Episodes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The word for the evaluated policy among the behaviors.
const SELF: &str = "self";

impl Plan {
    /// Reads and checks everything; errors name the file and the field.
    pub fn of(written: &Written) -> Result<Self> {
        let file = &written.file;
        let methods = methods(written, "methods", &file.methods)?;
        let variants = match file.variants.as_slice() {
            [] => vec![VariantFile {
                name: "default".to_owned(),
                beta: "trajectory".to_owned(),
                delta: None,
                methods: None,
            }],
            variants => variants.to_vec(),
        };
        let variants = variants.iter().enumerate();
        let variants: Vec<Variant> = variants
            .map(|(i, variant)| rule(written, &format!("variant[{i}]"), variant, &methods))
            .collect::<Result<_>>()?;
        distinct(written, "variant", variants.iter().map(|v| v.name.as_str()))?;
        if file.environments.is_empty() {
            return Err(written.problem("environment", "expected at least one [[environment]]"));
        }
        let [episodes, most] = [file.truth.episodes, file.truth.most];
        let asked = Episodes { horizon: 1, count: episodes, discount: 1.0, stream: Stream::new(0) };
        asked.validate().map_err(|e| written.problem("truth", e))?;
        if most < episodes {
            let problem = format!("{most}: expected no less than truth.episodes, {episodes}");
            return Err(written.problem("truth.most", problem));
        }
        let worlds = file.environments.iter().enumerate();
        let worlds: Vec<World> = worlds
            .map(|(i, environment)| world(written, &format!("environment[{i}]"), environment))
            .collect::<Result<_>>()?;
        distinct(written, "environment", worlds.iter().map(|w| w.name.as_str()))?;
        let plan = Plan {
            name: file.name.clone().unwrap_or_default(),
            about: file.about.clone().unwrap_or_default(),
            variants,
            worlds,
            episodes: [episodes, most],
        };
        plan.check(written)?;
        Ok(plan)
    }

    /// Every question against its ranges.
    fn check(&self, written: &Written) -> Result<()> {
        for (i, world) in self.worlds.iter().enumerate() {
            for (variant, &horizon) in
                self.variants.iter().flat_map(|v| world.horizons.iter().map(move |t| (v, t)))
            {
                let config = world.question(variant, horizon, 0, true);
                config.validate().map_err(|e| written.problem(&format!("environment[{i}]"), e))?;
            }
        }
        Ok(())
    }
}

fn methods(written: &Written, field: &str, names: &[String]) -> Result<Vec<Method>> {
    let methods = Method::parse_list(&names.join(",")).map_err(|e| written.problem(field, e))?;
    match methods.first() {
        Some(first) if first.is_conservative() => Ok(methods),
        _ => Err(written.problem(field, "expected a conservative method (ca, da1, dainf) first")),
    }
}

fn rule(written: &Written, at: &str, file: &VariantFile, usual: &[Method]) -> Result<Variant> {
    let field = |name: &str| format!("{at}.{name}");
    let beta = Beta::parse(&file.beta, None).map_err(|e| written.problem(&field("beta"), e))?;
    let methods = match &file.methods {
        Some(names) => methods(written, &field("methods"), names)?,
        None => usual.to_vec(),
    };
    let delta = file.delta.unwrap_or(written.file.delta);
    Ok(Variant { name: file.name.clone(), beta, delta, methods })
}

fn world(written: &Written, at: &str, file: &EnvironmentFile) -> Result<World> {
    let field = |name: &str| format!("{at}.{name}");
    let lists = [
        ("policies", file.policies.len()),
        ("horizons", file.horizons.len()),
        ("n", file.n.len()),
        ("seeds", file.seeds.len()),
        ("data", file.data.len()),
    ];
    if let Some((name, _)) = lists.iter().find(|(_, length)| *length == 0) {
        return Err(written.problem(&field(name), "expected at least one"));
    }
    let (env, spec) = env_or_task(written, at, file)?;
    let policies = policies(written, &field("policies"), file, env.as_ref())?;
    let mut data = Vec::new();
    for (i, recipe) in file.data.iter().enumerate() {
        let at = field(&format!("data[{i}]"));
        data.push(Recipe {
            name: recipe.name.clone(),
            source: match &env {
                Some(env) => collected(written, &at, recipe, (file, env), &policies)?,
                None => logged(written, &at, recipe, &file.n)?,
            },
        });
    }
    distinct(written, &field("data"), data.iter().map(|d| d.name.as_str()))?;
    if file.n.iter().any(|&n| n < 2) {
        return Err(written.problem(&field("n"), "expected at least 2 transitions"));
    }
    let (settings, place) = match &file.settings {
        Some(settings) => (settings, field("settings")),
        None => (&written.file.settings, "settings".to_owned()),
    };
    let mut world = World {
        name: env.as_ref().map(|env| env.name.clone()).or(spec.name.clone()).unwrap_or_default(),
        env,
        spec,
        policies,
        horizons: file.horizons.clone(),
        sizes: file.n.clone(),
        seeds: file.seeds.clone(),
        data,
        model: networks(written, &place, settings)?,
        search: search(written, &place, settings)?,
        rollouts: settings.rollouts,
        truths: Vec::new(),
    };
    world.truths = given_truths(written, &field("truth"), file, &world)?;
    Ok(world)
}

fn env_or_task(
    written: &Written,
    at: &str,
    file: &EnvironmentFile,
) -> Result<(Option<EnvSpec>, TaskSpec)> {
    match (&file.env, &file.task) {
        (Some(name), None) => {
            let problem = |e: Error| written.problem(&format!("{at}.env"), e);
            let env = name.parse::<EnvName>().and_then(EnvName::spec).map_err(problem)?;
            env.make().map_err(problem)?; // it may need a library
            Ok((Some(env), TaskSpec::default()))
        }
        (None, Some(task)) => {
            let task = TaskSpec::read(&written.path_of(task));
            Ok((None, task.map_err(|e| written.problem(&format!("{at}.task"), e))?))
        }
        _ => Err(written.problem(at, "expected either env or task")),
    }
}

/// Policies with names for tables: that of the file where it tells them apart, else all that was written.
fn policies(
    written: &Written,
    at: &str,
    file: &EnvironmentFile,
    env: Option<&EnvSpec>,
) -> Result<Vec<Candidate>> {
    let specs = &file.policies;
    let short = |spec: &String| match spec.strip_prefix("builtin:") {
        Some(name) => name.to_owned(),
        None => {
            Path::new(spec).file_stem().map_or(spec.clone(), |s| s.to_string_lossy().into_owned())
        }
    };
    let names: Vec<String> = specs.iter().map(short).collect();
    let mut found = Vec::new();
    for (spec, name) in specs.iter().zip(&names) {
        let alone = names.iter().filter(|n| *n == name).count() == 1;
        let policy = read(written, at, spec, env)?;
        found.push(Candidate { name: if alone { name } else { spec }.clone(), policy });
    }
    distinct(written, at, found.iter().map(|p| p.name.as_str()))?;
    Ok(found)
}

fn read(written: &Written, at: &str, spec: &str, env: Option<&EnvSpec>) -> Result<Policy> {
    let policy = Policy::read(&written.policy_path(spec));
    let policy = policy.map_err(|e| written.problem(at, e))?;
    if let Some(env) = env {
        policy.check_task(&env.task).map_err(|e| written.problem(at, e))?;
    }
    Ok(policy)
}

/// Data that are collected in an environment.
fn collected(
    written: &Written,
    at: &str,
    file: &DataFile,
    (environment, env): (&EnvironmentFile, &EnvSpec),
    evaluated: &[Candidate],
) -> Result<Source> {
    let field = |name: &str| format!("{at}.{name}");
    if file.behaviors.is_empty() || !file.files.is_empty() {
        let problem = "expected at least one policy, and no files, where there is an environment";
        return Err(written.problem(&field("behaviors"), problem));
    }
    let behavior = |spec: &String| match spec == SELF {
        true => Ok(None),
        false => read(written, &field("behaviors"), spec, Some(env)).map(Some),
    };
    let behaviors = file.behaviors.iter().map(behavior).collect::<Result<_>>()?;
    let is_std = |noise: &f64| *noise >= 0.0 && noise.is_finite();
    if file.noise.is_empty() || !file.noise.iter().all(is_std) {
        let problem = "expected standard deviations, 0 or positive";
        return Err(written.problem(&field("noise"), problem));
    }
    let longest = environment.horizons.iter().copied().max().unwrap_or(env.time_limit);
    let horizon = file.horizon.unwrap_or(longest);
    if horizon == 0 {
        return Err(written.problem(&field("horizon"), "expected at least 1 step an episode"));
    }
    let (noise, stochastic) = (file.noise.clone(), file.stochastic);
    let source = Source::Collected { behaviors, noise, stochastic, horizon };
    for candidate in evaluated {
        let found = source.behaviors(Some(&candidate.policy));
        found.map_err(|e| written.problem(&field("stochastic"), e))?;
    }
    Ok(source)
}

/// Data that are read from files.
fn logged(written: &Written, at: &str, file: &DataFile, sizes: &[usize]) -> Result<Source> {
    let at = format!("{at}.files");
    if file.files.is_empty() || !file.behaviors.is_empty() {
        let problem = "expected files with logs, and no behaviors, where there is a task";
        return Err(written.problem(&at, problem));
    }
    let files: Vec<PathBuf> = file.files.iter().map(|path| written.path_of(path)).collect();
    for &n in sizes {
        let subsample = Some(Subsample::Episodes(n));
        let options = ReadOptions { subsample, ..ReadOptions::default() };
        Logs::read_with(&files, &options).map_err(|e| written.problem(&at, e))?;
    }
    Ok(Source::Files(files))
}

fn given_truths(
    written: &Written,
    at: &str,
    file: &EnvironmentFile,
    world: &World,
) -> Result<Vec<(usize, usize, Truth)>> {
    if world.env.is_some() && !file.truths.is_empty() {
        let problem = "expected none where there is an environment, in which it is simulated";
        return Err(written.problem(at, problem));
    }
    let mut found = Vec::new();
    for truth in &file.truths {
        let index =
            file.policies.iter().position(|spec| *spec == truth.policy).ok_or_else(|| {
                written.problem(at, format!("{}: expected one of the policies", truth.policy))
            })?;
        if !(truth.value.is_finite() && truth.std_error >= 0.0 && truth.std_error.is_finite()) {
            let problem = "expected a finite value, and a standard error, 0 or positive";
            return Err(written.problem(at, problem));
        }
        let (value, std_error, episodes) = (truth.value, truth.std_error, truth.episodes);
        found.push((index, truth.horizon, Truth { value, std_error, episodes }));
    }
    for (i, candidate) in world.policies.iter().enumerate().filter(|_| world.env.is_none()) {
        for &horizon in &world.horizons {
            if !found.iter().any(|(policy, t, _)| (*policy, *t) == (i, horizon)) {
                let name = &candidate.name;
                let problem = format!("expected the true return of {name} within {horizon} steps");
                return Err(written.problem(at, problem));
            }
        }
    }
    Ok(found)
}

fn distinct<'a>(written: &Written, at: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || !seen.insert(name) {
            let problem =
                format!("expected distinct names, and \"{name}\" is empty or there twice");
            return Err(written.problem(at, problem));
        }
    }
    Ok(())
}
