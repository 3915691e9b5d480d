//! A plan that was read and checked: grids, and the jobs that they make.

use super::settings::{Combination, combinations, evaluate_arguments};
use super::written::{GridFile, OneOrMore, Written};
use crate::args::{Evaluate, Machine};
use crate::commands::policy;
use hambo::data::{describe, digest};
use hambo::task::{Task, TaskSpec};
use hambo::{Error, Result};
use hambo_engine::files::{sha256, sha256_of};
use hambo_envs::EnvName;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Digits of a job's name: of 10⁷ jobs no two are alike by chance.
const DIGITS: usize = 20;
/// What the names are made of; another rule for them is another number.
const FORMAT: &str = "hambo-sweep/1";

/// All that is asked.
pub struct Plan {
    pub name: String,
    pub about: String,
    pub grids: Vec<Grid>,
    /// By seed first: what is cut off early has something of everything.
    pub jobs: Vec<Job>,
}

/// Every data set with every policy, task, seed and combination of settings.
pub struct Grid {
    pub name: String,
    pub worlds: Vec<World>,
    pub data: Vec<DataSet>,
    pub policies: Vec<Candidate>,
    pub combinations: Vec<Combination>,
    /// Settings of which there are several values.
    axes: BTreeSet<String>,
}

/// What says the task: an environment, a task file, or neither.
pub struct World {
    pub env: Option<String>,
    pub task: Option<String>,
    flag: Option<String>,
    content: String,
}

/// Logs.
pub struct DataSet {
    /// As written.
    pub name: String,
    /// SHA-256 of its files.
    pub digest: String,
    paths: Vec<PathBuf>,
}

/// A policy that is evaluated.
pub struct Candidate {
    /// As written.
    pub name: String,
    /// Of its file and its normalizer's; none for a built-in one.
    pub digest: Option<String>,
    /// SHA-256 of its file alone.
    pub own: Option<String>,
    /// As `hambo evaluate` takes it.
    pub spec: String,
}

/// One evaluation.
pub struct Job {
    /// The digest of all that decides what comes out, but for the program and the device.
    pub id: String,
    pub seed: u64,
    grid: usize,
    world: usize,
    data: usize,
    policy: usize,
    combination: usize,
}

impl Plan {
    /// Reads and checks everything; errors name the file and the line.
    pub fn read(path: &Path) -> Result<Self> {
        let written = Written::read(path)?;
        let file = &written.file;
        if file.grids.is_empty() {
            return Err(written.problem(0..0, "expected at least one [[grid]]"));
        }
        let grids = file.grids.iter().map(|grid| read_grid(&written, grid));
        let mut plan = Plan {
            name: written.name(),
            about: file.about.clone().unwrap_or_default(),
            grids: grids.collect::<Result<_>>()?,
            jobs: Vec::new(),
        };
        let seeds: Vec<&[u64]> =
            file.grids.iter().map(|grid| grid.get_ref().seeds.get_ref().as_slice()).collect();
        for round in 0..seeds.iter().map(|seeds| seeds.len()).max().unwrap_or(0) {
            for (i, seeds) in seeds.iter().enumerate() {
                let seed = seeds.get(round);
                plan.jobs.extend(seed.into_iter().flat_map(|&seed| plan.grids[i].jobs(i, seed)));
            }
        }
        Ok(plan)
    }

    pub fn grid(&self, job: &Job) -> &Grid {
        &self.grids[job.grid]
    }

    pub fn world(&self, job: &Job) -> &World {
        &self.grid(job).worlds[job.world]
    }

    pub fn data(&self, job: &Job) -> &DataSet {
        &self.grid(job).data[job.data]
    }

    pub fn policy(&self, job: &Job) -> &Candidate {
        &self.grid(job).policies[job.policy]
    }

    pub fn settings(&self, job: &Job) -> &Combination {
        &self.grid(job).combinations[job.combination]
    }

    /// A job in a few words.
    pub fn told(&self, job: &Job) -> String {
        let (policy, data) = (&self.policy(job).name, &self.data(job).name);
        let parts = [format!("{policy} on {data}"), format!("seed {}", job.seed)];
        parts.into_iter().chain(self.choices(job)).collect::<Vec<_>>().join(", ")
    }

    /// What tells its settings, and its task, from those of other jobs of the grid.
    pub fn choices(&self, job: &Job) -> Vec<String> {
        let (grid, world) = (self.grid(job), self.world(job));
        let task = world.env.iter().chain(&world.task).filter(|_| grid.worlds.len() > 1).cloned();
        let settings = self.settings(job).settings.iter();
        let settings = settings.filter(|(name, _)| grid.axes.contains(name));
        task.chain(settings.map(|(name, value)| format!("{name} {value}"))).collect()
    }

