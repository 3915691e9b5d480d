//! Rollouts and estimates in models whose returns can be written down.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{evaluate, linear_model, small, transitions};
use hambo::adversary::{DqnConfig, LearningConfig, SearchConfig};
use hambo::data::{Columns, Transitions};
use hambo::dynamics::{Bnn, BnnConfig, Dynamics};
use hambo::evaluate::{Budget, EvaluationConfig, Method, Warning, dainf, mean_return};
use hambo::policy::Policy;
use hambo::rollout::{Propagation, Returns, Setting, rollout};
use hambo::run::Run;
use hambo::stats::Mean;
use hambo::task::{Initial, Task};
use hambo_engine::backend::{Device, SteinKernel};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Stream;

/// What a step pays that follows a state which is no number.
const WORST: f32 = -10.0;
/// No noise that could be seen.
const STILL: f32 = -100.0;
const ALL: [Propagation; 4] =
    [Propagation::Mean, Propagation::Moments, Propagation::DrawEveryStep, Propagation::EachMember];

fn task(reward: &str, termination: Option<&str>, bound: f32) -> Task {
    let program = |text: &str| Program::parse(&[text], 2, 2, Scope::REWARD).unwrap();
    Task {
        termination: termination.map(program),
        initial: Initial::Fixed(vec![4.0, -2.0]),
        ..Task::new("test", [2, 2], reward).unwrap().with_action_bounds(-bound, bound)
    }
}

fn proportional(gain: &str) -> Policy {
    Policy::read(&format!("builtin:proportional,gain={gain}")).unwrap()
}

/// The rollouts of a linear model from `starts`.
fn roll(
    model: &Bnn,
    task: &Task,
    gain: &str,
    propagation: Propagation,
    (horizon, discount): (usize, f64),
    starts: &[f32],
) -> Returns {
    let device = Device::cpu(Some(2)).unwrap();
    let policy = proportional(gain);
    let setting =
        Setting { task, policy: &policy, horizon, discount, worst_reward: WORST, tail: None };
    rollout(&device, model, &setting, propagation, starts, Stream::new(1), &Run::default()).unwrap()
}

fn data() -> Transitions {
    transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]])
}

fn assert_close(actual: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((actual - expected).abs() <= tolerance, "{what}: {actual} instead of {expected}");
}

/// Standard deviation of single returns.
fn deviation(returns: &Returns) -> f64 {
    let values = returns.values.iter().map(|&r| f64::from(r));
    Mean::of(values.clone()).std_error * (values.len() as f64).sqrt()
}

/// Σ γᵗ s₀ (1 − gain)ᵗ
fn geometric(s: f64, gain: f64, horizon: usize, discount: f64) -> f64 {
    (0..horizon).map(|t| s * (discount * (1.0 - gain)).powi(t as i32)).sum()
}

#[test]
fn returns_are_those_of_the_closed_form() {
    let device = Device::cpu(Some(2)).unwrap();
    let gains = [0.5, 1.0, 1.25];
    let model = linear_model(&device, &gains, STILL);
    let linear = task("s[0]", None, 100.0);
    for discount in [1.0, 0.9] {
        let setting = (6, discount);
        // a = −0.4 s, so that member k takes s to (1 − 0.4 gₖ) s.
        let each =
            roll(&model, &linear, "0.4", Propagation::EachMember, setting, &[4.0, -2.0, 1.0, 0.0]);
        for (k, &g) in gains.iter().enumerate() {
            for (start, s) in [4.0, 1.0].into_iter().enumerate() {
                let expected = geometric(s, 0.4 * f64::from(g), 6, discount);
                let value = f64::from(each.values[k * 2 + start]);
                assert_close(value, expected, 1e-5, "one member's return");
            }
        }
        let mean = roll(&model, &linear, "0.4", Propagation::Mean, setting, &[4.0, -2.0]);
        let expected = geometric(4.0, 0.4 * (0.5 + 1.0 + 1.25) / 3.0, 6, discount);
        assert_close(mean.values[0].into(), expected, 1e-5, "the mean's return");
    }
    // Actions are limited before they act: s falls by 1 a step.
    let bounded = task("s[0] + a[0] + n[0]", None, 1.0);
    let model = linear_model(&device, &[1.0], STILL);
    for propagation in ALL {
        let returns = roll(&model, &bounded, "0.5", propagation, (2, 1.0), &[4.0, 9.0]);
        assert_close(
            returns.values[0].into(),
            (4.0 - 1.0 + 3.0) + (3.0 - 1.0 + 2.0),
            1e-5,
            "bounded",
        );
    }
}

