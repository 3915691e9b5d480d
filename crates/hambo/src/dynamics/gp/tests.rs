//! Properties of posteriors, and gradients by finite differences.

use super::posterior::Tape;
use super::*;
use crate::adversary::pathwise::Pathwise;
use crate::confidence::ConfidenceSet;
use crate::dynamics::Dynamics;
use crate::policy::Policy;
use crate::rollout::ShiftAdversary;
use crate::rollout::World;
use crate::run::Run;
use crate::testing::{self, setting};
use hambo_engine::backend::Device;

/// Random inputs `[n, 3]` and targets `[n, 2]`.
fn points(n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut generator = Stream::new(7).generator();
    let x: Vec<f64> = (0..3 * n).map(|_| generator.normal()).collect();
    let y =
        x.chunks_exact(3).flat_map(|x| [(1.3 * x[0]).sin() + x[1], x[0] * x[2].cos()]).collect();
    (x, y)
}

fn kernels() -> Vec<Kernel> {
    let kernel = |family: Family| Kernel {
        family,
        variance: 1.6,
        length_scales: if family == Family::Linear { vec![1.0] } else { vec![0.8, 1.7, 2.5] },
    };
    Family::ALL.map(kernel).to_vec()
}

/// σ never exceeds the prior's, never grows when a point is added, and is 0 at points without noise.
#[test]
fn deviations_shrink_with_the_data() {
    let (x, y) = points(60);
    let (queries, _) = points(20);
    let queries: Vec<f64> = queries.iter().map(|q| q * 1.4 + 0.1).collect();
    for kernel in kernels() {
        let prior = |q: &[f64]| kernel.prior(&kernel.scaled(q, 3)).sqrt();
        let mut before: Vec<f64> = queries.chunks_exact(3).map(prior).collect();
        for n in 1..=60 {
            let posterior =
                Posterior::new(kernel.clone(), 0.01, &x[..3 * n], &y[..2 * n], 3).unwrap();
            let (_, std) = posterior.predict(&queries);
            for (now, before) in std.iter().zip(&before) {
                assert!(
                    *now <= before + 1e-9,
                    "{kernel:?}: σ grew from {before} to {now} at n = {n}"
                );
            }
            before = std;
        }
        if kernel.family != Family::Linear {
            let posterior = Posterior::new(kernel.clone(), 0.0, &x, &y, 3).unwrap();
            let (mean, std) = posterior.predict(&x);
            assert!(std.iter().all(|s| *s < 1e-5), "{kernel:?}: {std:?}");
            assert!(mean.iter().zip(&y).all(|(m, y)| (m - y).abs() < 1e-5), "{kernel:?}");
        }
    }
}

/// A ridge regression is the posterior mean of the linear kernel, whose Hilbert space has an explicit norm.
#[test]
fn norms_are_those_of_the_weights() {
    let (x, _) = points(50);
    let y: Vec<f64> = x.chunks_exact(3).map(|x| 2.0 * x[0] - x[2]).collect();
    let kernel = Kernel { family: Family::Linear, variance: 1.0, length_scales: vec![1.0] };
    let posterior = Posterior::new(kernel, 1e-8, &x, &y, 3).unwrap();
    assert!((posterior.norms[0] - 5f64.sqrt()).abs() < 1e-5, "{:?}", posterior.norms);
}

