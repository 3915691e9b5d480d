//! Where to end an episode, or not to, is all that pays.

use super::*;

/// Steps of an episode; no discount.
const STEPS: usize = 10;

/// s' = s + drift ± 0.1, hardly any noise: of the first entry the adversary decides up to 0.15 a step.
fn drifting(device: &Device, drift: f32) -> Bnn {
    let shape = Shape::new(2, vec![4, 4], Activation::Relu).unwrap();
    let member = |offset: f32| {
        let mut params = vec![0.0; shape.parameters()]; // weights [4 inputs, 4 outputs], biases [4]
        params[16..].copy_from_slice(&[drift + offset, offset, -30.0, -30.0]);
        params
    };
    let params = [member(SPREAD as f32), member(-SPREAD as f32)].concat();
    Bnn::by_hand(2, 2, Ensemble { params: device.adopt(params), shape: shape.clone() }, 1e-6)
}

/// A log whose states spread by 1 in every entry.
fn spread_data() -> Transitions {
    let mut generator = Stream::new(8).generator();
    let mut states = || (0..200).map(|_| generator.normal() as f32).collect::<Vec<f32>>();
    Transitions::new(Columns {
        state_dim: 2,
        action_dim: 2,
        states: states(),
        actions: vec![0.0; 200],
        rewards: vec![0.0; 100],
        next_states: states(),
        terminals: vec![false; 100],
        timeouts: vec![false; 100],
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap()
}

/// The search where `reward` is paid until the first entry is above 0.5, from starts of it in `[low, high]`.
fn search(reward: &str, drift: f32, [low, high]: [f32; 2], config: &SearchConfig) -> SearchReport {
    let device = Device::cpu(Some(2)).unwrap();
    let model = drifting(&device, drift);
    let parse = |text: &str| Program::parse(&[text], 2, 2, Scope::REWARD).unwrap();
    let task = Task {
        reward: parse(reward),
        termination: Some(parse("n[0] > 0.5")),
        initial: Initial::Box { low: vec![low, 0.0], high: vec![high, 0.0], map: None },
        ..task()
    };
    let policy = Policy::read("builtin:proportional,gain=0").unwrap();
    let setting = setting(&task, &policy, STEPS, 1.0);
    let set = ConfidenceSet::new(&model, BETA).unwrap();
    device.run(|| {
        let world = World::new(&device, &model, setting);
        let (data, stream) = (spread_data(), Stream::new(3));
        search_shifts(&world, &set, None, (config, &data), stream, (&Run::default(), "")).unwrap().1
    })
}

/// The descent alone, where that is not all that is asked for.
fn without_sac() -> SearchConfig {
    let mut config = small(Optimizers::Pathwise);
    config.sac.learning.rounds = 0;
    config
}

/// From 0 the bound is four steps of 0.15 away, and nothing but the end is worth anything.
#[test]
fn the_shift_that_ends_an_episode_is_found() {
    let report = search("1", 0.0, [0.0; 2], &without_sac());
    assert_eq!((report.neutral, report.lowest), (10.0, 4.0), "{report:?}");
    assert!(report.candidates.iter().all(|c| c.found_by == FoundBy::Pathwise));
    // The same against a reward that pulls the other way: what the state pays is small beside its end.
    let report = search("1 + 0.01 * s[0]", 0.0, [0.0; 2], &without_sac());
    assert!((report.lowest - 4.0).abs() < 0.05, "{report:?}");
}

/// A drift of 0.12 ends most episodes in time, which saves costs; the adversary can hold all of them back.
#[test]
fn where_an_end_saves_costs_the_episode_is_kept_alive() {
    let report = search("-1", 0.12, [-1.0, 0.3], &without_sac());
    assert!(report.neutral > -9.0, "{report:?}");
    assert_eq!(report.lowest, -10.0, "{report:?}");
}

/// The gradient of an end vanishes far from it, so that a descent alone would show little.
#[test]
fn where_only_ends_have_a_gradient_sac_gives_a_second_opinion() {
    let mut config = small(Optimizers::Pathwise);
    (config.iterations, config.sac.learning.rounds, config.sac.learning.updates) = (5, 1, 1);
    let found = |reward: &str, config: &SearchConfig| {
        let candidates = search(reward, 0.0, [0.0; 2], config).candidates;
        candidates.iter().map(|c| c.found_by).collect::<Vec<FoundBy>>()
    };
    assert_eq!(found("1", &config), [FoundBy::Pathwise, FoundBy::Sac]);
    assert_eq!(found("-(s[0] < 0)", &config), [FoundBy::Pathwise, FoundBy::Sac]);
    assert_eq!(found("s[0]", &config), [FoundBy::Pathwise]);
    config.optimizers = Optimizers::Sac;
    assert_eq!(found("1", &config), [FoundBy::Sac]);
}
