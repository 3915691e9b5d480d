//! Updates of reinforcement learning.

use super::host::{all, contents, numbers};
use crate::backend::{Buffer, Device, SquashedActions, TdTarget};
use crate::rng::Stream;

/// Losses, targets and choices of actor-critic and Q-learning.
pub(super) fn values(device: &Device, rows: usize, dims: usize) -> Vec<Vec<f64>> {
    let mut draw = numbers(5);
    let mut results = Vec::new();
    let output = device.upload(&draw(rows * 2 * dims));
    let noise = device.upload(&draw(rows * dims));
    let (mut actions, mut log_probs) = (device.zeros(rows * dims), device.zeros(rows));
    device.squash(&output, &noise, [], &mut actions, &mut log_probs);
    let width = dims + 3;
    let (seen, context) = (device.upload(&draw(2 * rows)), device.upload(&draw(rows)));
    let mut inputs = device.zeros(rows * width);
    device.squash(&output, &noise, [(&seen, 2), (&context, 1)], &mut inputs, &mut log_probs);
    let d_inputs = device.upload(&draw(2 * rows * width));
    let log_temperature = device.upload(&[-0.7]);
    let mut d_output = device.zeros(output.len());
    let drawn = SquashedActions { rows, output: &output, noise: &noise, joined: &inputs };
    device.squash_gradient(&drawn, &d_inputs, &log_temperature, &mut d_output);
    let (rewards, values) = (device.upload(&draw(rows)), device.upload(&draw(2 * rows)));
    let goes_on: Vec<f32> = (0..rows).map(|r| f32::from(u8::from(r % 3 > 0))).collect();
    let continues = device.upload(&goes_on);
    let mut targets = device.zeros(rows);
    let target = TdTarget {
        discount: 0.9,
        rewards: &rewards,
        continues: &continues,
        values: &values,
        log_probs: &log_probs,
        log_temperature: &log_temperature,
    };
    device.td_target(&target, &mut targets);
    let (mut d_values, mut losses): (Buffer, Buffer<f64>) =
        (device.zeros(2 * rows), device.zeros(2));
    device.squared_error(&values, &targets, &mut d_values, &mut losses);
    results.push(contents(device, &losses));
    results.extend(all(device, &[&actions, &inputs, &log_probs, &d_output, &targets, &d_values]));
    device.actor_loss(&values, &log_probs, &log_temperature, &mut d_values, &mut losses);
    let mut gradient = device.zeros(1);
    device.temperature_gradient(-1.5, &losses, &log_temperature, &mut gradient);
    results.push(contents(device, &losses));
    results.extend(all(device, &[&d_values, &gradient]));

    // Choices among `dims`.
    let options = device.upload(&draw(2 * rows * dims));
    let (mut choices, mut step) = (device.zeros(rows), device.counter());
    device.advance(&mut step);
    device.choose(&options, dims, 0.3, Stream::new(6), &step, &mut choices);
    let mut y = device.zeros(rows);
    device.double_q_target(0.9, &rewards, &continues, [&options, &options], dims, &mut y);
    let mut d_options = device.zeros(options.len());
    device.choice_error(&options, &choices, &y, &mut d_options, &mut losses);
    let ahead = device.upload(&draw(2 * rows * dims * dims));
    let status = goes_on.repeat(dims).iter().map(|&x| x as u32).collect();
    let (rewards, status) = (device.upload(&draw(rows * dims)), device.adopt(status));
    let mut scores = device.zeros(rows * dims);
    let discounts = device.upload(&[1.0, 0.9]);
    device.look_ahead(-0.5, (&discounts, &step), (&rewards, &status), &ahead, dims, &mut scores);
    let mut target = device.upload(&draw(rows * dims));
    device.polyak(0.1, &actions, &mut target);
    let mut joined = device.zeros(rows * (2 * dims + 1));
    device.join([(&actions, dims), (&y, 1), (&noise, dims)], &mut joined);
    results.push(contents(device, &losses));
    results.push(contents(device, &choices));
    results.extend(all(device, &[&y, &d_options, &scores, &target, &joined]));
    results
}