#[test]
fn noise_enters_as_each_propagation_says() {
    let device = Device::cpu(Some(2)).unwrap();
    let gains = [0.5f32, 1.5];
    let model = linear_model(&device, &gains, -1.5);
    let noise = (-1.5f64).exp().ln_1p();
    let n = 20_000;
    let starts = [2.0, 0.0].repeat(n);
    let returns = |propagation, horizon| {
        roll(&model, &task("n[0]", None, 100.0), "0.5", propagation, (horizon, 1.0), &starts)
    };
    // One step from s = 2 with a = −1: the members say 1.5 and 0.5, so σ_e = 0.5.
    for propagation in [Propagation::Moments, Propagation::DrawEveryStep] {
        let (r, mixed) = (returns(propagation, 1), (0.25 + noise * noise).sqrt());
        let m = mean_return(&r);
        assert_close(m.value, 1.0, 4.0 * m.std_error, "the mixture's mean");
        assert_close(deviation(&r), mixed, 0.02 * mixed, "the mixture's deviation");
        let fourth =
            r.values.iter().map(|&v| ((f64::from(v) - m.value) / mixed).powi(4)).sum::<f64>();
        // 3 for one Gaussian; the mixture of two has (b⁴ + 6b²ν² + 3ν⁴) / (b² + ν²)² with b = 0.5.
        let mixture = (0.0625 + 1.5 * noise.powi(2) + 3.0 * noise.powi(4)) / mixed.powi(4);
        let expected = if matches!(propagation, Propagation::Moments) { 3.0 } else { mixture };
        assert_close(fourth / n as f64, expected, 0.15, "the fourth moment");
    }
    let each = returns(Propagation::EachMember, 1);
    for (k, expected) in [1.5, 0.5].into_iter().enumerate() {
        let of_member = each.of_member(k, 2);
        let m = mean_return(&of_member);
        assert_close(m.value, expected, 4.0 * m.std_error, "a member's mean");
        assert_close(deviation(&of_member), noise, 0.02 * noise, "a member's deviation");
    }
    // Common random numbers: in a linear model the members' returns differ by a number that is no accident.
    let difference = |l: usize| each.values[l] - each.values[n + l];
    assert!((0..n).all(|l| (difference(l) - 1.0).abs() < 1e-5), "all members see the same noise");
    let first = f64::from(each.values[0]);
    assert!(
        each.values[..n].iter().any(|&v| (f64::from(v) - first).abs() > 0.1),
        "rows see different noise"
    );

    // E of the return under TSinf is the mean over the members.
    let each = returns(Propagation::EachMember, 5);
    let members: Vec<f64> = (0..2).map(|k| mean_return(&each.of_member(k, 2)).value).collect();
    let sampled = mean_return(&each.one_member_each(2));
    assert_close(sampled.value, 0.5 * (members[0] + members[1]), 4.0 * sampled.std_error, "TSinf");
    let exact = [0.75f64, 0.25].map(|c| (1..=5).map(|t| 2.0 * c.powi(t)).sum::<f64>());
    assert_close(
        sampled.value,
        0.5 * (exact[0] + exact[1]),
        4.0 * sampled.std_error,
        "TSinf, exactly",
    );
    // Without noise and with as many rows for every member, exactly so.
    let still = linear_model(&device, &gains, STILL);
    let each =
        roll(&still, &task("s[0]", None, 9.0), "0.5", Propagation::EachMember, (5, 1.0), &starts);
    let members: Vec<f64> = (0..2).map(|k| mean_return(&each.of_member(k, 2)).value).collect();
    let sampled = mean_return(&each.one_member_each(2)).value;
    assert_close(sampled, 0.5 * (members[0] + members[1]), 1e-6, "TSinf without noise");
}

