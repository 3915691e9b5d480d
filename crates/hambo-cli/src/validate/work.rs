//! One way to run a case: data, a model of them, and what it says; and the truth beside it.

use super::book::Book;
use super::cases::{Case, Fit, policy_content};
use super::plan::{Plan, Source, World};
use super::record::{Record, TruthRecord};
use crate::output::number;
use crate::progress::Bars;
use hambo::data::{Logs, ReadOptions, Subsample};
use hambo::dynamics::Dynamics;
use hambo::evaluate::Problem;
use hambo::run::Run;
use hambo::stats::Mean;
use hambo::task::ResolvedTask;
use hambo::{Device, Result};
use hambo_engine::files::sha256_of;
use hambo_engine::rng::Stream;
use hambo_envs::{Collection, Episodes, collect, simulate};
use std::io::Write;
use std::time::Instant;

/// A truth is known well enough if its standard error is below this share of the gap.
pub const RESOLVED: f64 = 0.1;
/// What a gap that is measured once more may turn out smaller.
const RESERVE: f64 = 1.2;
/// Episodes are simulated by so many at a time.
const ROUND: usize = 1000;

/// Where runs are made.
pub struct Lab<'a> {
    pub plan: &'a Plan,
    pub device: Device,
    /// The CPU, where simulators run.
    pub host: Device,
    pub bars: Bars,
    /// The first digits of the program's SHA-256, and the kind of the device.
    pub program: [String; 2],
    pub start: Instant,
}

impl<'a> Lab<'a> {
    /// On this device; `build` is the SHA-256 of the program.
    pub fn new(
        plan: &'a Plan,
        device: Device,
        threads: Option<usize>,
        build: &str,
    ) -> Result<Self> {
        let program = [build.chars().take(12).collect(), device.kind()];
        let (host, bars, start) = (Device::cpu(threads)?, Bars::default(), Instant::now());
        Ok(Lab { plan, device, host, bars, program, start })
    }

    /// Makes all runs of these fits that are not in the book, and their truths.
    pub fn work(&self, fits: &[Fit<'_>], book: &mut Book) -> Result<()> {
        for fit in fits {
            for case in &fit.cases {
                self.first_truth(fit.world, case, book)?;
            }
        }
        let total: usize = fits.iter().map(|fit| fit.cases.len()).sum();
        let mut done = 0;
        for fit in fits {
            let is_done = |case: &&Case<'_>| book.runs.iter().any(|run| run.case == case.name);
            let open: Vec<&Case<'_>> = fit.cases.iter().filter(|case| !is_done(case)).collect();
            done += fit.cases.len() - open.len();
            self.one_fit(fit, &open, |record| {
                done += 1;
                self.say(&format!("[{done}/{total}] {}", told(&record, book)));
                book.add_run(record)
            })?;
        }
        let policies =
            fits.iter().flat_map(|fit| fit.cases.iter().map(move |case| (fit.world, case)));
        policies.into_iter().try_for_each(|(world, case)| self.closer_truth(world, case, book))
    }

    /// A line for people; that nobody reads it is no error.
    fn say(&self, text: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "{seconds:.0} s: {text}");
    }

