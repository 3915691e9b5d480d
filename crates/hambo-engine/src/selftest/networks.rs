//! Passes through networks.

use super::host::{all, numbers};
use crate::backend::{Activation, Device, Gaussian, Input, Shape};
use crate::nn::{Ensemble, PassBuffers};
use crate::rng::Stream;

pub(super) struct Networks {
    members: usize,
    rows: usize,
    widths: &'static [usize],
    hidden: Activation,
    output: Activation,
    /// Batches that they are given.
    batches: usize,
}

impl std::fmt::Display for Networks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Networks { members, rows, widths, hidden, output, .. } = self;
        write!(f, "{members} × {widths:?} ({hidden:?}, {output:?}) on {rows} rows")
    }
}

const fn networks(
    members: usize,
    rows: usize,
    widths: &'static [usize],
    [hidden, output]: [Activation; 2],
    batches: usize,
) -> Networks {
    Networks { members, rows, widths, hidden, output, batches }
}

pub(super) const NETWORKS: &[Networks] = {
    use Activation::{Elu, LeakyRelu, Linear, Relu, Softplus, Tanh};
    &[
        networks(1, 1, &[1, 1], [Relu, Linear], 1),
        networks(5, 256, &[14, 256, 256, 256, 256, 22], [Relu, Linear], 1),
        networks(2, 1024, &[25, 256, 256, 1], [Relu, Linear], 1),
        networks(1, 257, &[11, 256, 256, 3], [Relu, Tanh], 1),
        networks(3, 31, &[64, 64, 64], [Tanh, Linear], 3),
        networks(7, 31, &[3, 17, 17, 64], [Relu, Tanh], 1),
        networks(4, 257, &[17, 300, 5], [Tanh, Linear], 4),
        networks(6, 40, &[5, 64, 64, 6], [Tanh, Linear], 3),
        networks(6, 1, &[2, 128, 128, 40], [Relu, Linear], 1),
        networks(2, 4000, &[6, 64, 64, 2], [Tanh, Tanh], 2), // so many that ReLU would turn over somewhere
        networks(5, 256, &[14, 256, 256, 256, 22], [Elu, Linear], 5),
        networks(2, 33, &[5, 300, 7], [Softplus, Elu], 1),
        networks(1, 31, &[3, 17, 17, 4], [LeakyRelu, Softplus], 1),
    ]
};

impl Networks {
    pub(super) fn run(&self, device: &Device) -> Vec<Vec<f64>> {
        let Networks { members, rows, widths, hidden, output, batches } = *self;
        let Ok(shape) = Shape::new(members, widths.to_vec(), hidden) else { return vec![] };
        let shape = Shape { output, ..shape };
        let mut draw = numbers(1);
        let ensemble = Ensemble::random(device, shape.clone(), Stream::new(2));
        let x = device.upload(&draw(batches * rows * shape.inputs()));
        let input = Input::Grouped(&x, batches);
        let mut outputs = device.zeros(members * rows * shape.outputs());
        ensemble.infer(device, input, rows, &mut outputs);
        let mut bounded = device.zeros(outputs.len());
        let bounds = [0.0, 1.0].map(|side| {
            device.adopt(
                (0..shape.outputs()).map(|c| 1.5 * side - 0.1 * c as f32).collect::<Vec<f32>>(),
            )
        });
        let within = ([&bounds[0], &bounds[1]], 0.8);
        device.infer_within(&ensemble.pass(input, rows), within, &mut bounded);
        let mut trace = PassBuffers::new(device, &shape, rows);
        ensemble.forward(device, input, &mut trace);
        let again = all(device, &[trace.output().0]);
        device.copy(&device.upload(&draw(outputs.len())), trace.output().1);
        let mut gradient = device.zeros(ensemble.params.len());
        let mut d_input = device.zeros(members * rows * shape.inputs());
        ensemble.backward(device, input, &mut trace, Some(&mut gradient), Some(&mut d_input));
        [again, all(device, &[&outputs, &bounded, &gradient, &d_input])].concat()
    }
}

/// Passes in all orders in which a GPU's kernels may overtake each other: beside another one, after a kernel that changes
/// weights, after one that leaves them. What they say is what they see in the next round.
pub(super) fn side_by_side(device: &Device, rows: usize) -> Vec<Vec<f64>> {
    const MEMBERS: usize = 5;
    const DIMS: usize = 3;
    const ROUNDS: usize = 24;
    let shape = |members, outputs| {
        Shape::new(members, vec![3 * DIMS, 256, 256, 256, outputs], Activation::Relu)
    };
    let (Ok(one), Ok(many)) = (shape(1, DIMS), shape(MEMBERS, 2 * DIMS)) else { return vec![] };
    let one = Ensemble::random(device, one, Stream::new(20));
    let [mut many, target] =
        [21, 22].map(|seed| Ensemble::random(device, many.clone(), Stream::new(seed)));
    let mut draw = numbers(23);
    let mut inputs = device.upload(&draw(rows * 3 * DIMS));
    let (offset, scale) = (device.upload(&draw(3 * DIMS)), device.upload(&[2.0; 3 * DIMS]));
    let room = |width| device.zeros::<f32>(rows * width);
    let (mut alone, mut joined, nothing) = (room(DIMS), room(3 * DIMS), room(0));
    let mut outputs = [(); 2].map(|()| room(MEMBERS * 2 * DIMS));
    let mut moments = [(); 2].map(|()| [(); 3].map(|()| room(DIMS)));
    let head = Gaussian { dims: DIMS, floor: 1e-2 };
    device.repeat(ROUNDS, || {
        let [before, after] = &mut outputs;
        let input = Input::Shared(&inputs);
        device.with_few_blocks(|| one.infer(device, input, rows, &mut alone));
        device.overlapping(|| many.infer(device, input, rows, before));
        device.polyak(0.05, &target.params, &mut many.params);
        many.infer(device, input, rows, after);
        for (output, [mean, epistemic, aleatoric]) in outputs.iter().zip(&mut moments) {
            device.moments(&head, MEMBERS, output, mean, epistemic, aleatoric);
        }
        let [[before, ..], [after, ..]] = &moments;
        device.join([(&alone, DIMS), (before, DIMS), (after, DIMS)], &mut joined);
        device.standardize((&joined, 3 * DIMS), (&nothing, 0), &offset, &scale, &mut inputs);
    });
    let [[before, epistemic, _], [after, ..]] = &moments;
    all(device, &[&alone, before, epistemic, after, &inputs])
}
