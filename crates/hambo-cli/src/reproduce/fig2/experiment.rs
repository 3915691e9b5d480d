//! The experiment of Figure 2: bounds from data sets of growing size.

use super::config::Fig2Config;
use hambo::confidence::Beta;
use hambo::dynamics::gp::{Family, Hyperparameters, Kernel};
use hambo::dynamics::{GpConfig, ModelConfig};
use hambo::evaluate::{EvaluationConfig, Evaluator, Method};
use hambo::policy::Policy;
use hambo::run::Run;
use hambo::run::checkpoint::Arrays;
use hambo::stats::Mean;
use hambo::task::TaskSpec;
use hambo::{Error, Result};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, Episodes, scatter, simulate, simulate_from};
use serde::Serialize;
use std::f64::consts::PI;

/// States of PointEnv are drawn from ±40, as in the paper.
const FIELD: f64 = 40.0;
/// Speeds of Pendulum are drawn from ±6.9: a step does not reach the limit of 8, where the dynamics have a kink.
const SPEED: f64 = 6.9;
/// Length scale of the kernel and standard deviation of the noise, in standardized units; k(x, x) = 1.
const LENGTH_SCALE: f64 = 6.0;
const NOISE: f64 = 0.01;
/// δ of every bound.
const DELTA: f64 = 0.05;
/// Number of episodes that give the true return.
const EPISODES: usize = 50_000;

/// The figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// δ of every bound.
    pub delta: f64,
    /// Length scale of all kernels, in standardized units.
    pub length_scale: f64,
    /// Standard deviation of the noise, in standardized units.
    pub noise_std: f64,
    /// One panel for each environment.
    pub panels: Vec<Panel>,
}

/// The results in one environment.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Name of the environment.
    pub env: &'static str,
    /// The policy under evaluation.
    pub policy: &'static str,
    /// Number of steps in an episode, T.
    pub horizon: usize,
    /// J(π_e), from many episodes.
    pub truth: f64,
    /// Standard error of `truth`.
    pub truth_std_error: f64,
    /// All runs, by n and seed.
    pub runs: Vec<Measurement>,
    /// All seeds of each n together.
    pub summary: Vec<Summary>,
}

/// The bound from one data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Size of the data set.
    pub n: usize,
    /// Seed of the data set and of the evaluation.
    pub seed: u64,
    /// J̃_n(π_e) from the initial states of this run.
    pub value: f64,
    /// J(π_e) from the same initial states, so that their luck cancels out in the gap.
    pub truth: f64,
    /// J̃_n minus the Monte Carlo margin.
    pub lower_bound: f64,
    /// The neutral estimate, by the mean of the posterior.
    pub neutral: f64,
    /// β, the size of the confidence set.
    pub beta: Option<f64>,
    /// Whether the search for the adversary converged.
    pub converged: Option<bool>,
    /// Mean ‖σ_n‖ along the policy's trajectories.
    pub mean_deviation: f64,
    /// ½ ln det(I + σ⁻²K).
    pub information_gain: f64,
}

/// All seeds of one n.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Size of the data sets.
    pub n: usize,
    /// Mean of J − J̃_n over seeds.
    pub gap: f64,
    /// Standard error of the gap.
    pub gap_std_error: f64,
    /// The gap as a share of |J|.
    pub relative_gap: f64,
    /// J minus the gap: J̃_n without the luck of the initial states.
    pub value: f64,
    /// Whether J̃_n ≤ J for every seed.
    pub all_below: bool,
}

/// An environment and the policy that is evaluated in it.
struct Setup {
    env: EnvName,
    policy: &'static str,
    horizon: usize,
}

const SETUPS: [Setup; 2] = [
    Setup { env: EnvName::Point, policy: "builtin:proportional", horizon: 50 },
    Setup { env: EnvName::Pendulum, policy: "builtin:swing-up", horizon: 50 },
];

/// Runs the whole experiment.
pub fn run(device: &Device, config: &Fig2Config, work: &Run<'_>) -> Result<Figure> {
    let panels = SETUPS.iter().map(|setup| panel(device, setup, config, work));
    Ok(Figure {
        delta: DELTA,
        length_scale: LENGTH_SCALE,
        noise_std: NOISE,
        panels: panels.collect::<Result<_>>()?,
    })
}