    /// All that decides which model a job learns, but for the program and the device.
    pub fn fit_content(&self, job: &Job) -> String {
        self.grid(job).fit_content([job.world, job.data, job.combination], job.seed)
    }

    /// The flags of `hambo evaluate` for a job.
    pub fn flags(&self, job: &Job) -> Vec<String> {
        let data = self.data(job).paths.iter().map(|path| format!("--data={}", path.display()));
        let policy = format!("--policy={}", self.policy(job).spec);
        let rest = [policy, format!("--seed={}", job.seed)];
        let world = self.world(job).flag.iter().cloned();
        data.chain(rest).chain(world).chain(self.settings(job).flags.iter().cloned()).collect()
    }

    /// The same as the command reads them, with a folder and a device.
    pub fn arguments(&self, job: &Job, out: &Path, machine: &Machine) -> Result<Box<Evaluate>> {
        let mut flags = self.flags(job);
        flags.push(format!("--out={}", out.display()));
        let mut arguments = evaluate_arguments(&flags).map_err(Error::Mismatch)?;
        (arguments.machine.device, arguments.machine.threads) = (machine.device, machine.threads);
        Ok(arguments)
    }
}

impl Job {
    /// What jobs on the same model have in common.
    pub fn fit(&self) -> [u64; 5] {
        let places = [self.grid, self.world, self.data, self.combination].map(|i| i as u64);
        [places[0], places[1], places[2], places[3], self.seed]
    }
}

impl Grid {
    /// All that decides which model is learned; settings that do not matter for it are in it, too.
    fn fit_content(&self, [world, data, combination]: [usize; 3], seed: u64) -> String {
        let (world, data) = (&self.worlds[world].content, &self.data[data].digest);
        format!("{world}\n{data}\n{seed}\n{}", self.combinations[combination].content)
    }

    /// All jobs of a seed; those on the same model follow each other.
    fn jobs(&self, grid: usize, seed: u64) -> Vec<Job> {
        let mut found = Vec::new();
        for world in 0..self.worlds.len() {
            for data in 0..self.data.len() {
                for combination in 0..self.combinations.len() {
                    let fit = self.fit_content([world, data, combination], seed);
                    for (policy, candidate) in self.policies.iter().enumerate() {
                        let agent = candidate.digest.as_ref().unwrap_or(&candidate.spec);
                        let content = format!("{FORMAT}\n{fit}\n{agent}");
                        let id = sha256_of(content.as_bytes())[..DIGITS].to_owned();
                        found.push(Job { id, seed, grid, world, data, policy, combination });
                    }
                }
            }
        }
        found
    }
}

fn read_grid(written: &Written, file: &Spanned<GridFile>) -> Result<Grid> {
    let (at, file) = (file.span(), file.get_ref());
    let lists = [
        ("data", file.data.get_ref().len(), file.data.span()),
        ("policies", file.policies.get_ref().len(), file.policies.span()),
        ("seeds", file.seeds.get_ref().len(), file.seeds.span()),
    ];
    if let Some((name, _, at)) = lists.iter().find(|(_, length, _)| *length == 0) {
        return Err(written.problem(at.clone(), format!("{name}: expected at least one")));
    }
    distinct(
        written,
        "seeds",
        file.seeds.get_ref().iter().map(|seed| (seed.to_string(), file.seeds.span())),
    )?;
    let combinations = combinations(written, &file.settings, at.clone())?;
    let (worlds, tasks): (Vec<World>, Vec<Option<Task>>) =
        read_worlds(written, file)?.into_iter().unzip();
    let data = read_data(written, file)?;
    let policies = read_policies(written, file, &tasks, &combinations)?;
    let varied = combinations.iter().flat_map(|one| {
        let pairs = one.settings.iter().zip(&combinations[0].settings);
        pairs.filter(|(own, first)| own != first).map(|((name, _), _)| name.clone())
    });
    let (name, axes) = (file.name.clone().unwrap_or_default(), varied.collect());
    Ok(Grid { name, worlds, data, policies, combinations, axes })
}

