//! Expressions, and random numbers.

use super::host::{all, contents, numbers};
use crate::backend::Device;
use crate::expression::{Program, Scope};
use crate::rng::Stream;

/// Every operation of the language, and its gradient.
pub(super) fn expressions(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    const TEXTS: [&str; 4] = [
        "sin(s[0]) + cos(s[1]) * tan(0.3*s[2]) - s[0]^3 / (1 + abs(s[1])) + exp(-n[0]^2)",
        "tanh(a[0]) + sigmoid(a[1]) + sqrt(abs(s[0])) + log(1 + s[1]^2) + wrap(3*s[2]) + floor(n[1])",
        "if(s[0] < s[1] && !(n[2] <= 0), min(s[0], a[0]), max(n[1], a[1])) + sign(s[2]) * atan2(s[0], s[1])",
        "asin(tanh(s[0])) + acos(tanh(s[1])) + atan(s[2]) + abs(n[0])^1.5 + (s[0] > 0 || a[0] == a[1])",
    ];
    let mut draw = numbers(7);
    let [states, next] = [0, 1].map(|_| device.upload(&draw(rows * 3)));
    let actions = device.upload(&draw(rows * 2));
    let mut results = Vec::new();
    for text in TEXTS {
        let Ok(program) = Program::parse(&[text], 3, 2, Scope::REWARD) else {
            results.push(vec![f64::INFINITY]);
            continue;
        };
        let mut out = device.zeros(rows);
        device.evaluate(&program, &states, &actions, &next, &mut out);
        let weights = device.upload(&draw(rows));
        let [mut ds, mut dn] = [0, 1].map(|_| device.zeros(rows * 3));
        let mut da = device.zeros(rows * 2);
        let gradients = [&mut ds, &mut da, &mut dn];
        device.evaluate_gradient(&program, [&states, &actions, &next], &weights, gradients);
        results.extend(all(device, &[&out, &ds, &da, &dn]));
    }
    results
}

pub(super) fn random(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    let mut step = device.counter();
    device.set(&mut step, 17);
    let mut normals = device.zeros(rows * 3);
    device.normals(Stream::new(8), &step, &mut normals);
    let mut indices = device.zeros(rows);
    device.uniform_indices(Stream::new(9), &step, rows, &mut indices);
    let mut gathered = device.zeros(rows * 3);
    device.gather(&normals, 3, &indices, &mut gathered);
    let mut results = all(device, &[&normals, &gathered]);
    results.push(contents(device, &indices));
    results
}
