//! Searches on problems whose worst adversary is known.

mod chain;
mod ends;
mod invariance;
mod reward;
mod tail;

use super::{LearningConfig, Optimizers, SacConfig, SearchConfig, SearchReport};
use crate::adversary::{FoundBy, search_shifts};
use crate::confidence::ConfidenceSet;
use crate::data::{Columns, Transitions};
use crate::dynamics::Bnn;
use crate::policy::Policy;
use crate::rollout::World;
use crate::run::Run;
use crate::task::{Initial, Task};
use crate::testing::setting;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

const HORIZON: usize = 10;
const DISCOUNT: f64 = 0.98;
const GAIN: f64 = 0.2;
const BETA: f64 = 1.5;
const SPREAD: f64 = 0.1;

/// Two linear members s' = s + a ± 0.1 + noise: σ_e is 0.1 everywhere.
fn model(device: &Device) -> Bnn {
    let shape = Shape::new(2, vec![4, 4], Activation::Relu).unwrap();
    let member = |offset: f32| {
        let mut params = vec![0.0; shape.parameters()]; // weights [4 inputs, 4 outputs], biases [4]
        for dim in 0..2 {
            params[(2 + dim) * 4 + dim] = 1.0; // the change is the action
            params[16 + dim] = offset;
            params[16 + 2 + dim] = -3.0;
        }
        params
    };
    let params = [member(SPREAD as f32), member(-SPREAD as f32)].concat();
    Bnn::by_hand(2, 2, Ensemble { params: device.adopt(params), shape: shape.clone() }, 1e-3)
}

/// r = s₀ − 2 s₁
fn task() -> Task {
    let task =
        Task::new("linear", [2, 2], "s[0] - 2 * s[1]").unwrap().with_action_bounds(-10.0, 10.0);
    Task { initial: Initial::Box { low: vec![-1.0; 2], high: vec![1.0; 2], map: None }, ..task }
}

/// How far the worst adversary lowers the return. With a = −g s every shift of β σ_e moves the state along
/// one direction for good, d' = (1 − g) d + β σ_e, and η = (−1, 1) is the worst at every step. Starts and
/// noise cancel, since everything is linear.
fn worst_fall() -> f64 {
    let (mut displaced, mut fall) = (0.0, 0.0);
    for t in 0..HORIZON {
        fall += DISCOUNT.powi(t as i32) * 3.0 * displaced;
        displaced = (1.0 - GAIN) * displaced + BETA * SPREAD;
    }
    fall
}

/// Transitions that nothing is learned from.
fn no_data() -> Transitions {
    Transitions::new(Columns {
        state_dim: 2,
        action_dim: 2,
        states: vec![0.0; 4],
        actions: vec![0.0; 4],
        rewards: vec![0.0; 2],
        next_states: vec![0.0; 4],
        terminals: vec![false; 2],
        timeouts: vec![false; 2],
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap()
}

fn run(config: &SearchConfig) -> SearchReport {
    run_with(BETA, config)
}

fn run_with(beta: f64, config: &SearchConfig) -> SearchReport {
    run_on(&task(), beta, config)
}

fn run_on(task: &Task, beta: f64, config: &SearchConfig) -> SearchReport {
    let device = Device::cpu(Some(2)).unwrap();
    let model = model(&device);
    let policy = Policy::read(&format!("builtin:proportional,gain={GAIN}")).unwrap();
    let setting = setting(task, &policy, HORIZON, DISCOUNT);
    let data = no_data();
    let set = ConfidenceSet::new(&model, beta).unwrap();
    device.run(|| {
        let world = World::new(&device, &model, setting);
        search_shifts(&world, &set, None, (config, &data), Stream::new(3), (&Run::default(), ""))
            .unwrap()
            .1
    })
}

fn small(optimizers: Optimizers) -> SearchConfig {
    let learning = LearningConfig {
        rounds: 10,
        episodes: 100,
        updates: 250,
        batch: 128,
        hidden: vec![32, 32],
        ..Default::default()
    };
    SearchConfig {
        optimizers,
        hidden: vec![32, 32],
        restarts: 1,
        iterations: 150,
        learning_rate: 1e-2,
        tolerance: 1e-3,
        sac: SacConfig { learning, temperature: 0.005, ..Default::default() },
        ..Default::default()
    }
}

/// A descent that has no gradient does not move: it must not seem to have converged.
#[test]
fn where_the_reward_has_no_gradient_sac_searches() {
    let task =
        Task { reward: Program::parse(&["-(s[0] < 0)"], 2, 2, Scope::REWARD).unwrap(), ..task() };
    let report = run_on(&task, BETA, &small(Optimizers::Pathwise));
    assert!(
        report.candidates.iter().all(|c| c.found_by == FoundBy::Sac),
        "{:?}",
        report.candidates
    );
    assert_eq!(report.converged, run_on(&task, BETA, &small(Optimizers::Sac)).converged);
    // Half of the starts are below 0 and stay there; of the others the adversary brings most below in some steps.
    assert!(report.lowest < 1.4 * report.neutral, "{} of {}", report.lowest, report.neutral);
}

#[test]
fn sac_and_pathwise_each_find_the_worst_of_a_linear_system() {
    let mut config = small(Optimizers::Portfolio);
    let report = run(&config);
    let worst = worst_fall();
    for found_by in [FoundBy::Pathwise, FoundBy::Sac] {
        let fall = report.neutral - report.lowest_of(found_by);
        assert!(
            fall >= 0.98 * worst,
            "{found_by} lowers the return by {fall}, the worst by {worst}"
        );
        assert!(
            fall <= worst * (1.0 + 1e-4),
            "{found_by} lowers by {fall}, more than possible: {worst}"
        );
    }
    assert_eq!(
        report.lowest,
        report.lowest_of(FoundBy::Pathwise).min(report.lowest_of(FoundBy::Sac))
    );

    // Each alone is what it is in company.
    for (optimizers, found_by) in
        [(Optimizers::Pathwise, FoundBy::Pathwise), (Optimizers::Sac, FoundBy::Sac)]
    {
        config.optimizers = optimizers;
        let alone = run(&config);
        assert!(alone.candidates.iter().all(|c| c.found_by == found_by));
        assert_eq!(alone.lowest, report.lowest_of(found_by));
    }
}

/// With β = 0 there is nothing to choose from: the value is the neutral one, to the last bit. A larger set holds the
/// smaller one, so that the lowest value does not rise with β.
#[test]
fn the_value_is_neutral_without_a_set_and_falls_with_its_size() {
    let config = SearchConfig {
        hidden: vec![16],
        restarts: 1,
        iterations: 60,
        learning_rate: 1e-2,
        tolerance: 1e-3,
        ..Default::default()
    };
    let found: Vec<SearchReport> =
        [0.0, 0.2, 0.5, 1.0, 2.0].map(|beta| run_with(beta, &config)).into();
    assert_eq!(found[0].lowest, found[0].neutral);
    for pair in found.windows(2) {
        assert_eq!(
            pair[0].neutral, pair[1].neutral,
            "the neutral value does not depend on the set"
        );
        assert!(pair[1].lowest < pair[0].lowest, "{} after {}", pair[1].lowest, pair[0].lowest);
    }
}
