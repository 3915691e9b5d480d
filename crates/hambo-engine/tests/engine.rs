//! The networks and their Gaussian head against a naive implementation in `f64`, and its gradients against
//! central differences.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

use hambo_engine::backend::{Activation, Buffer, Device, Gaussian, Input, Shape};
use hambo_engine::nn::{Ensemble, PassBuffers};
use hambo_engine::rng::{Generator, Stream};

/// One ensemble on one batch.
struct Case {
    shape: Shape,
    rows: usize,
    shared: bool,
    params: Vec<f32>,
    x: Vec<f32>,
}

/// Sizes around the engine's blocks of 128 and 256 rows and columns, and far from any power of two.
fn cases() -> Vec<Case> {
    use Activation::{Elu, LeakyRelu, Linear, Relu, Softplus, Tanh};
    /// Members, rows, widths, hidden and output activation, whether the members share their input.
    type Sizes = (usize, usize, &'static [usize], Activation, Activation, bool);
    let list: [Sizes; 17] = [
        (1, 1, &[1, 1], Relu, Linear, true),
        (1, 1, &[3, 17, 2], Tanh, Tanh, true),
        (2, 31, &[1, 3, 1], Relu, Tanh, false),
        (3, 31, &[17, 64, 17, 3], Relu, Linear, true),
        (7, 31, &[3, 17, 17, 17, 1], Tanh, Linear, false),
        (5, 129, &[3, 64, 64, 6], Relu, Linear, true),
        (4, 129, &[17, 1, 3], Tanh, Tanh, false),
        (1, 129, &[2, 131, 5], Relu, Linear, false),
        (6, 128, &[4, 129, 4], Relu, Tanh, true),
        (2, 257, &[5, 257, 3], Relu, Linear, true),
        (3, 257, &[17, 64, 3], Tanh, Linear, false),
        (7, 257, &[1, 3, 17, 64, 17, 3, 1], Relu, Linear, false),
        (2, 1100, &[3, 17, 1], Relu, Linear, true),
        (3, 129, &[5, 64, 64, 4], Elu, Linear, true),
        (2, 31, &[3, 17, 2], LeakyRelu, Elu, false),
        (3, 40, &[4, 33, 64, 3], Softplus, Linear, false),
        (1, 9, &[2, 16, 2], Tanh, Softplus, true),
    ];
    let mut generator = Stream::new(11).generator();
    let case = |(members, rows, widths, hidden, output, shared): Sizes| {
        let shape = Shape { output, ..Shape::new(members, widths.to_vec(), hidden).unwrap() };
        let mut params = Vec::new();
        for member in 1..=members {
            for w in widths.windows(2) {
                let bound = 1.5 / (w[0] as f64).sqrt();
                params
                    .extend((0..w[0] * w[1] + w[1]).map(|_| generator.range(-bound, bound) as f32));
            }
            params.resize(member * shape.stride(), 0.0);
        }
        let batches = if shared { 1 } else { members };
        let x = normals(&mut generator, batches * rows * widths[0]);
        Case { shape, rows, shared, params, x }
    };
    list.into_iter().map(case).collect()
}

fn normals(generator: &mut Generator, n: usize) -> Vec<f32> {
    (0..n).map(|_| generator.normal() as f32).collect()
}

impl Case {
    fn name(&self) -> String {
        format!("{:?}, {} rows, shared {}", self.shape, self.rows, self.shared)
    }

    fn input<'a>(&self, x: &'a Buffer) -> Input<'a> {
        if self.shared { Input::Shared(x) } else { Input::PerMember(x) }
    }

    /// One member's activations of all layers in one row, written as the definition says.
    fn row(&self, params: &[f64], x: &[f64]) -> Vec<Vec<f64>> {
        let mut layers: Vec<Vec<f64>> = Vec::new();
        let mut at = 0;
        for (l, w) in self.shape.widths.windows(2).enumerate() {
            let x = layers.last().map_or(x, Vec::as_slice);
            let activation =
                if l + 1 == self.shape.depth() { self.shape.output } else { self.shape.hidden };
            let out = (0..w[1]).map(|o| {
                let sum: f64 = (0..w[0]).map(|i| x[i] * params[at + i * w[1] + o]).sum();
                let sum = sum + params[at + w[0] * w[1] + o];
                match activation {
                    Activation::Linear => sum,
                    Activation::Relu => sum.max(0.0),
                    Activation::Tanh => sum.tanh(),
                    Activation::Elu => {
                        if sum < 0.0 {
                            sum.exp_m1()
                        } else {
                            sum
                        }
                    }
                    Activation::LeakyRelu => {
                        if sum < 0.0 {
                            f64::from(0.01f32) * sum
                        } else {
                            sum
                        }
                    }
                    Activation::Softplus => sum.exp().ln_1p(),
                }
            });
            let out = out.collect();
            layers.push(out);
            at += w[0] * w[1] + w[1];
        }
        layers
    }

    /// Σ weights · output of one member, over the rows `rows`.
    fn objective(
        &self,
        member: usize,
        params: &[f64],
        x: &[f64],
        weights: &[f32],
        rows: &[usize],
    ) -> f64 {
        let (inputs, outputs) = (self.shape.inputs(), self.shape.outputs());
        let of_row = |&row: &usize| {
            let first = if self.shared { row } else { member * self.rows + row } * inputs;
            let out = self.row(params, &x[first..first + inputs]);
            let weights = &weights[(member * self.rows + row) * outputs..][..outputs];
            out[out.len() - 1].iter().zip(weights).map(|(y, &w)| y * f64::from(w)).sum::<f64>()
        };
        rows.iter().map(of_row).sum()
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

fn assert_close(actual: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (actual - expected).abs() <= tolerance * (1.0 + expected.abs()),
        "{what}: {actual} ≠ {expected}"
    );
}