#[test]
fn no_reward_follows_a_terminal_state() {
    let device = Device::cpu(Some(2)).unwrap();
    let model = linear_model(&device, &[1.0, 1.0], STILL);
    // s = 4, 2, 1, ½, …: the step from 2 to 1 ends the first trajectory, the second never ends.
    let ending = task("s[0]", Some("n[0] < 1.5 && n[0] > 0"), 100.0);
    for propagation in ALL {
        let r = roll(&model, &ending, "0.5", propagation, (30, 1.0), &[4.0, 0.0, -4.0, 0.0]);
        assert_close(r.values[0].into(), 6.0, 1e-5, "ended");
        assert_close(r.values[1].into(), -8.0, 1e-4, "running");
        assert_eq!(r.diverged_count(), 0);
    }
    // Where all members would end at once, only rewards before count, in every member.
    let r = roll(&model, &ending, "0.5", Propagation::EachMember, (1, 1.0), &[2.5, 0.0]);
    assert_eq!(r.values, [2.5, 2.5]);
    // What would overflow after the end does no harm.
    let ending = task("1", Some("n[0] > 1e20"), f32::INFINITY);
    let r = roll(&model, &ending, "-1e25", Propagation::Mean, (30, 1.0), &[1.0, 1.0]);
    assert_eq!((r.values[0], r.diverged[0]), (1.0, false));
}

#[test]
fn a_diverged_rollout_is_worth_nothing_and_never_nan() {
    let device = Device::cpu(Some(2)).unwrap();
    // Members that agree: the square of a disagreement would leave the numbers one step before the state does.
    let model = linear_model(&device, &[1.0, 1.0], -1.0);
    for propagation in ALL {
        // s = 1, 10³⁰, ∞: that is out of any range.
        let bounded = task("-1 - abs(s[0]) / (1 + abs(s[0]))", None, f32::INFINITY);
        let r = roll(&model, &bounded, "-1e30", propagation, (10, 1.0), &[1.0, 0.0, 0.0, 0.0]);
        let per_member = r.values.chunks(2).zip(r.left.chunks(2));
        for (values, left) in per_member {
            assert_eq!((values[0], left[0]), (-1.5 + 9.0 * WORST, true));
        }
        // A return is −∞ where a reward overflows, is not defined, or adds up to more than a number can hold.
        let lost =
            [("-s[0]^4", "-1e12"), ("s[0]^4", "-1e12"), ("log(-1 - s[0]^2)", "1"), ("3e38", "0")];
        for (reward, gain) in lost {
            let task = task(reward, None, f32::INFINITY);
            let r = roll(&model, &task, gain, propagation, (10, 1.0), &[1.0, 0.0]);
            assert_eq!((r.values[0], r.diverged[0]), (f32::NEG_INFINITY, true), "{reward}");
            let mean = mean_return(&r);
            assert_eq!((mean.value, mean.std_error), (f64::NEG_INFINITY, f64::INFINITY));
        }
        // What ends an episode may be undefined, too: that is no end that keeps what was earned.
        let undefined = task("1", Some("log(-1 - s[0]^2)"), 1.0);
        let r = roll(&model, &undefined, "1", propagation, (10, 1.0), &[1.0, 0.0]);
        assert_eq!((r.values[0], r.diverged[0]), (f32::NEG_INFINITY, true));
        // Infinite actions are limited as others are.
        let limited = task("1", None, 1.0);
        let r = roll(&model, &limited, "1e38", propagation, (10, 1.0), &[1e38, 0.0]);
        assert_eq!((r.values[0], r.diverged[0]), (10.0, false));
    }
}

#[test]
fn dainf_does_not_lose_a_particle_that_diverged() {
    let returns = |values: &[f32]| {
        let all = vec![true; values.len()];
        Returns {
            values: values.to_vec(),
            diverged: all.clone(),
            left: all.clone(),
            far: all,
            folds: 1,
        }
    };
    let budget = Budget::new(0.05).unwrap();
    let e = dainf(&returns(&[1.0, 2.0, f32::NEG_INFINITY, 0.0, 3.0, 4.0]), 3, (budget, 0.0));
    assert_eq!((e.value, e.lower_bound), (f64::NEG_INFINITY, Some(f64::NEG_INFINITY)));
    let e = dainf(&returns(&[1.0, 2.0, f32::MIN, 0.0, 3.0, 4.0]), 3, (budget, 0.0));
    assert!(e.value < -1e38 && e.lower_bound.unwrap() < e.value && e.std_error.is_finite());
}

