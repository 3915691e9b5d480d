//! Against gymnasium: the trajectories in target/mujoco-reference, which tests/reference/make_mujoco.py makes with
//! gymnasium and the same MuJoCo on the same machine.

use crate::mujoco::library::{Model, Simulation};
use crate::mujoco::{HalfCheetah, Hopper, Version, half_cheetah_task, hopper_task};
use crate::{Behavior, Collection, EnvName, Environment, Episodes, collect, simulate};
use hambo::policy::Policy;
use hambo_engine::backend::Device;
use hambo_engine::expression::Scratch;
use hambo_engine::rng::Stream;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn reference(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mujoco-reference");
    std::env::var_os("HAMBO_MUJOCO_REFERENCE").map_or(folder, PathBuf::from).join(name)
}

/// A robot with its f64 numbers in sight.
trait Robot: Environment {
    fn simulation(&mut self) -> &mut Simulation;
    fn seen(&self) -> Vec<f64>;
}

impl Robot for Hopper {
    fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }
    fn seen(&self) -> Vec<f64> {
        self.observation().collect()
    }
}

impl Robot for HalfCheetah {
    fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }
    fn seen(&self) -> Vec<f64> {
        self.observation().collect()
    }
}

/// Every number of every step has gymnasium's bits; returns the numbers of steps, episodes and terminal states.
fn replay(mut robot: impl Robot, name: &str) -> [usize; 3] {
    let bytes = std::fs::read(reference(name)).unwrap();
    let words: Vec<[u8; 8]> = bytes.chunks_exact(8).map(|b| b.try_into().unwrap()).collect();
    let header: Vec<usize> = words[..5].iter().map(|b| i64::from_le_bytes(*b) as usize).collect();
    let [nq, nv, nu, seen, steps] = header[..] else { panic!() };
    let numbers: Vec<f64> = words[5..].iter().map(|b| f64::from_le_bytes(*b)).collect();
    let rows = numbers.chunks_exact(1 + 2 * (nq + nv) + nu + seen + 2);
    assert_eq!(rows.len(), steps);
    let [mut episodes, mut ends] = [0; 2];
    for (t, row) in rows.enumerate() {
        let (start, row) = row.split_at(1);
        let (before, row) = row.split_at(nq + nv);
        let (action, after) = row.split_at(nu);
        if start[0] == 1.0 {
            episodes += 1;
            robot.simulation().reset(|q, v| {
                q.copy_from_slice(&before[..nq]);
                v.copy_from_slice(&before[nq..]);
            });
        }
        let action: Vec<f32> = action.iter().map(|&a| a as f32).collect();
        let outcome = robot.step(&action).unwrap();
        let terminal = f64::from(u8::from(outcome.terminal));
        ends += usize::from(outcome.terminal);
        let seen = robot.seen();
        let simulation = robot.simulation();
        let ours =
            [simulation.positions(), simulation.velocities(), &seen, &[outcome.reward, terminal]]
                .concat();
        let same = ours.iter().zip(after).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && ours.len() == after.len(), "{name}, step {t}: {ours:?} and not {after:?}");
    }
    [steps, episodes, ends]
}

#[test]
#[ignore = "needs libmujoco and gymnasium's trajectories: scripts/test fetches and makes them"]
fn every_bit_is_gymnasiums() {
    for (version, name) in [(Version::V4, "v4"), (Version::V5, "v5")] {
        let [steps, episodes, ends] =
            replay(Hopper::new(version).unwrap(), &format!("Hopper-{name}.bin"));
        assert!(steps >= 13_000 && episodes == 13 && ends > 1000, "{steps} {episodes} {ends}");
        let [steps, episodes, ends] =
            replay(HalfCheetah::new().unwrap(), &format!("HalfCheetah-{name}.bin"));
        assert!(steps == 13_000 && episodes == 13 && ends == 0, "{steps} {episodes} {ends}");
    }
}

/// Mean, deviation and fourth moment of each number of 20,000 states.
fn moments(states: &[Vec<f64>]) -> Vec<[f64; 3]> {
    let n = states.len() as f64;
    let of = |d: usize| {
        let mean = states.iter().map(|s| s[d]).sum::<f64>() / n;
        let power = |k: i32| states.iter().map(|s| (s[d] - mean).powi(k)).sum::<f64>() / n;
        [mean, power(2).sqrt(), power(4)]
    };
    (0..states[0].len()).map(of).collect()
}

fn assert_alike(name: &str, ours: &[[f64; 3]], theirs: &[[f64; 3]], n: usize) {
    assert_eq!(ours.len(), theirs.len(), "{name}");
    for (d, (a, b)) in ours.iter().zip(theirs).enumerate() {
        // Six standard errors; the fourth moment of a normal number varies by √96 σ⁴.
        let (error, std) = (6.0 / (n as f64).sqrt(), a[1]);
        assert!((a[0] - b[0]).abs() < 1.5 * error * std, "{name} {d}: {a:?} and {b:?}");
        assert!((a[1] - b[1]).abs() < error * std, "{name} {d}: {a:?} and {b:?}");
        assert!((a[2] - b[2]).abs() < 14.0 * error * std.powi(4), "{name} {d}: {a:?} and {b:?}");
    }
}