#[test]
fn outputs_are_those_of_a_naive_implementation() {
    let device = Device::cpu(Some(2)).unwrap();
    for case in cases() {
        let Case { shape, rows, .. } = &case;
        let ensemble = Ensemble { shape: shape.clone(), params: device.upload(&case.params) };
        let x = device.upload(&case.x);
        let mut output = device.zeros(shape.members * rows * shape.outputs());
        ensemble.infer(&device, case.input(&x), *rows, &mut output);
        let output = device.download(&output).unwrap();

        let params = wide(&case.params);
        for member in 0..shape.members {
            for row in 0..*rows {
                let first = if case.shared { row } else { member * rows + row } * shape.inputs();
                let own = &params[member * shape.stride()..][..shape.parameters()];
                let expected = case.row(own, &wide(&case.x[first..first + shape.inputs()]));
                let at = (member * rows + row) * shape.outputs();
                for (c, &y) in expected[expected.len() - 1].iter().enumerate() {
                    assert_close(f64::from(output[at + c]), y, 2e-5, &case.name());
                }
            }
        }

        let mut trace = PassBuffers::new(&device, shape, *rows);
        ensemble.forward(&device, case.input(&x), &mut trace);
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            bits(&device.download(trace.output().0).unwrap()),
            bits(&output),
            "{}",
            case.name()
        );
    }
}

#[test]
fn gradients_are_those_of_central_differences() {
    const STEP: f64 = 1e-6;
    let device = Device::cpu(Some(2)).unwrap();
    let mut generator = Stream::new(12).generator();
    for case in cases() {
        let Case { shape, rows, .. } = &case;
        let (members, parameters, inputs) = (shape.members, shape.parameters(), shape.inputs());
        let stride = shape.stride();
        let ensemble = Ensemble { shape: shape.clone(), params: device.upload(&case.params) };
        let x = device.upload(&case.x);
        let weights = normals(&mut generator, members * rows * shape.outputs());

        let mut trace = PassBuffers::new(&device, shape, *rows);
        let mut gradient = device.zeros(case.params.len());
        let mut d_input = device.zeros(members * rows * inputs);
        ensemble.forward(&device, case.input(&x), &mut trace);
        device.copy(&device.upload(&weights), trace.output().1);
        ensemble.backward(
            &device,
            case.input(&x),
            &mut trace,
            Some(&mut gradient),
            Some(&mut d_input),
        );
        let (gradient, d_input) =
            (device.download(&gradient).unwrap(), device.download(&d_input).unwrap());

        let (params, x64) = (wide(&case.params), wide(&case.x));
        let all: Vec<usize> = (0..*rows).collect();
        for _ in 0..80 {
            // A parameter of a random layer, so that small layers are looked at as often as large ones.
            let member = generator.below(members);
            let layer = generator.below(shape.depth());
            let size = |w: &[usize]| w[0] * w[1] + w[1];
            let offset: usize = shape.widths[..=layer].windows(2).map(size).sum();
            let within = size(&shape.widths[layer..layer + 2]);
            let bias = generator.below(2) * (within - shape.widths[layer + 1]); // every second one a bias
            let at = offset + bias + generator.below(within - bias);
            let mut own = params[member * stride..][..parameters].to_vec();
            let center = own[at];
            let mut moved = |to: f64| {
                own[at] = to;
                case.objective(member, &own, &x64, &weights, &all)
            };
            let expected = (moved(center + STEP) - moved(center - STEP)) / (2.0 * STEP);
            let what = format!("parameter {at} of member {member}: {}", case.name());
            assert_close(gradient[member * stride + at].into(), expected, 2e-4, &what);
        }
        for _ in 0..80 {
            let (member, row, column) =
                (generator.below(members), generator.below(*rows), generator.below(inputs));
            let own = &params[member * stride..][..parameters];
            let at = if case.shared { row } else { member * rows + row } * inputs + column;
            let mut inputs_moved = x64.clone();
            let mut moved = |to: f64| {
                inputs_moved[at] = to;
                case.objective(member, own, &inputs_moved, &weights, &[row])
            };
            let expected = (moved(x64[at] + STEP) - moved(x64[at] - STEP)) / (2.0 * STEP);
            let what = format!("input {column} of row {row}, member {member}: {}", case.name());
            assert_close(
                d_input[(member * rows + row) * inputs + column].into(),
                expected,
                1e-4,
                &what,
            );
        }

        // Either gradient alone is the same as both together.
        for (wants_params, wants_input) in [(true, false), (false, true)] {
            ensemble.forward(&device, case.input(&x), &mut trace);
            device.copy(&device.upload(&weights), trace.output().1);
            let (mut g, mut d) = (device.zeros(gradient.len()), device.zeros(d_input.len()));
            let (g_asked, d_asked) =
                (wants_params.then_some(&mut g), wants_input.then_some(&mut d));
            ensemble.backward(&device, case.input(&x), &mut trace, g_asked, d_asked);
            assert!(!wants_params || device.download(&g).unwrap() == gradient, "{}", case.name());
            assert!(!wants_input || device.download(&d).unwrap() == d_input, "{}", case.name());
        }
    }
}

