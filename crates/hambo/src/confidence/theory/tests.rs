//! Formulas by hand, and the paper's guarantees on dynamics whose norm is known.

use super::*;
use crate::adversary::SearchConfig;
use crate::confidence::Beta;
use crate::data::{Columns, Transitions};
use crate::dynamics::gp::Hyperparameters;
use crate::dynamics::{GpConfig, Target};
use crate::evaluate::Method;
use crate::evaluate::{EvaluationConfig, Problem};
use crate::policy::Policy;
use crate::run::Run;
use crate::task::{Initial, Task};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;

#[test]
fn beta_grows_with_confidence_information_and_norm() {
    let plain = beta(2.0, 10.0, 3, 0.05);
    assert!((plain - (2.0 + (2.0 * (11.0 + 60f64.ln())).sqrt())).abs() < 1e-12);
    assert!(
        beta(2.0, 10.0, 3, 0.01) > plain
            && beta(2.0, 12.0, 3, 0.05) > plain
            && beta(3.0, 10.0, 3, 0.05) > plain
    );
    assert_eq!(
        beta_literal(2.0, 1.0, 10.0, 3, 0.05),
        plain,
        "they agree where the noise has deviation 1"
    );
    assert_eq!(beta_literal(2.0, 0.0, 10.0, 3, 0.05), 2.0);
}

#[test]
fn rates_are_those_of_table_1() {
    assert!((information_rate(Family::Linear, 100, 4) - 4.0 * 100f64.ln()).abs() < 1e-12);
    assert!((information_rate(Family::Rbf, 100, 4) - 100f64.ln().powi(5)).abs() < 1e-9);
    let matern = 100f64.powf(4.0 / 7.0) * 100f64.ln().powf(3.0 / 7.0);
    assert!((information_rate(Family::Matern32, 100, 4) - matern).abs() < 1e-9);
}

/// L_k bounds the kernel metric everywhere, and is attained where points come together.
#[test]
fn metric_constants_bound_the_kernel_metric() {
    for (family, expected) in [
        (Family::Linear, 1.0),
        (Family::Rbf, 0.5),
        (Family::Matern32, 3f64.sqrt() / 2.0),
        (Family::Matern52, (5.0 / 3.0f64).sqrt() / 2.0),
    ] {
        let kernel = Kernel { family, variance: 1.0, length_scales: vec![2.0] };
        let constant = metric_constant(&kernel, &[1.0]);
        assert!((constant - expected).abs() < 1e-12, "{family:?}: {constant}");
        for i in 1..400 {
            let apart = 0.02 * f64::from(i);
            let squared = match family {
                Family::Linear => apart * apart,
                _ => 2.0 - 2.0 * kernel_at(&kernel, apart),
            };
            let slope = squared.max(0.0).sqrt() / apart;
            assert!(slope <= constant + 1e-9, "{family:?}: {slope} at {apart}");
            assert!(i > 1 || slope > 0.97 * constant, "{family:?}: {slope} near 0");
        }
    }
    let kernel = Kernel { family: Family::Rbf, variance: 4.0, length_scales: vec![1.0, 0.5] };
    assert_eq!(
        metric_constant(&kernel, &[1.0, 10.0]),
        2.0,
        "the steepest input counts, in its units"
    );
}

/// k at a distance, through a posterior of one point without noise: its mean is k / k(0, 0) · y.
fn kernel_at(kernel: &Kernel, apart: f64) -> f64 {
    let posterior = crate::dynamics::gp::Posterior::new(kernel.clone(), 0.0, &[0.0], &[1.0], 1);
    posterior.map_or(f64::NAN, |p| p.predict(&[apart]).0[0])
}

#[test]
fn the_gap_constant_is_that_of_the_theorem() {
    let l = Lipschitz { dynamics: 0.5, deviation: 0.2, reward: 2.0, policy: 1.0 };
    assert_eq!([l.barred(2.0), l.barred(0.5)], [4.0, 1.0]);
    let (reach, steps) = ((1.0 + 2f64.sqrt()) * 3.0, 4.0f64);
    let expected = 4.0 * reach * steps.powi(2) * (1.0 + 1.0 + reach * 0.4).powi(3);
    assert!((l.ln_gap_constant(3.0, 2, 4).exp() - expected).abs() < 1e-9 * expected);
}

