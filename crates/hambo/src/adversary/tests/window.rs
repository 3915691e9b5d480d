//! β measured on windows of a log whose distance from the model is known.

use super::*;
use crate::confidence::Beta;
use crate::confidence::confidence_set;
use crate::data::Split;
use crate::run::Run;

const SEGMENT: usize = 5;

/// Episodes of two segments, each a window. Without actions nothing moves in the model. In the log s₀ falls by one number
/// at every step of the first segment and by another in the second, which then starts where it got to.
fn log(falls: [f32; 2]) -> Transitions {
    const EPISODES: usize = 4;
    let (mut states, mut next_states) = (Vec::new(), Vec::new());
    for _ in 0..EPISODES {
        let mut s = 0.0;
        for t in 0..2 * SEGMENT {
            states.extend([s, 0.0]);
            s -= falls[t / SEGMENT];
            next_states.extend([s, 0.0]);
        }
    }
    let rows = EPISODES * 2 * SEGMENT;
    Transitions::new(Columns {
        state_dim: 2,
        action_dim: 2,
        states,
        actions: vec![0.0; 2 * rows],
        rewards: vec![0.0; rows],
        next_states,
        terminals: vec![false; rows],
        timeouts: (1..=rows).map(|row| row % (2 * SEGMENT) == 0).collect(),
        episode_starts: (0..rows).step_by(2 * SEGMENT).collect(),
    })
    .unwrap()
}

fn measured(falls: [f32; 2], least: f64) -> f64 {
    let device = Device::cpu(Some(2)).unwrap();
    let data = log(falls);
    let held_out = Split {
        validation: (0..data.len() as u32).collect(),
        by_episode: true,
        ..Split::default()
    };
    let model = model(&device).holding_out(held_out);
    let task = task();
    let policy = Policy::read("builtin:proportional,gain=0").unwrap();
    let setting = Setting { task: &task, policy: &policy, horizon: 2 * SEGMENT, discount: 1.0 };
    device.run(|| {
        let world = World::new(&device, &model, setting);
        confidence_set(&world, &data, (Beta::Trajectory, least), 0.5, &Run::default())
            .unwrap()
            .1
            .beta
            .unwrap()
    })
}

/// Steps that a shift of the state at one step is paid for, summed over a segment: 0 + 1 + 2 + 3 + 4.
const PAID: f64 = 10.0;

#[test]
fn the_set_takes_from_a_window_what_the_model_overstates_in_it() {
    // The worst shifts take 3 β σ_e · 10 from each of the two segments, r = s₀ − 2 s₁.
    let taken_by_one = 2.0 * 3.0 * SPREAD * PAID;
    for (falls, overstated) in [
        ([0.06, 0.06], 2.0 * 0.06 * PAID),
        ([0.06, 0.0], 0.06 * PAID),
        // The second segment does better than the model: that does not pay for the first.
        ([0.06, -0.6], 0.06 * PAID),
        ([-0.06, -0.6], 0.0),
    ] {
        let (beta, expected) = (measured(falls, 0.0), overstated / taken_by_one);
        assert!((beta - expected).abs() <= 1e-3 * expected, "{falls:?}: {beta}, not {expected}");
    }
    assert_eq!(measured([0.06, 0.0], 0.7), 0.7);
}