/// Of gymnasium's resets, of ours, and of the initial states that the task draws.
#[test]
#[ignore = "needs libmujoco and gymnasium's trajectories: scripts/test fetches and makes them"]
fn resets_have_gymnasiums_moments() {
    let n = 20_000;
    let file: Value =
        serde_json::from_slice(&std::fs::read(reference("RESETS.json")).unwrap()).unwrap();
    let hopper: Box<dyn Robot> = Box::new(Hopper::new(Version::V4).unwrap());
    let cheetah: Box<dyn Robot> = Box::new(HalfCheetah::new().unwrap());
    let behavior = Behavior { policy: Policy::read("builtin:swing-up").unwrap(), noise: 0.0 };
    let collection = Collection { steps: 2, horizon: 200, stream: Stream::new(1) };
    let (device, pendulum) = (Device::cpu(Some(1)).unwrap(), EnvName::Pendulum.spec().unwrap());
    let few = collect(&device, &pendulum, &[behavior], &collection, &()).unwrap();
    let robots = [
        ("Hopper", hopper, hopper_task().unwrap()),
        ("HalfCheetah", cheetah, half_cheetah_task().unwrap()),
    ];
    for (name, mut robot, task) in robots {
        let mut states = Vec::new();
        let mut seen = Vec::new();
        for i in 0..n {
            robot.reset(&mut Stream::new(3).index(i).generator());
            let simulation = robot.simulation();
            states.push([simulation.positions(), simulation.velocities()].concat());
            seen.push(robot.seen());
        }
        let column =
            |key: &str| -> Vec<f64> { serde_json::from_value(file[name][key].clone()).unwrap() };
        let (mean, std, fourth) = (column("mean"), column("std"), column("fourth"));
        let theirs: Vec<[f64; 3]> = (0..mean.len()).map(|d| [mean[d], std[d], fourth[d]]).collect();
        assert_alike(name, &moments(&states), &theirs, n as usize);

        let drawn = task.initial.sample(n as usize, &few, Stream::new(4)).unwrap();
        let drawn: Vec<Vec<f64>> = drawn
            .chunks_exact(task.state_dim)
            .map(|s| s.iter().map(|&x| x.into()).collect())
            .collect();
        assert_alike(name, &moments(&drawn), &moments(&seen), n as usize);
    }
}

#[test]
#[ignore = "needs libmujoco: scripts/get-mujoco"]
fn the_tasks_end_is_the_environments() {
    let mut hopper = Hopper::new(Version::V4).unwrap();
    let program = hopper_task().unwrap().termination.unwrap();
    let mut ends = 0;
    for episode in 0..50 {
        let mut generator = Stream::new(5).index(episode).generator();
        hopper.reset(&mut generator);
        for _ in 0..100 {
            let action: [f32; 3] = std::array::from_fn(|_| generator.range(-1.0, 1.0) as f32);
            let terminal = hopper.step(&action).unwrap().terminal;
            let (mut state, mut ended) = ([0.0; 11], [0.0]);
            hopper.observe(&mut state);
            program
                .evaluate(1, &[0.0; 11], &action, &state, &mut ended, &mut Scratch::default())
                .unwrap();
            assert_eq!(ended[0] != 0.0, terminal, "{state:?}");
            ends += usize::from(terminal);
        }
    }
    assert!(ends > 100, "{ends}");
}

#[test]
#[ignore = "needs libmujoco: scripts/get-mujoco"]
fn a_simulation_that_breaks_down_says_so_and_starts_again() {
    let mut cheetah = HalfCheetah::new().unwrap();
    for velocity in [1e9, 1e11, f64::NAN, f64::INFINITY] {
        cheetah.simulation.reset(|_, v| v[3] = velocity);
        assert_eq!(cheetah.step(&[0.5; 6]), None, "{velocity}");
        cheetah.reset(&mut Stream::new(1).generator());
        assert!(cheetah.step(&[0.5; 6]).unwrap().reward.is_finite());
    }
    assert_eq!(cheetah.step(&[f32::NAN; 6]), None);
    // The clock does not tell on of an episode that goes on for long.
    cheetah.reset(&mut Stream::new(1).generator());
    assert!((0..2000).all(|_| cheetah.step(&[0.5; 6]).is_some()));
    assert!(!Path::new("MUJOCO_LOG.TXT").exists());
}

#[test]
#[ignore = "needs libmujoco: scripts/get-mujoco"]
fn a_model_that_is_none_is_refused_in_mujocos_words() {
    for xml in
        ["<mujoco><worldbody>", "<mujoco><option timestep=\"x\"/></mujoco>", "nothing", "a\0b"]
    {
        let error = Model::compile(xml).err().unwrap().to_string();
        assert!(error.starts_with("MuJoCo refuses the model: ") && error.len() > 35, "{error}");
    }
}

#[test]
#[ignore = "needs libmujoco: scripts/get-mujoco"]
fn threads_do_not_change_returns_and_data() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../checkpoints/hopper/mediocre-1.safetensors");
    let policy = Policy::read(folder.to_str().unwrap()).unwrap();
    let env = EnvName::Hopper(Version::V4).spec().unwrap();
    let episodes = Episodes { horizon: 300, count: 40, discount: 1.0, stream: Stream::new(1) };
    let collection = Collection { steps: 3000, horizon: 1000, stream: Stream::new(2) };
    let run = |threads| {
        let device = Device::cpu(Some(threads)).unwrap();
        let returns = simulate(&device, &env, &policy, &episodes, &()).unwrap();
        let behaviors = [0.1, 0.5].map(|noise| Behavior { policy: policy.clone(), noise });
        let data = collect(&device, &env, &behaviors, &collection, &()).unwrap();
        (returns, data.states().to_vec(), data.rewards().to_vec(), data.terminals().to_vec())
    };
    let one = run(1);
    assert!(one.3.iter().any(|&t| t) && one.0.diverged == 0);
    assert!(one == run(3));
}
