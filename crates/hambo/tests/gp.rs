//! Gaussian processes against scikit-learn and GPyTorch; tests/reference/make_gp.py made the numbers.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{Folder, write_description};
use hambo::data::{Columns, Transitions};
use hambo::dynamics::gp::{Family, Hyperparameters, Kernel, LikelihoodSearch, Posterior};
use hambo::dynamics::{Dynamics, Gp, GpConfig, Target, load};
use hambo::run::Run;
use hambo_engine::backend::Device;
use hambo_engine::files::write_together;
use hambo_engine::rng::Stream;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    given: Vec<Given>,
    learned: Vec<Learned>,
}

#[derive(Deserialize)]
struct Given {
    family: Family,
    variance: f64,
    length_scales: Vec<f64>,
    noise_std: f64,
    width: usize,
    x: Vec<f64>,
    y: Vec<f64>,
    queries: Vec<f64>,
    mean: Vec<f64>,
    std: Vec<f64>,
    log_likelihood: f64,
    gpytorch_mean: Vec<f64>,
    gpytorch_std: Vec<f64>,
    gpytorch_log_likelihood: f64,
}

#[derive(Deserialize)]
struct Learned {
    name: String,
    family: Family,
    ard: bool,
    width: usize,
    x: Vec<f64>,
    y: Vec<f64>,
    log_likelihood: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference/gp.json")).unwrap()
}

fn close(ours: &[f64], theirs: &[f64]) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-6 * (1.0 + b.abs()))
}

#[test]
fn posteriors_work_like_scikit_learn_and_gpytorch() {
    let cases = reference().given;
    assert_eq!(cases.len(), 33);
    for case in cases {
        let kernel = Kernel {
            family: case.family,
            variance: case.variance,
            length_scales: case.length_scales.clone(),
        };
        let posterior =
            Posterior::new(kernel, case.noise_std.powi(2), &case.x, &case.y, case.width).unwrap();
        let name =
            format!("{:?}, ℓ = {:?}, n = {}", case.family, case.length_scales, posterior.len());
        let (mean, std) = posterior.predict(&case.queries);
        assert!(close(&mean, &case.mean) && close(&mean, &case.gpytorch_mean), "{name}: {mean:?}");
        assert!(close(&std, &case.std) && close(&std, &case.gpytorch_std), "{name}: {std:?}");
        let likelihood = [posterior.log_likelihood];
        assert!(
            close(&likelihood, &[case.log_likelihood])
                && close(&likelihood, &[case.gpytorch_log_likelihood]),
            "{name}: {likelihood:?} instead of {}",
            case.log_likelihood
        );
        assert_eq!(posterior.jitter, 0.0, "{name}");
    }
}

#[test]
fn learned_hyperparameters_are_as_likely_as_those_of_scikit_learn() {
    for case in reference().learned {
        let learning =
            LikelihoodSearch { family: case.family, ard: case.ard, noise_std: None, starts: 6 };
        let (found, likelihood) =
            learning.run(&case.x, &case.y, case.width, Stream::new(1), &Run::default()).unwrap();
        assert!(
            likelihood > case.log_likelihood - 1e-3,
            "{}: ln p = {likelihood} instead of {}, with {found:?}",
            case.name,
            case.log_likelihood
        );
    }
}

/// s' = s + 0.1 sin(3s) + 0.2a in two dimensions, with noise.
fn swaying(n: usize, noise: f64) -> Transitions {
    let mut generator = Stream::new(5).generator();
    let mut c = Columns { state_dim: 2, action_dim: 1, ..Default::default() };
    for i in 0..n {
        let s = [generator.range(-2.0, 2.0), generator.range(-2.0, 2.0)];
        let a = generator.range(-1.0, 1.0);
        let next =
            [0, 1].map(|d| s[d] + 0.1 * (3.0 * s[d]).sin() + 0.2 * a + noise * generator.normal());
        c.states.extend(s.map(|x| x as f32));
        c.actions.push(a as f32);
        c.next_states.extend(next.map(|x| x as f32));
        c.rewards.push(-s[0].abs() as f32);
        c.terminals.push(false);
        c.timeouts.push(i % 10 == 9);
        if i % 10 == 0 {
            c.episode_starts.push(i);
        }
    }
    Transitions::new(c).unwrap()
}

