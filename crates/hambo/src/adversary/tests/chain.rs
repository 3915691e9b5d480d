//! A walk on the integers whose worst switching adversary is known by dynamic programming.

use super::super::{DqnConfig, LearningConfig, SearchConfig, SearchReport, search_members};
use super::no_data;
use crate::adversary::FoundBy;
use crate::dynamics::Bnn;
use crate::policy::Policy;
use crate::rollout::MemberAdversary;
use crate::rollout::{Chooser, Propagation, World, rollout};
use crate::run::Run;
use crate::task::{Initial, Task};
use crate::testing::setting;
use hambo_engine::backend::{Activation, Device, Shape};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::nn::Ensemble;
use hambo_engine::rng::Stream;

const HORIZON: usize = 8;
const DISCOUNT: f64 = 0.97;

/// Members that step to the right, to the left, …, with hardly any noise.
fn model(device: &Device, steps: &[f32]) -> Bnn {
    let shape = Shape::new(steps.len(), vec![4, 4], Activation::Relu).unwrap();
    let member = |step: f32| {
        let mut params = vec![0.0; shape.parameters()]; // weights [4 inputs, 4 outputs], biases [4]
        params[16..].copy_from_slice(&[step, 0.0, -30.0, -30.0]);
        params
    };
    let params = steps.iter().flat_map(|&step| member(step)).collect();
    Bnn::by_hand(2, 2, Ensemble { params: device.adopt(params), shape: shape.clone() }, 1e-6)
}

/// A deep pit at 3 behind a ridge at 1, a shallow one at −2. The worst is to step to and fro at a pit, at which
/// one depends on where one is and on the time left.
fn task() -> Task {
    let reward =
        "exp(-2 * (s[0] - 1)^2) - 4 * exp(-2 * (s[0] - 3)^2) - 1.5 * exp(-2 * (s[0] + 2)^2)";
    let task = Task::new("chain", [2, 2], reward).unwrap().with_action_bounds(-1.0, 1.0);
    let map = Program::parse(&["floor(s[0])", "0"], 2, 2, Scope::CONTROLLER).unwrap();
    Task {
        initial: Initial::Box { low: vec![-3.0, 0.0], high: vec![4.0, 0.0], map: Some(map) },
        ..task
    }
}

fn reward(x: i32) -> f64 {
    let bump = |at: i32| (-2.0 * f64::from(x - at).powi(2)).exp();
    bump(1) - 4.0 * bump(3) - 1.5 * bump(-2)
}

/// V(x, t) = r(x) + γ · min over steps of V(x ± 1, t + 1)
fn worst(x: i32, left: usize) -> f64 {
    if left == 0 {
        return 0.0;
    }
    reward(x) + DISCOUNT * worst(x + 1, left - 1).min(worst(x - 1, left - 1))
}

fn search(steps: &[f32], config: &SearchConfig) -> (SearchReport, f64) {
    let device = Device::cpu(Some(2)).unwrap();
    let (model, task, data) = (model(&device, steps), task(), no_data());
    let policy = Policy::read("builtin:proportional,gain=0").unwrap();
    let setting = setting(&task, &policy, HORIZON, DISCOUNT);
    let stream = Stream::new(5);
    let report = device.run(|| {
        let world = World::new(&device, &model, setting);
        search_members(&world, config, &data, stream, (&Run::default(), "")).unwrap().1
    });
    // The same starts as the search is measured on.
    let starts =
        task.initial.sample(config.evaluation, &data, stream.child("fixed starts")).unwrap();
    let values = starts.chunks_exact(2).map(|s| worst(s[0] as i32, HORIZON));
    (report, values.sum::<f64>() / config.evaluation as f64)
}

fn config() -> SearchConfig {
    let learning = LearningConfig {
        rounds: 8,
        episodes: 200,
        updates: 500,
        batch: 128,
        hidden: vec![48, 48],
        ..Default::default()
    };
    SearchConfig {
        dqn: DqnConfig { learning, polyak: 0.05, exploration_rounds: 8, ..Default::default() },
        ..Default::default()
    }
}

#[test]
fn dqn_finds_the_worst_switching_of_a_chain() {
    let (report, worst) = search(&[1.0, -1.0], &config());
    let most = report.neutral - worst;
    for found_by in [FoundBy::Dqn, FoundBy::DqnLookAhead] {
        let fall = report.neutral - report.lowest_of(found_by);
        assert!(fall >= 0.98 * most, "{found_by} lowers the return by {fall}, the worst by {most}");
        assert!(
            fall <= most * (1.0 + 1e-3),
            "{found_by} lowers by {fall}, more than possible: {most}"
        );
    }
    assert!(report.converged, "{report:?}");
    let constant = report.lowest_of(FoundBy::Constant);
    assert!(
        report.lowest < constant - 0.2 * most,
        "{constant} without switching: the case is too easy"
    );
}

#[test]
fn switching_is_never_above_the_worst_particle() {
    let mut config = config();
    for rounds in [0, 1] {
        (config.dqn.learning.rounds, config.dqn.learning.updates) = (rounds, 1);
        let (report, _) = search(&[1.0, -1.0, 0.0], &config);
        assert!(report.lowest <= report.lowest_of(FoundBy::Constant));
        assert_eq!(report.candidates.len(), 3 + 2 * rounds);
        assert!(!report.converged, "nothing was learned");
    }
}

#[test]
fn one_particle_leaves_nothing_to_search() {
    let (report, _) = search(&[1.0], &config());
    assert_eq!((report.iterations, report.candidates.len(), report.converged), (0, 1, true));
    assert_eq!(report.lowest, report.neutral);
}

#[test]
fn a_constant_choice_is_the_particle_itself() {
    let device = Device::cpu(Some(2)).unwrap();
    let (model, task) = (model(&device, &[1.0, -1.0, 0.5]), task());
    let policy = Policy::read("builtin:proportional,gain=0.3").unwrap();
    let setting = setting(&task, &policy, HORIZON, DISCOUNT);
    let starts = task.initial.sample(300, &no_data(), Stream::new(1)).unwrap();
    let roll = |propagation: Propagation<'_>| {
        rollout(&device, &model, &setting, propagation, &starts, Stream::new(2), &Run::default())
            .unwrap()
    };
    let each = roll(Propagation::EachMember);
    for member in 0..3 {
        let constant = MemberAdversary::constant(&device, &model, member).unwrap();
        let greedy = Chooser { adversary: &constant, exploration: 0.0 };
        assert_eq!(roll(Propagation::Chosen(greedy)), each.of_member(member, 3));
    }
}
