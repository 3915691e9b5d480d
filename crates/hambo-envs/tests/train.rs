//! Trainings on disk: interrupted, resumed, damaged.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

#[path = "../../hambo/tests/common/mod.rs"]
mod common;

use common::Folder;
use hambo_engine::backend::Device;
use hambo_engine::rl::SacUpdate;
use hambo_envs::EnvName;
use hambo_envs::train::{TrainConfig, TrainingResult, train};
use std::fs;
use std::path::Path;

const STEPS: usize = 1100;

fn config() -> TrainConfig {
    TrainConfig {
        update: SacUpdate { hidden: vec![16, 16], batch: 32, ..SacUpdate::default() },
        learning_starts: 150,
        update_every: 2,
        remembered: 500, // so that old transitions are forgotten within these trainings
        evaluate_every: 300,
        evaluation_episodes: 3,
        seed: 5,
    }
}

fn run(folder: &Path, steps: usize, threads: usize) -> hambo::Result<TrainingResult> {
    train(
        &Device::cpu(Some(threads)).unwrap(),
        &EnvName::Pendulum.spec()?,
        steps,
        &config(),
        folder,
        &(),
    )
}

/// The files that must not depend on how a training came about.
const RESULTS: [&str; 6] = [
    "curve.csv",
    "final.safetensors",
    "replay.bin",
    "step-400.safetensors",
    "step-1000.safetensors",
    "training.safetensors",
];

#[test]
fn an_interrupted_training_ends_with_the_same_bits() {
    let (whole, parts) = (Folder::new("train-whole"), Folder::new("train-parts"));
    let trained = run(&whole.0, STEPS, 1).unwrap();
    let steps: Vec<usize> = trained.curve.iter().map(|p| p.step).collect();
    assert_eq!((steps, trained.resumed_at), (vec![400, 600, 1000, STEPS], 0));

    assert_eq!(run(&parts.0, 730, 2).unwrap().resumed_at, 0);
    // What an interruption between the two writes of a save leaves behind.
    let replay = parts.0.join("replay.bin");
    fs::write(&replay, [fs::read(&replay).unwrap(), vec![7; 1000]].concat()).unwrap();
    assert_eq!(run(&parts.0, STEPS, 2).unwrap().resumed_at, 600);
    for name in RESULTS {
        let [a, b] = [&whole, &parts].map(|folder| fs::read(folder.0.join(name)).unwrap());
        assert!(a == b, "{name} differs");
    }
    // Again, when all is done: from the last save to the same end.
    assert_eq!(run(&parts.0, STEPS, 1).unwrap().resumed_at, 1000);
    assert!(
        RESULTS
            .iter()
            .all(|n| fs::read(whole.0.join(n)).unwrap() == fs::read(parts.0.join(n)).unwrap())
    );
}

#[test]
fn what_does_not_fit_or_is_damaged_is_refused() {
    let folder = Folder::new("train-damaged");
    run(&folder.0, 450, 1).unwrap();
    let device = Device::cpu(Some(1)).unwrap();
    let refused = |config: &TrainConfig, env: EnvName, steps, words: &[&str]| {
        let error = train(&device, &env.spec().unwrap(), steps, config, &folder.0, &())
            .unwrap_err()
            .to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let base = config();
    refused(
        &TrainConfig { seed: 6, ..config() },
        EnvName::Pendulum,
        900,
        &["seed = 5 there, 6 here"],
    );
    let update = SacUpdate { batch: 64, ..base.update.clone() };
    refused(
        &TrainConfig { update, ..config() },
        EnvName::Pendulum,
        900,
        &["batch = 32 there, 64 here"],
    );
    refused(&base, EnvName::Point, 900, &["training.safetensors", "a training of pendulum"]);
    refused(&base, EnvName::Pendulum, 300, &["steps = 300", "400 steps"]);
    refused(
        &TrainConfig { evaluation_episodes: 1, ..config() },
        EnvName::Pendulum,
        900,
        &["at least 2"],
    );
    refused(
        &TrainConfig { remembered: 0, ..config() },
        EnvName::Pendulum,
        900,
        &["remembered = 0"],
    );

    let (state, replay) = (folder.0.join("training.safetensors"), folder.0.join("replay.bin"));
    let (whole_state, whole_replay) = (fs::read(&state).unwrap(), fs::read(&replay).unwrap());
    fs::write(&replay, &whole_replay[..1000]).unwrap();
    refused(
        &base,
        EnvName::Pendulum,
        900,
        &["replay.bin: 1000 bytes", "counts 400 steps, 14400 bytes"],
    );
    // Also one that is no longer remembered.
    for byte in [0, 200 * 36, 400 * 36 - 1] {
        let mut broken = whole_replay.clone();
        broken[byte] ^= 1;
        fs::write(&replay, &broken).unwrap();
        refused(
            &base,
            EnvName::Pendulum,
            900,
            &["replay.bin: damaged: its bytes do not have the SHA-256", "delete the folder"],
        );
    }
    fs::write(&replay, &whole_replay).unwrap();
    for n in (0..whole_state.len()).step_by(whole_state.len() / 50) {
        fs::write(&state, &whole_state[..n]).unwrap();
        refused(
            &base,
            EnvName::Pendulum,
            900,
            &["training.safetensors: not a safetensors file, or a damaged one"],
        );
    }
    let key = b"\\\"steps\\\":";
    let place = whole_state.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    let mut lying = whole_state;
    assert_eq!(lying[place..][..3], *b"400");
    lying[place..][..3].copy_from_slice(b"999");
    fs::write(&state, &lying).unwrap();
    refused(
        &base,
        EnvName::Pendulum,
        1900,
        &["training.safetensors: damaged: its bytes do not have the SHA-256 in its header"],
    );
    // Somebody who sees to it that the digest is right.
    let key = b"\"sha256\":\"";
    let place = lying.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    lying[place..][..64].fill(b'0');
    fs::write(&state, hambo_engine::files::seal(lying)).unwrap();
    refused(&base, EnvName::Pendulum, 1900, &["training.safetensors: 125 updates after 999 steps"]);
}

/// One flipped bit or a page of zeros anywhere in what a training goes on from, or in a policy that it made.
#[test]
fn damage_is_seen_wherever_it_is() {
    let folder = Folder::new("train-flipped");
    run(&folder.0, 450, 1).unwrap();
    let damaged = |whole: &[u8], i: usize, byte: usize| {
        let mut bytes = whole.to_vec();
        match i % 10 {
            9 => bytes[byte..(byte + 64).min(whole.len())].fill(0),
            bit => bytes[byte] ^= 1 << (bit % 8),
        }
        bytes
    };
    for name in ["training.safetensors", "replay.bin"] {
        let path = folder.0.join(name);
        let whole = fs::read(&path).unwrap();
        for (i, byte) in (0..whole.len()).step_by(whole.len() / 97).enumerate() {
            let bytes = damaged(&whole, i, byte);
            if bytes == whole {
                continue;
            }
            fs::write(&path, &bytes).unwrap();
            let error = run(&folder.0, 450, 1).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("delete the folder"), "{byte}: {error}");
        }
        fs::write(&path, &whole).unwrap();
    }
    let path = folder.0.join("final.safetensors");
    let whole = fs::read(&path).unwrap();
    for (i, byte) in (0..whole.len()).step_by(whole.len() / 97).enumerate() {
        fs::write(&path, damaged(&whole, i, byte)).unwrap();
        let read = hambo::Policy::read(path.to_str().unwrap());
        assert!(read.is_err() || fs::read(&path).unwrap() == whole, "byte {byte} of the policy");
    }
}