/// All data sets of one environment.
fn panel(device: &Device, setup: &Setup, config: &Fig2Config, work: &Run<'_>) -> Result<Panel> {
    let &Setup { env, policy: spec, horizon } = setup;
    let policy = Policy::read(spec)?;
    let stream = Stream::new(0).child("truth");
    let episodes = Episodes { horizon, count: EPISODES, discount: 1.0, stream };
    let truth = simulate(device, &env.spec()?, &policy, &episodes, &())?;
    let truth = Mean::of(truth.values.iter().copied());
    let mut runs = Vec::new();
    for &n in &config.sizes {
        for seed in 0..config.seeds {
            let name = format!("{}-{n}-{seed}", env.name());
            let run = match work.load(&name)? {
                Some(saved) => Measurement::from_numbers(
                    n,
                    seed,
                    &saved.read(|arrays| arrays.get_exactly("run", Measurement::NUMBERS))?,
                ),
                None => Measurement::measure(device, setup, &policy, config, n, seed)?,
            };
            work.save(&name, || Ok(run.to_arrays()))?;
            runs.push(run);
            let total = config.sizes.len() * config.seeds as usize;
            work.report(
                &format!("figure 2, {}", env.name()),
                runs.len(),
                total,
                &format!("n = {n}"),
            );
        }
    }
    let summary = config.sizes.iter().map(|&n| Summary::of(n, &runs, truth.value)).collect();
    Ok(Panel {
        env: env.name(),
        policy: spec,
        horizon,
        truth: truth.value,
        truth_std_error: truth.std_error,
        runs,
        summary,
    })
}

impl Measurement {
    /// How many numbers a checkpoint has for a run; its name gives n and the seed.
    const NUMBERS: usize = 8;

    /// Draws a data set of size n, and bounds the policy's return from it.
    fn measure(
        device: &Device,
        setup: &Setup,
        policy: &Policy,
        config: &Fig2Config,
        n: usize,
        seed: u64,
    ) -> Result<Measurement> {
        let &Setup { env, horizon, .. } = setup;
        let (states, actions) = draw(env, n, Stream::new(seed).child("data"))?;
        let data = scatter(&env.spec()?, &states, &actions)?;
        let kernel =
            Kernel { family: Family::Rbf, variance: 1.0, length_scales: vec![LENGTH_SCALE] };
        let hyperparameters = vec![Hyperparameters { kernel, noise_std: NOISE }];
        let gp = GpConfig { hyperparameters, holdout: 0.0, ..GpConfig::default() };
        let evaluation = EvaluationConfig {
            horizon,
            methods: vec![Method::Ca, Method::Mean],
            delta: DELTA,
            rollouts: config.rollouts,
            seed,
            beta: Beta::Gaussian,
            model: ModelConfig::Gp(gp),
            search: config.search.clone(),
            ..EvaluationConfig::default()
        };
        let task = TaskSpec::default().resolve(&data, Some(env.task()?))?;
        let evaluator = Evaluator::builder(data, task, evaluation).device(device.clone()).fit()?;
        let (problem, work) = (evaluator.problem(), Run::default());
        let found = problem.evaluate(policy, &work)?;
        let initial = &problem.task.initial;
        let starts =
            initial.sample(config.rollouts, problem.data, problem.config.starts_stream())?;
        let episodes =
            Episodes { horizon, count: config.rollouts, discount: 1.0, stream: Stream::new(seed) };
        let truth = simulate_from(device, &env.spec()?, policy, &starts, &episodes)?;
        let [bound, neutral] = found.estimates.as_slice() else {
            return Err(Error::Numeric("the evaluation gave no estimates".to_owned()));
        };
        Ok(Measurement {
            n,
            seed,
            value: bound.value,
            truth: Mean::of(truth.iter().copied()).value,
            lower_bound: bound.lower_bound.unwrap_or(f64::NAN),
            neutral: neutral.value,
            beta: found.set.and_then(|set| set.beta),
            converged: bound.converged,
            mean_deviation: found.support.mean_deviation,
            information_gain: found.theory.map_or(f64::NAN, |theory| theory.information_gain),
        })
    }

    fn to_arrays(&self) -> Arrays {
        let converged = self.converged.map_or(f64::NAN, |converged| f64::from(u8::from(converged)));
        let numbers: [f64; Measurement::NUMBERS] = [
            self.value,
            self.truth,
            self.lower_bound,
            self.neutral,
            self.beta.unwrap_or(f64::NAN),
            converged,
            self.mean_deviation,
            self.information_gain,
        ];
        let mut arrays = Arrays::default();
        arrays.put("run", &numbers);
        arrays
    }

