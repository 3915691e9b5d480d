//! Policies that sample: against Stable-Baselines3's own samples and densities (`reference/make_sampling.py`), and D4RL's logged ones.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

#[path = "common/assets.rs"]
mod assets;

use assets::assets;
use hambo::policy::Policy;
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, Episodes, simulate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Case {
    observations: Vec<Vec<f32>>,
    means: Vec<Vec<f32>>,
    stds: Vec<Vec<f32>>,
    actions: Vec<Vec<f32>>,
    log_probs: Vec<f64>,
}

const SAMPLES: usize = 20_000;

fn agent(kind: &str) -> Policy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/reference/agents/{kind}/agent.zip"));
    Policy::read(path.to_str().unwrap()).unwrap()
}

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(include_str!("reference/sampling.json")).unwrap()
}

#[test]
fn samples_have_the_moments_of_stable_baselines3() {
    let device = Device::cpu(Some(2)).unwrap();
    for (kind, case) in cases() {
        let policy = agent(&kind).sampling().unwrap();
        let dims = policy.action_dim();
        let mut noise = policy.noise(&device, SAMPLES, 1);
        noise.draw(&device, Stream::new(3), &device.counter());
        for (i, observation) in case.observations.iter().enumerate() {
            let mut actions = device.zeros(SAMPLES * dims);
            policy.sample(
                &device,
                &device.upload(&observation.repeat(SAMPLES)),
                &noise,
                &mut actions,
            );
            let actions = device.download(&actions).unwrap();
            for c in 0..dims {
                let column = || actions.iter().skip(c).step_by(dims).map(|&a| f64::from(a));
                let n = SAMPLES as f64;
                let mean = column().sum::<f64>() / n;
                let std = (column().map(|a| (a - mean).powi(2)).sum::<f64>() / n).sqrt();
                let (theirs, their_std) = (f64::from(case.means[i][c]), f64::from(case.stds[i][c]));
                let tolerance = 5.0 * their_std * (2.0 / n).sqrt() + 1e-6;
                assert!(
                    (mean - theirs).abs() < tolerance,
                    "{kind} {i} {c}: mean {mean} and {theirs}"
                );
                assert!(
                    (std - their_std).abs() < 1.5 * tolerance,
                    "{kind} {i} {c}: std {std} and {their_std}"
                );
            }
        }
    }
}

#[test]
fn densities_are_those_of_stable_baselines3() {
    let device = Device::cpu(Some(2)).unwrap();
    for (kind, case) in cases() {
        let ours = agent(&kind)
            .log_densities(&device, &case.observations.concat(), &case.actions.concat())
            .unwrap();
        for (ours, theirs) in ours.iter().zip(&case.log_probs) {
            // Stable-Baselines3 adds 10⁻⁶ to 1 − tanh², and computes in f32.
            assert!(
                (ours - theirs).abs() < 2e-4 * (1.0 + theirs.abs()),
                "{kind}: {ours} and {theirs}"
            );
        }
    }
}

/// The policy in the file made the data in the file.
#[test]
fn densities_are_those_that_d4rl_logged() {
    let Some(assets) = assets() else { return };
    let path = assets.join("d4rl/hopper_medium-v2.hdf5");
    let file = rust_hdf5::H5File::open(&path).unwrap();
    let read = |name: &str| file.dataset(name).unwrap().read_numeric_as::<f32>().unwrap();
    let (states, actions, logged) =
        (read("observations"), read("actions"), read("infos/action_log_probs"));
    let device = Device::cpu(Some(2)).unwrap();
    let policy = Policy::read(path.to_str().unwrap()).unwrap();
    let ours = policy.log_densities(&device, &states, &actions).unwrap();
    let mut errors: Vec<f64> =
        ours.iter().zip(&logged).map(|(a, b)| (a - f64::from(*b)).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    println!("median error of {} log-densities: {median:.1e}", errors.len());
    assert!(errors.len() > 500 && median < 1e-4, "{median}");
}

#[test]
fn saved_policies_sample_the_same() {
    let device = Device::cpu(Some(1)).unwrap();
    for kind in cases().keys() {
        let policy = agent(kind);
        let path = std::env::temp_dir()
            .join(format!("hambo-sampling-{}-{kind}.safetensors", std::process::id()));
        policy.save(&path).unwrap();
        let copy = Policy::read(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let act = |policy: &Policy| {
            let policy = policy.clone().sampling().unwrap();
            let mut noise = policy.noise(&device, 5, 1);
            noise.draw(&device, Stream::new(3), &device.counter());
            let mut actions = device.zeros(5 * policy.action_dim());
            policy.sample(&device, &device.upload(&[0.3; 15]), &noise, &mut actions);
            device.download(&actions).unwrap()
        };
        assert_eq!(act(&copy), act(&policy), "{kind}");
    }
}

/// Noise on top has the requested standard deviation, groups of rows share it, and steps differ.
#[test]
fn extra_noise_is_what_was_asked_for() {
    let device = Device::cpu(Some(1)).unwrap();
    let policy = Policy::read("builtin:swing-up").unwrap().with_noise(0.25).unwrap();
    assert!(policy.is_random() && !policy.has_distribution());
    let rows = 40_000;
    let mut noise = policy.noise(&device, rows, 2);
    let mut time = device.counter();
    let mut sample = |time: &_| {
        noise.draw(&device, Stream::new(3), time);
        let mut actions = device.zeros(rows);
        policy.sample(
            &device,
            &device.upload(&[-1.0, 0.0, 0.0].repeat(rows)),
            &noise,
            &mut actions,
        );
        device.download(&actions).unwrap()
    };
    let first = sample(&time);
    device.advance(&mut time);
    let second = sample(&time);
    let std = (first.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>() / rows as f64).sqrt();
    assert!((std - 0.25).abs() < 0.005, "{std}");
    assert_eq!(first[..rows / 2], first[rows / 2..]);
    assert_ne!(first, second);
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(Policy::read("builtin:swing-up").unwrap().with_noise(bad).is_err());
    }
    let error = policy.sampling().unwrap_err().to_string();
    assert!(error.contains("builtin:swing-up is deterministic"), "{error}");
}

/// Noise costs return, and the same seed gives the same returns.
#[test]
fn simulated_returns_feel_the_noise() {
    let device = Device::cpu(Some(2)).unwrap();
    let mean = |policy: &Policy, seed: u64| {
        let episodes =
            Episodes { horizon: 200, count: 200, discount: 1.0, stream: Stream::new(seed) };
        let returns =
            simulate(&device, &EnvName::Pendulum.spec().unwrap(), policy, &episodes, &()).unwrap();
        returns.values.iter().sum::<f64>() / returns.values.len() as f64
    };
    let calm = Policy::read("builtin:swing-up").unwrap();
    let noisy = calm.clone().with_noise(2.0).unwrap();
    assert_eq!(mean(&noisy, 1), mean(&noisy, 1));
    assert!(mean(&noisy, 1) < mean(&calm, 1) - 20.0);
}