    /// All that is asked of one data set. What fails is a record that says why.
    fn one_fit(
        &self,
        fit: &Fit<'_>,
        open: &[&Case<'_>],
        mut keep: impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let Some(first) = open.first() else { return Ok(()) };
        let start = Instant::now();
        let fitted = self.fitted(fit, first);
        let fit_seconds = start.elapsed().as_secs_f64();
        for case in open {
            let start = Instant::now();
            let blank = Record { fit_seconds, ..self.blank(fit, case)? };
            let found = fitted.as_ref().map_err(ToString::to_string).and_then(|fitted| {
                let found = self.evaluated(fit, case, fitted).map_err(|e| e.to_string());
                found.map(|evaluation| (fitted.0.transitions.episodes().len(), evaluation))
            });
            let record = match found {
                Ok((episodes, evaluation)) => Record { episodes, ..blank.found(&evaluation) },
                Err(problem) => Record { error: Some(problem), ..blank },
            };
            keep(Record { seconds: start.elapsed().as_secs_f64(), ..record })?;
        }
        Ok(())
    }

    /// The data, the task for them and a model of them. The model does not depend on the case that it is fitted for.
    fn fitted(
        &self,
        fit: &Fit<'_>,
        case: &Case<'_>,
    ) -> Result<(Logs, ResolvedTask, Box<dyn Dynamics>)> {
        let world = fit.world;
        let logs = self.logs(fit)?;
        let task = world.spec.resolve(&logs.transitions, world.env_task()?)?;
        let is_host = self.device.is_host();
        let mut config = world.question(case.variant, case.horizon, fit.seed, is_host);
        config.model.extend(task.learns_reward(), &task.angles);
        let model =
            config.fit_model(&self.device, &logs.transitions, &Run::new(&self.bars, None))?;
        Ok((logs, task, model))
    }

    /// The data, with the random numbers of `hambo collect`.
    fn logs(&self, fit: &Fit<'_>) -> Result<Logs> {
        let world = fit.world;
        match (&world.data[fit.data].source, &world.env) {
            (source @ Source::Collected { horizon, .. }, Some(env)) => {
                let own = fit.own.map(|own| &world.policies[own].policy);
                let stream = Stream::new(fit.seed).child("collection");
                let collection = Collection { steps: fit.n, horizon: *horizon, stream };
                let behaviors = source.behaviors(own)?;
                let data = self
                    .host
                    .run(|| collect(&self.host, env, &behaviors, &collection, &self.bars))?;
                Ok(Logs::from(data))
            }
            (Source::Files(files), _) => {
                let subsample = Some(Subsample::Episodes(fit.n));
                Logs::read_with(
                    files,
                    &ReadOptions { subsample, seed: fit.seed, ..Default::default() },
                )
            }
            (Source::Collected { .. }, None) => {
                Err(hambo::Error::Data("no environment to collect data in".to_owned()))
            }
        }
    }

    fn evaluated(
        &self,
        fit: &Fit<'_>,
        case: &Case<'_>,
        (logs, task, model): &(Logs, ResolvedTask, Box<dyn Dynamics>),
    ) -> Result<hambo::evaluate::Evaluation> {
        let is_host = self.device.is_host();
        let mut config = fit.world.question(case.variant, case.horizon, fit.seed, is_host);
        config.model.extend(task.learns_reward(), &task.angles);
        let problem = Problem {
            device: &self.device,
            data: &logs.transitions,
            model: model.as_ref(),
            task: &task.task,
            constraints: &[],
            config: &config,
        };
        problem.evaluate(&fit.world.policies[case.policy].policy, &Run::new(&self.bars, None))
    }

    /// What is known of a run before it is made.
    fn blank(&self, fit: &Fit<'_>, case: &Case<'_>) -> Result<Record> {
        let [build, device] = self.program.clone();
        Ok(Record {
            case: case.name.clone(),
            build,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            device,
            env: fit.world.name.clone(),
            policy: fit.world.policies[case.policy].name.clone(),
            data: fit.world.data[fit.data].name.clone(),
            n: fit.n,
            horizon: case.horizon,
            seed: fit.seed,
            variant: case.variant.name.clone(),
            rule: case.variant.beta.to_string(),
            delta: case.variant.delta,
            truth: truth_key(fit.world, case)?,
            error: None,
            episodes: 0,
            estimates: Vec::new(),
            evidence: None,
            level: None,
            beta: None,
            set: None,
            seconds: 0.0,
            fit_seconds: 0.0,
        })
    }

    /// The truth with as many episodes as are asked for at first, or the one that was given.
    fn first_truth(&self, world: &World, case: &Case<'_>, book: &mut Book) -> Result<()> {
        let key = truth_key(world, case)?;
        let episodes = self.plan.episodes[0];
        if book.truth(&key).is_some_and(|t| world.env.is_none() || t.episodes >= episodes) {
            return Ok(());
        }
        let given = world.truths.iter().find(|(p, t, _)| (*p, *t) == (case.policy, case.horizon));
        match given {
            Some((_, _, truth)) => {
                let blank = blank_truth(world, case, key);
                let (value, std_error, episodes) = (truth.value, truth.std_error, truth.episodes);
                book.add_truth(TruthRecord { value, std_error, episodes, ..blank })
            }
            None => self.simulated(world, case, key, episodes, book),
        }
    }

    /// The truth with as many episodes as the smallest gap needs, but no more than are allowed.
    fn closer_truth(&self, world: &World, case: &Case<'_>, book: &mut Book) -> Result<()> {
        let key = truth_key(world, case)?;
        let Some(truth) = book.truth(&key).filter(|_| world.env.is_some()) else { return Ok(()) };
        let gaps = book.runs.iter().filter(|run| run.truth == key).filter_map(|run| {
            run.estimates.first()?.lower_bound.map(|bound| (truth.value - bound).abs())
        });
        let smallest = gaps.fold(f64::INFINITY, f64::min);
        let times = (truth.std_error / (RESOLVED * smallest)).powi(2);
        if times <= 1.0 || !times.is_finite() && truth.std_error == 0.0 {
            return Ok(());
        }
        let needed = (times * RESERVE * truth.episodes as f64).min(self.plan.episodes[1] as f64);
        let episodes = (needed as usize).div_ceil(ROUND) * ROUND;
        let episodes = episodes.min(self.plan.episodes[1]);
        match episodes > truth.episodes {
            true => self.simulated(world, case, key, episodes, book),
            false => Ok(()),
        }
    }

    /// Simulates with the random numbers of `hambo return`.
    fn simulated(
        &self,
        world: &World,
        case: &Case<'_>,
        key: String,
        count: usize,
        book: &mut Book,
    ) -> Result<()> {
        let Some(env) = &world.env else { return Ok(()) };
        let start = Instant::now();
        let stream = Stream::new(0).child("simulation");
        let episodes = Episodes { horizon: case.horizon, count, discount: 1.0, stream };
        let policy = &world.policies[case.policy].policy;
        let found = simulate(&self.host, env, policy, &episodes, &self.bars)?;
        let mean = Mean::of(found.values.iter().copied());
        let seconds = start.elapsed().as_secs_f64();
        let blank = blank_truth(world, case, key);
        let name = format!("{} of {} within {} steps", blank.policy, blank.env, blank.horizon);
        let [value, error] = [mean.value, mean.std_error].map(number);
        self.say(&format!("truth: {name}: {value} ± {error}, {count} episodes, {seconds:.1} s"));
        let (value, std_error, diverged) = (mean.value, mean.std_error, found.diverged);
        book.add_truth(TruthRecord {
            value,
            std_error,
            episodes: count,
            diverged,
            seconds,
            ..blank
        })
    }
}

fn blank_truth(world: &World, case: &Case<'_>, key: String) -> TruthRecord {
    TruthRecord {
        key,
        env: world.name.clone(),
        policy: world.policies[case.policy].name.clone(),
        horizon: case.horizon,
        value: 0.0,
        std_error: 0.0,
        episodes: 0,
        diverged: 0,
        seconds: 0.0,
    }
}

fn truth_key(world: &World, case: &Case<'_>) -> Result<String> {
    let candidate = &world.policies[case.policy];
    let digest = sha256_of(policy_content(&candidate.policy)?.to_string().as_bytes());
    Ok(format!("{}-{}-T{}-{}", world.name, candidate.name, case.horizon, &digest[..10]))
}

/// A run in one line.
fn told(record: &Record, book: &Book) -> String {
    let said = match (&record.error, record.estimates.first()) {
        (Some(problem), _) => problem.clone(),
        (None, Some(first)) => {
            let bound = first.lower_bound.map_or("-inf".to_owned(), number);
            let truth = book
                .truth(&record.truth)
                .map_or(String::new(), |t| format!(", truth {}", number(t.value)));
            let evidence = record.evidence.as_deref().unwrap_or("");
            format!("{} {bound}{truth}, {evidence}, {:.1} s", first.method.name(), record.seconds)
        }
        (None, None) => "no methods".to_owned(),
    };
    let Record { env, policy, data, n, horizon, seed, variant, .. } = record;
    format!("{env} {policy}, {data} data, n = {n}, T = {horizon}, seed {seed}, {variant}: {said}")
}