#[test]
fn a_learned_deterministic_system_gives_its_closed_form_return() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = transitions::<2, 2>(3000, |s, a, _| [s[0] + 0.5 * a[0], 0.9 * s[1] + 0.5 * a[1]]);
    let config = BnnConfig { kernel: SteinKernel::Median, ..small(3, 2000) };
    let model = common::fit(&device, &data, &config);
    let mut task = task("-(s[0]^2 + s[1]^2)", None, 1.0);
    task.initial = Initial::Fixed(vec![0.8, -0.6]);
    // a = −s: s₀ halves, s₁ becomes 0.4 of itself.
    let (horizon, discount) = (12, 0.95f64);
    let truth: f64 = (0..horizon as i32)
        .map(|t| -(0.64 * 0.25f64.powi(t) + 0.36 * 0.16f64.powi(t)) * discount.powi(t))
        .sum();
    let question = EvaluationConfig {
        horizon,
        discount,
        rollouts: 300,
        methods: without_search(),
        ..Default::default()
    };
    let policy = proportional("1");
    let evaluation = evaluate(&device, &data, &model, &task, &policy, &question).unwrap();
    for e in &evaluation.estimates {
        assert_close(e.value, truth, 0.03 * truth.abs(), e.method.name());
        assert_eq!(e.diverged_rollouts, 0);
    }
    let conservative = &evaluation.estimates[0];
    assert_eq!(conservative.method, Method::DaInf);
    assert_eq!(conservative.particles.len(), 3);
    assert!(conservative.particles.iter().all(|&p| conservative.value <= p));
    assert!(conservative.lower_bound.unwrap() <= conservative.value);
    let sampled = evaluation.estimates.iter().find(|e| e.method == Method::TsInf).unwrap();
    let mean = conservative.particles.iter().sum::<f64>() / 3.0;
    assert_close(sampled.value, mean, 5.0 * sampled.std_error + 1e-6, "TSinf");
}

#[test]
fn a_learned_reward_gives_the_closed_form_return() {
    let device = Device::cpu(Some(2)).unwrap();
    let known = transitions::<2, 2>(3000, |s, a, _| [s[0] + 0.5 * a[0], 0.9 * s[1] + 0.5 * a[1]]);
    let pays = |row: usize| {
        let (s, a) = (known.state(row), known.action(row));
        s[0] - 2.0 * s[1] + 0.5 * a[0]
    };
    let data = Transitions::new(Columns {
        state_dim: 2,
        action_dim: 2,
        states: known.states().to_vec(),
        actions: known.actions().to_vec(),
        rewards: (0..known.len()).map(pays).collect(),
        next_states: known.next_states().to_vec(),
        terminals: known.terminals().to_vec(),
        timeouts: known.timeouts().to_vec(),
        episode_starts: vec![0],
        ..Default::default()
    })
    .unwrap();
    let mut task = task("r", None, 1.0);
    task.initial = Initial::Fixed(vec![0.8, -0.6]);
    let (horizon, discount) = (12, 0.95f64);
    // a = −s: r = 0.5 s₀ − 2 s₁ with s₀ halved and s₁ at 0.4 of itself in every step.
    let truth: f64 = (0..horizon as i32)
        .map(|t| (0.4 * 0.5f64.powi(t) + 1.2 * 0.4f64.powi(t)) * discount.powi(t))
        .sum();
    let question = EvaluationConfig {
        horizon,
        discount,
        rollouts: 300,
        methods: without_search(),
        ..Default::default()
    };
    let without = common::fit(&device, &data, &small(2, 50));
    let error =
        evaluate(&device, &data, &without, &task, &proportional("1"), &question).unwrap_err();
    assert!(error.to_string().contains("which this model does not predict"), "{error}");

    let config = BnnConfig { kernel: SteinKernel::Median, reward: true, ..small(3, 2000) };
    let model = common::fit(&device, &data, &config);
    assert_eq!((model.layout().observed, model.state_dim(), model.tau().len()), (2, 3, 3));
    let evaluation =
        evaluate(&device, &data, &model, &task, &proportional("1"), &question).unwrap();
    for e in &evaluation.estimates {
        assert_close(e.value, truth, 0.05 * truth.abs(), e.method.name());
    }
    let folder = common::Folder::new("learned-reward");
    model.save(&device, &folder.0).unwrap();
    let loaded = Bnn::load(&device, &folder.0).unwrap();
    let again = evaluate(&device, &data, &loaded, &task, &proportional("1"), &question).unwrap();
    assert_eq!(again.estimates, evaluation.estimates, "bit for bit");
}