/// Rows on which the loss does not depend are left out where only the input's gradient is asked for: the others
/// keep theirs, and those have none.
#[test]
fn rows_without_a_loss_have_no_gradient_and_change_no_other() {
    let device = Device::cpu(Some(2)).unwrap();
    let mut generator = Stream::new(13).generator();
    for case in cases() {
        let Case { shape, rows, .. } = &case;
        let ensemble = Ensemble { shape: shape.clone(), params: device.upload(&case.params) };
        let x = device.upload(&case.x);
        let mut weights = normals(&mut generator, shape.members * rows * shape.outputs());
        for row in weights.chunks_exact_mut(shape.outputs()) {
            if generator.below(3) == 0 {
                row.fill(0.0);
            }
        }
        let mut trace = PassBuffers::new(&device, shape, *rows);
        let (mut gradient, mut all, mut few) = (
            device.zeros(case.params.len()),
            device.zeros(shape.members * rows * shape.inputs()),
            device.zeros(shape.members * rows * shape.inputs()),
        );
        ensemble.forward(&device, case.input(&x), &mut trace);
        device.copy(&device.upload(&weights), trace.output().1);
        ensemble.backward(&device, case.input(&x), &mut trace, Some(&mut gradient), Some(&mut all));
        device.copy(&device.upload(&weights), trace.output().1);
        device.fill(&mut few, f32::NAN);
        ensemble.backward(&device, case.input(&x), &mut trace, None, Some(&mut few));
        for (few, all) in
            device.download(&few).unwrap().into_iter().zip(device.download(&all).unwrap())
        {
            assert_close(few.into(), all.into(), 1e-5, &case.name());
        }
    }
}

/// A state that left the numbers must not come back as a prediction that looks sound.
#[test]
fn not_a_number_passes_through_every_activation() {
    let device = Device::cpu(Some(1)).unwrap();
    use Activation::{Elu, LeakyRelu, Linear, Relu, Softplus, Tanh};
    for hidden in [Linear, Relu, Tanh, Elu, LeakyRelu, Softplus] {
        let shape = Shape::new(2, vec![2, 5, 1], hidden).unwrap();
        let ensemble = Ensemble::random(&device, shape, Stream::new(1));
        let mut output = device.zeros(2);
        ensemble.infer(&device, Input::Shared(&device.upload(&[f32::NAN, 1.0])), 1, &mut output);
        assert!(device.download(&output).unwrap().iter().all(|y| y.is_nan()), "{hidden:?}");
    }
    let mut actions = device.upload(&[f32::NAN, f32::INFINITY, -3.0, 0.5]);
    device.clamp(&device.upload(&[-1.0]), &device.upload(&[1.0]), &mut actions);
    let actions = device.download(&actions).unwrap();
    assert!(actions[0].is_nan());
    assert_eq!(actions[1..], [1.0, -1.0, 0.5]);
}

/// −ln N(y; mean, softplus(raw) + floor), in f64.
fn naive_nll(mean: f64, raw: f64, target: f64, floor: f64) -> f64 {
    let softplus = if raw > 30.0 { raw } else { raw.exp().ln_1p() };
    let std = softplus + floor;
    0.5 * ((target - mean) / std).powi(2) + std.ln() + 0.5 * std::f64::consts::TAU.ln()
}

