//! Learning where the best policy in the worst case is known.

use super::*;
use crate::confidence::Beta;
use crate::data::Columns;
use crate::dynamics::Bnn;
use crate::evaluate::EvaluationConfig;
use crate::run::checkpoint::Checkpoints;
use crate::task::Initial;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;
use std::collections::BTreeMap;
use std::time::Duration;

const HORIZON: usize = 10;

/// Two members s' = (1 ± spread) a: μ = a, and σ_e = spread |a|. Large actions pay, and nobody knows how much.
fn model(device: &Device, spread: f32) -> Bnn {
    let shape = Shape::new(2, vec![2, 2], Activation::Relu).unwrap();
    // Weights [s, a] → [change, ln variance], then biases.
    let member = |gain: f32| vec![-1.0, 0.0, gain, 0.0, 0.0, -9.0];
    let params = [member(1.0 + spread), member(1.0 - spread)].concat();
    Bnn::by_hand(1, 1, Ensemble { params: device.adopt(shape.spread(&params)), shape }, 1e-3)
}

/// It pays s', and actions are within ± 1.
fn task() -> Task {
    let task = Task::new("risky", [1, 1], "n[0]").unwrap().with_action_bounds(-1.0, 1.0);
    Task { initial: Initial::Box { low: vec![-1.0], high: vec![1.0], map: None }, ..task }
}

/// Its transitions under random actions, in episodes of ten steps.
fn data(episodes: usize) -> Transitions {
    let mut generator = Stream::new(5).generator();
    let mut c = Columns { state_dim: 1, action_dim: 1, ..Columns::default() };
    for row in 0..10 * episodes {
        let [s, a] = [0, 1].map(|_| generator.range(-1.0, 1.0) as f32);
        c.states.push(s);
        c.actions.push(a);
        c.next_states.push(a);
        c.rewards.push(a);
        c.terminals.push(false);
        c.timeouts.push(row % 10 == 9);
        if row % 10 == 0 {
            c.episode_starts.push(row);
        }
    }
    Transitions::new(c).unwrap()
}

fn small(adversary: Against) -> LearnConfig {
    LearnConfig {
        adversary,
        steps: 1600,
        starts: 64,
        rollout_steps: 3,
        updates: 40,
        real_share: 0.0, // the logged transitions are not of the worst case
        batch: 64,
        hidden: vec![24, 24],
        policy_rate: 1e-3,
        critic_rate: 3e-3,
        adversary_rate: 3e-3,
        discount: 0.8,
        checkpoints: 4,
        measured: 40,
        ..LearnConfig::default()
    }
}

/// What is learned: the last checkpoint, and what its policy does where s = 0.3.
fn learned(spread: f32, beta: f64, config: &LearnConfig) -> (CurvePoint, f32) {
    let device = Device::cpu(Some(2)).unwrap();
    let checkpoints = on(&device, spread, beta, config, &Run::default(), &mut |_| Ok(())).unwrap();
    let Checkpoint { point, policy } = checkpoints.last().unwrap();
    let mut action = device.zeros(1);
    policy.act(&device, &device.upload(&[0.3]), &mut action);
    (*point, device.download(&action).unwrap()[0])
}

fn on(
    device: &Device,
    spread: f32,
    beta: f64,
    config: &LearnConfig,
    run: &Run<'_>,
    keep: &mut (dyn FnMut(&[Checkpoint]) -> Result<()> + Send),
) -> Result<Vec<Checkpoint>> {
    let (model, task, data) = (model(device, spread), task(), data(20));
    let asked =
        EvaluationConfig { horizon: HORIZON, beta: Beta::Fixed(beta), ..Default::default() };
    let (data, config_of) = (&data, &asked);
    let problem =
        Problem { device, data, model: &model, task: &task, constraints: &[], config: config_of };
    learn(&problem, config, run, keep)
}

/// Under the worst shift an action a > 0 pays a (1 − β spread): all of it is worth while as long as that is positive, and
/// nothing is beyond. With β = 0 it is ordinary model-based learning.
#[test]
fn the_continuous_adversary_decides_how_much_is_dared() {
    let horizon = HORIZON as f64;
    for (beta, dared, paid) in [(0.0, 1.0, 1.0), (1.0, 1.0, 0.5), (4.0, 0.0, 0.0)] {
        let (point, action) = learned(0.5, beta, &small(Against::Ca));
        println!("beta {beta}: {action} {point:?}");
        assert!((f64::from(action) - dared).abs() < 0.15, "β {beta}: {action}");
        assert!((point.worst / horizon - paid).abs() < 0.15, "β {beta}: {point:?}");
        assert!((point.value / horizon - dared).abs() < 0.15, "β {beta}: {point:?}");
        assert!((point.gain - (point.value - point.worst)).abs() < 1e-9);
        assert_eq!(point.step, 1600);
    }
}