#[test]
fn divergence_is_reported() {
    let device = Device::cpu(Some(2)).unwrap();
    let model = linear_model(&device, &[1.0, 0.5], -1.0);
    let task = task("-1 - log(12 - abs(s[0]))", None, f32::INFINITY);
    let question = EvaluationConfig {
        horizon: 10,
        rollouts: 100,
        methods: without_search(),
        ..Default::default()
    };
    let evaluation =
        evaluate(&device, &data(), &model, &task, &proportional("-9"), &question).unwrap();
    for e in &evaluation.estimates {
        let all = if e.method == Method::DaInf { 200 } else { 100 };
        assert_eq!(e.diverged_rollouts, all, "{}", e.method.name());
        assert_eq!((e.value, e.std_error), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(e.lower_bound, e.method.is_conservative().then_some(f64::NEG_INFINITY));
        let warning = format!("{}: {all} trajectories left the finite numbers", e.method.name());
        assert!(
            evaluation.warnings.iter().any(|w| w.to_string().starts_with(&warning)),
            "{:?}",
            evaluation.warnings
        );
    }
}

#[test]
fn with_one_particle_switching_is_the_worst_particle() {
    let device = Device::cpu(Some(2)).unwrap();
    let model = linear_model(&device, &[0.7], -1.0);
    let task = task("-hypot(s[0], s[1])", None, 1.0);
    let methods = vec![Method::Da1, Method::DaInf];
    let question = EvaluationConfig { horizon: 10, rollouts: 200, methods, ..Default::default() };
    let evaluation =
        evaluate(&device, &data(), &model, &task, &proportional("1"), &question).unwrap();
    let [da1, dainf] = evaluation.estimates.as_slice() else {
        panic!("two methods were asked for")
    };
    assert_eq!(
        (da1.value, da1.std_error, da1.lower_bound),
        (dainf.value, dainf.std_error, dainf.lower_bound)
    );
    assert_eq!(da1.converged, Some(true));
    assert_eq!(evaluation.search_members.unwrap().iterations, 0);
    assert!(evaluation.warnings.contains(&Warning::NothingToChoose), "{:?}", evaluation.warnings);
}

#[test]
fn switching_particles_is_not_above_the_worst_of_them() {
    let device = Device::cpu(Some(2)).unwrap();
    // One particle goes too far where the other stays behind: the worst is to overshoot again and again.
    let model = linear_model(&device, &[0.2, 1.9], -6.0);
    let task = Task { worst_reward: Some(-100.0), ..task("-hypot(s[0], s[1])", None, 1.0) };
    let learning = LearningConfig {
        rounds: 2,
        episodes: 250,
        updates: 100,
        batch: 64,
        hidden: vec![16],
        ..Default::default()
    };
    let search =
        SearchConfig { dqn: DqnConfig { learning, ..Default::default() }, ..Default::default() };
    let methods = vec![Method::Da1, Method::DaInf, Method::Ts1];
    let question =
        EvaluationConfig { horizon: 8, rollouts: 400, methods, search, ..Default::default() };
    let evaluation =
        evaluate(&device, &data(), &model, &task, &proportional("1"), &question).unwrap();
    let [da1, dainf, ts1] = evaluation.estimates.as_slice() else {
        panic!("three methods were asked for")
    };
    assert!(da1.method.is_conservative() && da1.lower_bound.unwrap() < da1.value);
    assert!(da1.value <= dainf.value + 3.0 * dainf.std_error && dainf.value < ts1.value);
    let report = evaluation.search_members.unwrap();
    assert_eq!((report.candidates.len(), report.iterations), (2 + 4, 2));
    assert!(report.candidates.iter().all(|c| report.lowest <= c.value));
}

/// The methods whose value a closed form can give: no adversary is trained.
fn without_search() -> Vec<Method> {
    vec![Method::DaInf, Method::Ds, Method::Ts1, Method::TsInf, Method::Mean]
}
