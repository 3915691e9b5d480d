//! Policies from files: their actions against those of the libraries that wrote them (`reference/make_sb3.py`).

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

#[path = "common/assets.rs"]
mod assets;
mod common;

use assets::assets;
use common::Folder;
use hambo::policy::{NormalizerFile, Policy};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;
use hambo_envs::{EnvName, Episodes, simulate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Case {
    observations: Vec<Vec<f32>>,
    actions: Vec<Vec<f32>>,
}

fn reference() -> BTreeMap<String, Case> {
    serde_json::from_str(include_str!("reference/sb3.json")).unwrap()
}

fn act(policy: &Policy, observations: &[Vec<f32>]) -> Vec<f32> {
    let device = Device::cpu(Some(2)).unwrap();
    let mut actions = device.zeros(observations.len() * policy.action_dim());
    policy.act(&device, &device.upload(&observations.concat()), &mut actions);
    device.download(&actions).unwrap()
}

fn largest_error(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().chain(theirs).all(|a| a.is_finite()));
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Reads the policy, compares its actions, saves it, reads that and compares again.
fn check(path: &Path, case: &Case) {
    let policy = Policy::read(path.to_str().unwrap()).unwrap();
    let error = largest_error(&act(&policy, &case.observations), &case.actions.concat());
    println!("{:<60} {error:.1e}", path.display());
    assert!(error < 1e-5, "{}: {error}", path.display());

    let folder = Folder::new(&format!("policy-{:?}", std::thread::current().id()));
    let copy = folder.0.join("policy.safetensors");
    policy.save(&copy).unwrap();
    let copy = Policy::read(copy.to_str().unwrap()).unwrap();
    assert_eq!(
        act(&copy, &case.observations),
        act(&policy, &case.observations),
        "{}",
        path.display()
    );
}

/// Agents that other people trained and Stable-Baselines3 of many versions saved; also the policy in a D4RL file.
#[test]
fn actions_are_those_of_stable_baselines3() {
    let Some(assets) = assets() else { return };
    let cases: Vec<_> =
        reference().into_iter().filter(|(name, _)| !name.starts_with("agents/")).collect();
    assert!(cases.len() > 10);
    for (name, case) in &cases {
        check(&assets.join(name), case);
    }
}

/// Kinds that are not among those: TD3, TQC, SAC with and without gSDE, squashed PPO, today's versions, uneven bounds.
#[test]
fn actions_of_small_agents_are_those_of_stable_baselines3() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let cases: Vec<_> =
        reference().into_iter().filter(|(name, _)| name.starts_with("agents/")).collect();
    assert_eq!(cases.len(), 7);
    for (name, case) in &cases {
        check(&folder.join(name), case);
    }
}

/// Returns measured by the agents' owners: mean and deviation of 10 episodes of 200 steps.
#[test]
fn returns_on_pendulum_are_those_of_gymnasium() {
    let Some(assets) = assets() else { return };
    let (device, pendulum) = (Device::cpu(Some(2)).unwrap(), EnvName::Pendulum.spec().unwrap());
    for (name, mean, std) in [
        ("a2c", -205.0, 107.0),
        ("ars", -222.0, 141.0),
        ("ddpg", -179.0, 102.0),
        ("ppo", -210.0, 112.0),
        ("sac", -170.0, 90.0),
        ("trpo", -193.0, 111.0),
    ] {
        let path = assets.join(format!("sb3/{name}/Pendulum-v1/Pendulum-v1.zip"));
        let policy = Policy::read(path.to_str().unwrap()).unwrap();
        let episodes = Episodes { horizon: 200, count: 200, discount: 1.0, stream: Stream::new(1) };
        let returns = simulate(&device, &pendulum, &policy, &episodes, &()).unwrap().values;
        let ours = returns.iter().sum::<f64>() / returns.len() as f64;
        let error = std * (1.0f64 / 10.0 + 1.0 / 200.0).sqrt();
        println!("{name}: {ours:.0}, reported {mean} ± {error:.0}");
        assert!((ours - mean).abs() < 3.0 * error, "{name}: {ours} instead of {mean} ± {error}");
    }
}