/// The worse of two particles pays (1 − spread) a.
#[test]
fn so_does_the_one_that_chooses_particles() {
    for (spread, dared, paid) in [(0.5, 1.0, 0.5), (2.0, 0.0, 0.0)] {
        let (point, action) = learned(spread, 1.0, &small(Against::Da1));
        println!("spread {spread}: {action} {point:?}");
        assert!((f64::from(action) - dared).abs() < 0.15, "spread {spread}: {action}");
        let worst = point.worst / HORIZON as f64;
        assert!((worst - paid).abs() < 0.15, "spread {spread}: {point:?}");
    }
}

#[test]
fn an_interrupted_learning_ends_with_the_same_bits() {
    let device = Device::cpu(Some(2)).unwrap();
    for adversary in [Against::Ca, Against::Da1] {
        let config = LearnConfig { steps: 200, real_share: 0.1, ..small(adversary) };
        let go = |run: &Run<'_>, keep: &mut (dyn FnMut(&[Checkpoint]) -> Result<()> + Send)| {
            on(&device, 0.5, 1.0, &config, run, keep)
        };
        let whole = go(&Run::default(), &mut |_| Ok(())).unwrap();
        let place = tempfile::tempdir().unwrap();
        let open = || {
            Checkpoints::open(&place.path().join("kept"), BTreeMap::new(), Duration::ZERO).unwrap()
        };
        let interrupted = |at: usize| {
            let stop = |so_far: &[Checkpoint]| match so_far.len() >= at {
                true => Err(Error::Numeric("stop".to_owned())),
                false => Ok(()),
            };
            go(&Run::new(&(), Some(&open())), &mut { stop })
        };
        assert!(interrupted(1).is_err() && interrupted(3).is_err());
        let resumed = interrupted(usize::MAX).unwrap();
        assert_eq!(resumed.len(), whole.len());
        for (a, b) in whole.iter().zip(&resumed) {
            assert_eq!(a.point, b.point);
            assert_eq!(bits(&device, a), bits(&device, b));
        }
        assert_ne!(bits(&device, &whole[0]), bits(&device, &whole[3]), "it learned");
    }
}

/// What a policy does, bit by bit.
fn bits(device: &Device, checkpoint: &Checkpoint) -> Vec<u32> {
    let mut actions = device.zeros(3);
    checkpoint.policy.act(device, &device.upload(&[-0.7, 0.1, 0.9]), &mut actions);
    device.download(&actions).unwrap().iter().map(|a| a.to_bits()).collect()
}

#[test]
fn what_nothing_can_be_learned_from_is_refused_in_words() {
    let told = |task: &Task, data: &Transitions| check(task, data).unwrap_err().to_string();
    check(&task(), &data(2)).unwrap();
    let one = told(&task(), &data(1));
    assert!(one.contains("one episode") && one.contains("log several"), "{one}");
    let unbounded = Task::new("risky", [1, 1], "n[0]").unwrap();
    let unbounded = told(&unbounded, &data(2));
    assert!(unbounded.contains("a[0] has no bounds") && unbounded.contains("--env"), "{unbounded}");
    let nothing = Task::new("nothing", [1, 1], "0").unwrap().with_action_bounds(-1.0, 1.0);
    let nothing = told(&nothing, &data(2));
    assert!(nothing.contains("pays 0") && nothing.contains("--reward"), "{nothing}");
    let bad = LearnConfig { real_share: 1.0, ..LearnConfig::default() };
    assert!(bad.validate().unwrap_err().to_string().contains("learn.real_share"));
}

#[test]
fn candidates_are_the_best_in_the_worst_case() {
    let device = Device::cpu(Some(1)).unwrap();
    let config = LearnConfig { steps: 40, updates: 10, ..small(Against::Ca) };
    let mut all = on(&device, 0.5, 1.0, &config, &Run::default(), &mut |_| Ok(())).unwrap();
    for (checkpoint, worst) in all.iter_mut().zip([-3.0, f64::NEG_INFINITY, -1.0, -2.0]) {
        checkpoint.point.worst = worst;
    }
    assert_eq!(candidates(&all, 2), [2, 3]);
    assert_eq!(candidates(&all, 9), [2, 3, 0, 1]);
    let text = csv(all.iter().map(|c| &c.point));
    assert!(text.starts_with("step,value,worst,gain,left,") && text.lines().count() == 5, "{text}");
}
