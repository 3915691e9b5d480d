//! What is true of a bound whatever the system: held against small random ones, which stay where the logs are.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{evaluate, linear_model_with, transitions};
use hambo::adversary::SearchConfig;
use hambo::confidence::Beta;
use hambo::evaluate::{EvaluationConfig, Method};
use hambo::policy::Policy;
use hambo::task::{Initial, Task};
use hambo_engine::backend::Device;
use hambo_engine::rng::Stream;

/// A linear system with members that disagree, a policy that leads to the origin, and where it starts.
#[derive(Clone, Debug)]
struct System {
    gains: [f32; 3],
    tau: f32,
    policy: f64,
    /// Corners of the box of initial states.
    start: [[f32; 2]; 2],
    reward: String,
}

const HORIZON: usize = 8;

/// Seeds of the systems: four, or as many as `HAMBO_SYSTEMS` says.
fn systems() -> std::ops::Range<u64> {
    0..std::env::var("HAMBO_SYSTEMS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

impl System {
    fn random(seed: u64) -> System {
        let mut generator = Stream::new(seed).child("system").generator();
        let mut range = |low, high| generator.range(low, high);
        let gains = [0; 3].map(|_| range(0.5, 1.5) as f32);
        let low = [range(-0.6, -0.2) as f32, range(-0.6, -0.2) as f32];
        let high = [range(0.2, 0.6) as f32, range(0.2, 0.6) as f32];
        let weights = [range(-1.0, 1.0), range(-1.0, 1.0)];
        System {
            gains,
            tau: 1.0,
            policy: range(0.2, 0.5),
            start: [low, high],
            reward: format!("({:.3}*n[0] + {:.3}*n[1] - 0.5*n[0]^2)", weights[0], weights[1]),
        }
    }

    /// The bounds of CA and DAinf; −∞ where there is none.
    fn bounds(&self, beta: f64, delta: f64) -> [f64; 2] {
        let device = Device::cpu(Some(1)).unwrap();
        let data = transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
        let model = linear_model_with(&device, &self.gains, -4.0, Some(self.tau));
        let [low, high] = self.start.map(|corner| corner.to_vec());
        let task = Task {
            initial: Initial::Box { low, high, map: None },
            ..Task::new("random", [2, 2], &self.reward).unwrap().with_action_bounds(-1.0, 1.0)
        };
        let spec = format!("builtin:proportional,gain={}", self.policy);
        let policy = Policy::read(&spec).unwrap();
        let search =
            SearchConfig { hidden: vec![16], batch: 32, evaluation: 100, ..Default::default() };
        let config = EvaluationConfig {
            horizon: HORIZON,
            methods: vec![Method::Ca, Method::DaInf],
            delta,
            rollouts: 500,
            beta: Beta::Fixed(beta),
            search,
            ..Default::default()
        };
        let evaluation = evaluate(&device, &data, &model, &task, &policy, &config).unwrap();
        let bound = |i: usize| evaluation.estimates[i].lower_bound.unwrap_or(f64::NEG_INFINITY);
        [bound(0), bound(1)]
    }
}

/// An error if a bound of the second is above that of the first.
fn falls(what: &str, before: [f64; 2], after: [f64; 2]) {
    for (method, (before, after)) in ["CA", "DAinf"].into_iter().zip(before.into_iter().zip(after))
    {
        assert!(after <= before, "{what}: the bound of {method} rises from {before} to {after}");
    }
}

#[test]
fn it_falls_with_the_failure_probability() {
    for seed in systems() {
        let system = System::random(seed);
        let bounds = [0.5, 0.1, 0.01, 1e-6].map(|delta| system.bounds(1.0, delta));
        bounds.windows(2).for_each(|b| falls(&format!("{system:?}"), b[0], b[1]));
        assert!(bounds[3][0] < bounds[0][0] && bounds[3][1] < bounds[0][1]);
    }
}

#[test]
fn it_falls_with_the_size_of_the_set_and_the_temperature() {
    for seed in systems() {
        let system = System::random(seed);
        let by_beta = [0.0, 0.5, 1.0, 2.0, 4.0].map(|beta| system.bounds(beta, 0.05));
        by_beta.windows(2).for_each(|b| falls(&format!("{system:?}"), b[0], b[1]));
        let by_tau =
            [0.0, 0.5, 1.0, 2.0, 4.0].map(|tau| System { tau, ..system.clone() }.bounds(1.0, 0.05));
        by_tau.windows(2).for_each(|b| falls(&format!("{system:?}"), b[0], b[1]));
        assert!(by_beta[4][0] < by_beta[0][0], "a set of some size costs something");
    }
}

/// DAinf has nothing to search for. CA's adversary counts as found when it hardly improves, in shares of what it takes and
/// of the return ([`SearchConfig::tolerance`]).
#[test]
fn it_scales_with_the_reward_and_shifts_with_a_constant() {
    let tolerance = SearchConfig::default().tolerance;
    for seed in systems() {
        let system = System::random(seed);
        let base = system.bounds(1.0, 0.05);
        let check = |reward: String, expected: [f64; 2], tolerances: [f64; 2]| {
            let found = System { reward: reward.clone(), ..system.clone() }.bounds(1.0, 0.05);
            for i in 0..2 {
                let unit = expected[0].abs() + expected[1].abs(); // either of them may be near 0
                let off = (found[i] - expected[i]).abs() / unit;
                assert!(off <= tolerances[i], "{reward}: {found:?} instead of {expected:?}");
            }
        };
        for factor in [4.0, 0.5, 3.0] {
            let reward = format!("{factor}*{}", system.reward);
            check(reward, base.map(|bound| factor * bound), [tolerance, 1e-4]);
        }
        for constant in [1.0, -2.5] {
            let reward = format!("({} + {constant})", system.reward);
            let shift = HORIZON as f64 * constant;
            check(reward, base.map(|bound| bound + shift), [0.1 * tolerance, 1e-4]);
        }
    }
}

#[test]
fn it_falls_with_the_share_of_trajectories_that_leave_the_numbers() {
    for seed in systems() {
        // Starts beyond the log, whose own rewards must be defined.
        let mut system = System::random(seed);
        system.start.iter_mut().for_each(|corner| corner[0] += 1.5);
        // Not defined for states beyond a limit that comes nearer, from none of the starts to nearly all of them.
        let bounds = [4.0, 2.0, 1.5, 1.01].map(|limit| {
            let reward = format!("{} + 0*log({limit} - s[0])", system.reward);
            System { reward, ..system.clone() }.bounds(1.0, 0.05)
        });
        bounds.windows(2).for_each(|b| falls(&format!("{system:?}"), b[0], b[1]));
        assert!(bounds[0].iter().all(|bound| bound.is_finite()), "{bounds:?}");
        assert!(bounds[3].iter().all(|bound| *bound == f64::NEG_INFINITY), "{bounds:?}");
    }
}