const NOISE: f64 = 0.05;
const GAIN: f64 = 0.4;
const HORIZON: usize = 4;

/// Dynamics f_j = Σ c_ij k(·, z_i) of states and actions of two entries each, whose norm is √(cᵀKc).
struct Known2d {
    kernel: Kernel,
    centres: Vec<[f64; 4]>,
    coefficients: [Vec<f64>; 2],
}

impl Known2d {
    fn new(seed: u64) -> Self {
        let mut generator = Stream::new(seed).generator();
        let centres: Vec<[f64; 4]> =
            (0..6).map(|_| std::array::from_fn(|_| generator.range(-1.5, 1.5))).collect();
        let coefficients =
            [0, 1].map(|_| centres.iter().map(|_| generator.range(-0.6, 0.6)).collect());
        Known2d {
            kernel: Kernel { family: Family::Rbf, variance: 1.0, length_scales: vec![1.5] },
            centres,
            coefficients,
        }
    }

    fn k(&self, x: &[f64; 4], z: &[f64; 4]) -> f64 {
        let squared: f64 = x.iter().zip(z).map(|(x, z)| ((x - z) / 1.5).powi(2)).sum();
        (-0.5 * squared).exp()
    }

    fn norm(&self) -> f64 {
        let of = |c: &Vec<f64>| {
            let pairs = |(i, a): (usize, &f64)| {
                let row = c.iter().enumerate();
                row.map(|(j, b)| a * b * self.k(&self.centres[i], &self.centres[j])).sum::<f64>()
            };
            c.iter().enumerate().map(pairs).sum::<f64>().sqrt()
        };
        of(&self.coefficients[0]).max(of(&self.coefficients[1]))
    }

    fn step(&self, s: [f64; 2], a: [f64; 2]) -> [f64; 2] {
        let x = [s[0], s[1], a[0], a[1]];
        let of = |c: &Vec<f64>| c.iter().zip(&self.centres).map(|(c, z)| c * self.k(&x, z)).sum();
        [of(&self.coefficients[0]), of(&self.coefficients[1])]
    }

    fn data(&self, n: usize, seed: u64) -> Transitions {
        let mut generator = Stream::new(seed).generator();
        let mut c =
            Columns { state_dim: 2, action_dim: 2, episode_starts: vec![0], ..Default::default() };
        for _ in 0..n {
            let s = [0; 2].map(|_| generator.range(-1.5, 1.5));
            let a = [0; 2].map(|_| generator.range(-1.0, 1.0));
            let next = self.step(s, a).map(|x| x + NOISE * generator.normal());
            c.states.extend(s.map(|x| x as f32));
            c.actions.extend(a.map(|x| x as f32));
            c.next_states.extend(next.map(|x| x as f32));
            c.rewards.push(0.0);
            c.terminals.push(false);
            c.timeouts.push(false);
        }
        Transitions::new(c).unwrap()
    }

    /// J, and E‖σ_n‖ along the true trajectories.
    fn truth(&self, gp: &Gp, starts: &[f32]) -> (f64, f64) {
        let mut generator = Stream::new(77).generator();
        let (mut total, mut deviation) = (0.0, 0.0);
        for start in starts.chunks_exact(2) {
            let mut s = [start[0], start[1]].map(f64::from);
            for _ in 0..HORIZON {
                let a = s.map(|x| -GAIN * x);
                total -= s[0].hypot(s[1]);
                let (_, std) = gp.posteriors()[0].predict(&[s[0], s[1], a[0], a[1]]);
                deviation += std[0] * 2f64.sqrt();
                s = self.step(s, a).map(|x| x + NOISE * generator.normal());
            }
        }
        let n = starts.len() as f64 / 2.0;
        (total / n, deviation / n / HORIZON as f64)
    }