fn read_worlds(written: &Written, file: &GridFile) -> Result<Vec<(World, Option<Task>)>> {
    let one = |texts: &Spanned<OneOrMore>, field: &str| match texts.get_ref().texts() {
        [] => Err(written.problem(texts.span(), format!("{field}: expected at least one"))),
        texts => Ok(texts.to_vec()),
    };
    match (&file.env, &file.task) {
        (Some(env), Some(_)) => Err(written.problem(env.span(), "expected either env or task")),
        (None, None) => {
            let world = World { env: None, task: None, flag: None, content: "learned".to_owned() };
            Ok(vec![(world, None)])
        }
        (Some(names), None) => {
            let world = |name: String| {
                let task = name.parse::<EnvName>().and_then(EnvName::task);
                let task = task.map_err(|e| written.problem(names.span(), format!("env: {e}")))?;
                let (flag, content) = (Some(format!("--env={name}")), format!("env {name}"));
                Ok((World { env: Some(name), task: None, flag, content }, Some(task)))
            };
            one(names, "env")?.into_iter().map(world).collect()
        }
        (None, Some(paths)) => {
            let world = |name: String| {
                let path = written.path_of(&name);
                let problem = |e| written.problem(paths.span(), format!("task: {e}"));
                let spec = TaskSpec::read(&path).map_err(problem)?;
                let env = spec.env.map(|env| env.parse::<EnvName>()?.task()).transpose();
                let content = format!("task {}", sha256(&path).map_err(problem)?);
                let flag = Some(format!("--task={}", path.display()));
                Ok((World { env: None, task: Some(name), flag, content }, env.map_err(problem)?))
            };
            one(paths, "task")?.into_iter().map(world).collect()
        }
    }
}

fn read_data(written: &Written, file: &GridFile) -> Result<Vec<DataSet>> {
    let mut found = Vec::new();
    for logs in file.data.get_ref() {
        let problem = |e: Error| written.problem(logs.span(), format!("data: {e}"));
        let names = logs.get_ref().texts();
        if names.is_empty() {
            return Err(written.problem(logs.span(), "data: expected at least one file"));
        }
        let path_of = |name: &String| match name.starts_with("minari:") {
            true => PathBuf::from(name),
            false => written.path_of(name),
        };
        let paths: Vec<PathBuf> = names.iter().map(path_of).collect();
        let digest = digest(&paths).map_err(problem)?;
        let plain = paths.iter().filter(|path| path.is_file());
        plain.map(|path| describe(path)).collect::<Result<Vec<_>>>().map_err(problem)?;
        found.push((DataSet { name: names.join(" "), digest, paths }, logs.span()));
    }
    distinct(written, "data", found.iter().map(|(logs, at)| (logs.name.clone(), at.clone())))?;
    Ok(found.into_iter().map(|(logs, _)| logs).collect())
}

/// Each policy is read as every combination of settings asks for.
fn read_policies(
    written: &Written,
    file: &GridFile,
    tasks: &[Option<Task>],
    combinations: &[Combination],
) -> Result<Vec<Candidate>> {
    let readings = combinations.iter().map(|c| (format!("{:?}", c.acting), &c.acting));
    let readings: BTreeMap<_, _> = readings.collect();
    let mut found = Vec::new();
    for name in file.policies.get_ref() {
        let problem = |e: Error| written.problem(name.span(), format!("policies: {e}"));
        let spec = match name.get_ref().starts_with("builtin:") {
            true => name.get_ref().clone(),
            false => written.path_of(name.get_ref()).to_string_lossy().into_owned(),
        };
        let mut files = BTreeSet::new();
        for acting in readings.values() {
            let read = policy(&spec, acting).map_err(problem)?;
            for task in tasks.iter().flatten() {
                read.check_task(task).map_err(problem)?;
            }
            files.extend(read.normalizer_file().map(Path::to_owned));
        }
        let path = PathBuf::from(&spec);
        let own = path.is_file().then(|| sha256(&path)).transpose().map_err(problem)?;
        let files: Vec<PathBuf> = [path].into_iter().chain(files).collect();
        let digest = own.is_some().then(|| digest(&files)).transpose().map_err(problem)?;
        found.push((Candidate { name: name.get_ref().clone(), digest, own, spec }, name.span()));
    }
    distinct(
        written,
        "policies",
        found.iter().map(|(policy, at)| (policy.name.clone(), at.clone())),
    )?;
    Ok(found.into_iter().map(|(policy, _)| policy).collect())
}

fn distinct(
    written: &Written,
    field: &str,
    names: impl Iterator<Item = (String, Range<usize>)>,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    for (name, at) in names {
        if !seen.insert(name.clone()) {
            return Err(written.problem(at, format!("{field}: {name} is there twice")));
        }
    }
    Ok(())
}