fn small() -> GpConfig {
    GpConfig { starts: 1, ..Default::default() }
}

/// Both targets, shared and separate hyper-parameters: the prediction is near the truth and the noise is found.
#[test]
fn dynamics_are_learned() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = swaying(200, 0.01);
    for (target, shared) in
        [(Target::Change, true), (Target::Change, false), (Target::NextState, true)]
    {
        // From one start next states are taken for lines with much noise.
        let config = GpConfig { target, shared, starts: 4, ..small() };
        let gp = Gp::fit(&data, &config, Stream::new(1), &Run::default()).unwrap();
        let prediction = gp.predict(&device, &[0.5, -0.4, 1.2, 0.3], &[0.6, -0.2]).unwrap();
        let truth = |s: f64, a: f64| s + 0.1 * (3.0 * s).sin() + 0.2 * a;
        let expected = [truth(0.5, 0.6), truth(-0.4, 0.6), truth(1.2, -0.2), truth(0.3, -0.2)];
        for (i, (mean, truth)) in prediction.mean.iter().zip(expected).enumerate() {
            let error = f64::from(*mean) - truth;
            assert!(error.abs() < 0.02, "{target:?}, shared {shared}: entry {i} is off by {error}");
            let (epistemic, aleatoric) = (prediction.epistemic_std[i], prediction.aleatoric_std[i]);
            assert!(
                (0.0..0.02).contains(&epistemic),
                "{target:?}, shared {shared}: σ_e = {epistemic}"
            );
            assert!(
                (0.006..0.016).contains(&aleatoric),
                "{target:?}, shared {shared}: σ_ε = {aleatoric}"
            );
        }
        let far = gp.predict(&device, &[50.0, 50.0], &[0.0]).unwrap();
        assert!(
            far.epistemic_std[0] > 10.0 * prediction.epistemic_std[0],
            "nothing is known far away"
        );
    }
}

#[test]
fn models_survive_the_disk() {
    let device = Device::cpu(Some(2)).unwrap();
    let folder = Folder::new("gp-disk");
    let data = swaying(80, 0.01);
    for shared in [true, false] {
        let config = GpConfig { shared, subset: Some(40), reward: true, ..small() };
        let gp = Gp::fit(&data, &config, Stream::new(1), &Run::default()).unwrap();
        write_together(&gp.files(&device, &folder.0).unwrap()).unwrap();
        let loaded = load(&device, &folder.0).unwrap();
        assert_eq!(loaded.as_gp().unwrap().report(), gp.report());
        let at = ([0.5, -0.4], [0.3]);
        assert_eq!(
            gp.predict(&device, &at.0, &at.1).unwrap(),
            loaded.predict(&device, &at.0, &at.1).unwrap()
        );
    }
    let path = folder.0.join("model.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (what, with, problem) in [
        ("\"variance\": ", "\"variance\": -", "variance"),
        ("\"action_dim\": 1", "\"action_dim\": 9", "do not fit"),
        ("\"data_rows\": 80", "\"data_rows\": 8", "rows"),
    ] {
        let changed = serde_json::from_str(&text.replace(what, with)).unwrap();
        write_description(&folder.0, changed);
        let error = load(&device, &folder.0).unwrap_err().to_string();
        assert!(error.contains(problem), "{what}: {error}");
    }
}

