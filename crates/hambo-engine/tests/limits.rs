//! Limits of trajectories, to the digit.

#![allow(clippy::unwrap_used)]

use hambo_engine::backend::{
    Buffer, Device, Exit, Gaussian, Limits, Outcome, Prediction, Status, Step,
};

/// One step of trajectories `[rows, 2]` that may not leave ±2 in their first entry, the second being a sum that may
/// change by at most 3: rewards, states, returns and status afterwards.
fn end(
    next: &[f32],
    (rewards, ended): (&[f32], f32),
    (worst, may_end): (f32, bool),
) -> (Vec<f32>, Vec<f32>, Vec<f32>, Vec<u32>) {
    let device = Device::cpu(Some(1)).unwrap();
    let rows = rewards.len();
    let [low, high] = [[-2.0, -3.0], [2.0, 3.0]].map(|x| device.upload(&x));
    let limits = Limits { low: &low, high: &high, sums_from: 1 };
    let (discounts, remaining) = (device.upload(&[1.0, 0.5]), device.upload(&[0.75, 0.5]));
    let exit = Some(Exit { limits, worst, remaining: &remaining, may_end });
    let mut step = device.counter();
    device.advance(&mut step);
    let [next, mut rewards] = [next, rewards].map(|x| device.upload(x));
    let ended = device.adopt(vec![ended; rows]);
    let (mut states, mut returns) =
        (device.adopt(vec![0.0; 2 * rows]), device.adopt(vec![10.0; rows]));
    let mut status: Buffer<u32> = device.zeros(rows);
    device.end_step(
        (&discounts, &step),
        &Outcome { next: &next, ended: Some(&ended), exit },
        &mut rewards,
        &mut states,
        &mut returns,
        &mut status,
    );
    let down = |buffer: &Buffer| device.download(buffer).unwrap();
    (down(&rewards), down(&states), down(&returns), device.download(&status).unwrap())
}

const RUNNING: u32 = Status::Running as u32;
const LEFT: u32 = Status::Left as u32;
const DIVERGED: u32 = Status::Diverged as u32;

#[test]
fn who_reaches_the_limits_gets_the_worst_reward_for_all_that_remains() {
    // Inside, at a limit, at the other one paying less than the worst, and no number.
    let next = [1.9, 99.0, 2.0, 1.0, -2.0, 1.0, f32::NAN, 1.0, 0.0, f32::INFINITY];
    let (rewards, states, returns, status) =
        end(&next, (&[1.0, 1.0, -8.0, 1.0, f32::NAN], 0.0), (-4.0, false));
    assert_eq!(status, [RUNNING, LEFT, LEFT, LEFT, LEFT]);
    assert_eq!(rewards, [1.0, -6.0, -12.0, -6.0, -6.0], "a step and half a step that remains");
    assert_eq!(returns, [10.5, 7.0, 4.0, 7.0, 7.0], "discounted by a half");
    assert_eq!(states, [1.9, 99.0, 2.0, 1.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn leaving_pays_nothing_where_it_may_be_the_end() {
    let next = [2.0, 0.0];
    assert_eq!(end(&next, (&[9.0], 0.0), (4.0, false)).0, [6.0]);
    assert_eq!(end(&next, (&[9.0], 0.0), (4.0, true)).0, [4.0]);
    assert_eq!(end(&next, (&[9.0], 1.0), (-4.0, true)).0, [-6.0], "an end out there is none");
    assert_eq!(end(&next, (&[9.0], f32::NAN), (-4.0, true)).3, [LEFT]);
}

#[test]
fn what_is_undefined_inside_is_still_worth_nothing() {
    let next = [1.0, 0.0];
    for (reward, ended) in [(f32::NAN, 0.0), (f32::INFINITY, 0.0), (1.0, f32::NAN)] {
        let (_, _, returns, status) = end(&next, (&[reward], ended), (-4.0, true));
        assert_eq!((returns[0], status[0]), (f32::NEG_INFINITY, DIVERGED));
    }
}

#[test]
fn predictions_keep_to_their_limits_and_sums_to_steps_within_them() {
    let device = Device::cpu(Some(1)).unwrap();
    let (head, members) = (Gaussian { dims: 2, floor: 0.0 }, 1);
    let [low, high] = [[-2.0, -3.0], [2.0, 3.0]].map(|x| device.upload(&x));
    let [scale, offset] = [[1.0; 2], [0.0; 2]].map(|x| device.upload(&x));
    let changes = [0.5, 1.0, 5.0, 9.0, -5.0, -9.0, f32::NAN, f32::NAN];
    let rows: Vec<f32> = changes.chunks(2).flat_map(|c| [c[0], c[1], 0.0, 0.0]).collect();
    let (output, states) = (device.upload(&rows), device.upload(&[1.0, 100.0].repeat(4)));
    let mut next = device.zeros(8);
    let prediction = Prediction {
        head: &head,
        members,
        output: &output,
        scale: &scale,
        offset: &offset,
        relative: true,
        limits: Some(Limits { low: &low, high: &high, sums_from: 1 }),
    };
    device.propagate(&prediction, &Step::Mean, &states, &mut next);
    let next = device.download(&next).unwrap();
    assert_eq!(next[..6], [1.5, 101.0, 2.0, 103.0, -2.0, 97.0]);
    assert!(next[6].is_nan() && next[7].is_nan());
}