    fn fit(&self, data: &Transitions, device: &Device, question: &EvaluationConfig) -> Gp {
        let hyperparameters =
            vec![Hyperparameters { kernel: self.kernel.clone(), noise_std: NOISE }];
        let config = GpConfig {
            hyperparameters,
            standardize: false,
            target: Target::NextState,
            holdout: 0.0,
            ..Default::default()
        };
        let stream = Stream::new(question.seed).child("model");
        device.run(|| Gp::fit(data, &config, stream, &Run::default())).unwrap()
    }
}

/// |μ − f| ≤ β_n σ_n at all points of a grid, for several data sets (Lemma 3.6).
#[test]
fn confidence_sets_hold_the_truth() {
    let device = Device::cpu(Some(2)).unwrap();
    for seed in 0..10 {
        let known = Known2d::new(seed);
        let question = EvaluationConfig { allow_constant: true, ..Default::default() };
        let gp = known.fit(&known.data(60, seed + 100), &device, &question);
        let beta = beta_of(&gp, known.norm(), 0.05).unwrap();
        let grid: Vec<[f64; 4]> = (0..300)
            .map(|i| {
                let at =
                    |k: usize| 4.0 * (f64::from(i) * [0.37, 0.71, 0.13, 0.59][k]).fract() - 2.0;
                std::array::from_fn(at)
            })
            .collect();
        let (mean, std) = gp.posteriors()[0].predict(&grid.concat());
        for (i, x) in grid.iter().enumerate() {
            let truth = known.step([x[0], x[1]], [x[2], x[3]]);
            for d in 0..2 {
                let error = (mean[2 * i + d] - truth[d]).abs();
                assert!(error <= beta * std[i], "seed {seed}: {error} > {beta} · {}", std[i]);
            }
        }
    }
}

/// J − C_n E‖σ_n‖ ≤ J̃ ≤ J (Proposition 3.3, Theorem 3.5).
#[test]
fn the_worst_case_gap_is_never_below_the_measured_one() {
    let device = Device::cpu(Some(2)).unwrap();
    let policy = Policy::read(&format!("builtin:proportional,gain={GAIN}")).unwrap();
    let task =
        Task::new("known", [2, 2], "-hypot(s[0], s[1])").unwrap().with_action_bounds(-1.0, 1.0);
    let initial = Initial::Box { low: vec![-1.5; 2], high: vec![1.5; 2], map: None };
    let task = Task { initial, ..task };
    for (seed, n) in [(1, 20), (2, 100)] {
        let known = Known2d::new(seed);
        let data = known.data(n, seed);
        let norm_bound = known.norm();
        let question = EvaluationConfig {
            horizon: HORIZON,
            methods: vec![Method::Ca],
            rollouts: 400,
            beta: Beta::Theory { norm_bound },
            theory: TheoryInputs { norm_bound: Some(norm_bound), lipschitz: Some([1.0, GAIN]) },
            search: SearchConfig {
                hidden: vec![32],
                restarts: 1,
                iterations: 20,
                ..Default::default()
            },
            ..Default::default()
        };
        let gp = known.fit(&data, &device, &question);
        let problem = Problem {
            device: &device,
            data: &data,
            model: &gp,
            task: &task,
            constraints: &[],
            config: &question,
        };
        let found = problem.evaluate(&policy, &Run::default()).unwrap();
        let starts = task.initial.sample(4000, &data, Stream::new(9)).unwrap();
        let (truth, mean_deviation) = known.truth(&gp, &starts);
        let estimate = &found.estimates[0];
        let gap = truth - estimate.value;
        let theory = found.theory.unwrap();
        let Some(constant) = theory.log10_gap_constant else { panic!("no constant") };
        let worst = 10f64.powf(constant) * mean_deviation;
        assert!(
            gap > -4.0 * estimate.std_error,
            "n = {n}: {} above the truth {truth}",
            estimate.value
        );
        assert!(estimate.lower_bound.unwrap() < truth);
        assert!(worst >= gap, "n = {n}: the theorem promises {worst}, the gap is {gap}");
        // The model's own trajectories look as certain as the true ones do, in order of magnitude.
        assert!(
            (0.2..5.0).contains(&(theory.mean_deviation / mean_deviation)),
            "{theory:?} {mean_deviation}"
        );
        assert_eq!(found.set.unwrap().beta, theory.beta);
    }
}
