//! Environments against their tasks, episodes and data sets.

use crate::*;
use hambo::Result;
use hambo::data::Transitions;
use hambo::policy::Policy;
use hambo_engine::backend::Device;
use hambo_engine::expression::Scratch;
use hambo_engine::rng::Stream;

fn data_of(env: EnvName, policy: &str, steps: usize, horizon: usize) -> Result<Transitions> {
    let behavior = Behavior { policy: Policy::read(policy).unwrap(), noise: 0.3 };
    let collection = Collection { steps, horizon, stream: Stream::new(1) };
    collect(&Device::cpu(Some(1)).unwrap(), &env.spec().unwrap(), &[behavior], &collection, &())
}

fn data(env: EnvName, policy: &str, steps: usize) -> Transitions {
    data_of(env, policy, steps, env.spec().unwrap().time_limit).unwrap()
}

const CASES: [(EnvName, &str); 3] = [
    (EnvName::PointSafety, "builtin:waypoint"),
    (EnvName::Point, "builtin:proportional"),
    (EnvName::Pendulum, "builtin:swing-up"),
];

/// The environment computes in f64 the reward that the task's expression gives in f32.
#[test]
fn rewards_of_task_and_environment_agree() {
    for (env, policy) in CASES {
        let data = data(env, policy, 500);
        let task = env.task().unwrap();
        let mut rewards = vec![0.0; data.len()];
        let (s, a, n) = (data.states(), data.actions(), data.next_states());
        task.reward.evaluate(data.len(), s, a, n, &mut rewards, &mut Scratch::default()).unwrap();
        for (ours, logged) in rewards.iter().zip(data.rewards()) {
            assert!(
                (ours - logged).abs() < 2e-4 * (1.0 + logged.abs()),
                "{env:?}: {ours} and {logged}"
            );
        }
    }
}

#[test]
fn initial_states_of_task_and_environment_agree_in_their_moments() {
    for (env, _) in CASES {
        let (task, spec) = (env.task().unwrap(), env.spec().unwrap());
        let n = 20_000;
        let few = data(env, CASES.iter().find(|c| c.0 == env).unwrap().1, 2);
        let drawn = task.initial.sample(n, &few, Stream::new(1)).unwrap();
        let mut reset = vec![0.0; n * task.state_dim];
        for (i, state) in reset.chunks_exact_mut(task.state_dim).enumerate() {
            let mut instance = spec.make().unwrap();
            instance.reset(&mut Stream::new(2).index(i as u64).generator());
            instance.observe(state);
        }
        for d in 0..task.state_dim {
            let moments = |v: &[f32]| {
                let column = || v.iter().skip(d).step_by(task.state_dim).map(|&x| f64::from(x));
                let mean = column().sum::<f64>() / n as f64;
                (mean, (column().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt())
            };
            let ((m1, s1), (m2, s2)) = (moments(&drawn), moments(&reset));
            let tolerance = 5.0 * s1.max(s2) / (n as f64).sqrt();
            assert!((m1 - m2).abs() <= tolerance && (s1 - s2).abs() <= tolerance, "{env:?} {d}");
        }
    }
}

/// Episodes from given states are those that started there by themselves.
#[test]
fn episodes_from_given_starts_pay_the_same() {
    let device = Device::cpu(Some(1)).unwrap();
    for (env, policy) in &CASES[1..] {
        let policy = Policy::read(policy).unwrap();
        let spec = env.spec().unwrap();
        let (mut starts, mut state) = (Vec::new(), vec![0.0; spec.task.state_dim]);
        for episode in 0..5 {
            let mut instance = spec.make().unwrap();
            instance.reset(&mut Stream::new(3).index(episode).generator());
            instance.observe(&mut state);
            starts.extend_from_slice(&state);
        }
        let episodes = Episodes { horizon: 40, count: 5, discount: 0.99, stream: Stream::new(3) };
        let own = simulate(&device, &spec, &policy, &episodes, &()).unwrap().values;
        let given = simulate_from(&device, &spec, &policy, &starts, &episodes).unwrap();
        for (own, given) in own.iter().zip(&given) {
            assert!((own - given).abs() < 1e-3 * own.abs(), "{env:?}: {own} and {given}");
        }
    }
}

#[test]
fn scattered_transitions_are_steps() {
    let data =
        scatter(&EnvName::Point.spec().unwrap(), &[3.0, -4.0, 30.0, 0.0], &[0.5, 1.0, -2.0, 0.0])
            .unwrap();
    assert_eq!(data.next_states(), [3.5, -3.0, 29.0, 0.0]);
    assert_eq!((data.rewards(), data.episodes().len()), ([-5.0, -30.0].as_slice(), 2));
}

#[test]
fn collected_data_are_whole_and_actions_in_bounds() {
    let data = data(EnvName::Pendulum, "builtin:swing-up", 450);
    assert_eq!(data.len(), 450);
    assert_eq!(data.episodes().collect::<Vec<_>>(), [0..200, 200..400, 400..450]);
    let timeouts: Vec<usize> = (0..450).filter(|&i| data.timeouts()[i]).collect();
    assert_eq!(timeouts, [199, 399, 449]);
    assert!(data.actions().iter().all(|a| a.abs() <= 2.0));
    assert_eq!(data.next_state(0), data.state(1));
}

#[test]
fn episodes_are_cut_at_the_horizon() {
    let of = |horizon| data_of(EnvName::Pendulum, "builtin:swing-up", 120, horizon);
    let data = of(50).unwrap();
    assert_eq!(data.episodes().collect::<Vec<_>>(), [0..50, 50..100, 100..120]);
    assert!(data.timeouts()[49] && !data.terminals()[49]);
    assert!(of(0).unwrap_err().to_string().contains("horizon"));
}