#[test]
fn bad_data_and_settings_are_named() {
    let fit = |data: &Transitions, config: &GpConfig| {
        Gp::fit(data, config, Stream::new(1), &Run::default()).map_err(|e| e.to_string())
    };
    let error = fit(&swaying(400, 0.0), &GpConfig { memory_gib: 1e-4, ..small() }).unwrap_err();
    assert!(error.contains("360 transitions") && error.contains("--gp-rows"), "{error}");
    let given = |kernel: Kernel| GpConfig {
        hyperparameters: vec![Hyperparameters { kernel, noise_std: 0.0 }],
        ..small()
    };
    let rbf = |variance: f64, scale: f64| Kernel {
        family: Family::Rbf,
        variance,
        length_scales: vec![scale],
    };
    for scale in [0.0, f64::INFINITY, f64::NAN] {
        let error = fit(&swaying(50, 0.0), &given(rbf(1.0, scale))).unwrap_err();
        assert!(error.starts_with("length_scales = "), "{error}");
    }
    // Entries beyond what f64 holds.
    let error = fit(&swaying(50, 0.0), &given(rbf(1e308, 1.0))).unwrap_err();
    assert!(error.contains("not positive definite, even with a jitter of"), "{error}");
    let error = fit(&swaying(50, 0.0), &GpConfig { subset: Some(0), ..small() }).unwrap_err();
    assert!(error.starts_with("subset = 0"), "{error}");
    let error = fit(&swaying(50, 0.0), &GpConfig { noise_std: Some(-1.0), ..small() }).unwrap_err();
    assert!(error.starts_with("noise_std = -1"), "{error}");
}

/// Two transitions, copies of one, and targets that never change.
#[test]
fn poor_data_give_a_model_that_knows_little() {
    let device = Device::cpu(Some(1)).unwrap();
    let two = swaying(2, 0.0);
    let gp = Gp::fit(&two, &small(), Stream::new(1), &Run::default()).unwrap();
    let prediction = gp.predict(&device, &[0.0, 0.0], &[0.0]).unwrap();
    assert!(prediction.mean.iter().chain(&prediction.epistemic_std).all(|x| x.is_finite()));

    let copies = |rows: usize, change: f32| {
        let mut c =
            Columns { state_dim: 1, action_dim: 1, episode_starts: vec![0], ..Default::default() };
        for i in 0..rows {
            c.states.push((i / 2) as f32);
            c.actions.push(1.0);
            c.next_states.push((i / 2) as f32 + change);
            c.rewards.push(0.0);
            c.terminals.push(false);
            c.timeouts.push(false);
        }
        Transitions::new(c).unwrap()
    };
    let kernel = Kernel { family: Family::Rbf, variance: 1.0, length_scales: vec![1.0] };
    let noiseless = GpConfig {
        hyperparameters: vec![Hyperparameters { kernel, noise_std: 0.0 }],
        holdout: 0.0,
        ..small()
    };
    let gp = Gp::fit(&copies(40, 1.0), &noiseless, Stream::new(1), &Run::default()).unwrap();
    assert!(gp.report().jitter > 0.0, "copies without noise need a jitter, and it is reported");
    assert_eq!(gp.report().constant_targets, [0], "all changes are 1");
    let prediction = gp.predict(&device, &[3.0], &[1.0]).unwrap();
    assert!((prediction.mean[0] - 4.0).abs() < 1e-4, "{prediction:?}");
    let learned = Gp::fit(&copies(40, 0.0), &small(), Stream::new(1), &Run::default()).unwrap();
    assert!(learned.report().log_likelihood.is_finite());
}

/// A subset keeps memory small, says so, and is nowhere more certain than all data.
#[test]
fn subsets_know_less() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = swaying(300, 0.01);
    let kernel =
        Kernel { family: Family::Matern52, variance: 1.0, length_scales: vec![1.0, 1.0, 2.0] };
    let config =
        GpConfig { hyperparameters: vec![Hyperparameters { kernel, noise_std: 0.05 }], ..small() };
    let all = Gp::fit(&data, &config, Stream::new(1), &Run::default()).unwrap();
    let some =
        Gp::fit(&data, &GpConfig { subset: Some(60), ..config }, Stream::new(1), &Run::default())
            .unwrap();
    assert!(!all.report().subset && some.report().subset && some.report().rows == 60);
    let states: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin() * 2.5).collect();
    let [all, some] =
        [&all, &some].map(|gp| gp.predict(&device, &states, &[0.3; 20]).unwrap().epistemic_std);
    assert!(all.iter().zip(&some).all(|(all, some)| *all <= some * 1.001), "{all:?} {some:?}");
}