    /// The run with these numbers, [`Measurement::NUMBERS`] of them.
    fn from_numbers(n: usize, seed: u64, numbers: &[f64]) -> Self {
        Measurement {
            n,
            seed,
            value: numbers[0],
            truth: numbers[1],
            lower_bound: numbers[2],
            neutral: numbers[3],
            beta: Some(numbers[4]).filter(|beta| !beta.is_nan()),
            converged: Some(numbers[5])
                .filter(|converged| !converged.is_nan())
                .map(|converged| converged == 1.0),
            mean_deviation: numbers[6],
            information_gain: numbers[7],
        }
    }
}

impl Summary {
    fn of(n: usize, runs: &[Measurement], truth: f64) -> Self {
        let gaps: Vec<f64> = runs.iter().filter(|r| r.n == n).map(|r| r.truth - r.value).collect();
        let gap = Mean::of(gaps.iter().copied());
        Summary {
            n,
            gap: gap.value,
            gap_std_error: gap.std_error,
            relative_gap: gap.value / truth.abs(),
            value: truth - gap.value,
            all_below: gaps.iter().all(|gap| *gap >= 0.0),
        }
    }
}

/// n uniformly drawn states and actions.
fn draw(env: EnvName, n: usize, stream: Stream) -> Result<(Vec<f32>, Vec<f32>)> {
    let task = env.task()?;
    let mut generator = stream.generator();
    let (mut states, mut actions) = (Vec::new(), Vec::new());
    for _ in 0..n {
        match env {
            EnvName::Pendulum => {
                let (angle, speed) = (generator.range(-PI, PI), generator.range(-SPEED, SPEED));
                states.extend([angle.cos(), angle.sin(), speed].map(|x| x as f32));
            }
            _ => states.extend([0; 2].map(|_| generator.range(-FIELD, FIELD) as f32)),
        }
        let bounds = task.action_low.iter().zip(&task.action_high);
        actions.extend(bounds.map(|(&low, &high)| generator.range(low.into(), high.into()) as f32));
    }
    Ok((states, actions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_run_is_read_back() {
        let run = Measurement {
            n: 40,
            seed: 3,
            value: -1.5,
            truth: -1.0,
            lower_bound: -1.75,
            neutral: -0.5,
            beta: Some(2.0),
            converged: Some(true),
            mean_deviation: 0.25,
            information_gain: 7.0,
        };
        for run in [
            Measurement { converged: Some(false), ..run.clone() },
            Measurement { beta: None, converged: None, ..run },
        ] {
            let numbers = run.to_arrays().get_exactly("run", Measurement::NUMBERS).unwrap();
            assert_eq!(Measurement::from_numbers(40, 3, &numbers), run);
        }
    }

    /// A small figure has the shape of the paper's: below the truth, and nearer with more data.
    #[test]
    fn bounds_are_below_the_truth_and_approach_it() {
        let device = Device::cpu(Some(2)).unwrap();
        let quick = Fig2Config::quick();
        let search = hambo::adversary::SearchConfig { iterations: 15, ..quick.search };
        let config = Fig2Config { sizes: vec![40, 120], seeds: 1, rollouts: 100, search };
        for panel in run(&device, &config, &Run::default()).unwrap().panels {
            let [few, many] = panel.summary.as_slice() else { panic!("two sizes") };
            assert!(few.all_below && many.all_below, "{}: {few:?} {many:?}", panel.env);
            assert!(many.gap < few.gap, "{}: {few:?} {many:?}", panel.env);
            assert!(panel.runs.iter().all(|run| run.lower_bound <= run.value));
        }
    }

    #[test]
    fn states_and_actions_fill_their_boxes() {
        let (states, actions) = draw(EnvName::Point, 2000, Stream::new(1)).unwrap();
        let largest = |v: &[f32]| v.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        assert!(
            (39.0..=40.0).contains(&largest(&states)) && (0.99..=1.0).contains(&largest(&actions))
        );
        let (states, actions) = draw(EnvName::Pendulum, 2000, Stream::new(1)).unwrap();
        assert!(
            states
                .chunks_exact(3)
                .all(|s| (s[0].hypot(s[1]) - 1.0).abs() < 1e-6 && s[2].abs() <= 6.9)
        );
        assert!((1.98..=2.0).contains(&largest(&actions)));
    }
}
