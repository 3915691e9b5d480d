//! Steps of optimizers, and whole trainings.

use super::host::{all, contents, numbers};
use crate::backend::{Activation, Adam, Device, Gaussian, Input, Muon, Shape, SteinKernel, Svgd};
use crate::nn::{BatchSizes, Ensemble, Minibatches, Optimizer, PassBuffers};
use crate::rng::Stream;

pub(super) const SMALL: &[usize] = &[2, 64, 64, 2];
pub(super) const PAPERS: &[usize] = &[2, 256, 256, 256, 256, 2];

pub(super) fn svgd(
    device: &Device,
    (members, groups): (usize, usize),
    n: usize,
    kernel: SteinKernel,
) -> Vec<Vec<f64>> {
    let svgd = Svgd { kernel, prior_temperature: 0.1, likelihood_scale: 3.0, groups };
    let mut draw = numbers(3);
    let near = (10.0 / n as f32).sqrt(); // so near that all kernels act
    let start: Vec<f32> = draw(members * n).iter().map(|x| near * x).collect();
    let Ok(shape) = Shape::new(members, vec![n - 1, 1], Activation::Relu) else { return vec![] };
    let mut ensemble = Ensemble { shape, params: device.upload(&start) };
    let mut optimizer = Optimizer::new(device, Adam::cosine(0.01, 20), members * n);
    let mut direction = device.zeros(members * n);
    for _ in 0..3 {
        let gradient = device.upload(&draw(members * n));
        device.svgd_direction(&svgd, members, &ensemble.params, &gradient, &mut direction);
        optimizer.svgd_step(device, &svgd, &mut ensemble, &gradient);
        optimizer.step(device, &mut ensemble.params, &gradient);
    }
    let mut unclipped = draw(members * n);
    unclipped[n / 2] = f32::INFINITY; // the first member's
    let mut clipped = device.adopt(unclipped);
    let mut idle = device.zeros(members);
    device.clip_norm(members, 1.0, &mut clipped, &mut idle);
    device.clip_norm(members, 1.0, &mut clipped, &mut idle);
    all(device, &[&direction, &ensemble.params, &clipped, &idle])
}

/// Parameters after steps of which some are along orthogonal matrices.
pub(super) fn muon(device: &Device, widths: &[usize], groups: usize) -> Vec<Vec<f64>> {
    let Ok(shape) = Shape::new(2 * groups, widths.to_vec(), Activation::Tanh) else {
        return vec![];
    };
    let svgd = Svgd {
        kernel: SteinKernel::Rbf { length_scale: 10.0 },
        prior_temperature: 0.1,
        likelihood_scale: 3.0,
        groups,
    };
    let mut draw = numbers(4);
    let mut ensemble = Ensemble::random(device, shape.clone(), Stream::new(5));
    let mut optimizer =
        Optimizer::with_muon(device, Adam::cosine(0.01, 20), Muon::new(1.0), &shape);
    for _ in 0..3 {
        let gradient = device.upload(&draw(ensemble.params.len()));
        optimizer.svgd_step(device, &svgd, &mut ensemble, &gradient);
    }
    all(device, &[&ensemble.params])
}

/// The loss along a training of a Bayesian network, recorded and replayed where the device can, with all rows on the
/// device or on the host.
pub(super) fn training(
    device: &Device,
    widths: &[usize],
    hidden: Option<Muon>,
    on_device: bool,
) -> Vec<Vec<f64>> {
    const ROWS: usize = 2000;
    const BATCH: usize = 256;
    const PARTICLES: usize = 5;
    let Ok(shape) = Shape::new(PARTICLES, widths.to_vec(), Activation::Relu) else { return vec![] };
    let mut draw = numbers(10);
    let x = draw(ROWS * 2);
    let noise = draw(ROWS);
    let truth = |(row, e): (&[f32], &f32)| (2.0 * row[0]).sin() + 0.5 * row[1] + 0.1 * e;
    let y: Vec<f32> = x.chunks_exact(2).zip(&noise).map(truth).collect();
    let mut batches = Minibatches::kept(device, [x, y], [2, 1], BatchSizes::one(BATCH), on_device);
    let (head, stream) = (Gaussian { dims: 1, floor: 1e-2 }, Stream::new(12));
    let kernel = SteinKernel::Median;
    let svgd = Svgd { kernel, prior_temperature: 1e-4, likelihood_scale: 1.0, groups: 1 };
    let mut ensemble = Ensemble::random(device, shape.clone(), Stream::new(11));
    let adam = Adam::cosine(1e-3, 1000);
    let mut optimizer = match hidden {
        None => Optimizer::new(device, adam, ensemble.params.len()),
        Some(muon) => Optimizer::with_muon(device, adam, muon, &shape),
    };
    let mut trace = PassBuffers::new(device, &shape, BATCH);
    let (mut gradient, mut losses) = (device.zeros(ensemble.params.len()), device.zeros(PARTICLES));
    let mut curve = Vec::new();
    for part in 0..10 {
        batches.prepare(device, stream, 100 * part, 100);
        device.repeat(100, || {
            batches.draw(device, stream, optimizer.counter());
            let [batch_x, batch_y] = &batches.now;
            let input = Input::Shared(batch_x);
            ensemble.forward(device, input, &mut trace);
            let (output, d_output) = trace.output();
            device.gaussian_nll(&head, output, batch_y, Some((d_output, 0.0)), &mut losses);
            ensemble.backward(device, input, &mut trace, Some(&mut gradient), None);
            optimizer.svgd_step(device, &svgd, &mut ensemble, &gradient);
        });
        curve.push(contents(device, &losses));
    }
    curve
}