#[test]
fn what_is_no_policy_is_refused_in_words() {
    let folder = Folder::new("no-policy");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tensor =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &[0; 4]).unwrap();
    let foreign = safetensors::serialize([("w", tensor)], None).unwrap();
    let cases = [
        ("missing.zip".to_owned(), "missing.zip: cannot read: No such file"),
        ("missing.bin".to_owned(), "not a kind of policy that can be read; expected builtin:NAME"),
        (folder.0.to_str().unwrap().to_owned(), "not a file"),
        (file("empty.zip", b""), "not a policy: expected an agent of Stable-Baselines3 (.zip)"),
        (file("text.zip", b"hello, I am text"), "not a policy"),
        (file("cut.zip", b"PK\x03\x04 and then nothing"), "not a zip archive, or a damaged one"),
        (
            file("cut.hdf5", b"\x89HDF\r\n\x1a\n and then nothing"),
            "not an HDF5 file, or a damaged one",
        ),
        (
            file("foreign.safetensors", &foreign),
            "`format` in its header is None: expected \"hambo-policy/1\"",
        ),
    ];
    for (spec, part) in cases {
        let error = Policy::read(&spec).unwrap_err().to_string();
        assert!(error.contains(part), "{spec}: {error}");
    }
    let error = Policy::read("builtin:swing-up")
        .unwrap()
        .save(&folder.0.join("x"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a network"), "{error}");
    if let Some(assets) = assets() {
        let data = assets.join("d4rl/hopper_random-v1.hdf5");
        let error = Policy::read(data.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("without a policy"), "{error}");
    }
}

#[test]
fn a_normalizer_that_would_execute_something_is_refused() {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/agents");
    let folder = Folder::new("normalizer");
    let agent = folder.0.join("agent.zip");
    std::fs::copy(agents.join("td3/agent.zip"), &agent).unwrap();
    std::fs::write(folder.0.join("vecnormalize.pkl"), b"\x80\x04cposix\nsystem\n\x8c\x02ls\x85R.")
        .unwrap();
    let error = Policy::read(agent.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("vecnormalize.pkl") && error.contains("posix.system"), "{error}");
}

/// Damage anywhere in an agent is an error or harmless, never a panic.
#[test]
fn damaged_agents_do_not_panic() {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/agents");
    let folder = Folder::new("damaged");
    let path = folder.0.join("agent.zip");
    let mut generator = Stream::new(11).generator();
    for name in ["td3/agent.zip", "td3/vecnormalize.pkl"] {
        let whole = std::fs::read(agents.join(name)).unwrap();
        let target = match name.ends_with("pkl") {
            true => {
                std::fs::copy(agents.join("td3/agent.zip"), &path).unwrap();
                folder.0.join("vecnormalize.pkl")
            }
            false => path.clone(),
        };
        for round in 0..600 {
            let mut bytes = whole.clone();
            let mut place = |n: usize| (generator.range(0.0, n as f64) as usize).min(n - 1);
            match round % 3 {
                0 => bytes.truncate(place(whole.len())),
                _ => (0..round % 5 + 1).for_each(|_| bytes[place(whole.len())] ^= 1 << place(8)),
            }
            std::fs::write(&target, &bytes).unwrap();
            let _ = Policy::read(path.to_str().unwrap());
        }
    }
}

/// Wherever an agent's normalizer is, it is the same policy; and without it another one, which is never taken by mistake.
#[test]
fn normalizers_are_found_where_people_put_them() {
    let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/agents/ppo");
    let device = Device::cpu(Some(1)).unwrap();
    let action = |policy: &Policy| {
        let mut actions = device.zeros(policy.action_dim());
        let state = vec![0.3; policy.state_dim()];
        policy.act(&device, &device.upload(&state), &mut actions);
        device.download(&actions).unwrap()
    };
    let with = Policy::read(agents.join("agent.zip").to_str().unwrap()).unwrap();
    assert_eq!(with.normalizer_file(), Some(agents.join("vecnormalize.pkl").as_path()));
    let right = action(&with);

    let folder = Folder::new("normalizers");
    let agent = folder.0.join("Hopper-v3.zip");
    std::fs::copy(agents.join("agent.zip"), &agent).unwrap();
    std::fs::create_dir_all(folder.0.join("Hopper-v3")).unwrap();
    let agent = agent.to_str().unwrap();
    for place in [
        "vecnormalize.pkl",
        "vec_normalize.pkl",
        "Hopper-v3/vecnormalize.pkl",
        "Hopper-v3/vec_normalize.pkl",
        "Hopper-v3_VecNormalize_final.pkl",
        "Hopper-v3/rl_model_vecnormalize_1000_steps.pkl",
    ] {
        let place = folder.0.join(place);
        std::fs::copy(agents.join("vecnormalize.pkl"), &place).unwrap();
        let policy = Policy::read(agent).unwrap();
        assert_eq!((action(&policy), policy.normalizer_file()), (right.clone(), Some(&*place)));
        std::fs::remove_file(&place).unwrap();
    }

    // Trained with a normalizer, and none is there.
    if let Some(assets) = assets() {
        let lone = folder.0.join("lone.zip");
        for name in ["a2c/Hopper-v3/Hopper-v3", "ppo/HalfCheetah-v3/HalfCheetah-v3"] {
            std::fs::copy(assets.join(format!("sb3/{name}.zip")), &lone).unwrap();
            let error = Policy::read(lone.to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains("was trained with an observation normalizer"), "{error}");
            assert!(error.contains("--normalizer FILE"), "{error}");
        }
        for name in ["ppo", "trpo", "sac", "ddpg"] {
            let path = assets.join(format!("sb3/{name}/Pendulum-v1/Pendulum-v1.zip"));
            assert!(Policy::read(path.to_str().unwrap()).unwrap().normalizer_file().is_none());
        }
    }
    let without = Policy::read_with(agent, &NormalizerFile::Without).unwrap();
    assert!(action(&without) != right && without.normalizer_file().is_none());
    let elsewhere = NormalizerFile::At(agents.join("vecnormalize.pkl"));
    assert_eq!(action(&Policy::read_with(agent, &elsewhere).unwrap()), right);

    // Several that may be meant.
    for name in ["a_vecnormalize.pkl", "b_vecnormalize.pkl"] {
        std::fs::copy(agents.join("vecnormalize.pkl"), folder.0.join(name)).unwrap();
    }
    let error = Policy::read(agent).unwrap_err().to_string();
    assert!(error.contains("several files may be its observation normalizer"), "{error}");
    let missing = NormalizerFile::At(folder.0.join("missing.pkl"));
    let error = Policy::read_with(agent, &missing).unwrap_err().to_string();
    assert!(error.contains("missing.pkl"), "{error}");
    let other = agents.join("../../../../../../checkpoints/pendulum/good.safetensors");
    let error = Policy::read_with(other.to_str().unwrap(), &elsewhere).unwrap_err().to_string();
    assert!(error.contains("only agents of Stable-Baselines3"), "{error}");
}