#[test]
fn likelihood_and_its_gradient_are_those_of_central_differences() {
    const STEP: f64 = 1e-6;
    let device = Device::cpu(Some(2)).unwrap();
    let mut generator = Stream::new(13).generator();
    for (members, rows, dims) in [(1, 1, 1), (3, 31, 2), (2, 257, 3), (7, 600, 1)] {
        let head = Gaussian { dims, floor: 1e-3 };
        let floor = f64::from(head.floor);
        let mut output = normals(&mut generator, members * rows * 2 * dims);
        output.iter_mut().for_each(|v| *v *= 2.0);
        let targets = normals(&mut generator, rows * dims);
        let mut d_output = device.zeros(output.len());
        let mut losses = device.zeros(members);
        let uploaded = device.upload(&output);
        let y = device.upload(&targets);
        device.gaussian_nll(&head, &uploaded, &y, Some((&mut d_output, 0.0)), &mut losses);
        let mut weighed = device.zeros(output.len());
        device.gaussian_nll(&head, &uploaded, &y, Some((&mut weighed, 0.5)), &mut losses);
        let weighed = device.download(&weighed).unwrap();
        let (d_output, losses) =
            (device.download(&d_output).unwrap(), device.download(&losses).unwrap());

        for (member, &loss) in losses.iter().enumerate() {
            let mut sum = 0.0;
            for row in 0..rows {
                for c in 0..dims {
                    let at = (member * rows + row) * 2 * dims + c;
                    let (mean, raw) = (f64::from(output[at]), f64::from(output[at + dims]));
                    let nll =
                        |mean, raw| naive_nll(mean, raw, f64::from(targets[row * dims + c]), floor);
                    sum += nll(mean, raw);
                    let over = 2.0 * STEP * rows as f64;
                    let d_mean = (nll(mean + STEP, raw) - nll(mean - STEP, raw)) / over;
                    let d_raw = (nll(mean, raw + STEP) - nll(mean, raw - STEP)) / over;
                    let scale = rows as f64; // gradients of a mean over rows are that much smaller
                    assert_close(scale * f64::from(d_output[at]), scale * d_mean, 1e-4, "d mean");
                    assert_close(
                        scale * f64::from(d_output[at + dims]),
                        scale * d_raw,
                        1e-4,
                        "d raw",
                    );
                    // ν^(2w) with w = ½ is ν.
                    for at in [at, at + dims] {
                        let expected = scale * f64::from(d_output[at] * head.std(raw as f32));
                        assert_close(scale * f64::from(weighed[at]), expected, 1e-5, "weighed");
                    }
                }
            }
            assert_close(loss, sum / rows as f64, 1e-5, "negative log-likelihood");
        }

        let mut alone = device.zeros(members);
        device.gaussian_nll(&head, &uploaded, &y, None, &mut alone);
        assert_eq!(
            device.download(&alone).unwrap(),
            losses,
            "the value does not depend on the gradient"
        );
    }
}

#[test]
fn softplus_has_tails() {
    let head = Gaussian { dims: 1, floor: 1e-3 };
    let device = Device::cpu(Some(1)).unwrap();
    for raw in [50.0f32, 100.0, -50.0, -100.0, 1e30, -1e30, 0.0, 20.0, -20.0] {
        let expected =
            if raw > 30.0 { f64::from(raw) } else { f64::from(raw).exp().ln_1p() } + 1e-3;
        assert_close(head.std(raw).into(), expected, 1e-6, "softplus");
        let slope = 1.0 / (1.0 + (-f64::from(raw)).exp());
        assert_close(head.std_slope(raw).into(), slope, 1e-6, "sigmoid");
        assert!(head.std(raw) >= head.floor && (0.0..=1.0).contains(&head.std_slope(raw)));

        let mut gradient = device.zeros(2);
        let mut loss = device.zeros(1);
        let (output, target) = (device.upload(&[0.5, raw]), device.upload(&[-1.0]));
        device.gaussian_nll(&head, &output, &target, Some((&mut gradient, 0.5)), &mut loss);
        assert!(device.download(&loss).unwrap()[0].is_finite(), "likelihood at raw = {raw}");
        assert!(
            device.download(&gradient).unwrap().iter().all(|g| g.is_finite()),
            "gradient at raw = {raw}"
        );
    }
    // Far in the lower tail softplus(x) = eˣ: it does not vanish before the numbers do.
    let tiny = Gaussian { dims: 1, floor: 0.0 };
    assert!((tiny.std(-50.0) / (-50f32).exp() - 1.0).abs() < 1e-6);
}
