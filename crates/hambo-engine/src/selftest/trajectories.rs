//! Steps of trajectories, and back along them.

use super::host::{all, contents, numbers};
use crate::backend::{
    Buffer, Device, Exit, Gaussian, Limits, Outcome, Power, Prediction, RolloutStep, Shift, Step,
    StepKind,
};
use crate::expression::{Program, Scope};
use crate::rng::Stream;

/// A range that some of the numbers used here leave, without one for the first entry.
fn range(device: &Device, ds: usize) -> [Buffer; 2] {
    [f32::NEG_INFINITY, f32::INFINITY].map(|none| {
        let limit = |c: usize| if c == 0 { none } else { none.signum() * (1.0 + 0.01 * c as f32) };
        device.adopt((0..ds).map(limit).collect())
    })
}

/// Everything that a trajectory and the way back along it are made of.
pub(super) fn trajectory(device: &Device, rows: usize, ds: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    let (mut draw, da, head) = (numbers(4), 2, Gaussian { dims: ds, floor: 1e-3 });
    let mut results = Vec::new();
    let output = device.upload(&draw(MEMBERS * rows * 2 * ds));
    let (states, actions) = (device.upload(&draw(rows * ds)), device.upload(&draw(rows * da)));
    let positive = |values: Vec<f32>| values.iter().map(|x| x.abs() + 0.1).collect::<Vec<f32>>();
    let (mean, std) = (device.upload(&draw(ds + da)), device.adopt(positive(draw(ds + da))));
    let (scale, offset) = (device.adopt(positive(draw(ds))), device.upload(&draw(ds)));
    let noise = device.upload(&draw(rows * ds));
    let amount = device.upload(&draw(rows * ds));
    let chosen = device.adopt((0..rows as u32).map(|r| r % MEMBERS as u32).collect());

    let mut inputs = device.zeros(rows * (ds + da));
    device.standardize((&states, ds), (&actions, da), &mean, &std, &mut inputs);
    let mut moments: [Buffer; 3] = std::array::from_fn(|_| device.zeros(rows * ds));
    let [m, e, a] = &mut moments;
    device.moments(&head, MEMBERS, &output, m, e, a);
    results.extend(all(device, &[&inputs, m, e, a]));

    let shifted = |power| Step::Shifted(Shift { amount: &amount, power, noise: &noise });
    let steps = [
        Step::Mean,
        Step::Moments { noise: &noise },
        Step::Chosen { members: &chosen, noise: &noise },
        shifted(Power::Deviation),
        shifted(Power::Variance),
    ];
    let (members, relative) = (MEMBERS, true);
    let (head, output, scale, offset) = (&head, &output, &scale, &offset);
    let [lowest, highest] = &range(device, ds);
    let limits = |sums_from| Limits { low: lowest, high: highest, sums_from };
    let free = || Prediction { head, members, output, scale, offset, relative, limits: None };
    let mut next = device.zeros(rows * ds);
    for (step, relative) in steps.iter().zip([true, false, true, false, true]) {
        for limits in [Some(limits(ds - 1)), None] {
            let prediction = Prediction { relative, limits, ..free() };
            device.propagate(&prediction, step, &states, &mut next);
            results.extend(all(device, &[&next]));
        }
    }
    let prediction = free();
    let d_next = device.upload(&draw(rows * ds));
    let (mut d_output, mut d_amount) = (device.zeros(output.len()), device.zeros(rows * ds));
    for power in [Power::Deviation, Power::Variance] {
        let shift = Shift { amount: &amount, power, noise: &noise };
        device.shift_gradient(&prediction, &shift, &d_next, &mut d_output, &mut d_amount);
        results.extend(all(device, &[&d_output, &d_amount]));
    }
    let d_inputs = device.upload(&draw(MEMBERS * rows * (ds + da)));
    let (mut d_states, mut d_actions) =
        (device.upload(&draw(rows * ds)), device.upload(&draw(rows * da)));
    device.standardize_gradient(&d_inputs, &std, (&mut d_states, ds), (&mut d_actions, da));

    // Trajectories that go on, end, leave the numbers, and leave their limits.
    let mut rewards = draw(rows);
    rewards.iter_mut().step_by(7).for_each(|r| *r = f32::INFINITY);
    let mut bad = draw(rows * ds);
    bad.iter_mut().step_by(11).for_each(|r| *r = f32::NAN);
    let ends =
        |r: usize| if r % 13 == 12 { f32::NAN } else { f32::from(u8::from(r.is_multiple_of(5))) };
    let ended = device.adopt((0..rows).map(ends).collect());
    let (bad, discounts) = (device.adopt(bad), device.upload(&[1.0, 0.9, 0.81]));
    let remaining = &device.upload(&[1.71, 0.9, 0.0]);
    let (begin, running) = (draw(rows * ds), draw(rows * ds));
    for (worst, may_end) in
        [(None, true), (Some(0.3), true), (Some(0.3), false), (Some(-9.0), true)]
    {
        let (mut rewards, mut current) = (device.upload(&rewards), device.upload(&begin));
        let (mut returns, mut status) = (device.zeros(rows), device.zeros(rows));
        let mut step = device.counter();
        for next in [&bad, &next, &next] {
            let exit = worst.map(|worst| Exit {
                limits: limits(ds.div_ceil(2)),
                worst,
                remaining,
                may_end,
            });
            let (discount, outcome) =
                ((&discounts, &step), Outcome { next, ended: Some(&ended), exit });
            let done = (&mut rewards, &mut current, &mut returns);
            device.end_step(discount, &outcome, done.0, done.1, done.2, &mut status);
            device.advance(&mut step);
        }
        let mut running = device.upload(&running);
        device.still_running(&status, &mut running);
        results.extend(all(device, &[&rewards, &current, &returns, &running]));
        results.push(contents(device, &status));
    }
    results.extend(all(device, &[&d_states, &d_actions]));

    // What their ends are worth, in one group and in as many as there are rows.
    let (first, rewards) = (device.counter(), device.adopt(rewards));
    let status = device.adopt((0..rows as u32).map(|r| r % 4).collect());
    let before = device.adopt((0..rows as u32).map(|r| u32::from(r % 9 == 8)).collect());
    for groups in [1, rows] {
        let (mut to_go, mut d_end) = (device.upload(&draw(rows)), device.zeros(rows));
        for _ in 0..2 {
            let (status, weight) = ([&before, &status], (&discounts, &first));
            device.end_gradient(groups, status, weight, &rewards, &mut to_go, &mut d_end);
            results.extend(all(device, &[&to_go, &d_end]));
        }
    }

    // Policies.
    let (low, high) = (device.upload(&vec![-0.5; ds]), device.upload(&vec![0.7; ds]));
    let mut limited = device.upload(&draw(rows * ds));
    device.clamp(&low, &high, &mut limited);
    let mut slopes = device.upload(&draw(rows * ds));
    device.clamp_gradient(&low, &high, &limited, &mut slopes);
    let raw = device.upload(&draw(rows * ds));
    let mut squashed = device.upload(&device.download_or_nan(&raw));
    device.squash_to_bounds(&low, &high, 1.5, &mut squashed);
    device.squash_to_bounds_gradient(&low, &high, 1.5, &raw, &mut slopes);
    let wide = |values: Vec<f32>| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (mean64, std64) = (device.adopt(wide(draw(ds))), device.adopt(wide(positive(draw(ds)))));
    let mut normal = device.zeros(rows * ds);
    device.normalize(&raw, (&mean64, &std64), 2.0, &mut normal);
    device.normalize_gradient(&normal, &std64, 2.0, &raw, &mut slopes);
    device.scale_columns(scale, &mut normal);
    device.add(&raw, &mut normal);
    results.extend(all(device, &[&limited, &squashed, &normal, &slopes]));

    let targets = device.upload(&draw(rows * ds));
    let mut losses: Buffer<f64> = device.zeros(MEMBERS);
    for weight in [0.0, 0.5] {
        device.gaussian_nll(head, output, &targets, Some((&mut d_output, weight)), &mut losses);
        results.extend(all(device, &[&d_output]));
    }
    results.push(contents(device, &losses));
    results
}