#[test]
fn gradients_by_inputs_are_those_of_finite_differences() {
    let (x, y) = points(40);
    let (q, _) = points(5);
    let q: Vec<f64> = q.iter().map(|q| q + 0.2).collect();
    for kernel in kernels() {
        let posterior = Posterior::new(kernel.clone(), 0.05, &x, &y, 3).unwrap();
        let (d_mean, d_std): (Vec<f64>, Vec<f64>) = (
            (0..10).map(|i| f64::from(i) - 4.2).collect(),
            (0..5).map(|i| 1.0 + f64::from(i)).collect(),
        );
        let value = |q: &[f64]| {
            let (mean, std) = posterior.predict(q);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            dot(&mean, &d_mean) + dot(&std, &d_std)
        };
        let mut tape = Tape::default();
        let (mean, std) = posterior.forward(&q, &mut tape);
        assert_eq!((mean, std), posterior.predict(&q), "both ways to predict are one");
        let gradient = posterior.backward(&tape, &d_mean, &d_std);
        for i in 0..q.len() {
            let moved = |h: f64| {
                let mut q = q.clone();
                q[i] += h;
                value(&q)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let error = (gradient[i] - difference).abs();
            assert!(
                error < 1e-5 * (1.0 + difference.abs()),
                "{kernel:?}, entry {i}: {} {difference}",
                gradient[i]
            );
        }
    }
}

#[test]
fn gradients_of_the_likelihood_are_those_of_finite_differences() {
    let (x, y) = points(30);
    for mut kernel in kernels() {
        for ard in [true, false] {
            if !ard {
                kernel.length_scales.truncate(1);
            }
            let scales =
                if kernel.family == Family::Linear { 0 } else { kernel.length_scales.len() };
            let at = |moved: usize, h: f64| {
                let mut kernel = kernel.clone();
                let mut noise = 0.05;
                match moved {
                    0 => kernel.variance *= h.exp(),
                    d if d <= scales => kernel.length_scales[d - 1] *= h.exp(),
                    _ => noise *= h.exp(),
                }
                Posterior::new(kernel, noise, &x, &y, 3).unwrap()
            };
            let gradient = at(0, 0.0).likelihood_gradient();
            assert_eq!(gradient.len(), scales + 2);
            for (i, g) in gradient.iter().enumerate() {
                let difference = (at(i, 1e-5).log_likelihood - at(i, -1e-5).log_likelihood) / 2e-5;
                assert!(
                    (g - difference).abs() < 1e-4 * (1.0 + g.abs()),
                    "{kernel:?}, entry {i}: {g} {difference}"
                );
            }
        }
    }
}

/// The whole way back: dJ/d(adversary) through GP, policy, noise and reward over several steps.
#[test]
fn adversaries_feel_the_posterior() {
    let device = Device::cpu(Some(2)).unwrap();
    let policy = Policy::read("builtin:swing-up").unwrap();
    let data = testing::pendulum_data(&device, &policy, 1.0, 150);
    let task = testing::pendulum();
    // So few data know little of where the task begins: a trajectory from there leaves their range at once.
    let starts: Vec<f32> = (0..5).flat_map(|i| data.state(20 * i)).copied().collect();
    for shared in [true, false] {
        let config = GpConfig { shared, starts: 1, noise_std: Some(0.05), ..Default::default() };
        let gp = Gp::fit(&data, &config, Stream::new(1), &Run::default()).unwrap();
        let setting = setting(&task, &policy, 6, 0.9);
        let world = World::new(&device, &gp, setting);
        let set = ConfidenceSet::new(&gp, 3.0).unwrap();
        let adversary =
            ShiftAdversary::random(&device, &gp, &set, 1, &[8], Stream::new(5)).unwrap();
        Pathwise::check_gradient(&world, &adversary, &starts, 5e-4); // J bends within longer steps
        assert!((gp.frame().state_dim(), gp.members()) == (3, 2));
    }
}

/// The two members' mean and deviation are the posterior's, to what f32 holds.
#[test]
fn members_are_the_two_sides_of_the_mean() {
    let device = Device::cpu(Some(1)).unwrap();
    let (x, y) = points(50);
    let narrow = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let kernel = Kernel { family: Family::Rbf, variance: 1.0, length_scales: vec![1.5] };
    let split = Split::default();
    let gp = Gp::new(
        GpConfig::default(),
        Frame::plain(2, 1, false),
        vec![Hyperparameters { kernel, noise_std: 0.3 }],
        None,
        [narrow(&x), narrow(&y)],
        split,
        50,
    )
    .unwrap();
    let q = narrow(&points(20).0);
    let [mean, epistemic, aleatoric] = gp.moments(&device, &device.upload(&q), 20).unwrap();
    let (exact, std) =
        gp.posteriors()[0].predict(&q.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    for i in 0..40 {
        assert!((f64::from(mean[i]) - exact[i]).abs() < 1e-6);
        assert!((f64::from(epistemic[i]).sqrt() - std[i / 2]).abs() < 1e-6);
        assert!((aleatoric[i].sqrt() - 0.3).abs() < 1e-6);
    }
    assert_eq!(raw_of(0.0), -104.0);
    assert_eq!(Gaussian { dims: 1, floor: 0.0 }.std(raw_of(0.0)), 0.0);
}
