//! Trajectories that leave the range of the logs.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, evaluate, linear_model, linear_model_within, transitions, write_description};
use hambo::dynamics::{Bnn, Dynamics};
use hambo::evaluate::{EvaluationConfig, Method, Warning};
use hambo::policy::Policy;
use hambo::rollout::{Propagation, Returns, Setting, rollout};
use hambo::run::Run;
use hambo::task::{Initial, Task};
use hambo_engine::backend::Device;
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Stream;

const RANGE: Option<[f32; 2]> = Some([-3.0, 10.0]);
/// No noise that could be seen.
const STILL: f32 = -100.0;
const HORIZON: usize = 6;

fn task(reward: &str, termination: Option<&str>) -> Task {
    let termination = termination.map(|text| Program::parse(&[text], 2, 2, Scope::REWARD).unwrap());
    let initial = Initial::Fixed(vec![1.0, 0.0]);
    Task { termination, initial, ..Task::new("test", [2, 2], reward).unwrap() }
}

/// s = 1, 2, 4, 8, and 16, which is beyond the range: the fourth step leaves.
fn doubled(task: &Task, propagation: Propagation, discount: f64, worst_reward: f32) -> Returns {
    let device = Device::cpu(Some(2)).unwrap();
    let model = linear_model_within(RANGE, &device, &[1.0, 1.0], STILL);
    let policy = Policy::read("builtin:proportional,gain=-1").unwrap();
    let setting =
        Setting { task, policy: &policy, horizon: HORIZON, discount, worst_reward, tail: None };
    let (starts, stream) = ([1.0, 0.0], Stream::new(1));
    rollout(&device, &model, &setting, propagation, &starts, stream, &Run::default()).unwrap()
}

#[test]
fn the_steps_that_remain_get_the_worst_reward() {
    let all = [
        Propagation::Mean,
        Propagation::Moments,
        Propagation::DrawEveryStep,
        Propagation::EachMember,
    ];
    for (propagation, discount) in all.into_iter().flat_map(|p| [(p, 1.0f64), (p, 0.5)]) {
        let sum = |steps: [f64; HORIZON]| {
            (0..HORIZON).map(|t| discount.powi(t as i32) * steps[t]).sum::<f64>() as f32
        };
        let first = |task: &Task, worst: f32| {
            let returns = doubled(task, propagation, discount, worst);
            assert!(returns.left.iter().all(|&left| left), "{returns:?}");
            assert_eq!(returns.diverged_count(), 0);
            returns.values[0]
        };
        let (free, ending) = (task("s[0]", None), task("s[0]", Some("n[0] > 1e9")));
        assert_eq!(first(&free, -7.0), sum([1.0, 2.0, 4.0, -7.0, -7.0, -7.0]));
        assert_eq!(first(&ending, -7.0), sum([1.0, 2.0, 4.0, -7.0, -7.0, -7.0]));
        // A worst reward that is a gain: leaving may be an end where there are ends.
        assert_eq!(first(&free, 0.5), sum([1.0, 2.0, 4.0, 0.5, 0.5, 0.5]));
        assert_eq!(first(&ending, 0.5), sum([1.0, 2.0, 4.0, 0.5, 0.0, 0.0]));
        // What the edge of the range costs is not less for having left, and never what lies beyond it.
        let cost = task("-n[0]", None);
        assert_eq!(first(&cost, -1.0), sum([-2.0, -4.0, -8.0, -10.0, -10.0, -10.0]));
        assert_eq!(
            first(&task("-log(11 - n[0])", None), -1e3),
            sum([-(9f32.ln()) as f64, -(7f32.ln()) as f64, -(3f32.ln()) as f64, -1e3, -1e3, -1e3])
        );
        // Where an end comes first there is nothing to leave.
        let ended = task("s[0]", Some("n[0] > 7"));
        let returns = doubled(&ended, propagation, discount, -7.0);
        assert_eq!(
            (returns.values[0], returns.left_count()),
            (sum([1.0, 2.0, 4.0, 0.0, 0.0, 0.0]), 0)
        );
        // A reward that is not defined inside is worth nothing, as ever.
        let undefined = doubled(&task("log(3 - s[0])", None), propagation, discount, -7.0);
        assert_eq!((undefined.values[0], undefined.diverged[0]), (f32::NEG_INFINITY, true));
    }
}

#[test]
fn a_model_that_explodes_gives_no_more_than_horizon_times_the_worst_reward() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    // With and without limits: a state that is no number is out of any range.
    for model in [
        linear_model_within(RANGE, &device, &[3.0, 2.5], -1.0),
        linear_model(&device, &[3e20, 2e20], -1.0),
    ] {
        let task = Task { worst_reward: Some(-12.0), ..task("-min(abs(s[0]), 12)", None) };
        let config = EvaluationConfig {
            horizon: 50,
            rollouts: 100,
            methods: vec![Method::DaInf, Method::Ds, Method::Ts1, Method::TsInf, Method::Mean],
            ..Default::default()
        };
        let policy = Policy::read("builtin:proportional,gain=-1").unwrap();
        let evaluation = evaluate(&device, &data, &model, &task, &policy, &config).unwrap();
        for e in &evaluation.estimates {
            let of = if e.method == Method::DaInf { 200 } else { 100 };
            assert_eq!((e.left_rollouts, e.diverged_rollouts), (of, 0), "{e:?}");
            assert!((-50.0 * 12.0..-40.0 * 12.0).contains(&e.value), "{e:?}");
            let warning = Warning::Left { method: e.method, trajectories: of, of };
            assert!(evaluation.warnings.contains(&warning), "{:?}", evaluation.warnings);
        }
    }
}

#[test]
fn the_worst_reward_is_the_lower_of_declared_and_logged() {
    let data = transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    let worst = |declared: Option<f64>| {
        Task { worst_reward: declared, ..task("-abs(s[0])", None) }.lowest_reward(&data)
    };
    let logged = worst(None).unwrap();
    assert!((-1.0..-0.9).contains(&logged), "{logged}");
    assert_eq!(worst(Some(-5.0)).unwrap(), -5.0);
    assert_eq!(worst(Some(0.5)).unwrap(), logged);
    for bad in [f64::NAN, f64::NEG_INFINITY, -1e300] {
        assert!(worst(Some(bad)).unwrap_err().to_string().contains("worst_reward"));
    }
}

#[test]
fn the_range_is_kept_with_the_model() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    let model = common::fit(&device, &data, &common::small(2, 1));
    let folder = Folder::new("range");
    model.save(&device, &folder.0).unwrap();
    let loaded = Bnn::load(&device, &folder.0).unwrap();
    assert_eq!(loaded.frame().range, model.frame().range);
    let ranges: Vec<[f32; 2]> = model.frame().range.iter().map(|range| range.unwrap()).collect();
    // States and next states are within ±2, and widened by half of that range or by five deviations of a change.
    assert!(ranges.iter().flatten().all(|x| (3.0..6.0).contains(&x.abs())), "{ranges:?}");

    let path = folder.0.join("model.json");
    let good = std::fs::read_to_string(&path).unwrap();
    for (bad, problem) in [
        ("[[1, 0], null]", "a range must be finite, and not empty"),
        ("[null]", "the sizes of state, action and units do not fit each other"),
    ] {
        let mut json: serde_json::Value = serde_json::from_str(&good).unwrap();
        json["range"] = serde_json::from_str(bad).unwrap();
        write_description(&folder.0, json);
        let error = Bnn::load(&device, &folder.0).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