/// What follows the networks in a step of trajectories, in every way that a step can be drawn, with and without angles
/// and an end, with and without limits, and with rows that leave them or the numbers.
pub(super) fn rollout_steps(device: &Device, rows: usize, ds: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    let program = |texts: &[&str], scope| Program::parse(texts, ds, 2, scope);
    let angles: Vec<String> =
        (0..ds).map(|i| if i == 0 { "wrap(s[0])".to_owned() } else { format!("s[{i}]") }).collect();
    let angles: Vec<&str> = angles.iter().map(String::as_str).collect();
    let (Ok(reward), Ok(termination), Ok(wrapped)) = (
        program(&["s[0] * a[1] - n[0]^2 / (1 + abs(a[0]))"], Scope::REWARD),
        program(&["n[0] > 1.5 || a[1] > 2"], Scope::REWARD),
        program(&angles, Scope::CONTROLLER),
    ) else {
        return vec![vec![f64::INFINITY]];
    };
    let (mut draw, head) = (numbers(13), Gaussian { dims: ds, floor: 1e-3 });
    let mut outputs = draw(MEMBERS * rows * 2 * ds);
    outputs.iter_mut().skip(4 * ds).step_by(60 * ds).for_each(|x| *x = f32::NAN);
    let outputs = device.adopt(outputs);
    let own = device.upload(&draw(rows * 2 * ds));
    let [starts, shifts] = [0, 1].map(|_| draw(rows * ds));
    let actions = device.upload(&draw(rows * 2));
    let units =
        [device.adopt(draw(ds).iter().map(|x| x.abs()).collect()), device.upload(&draw(ds))];
    let reach = device.upload(&draw(ds));
    let chosen = device.adopt((0..rows as u32).map(|r| r % MEMBERS as u32).collect());
    let (discounts, remaining) =
        (device.upload(&[1.0, 0.9, 0.81]), device.upload(&[1.71, 0.9, 0.0]));
    let [low, high] = &range(device, ds);
    let mut results = Vec::new();
    for (kind, limited) in (0..6).flat_map(|kind| [(kind, false), (kind, true)]) {
        // Sums are changes: they have limits where predictions are relative.
        let sums_from = if kind % 2 == 0 { ds.div_ceil(2) } else { ds };
        let limits = || limited.then_some(Limits { low, high, sums_from });
        let [mut states, mut amount] = [&starts, &shifts].map(|values| device.upload(values));
        let [mut next, mut room] = [0, 1].map(|_| device.zeros(rows * ds));
        let [mut rewards, mut ended, mut returns] = [0; 3].map(|_| device.zeros(rows));
        // Fewer rows of noise than trajectories, where that is allowed.
        let mut noise =
            device.zeros(if kind > 3 && rows.is_multiple_of(31) { 31 * ds } else { rows * ds });
        let (mut status, mut time) = (device.zeros(rows), device.counter());
        for _ in 0..3 {
            device.rollout_step(RolloutStep {
                prediction: Prediction {
                    head: &head,
                    members: MEMBERS,
                    output: if kind == 5 { &own } else { &outputs },
                    scale: &units[0],
                    offset: &units[1],
                    relative: kind % 2 == 0,
                    limits: limits(),
                },
                kind: match kind {
                    0 => StepKind::Mean,
                    1 => StepKind::Moments,
                    2 => StepKind::Chosen(&chosen),
                    3 => StepKind::Shifted {
                        amount: &mut amount,
                        reach: &reach,
                        power: Power::Variance,
                    },
                    4 => StepKind::Shifted {
                        amount: &mut amount,
                        reach: &reach,
                        power: Power::Deviation,
                    },
                    _ => StepKind::Own,
                },
                noise_stream: Stream::new(14),
                noise: &mut noise,
                wrapped: (kind % 3 == 0).then_some((&wrapped, &mut room)),
                reward: &reward,
                termination: (kind != 1).then_some(&termination),
                exit: limits().map(|limits| Exit {
                    limits,
                    worst: 0.5,
                    remaining: &remaining,
                    may_end: kind != 1,
                }),
                discounts: &discounts,
                time: &mut time,
                states: &mut states,
                actions: &actions,
                next: &mut next,
                rewards: &mut rewards,
                ended: &mut ended,
                returns: &mut returns,
                status: &mut status,
            });
        }
        results.extend(all(device, &[&states, &next, &amount, &rewards, &returns]));
        results.push(contents(device, &status));
    }
    results
}
