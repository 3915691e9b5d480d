//! SVGD and Adam against PyTorch's autograd (`reference/make_svgd.py`), and the paper's kernel at its own size.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

use hambo_engine::backend::{
    Activation, Adam, Buffer, Device, Gaussian, Input, Shape, SteinKernel, Svgd,
};
use hambo_engine::nn::{Ensemble, Optimizer, PassBuffers};
use hambo_engine::rng::Stream;
use serde_json::Value;

/// What `make_svgd.py` wrote.
struct Reference {
    all: Value,
    head: Gaussian,
    x: Vec<f32>,
    y: Vec<f32>,
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn single(value: &Value) -> Vec<f32> {
    numbers(value).iter().map(|&v| v as f32).collect()
}

impl Reference {
    fn read() -> Self {
        let all: Value = serde_json::from_str(include_str!("reference/svgd.json")).unwrap();
        let (x, y) = (single(&all["x"]), single(&all["y"]));
        let head = Gaussian { dims: 2, floor: all["floor"].as_f64().unwrap() as f32 };
        Reference { all, head, x, y }
    }

    fn number(&self, name: &str) -> f32 {
        self.all[name].as_f64().unwrap() as f32
    }

    fn ensemble(&self, device: &Device, members: usize) -> Ensemble {
        let widths = numbers(&self.all["widths"]).iter().map(|&w| w as usize).collect();
        let shape = Shape::new(members, widths, Activation::Relu).unwrap();
        let params = &single(&self.all["params"])[..members * shape.parameters()];
        Ensemble { params: device.adopt(shape.spread(params)), shape }
    }

    fn svgd(&self, kernel: &Value) -> Svgd {
        let kernel = match kernel.as_str().unwrap() {
            "rbf" => SteinKernel::Rbf { length_scale: 10.0 },
            "median" => SteinKernel::Median,
            _ => SteinKernel::None,
        };
        Svgd {
            kernel,
            prior_temperature: self.number("prior"),
            likelihood_scale: self.number("scale"),
            groups: 1,
        }
    }

    /// Gradient of the mean negative log-likelihood, and its value for each particle.
    fn gradient(&self, device: &Device, ensemble: &Ensemble) -> (Buffer, Vec<f64>) {
        let (x, y) = (device.upload(&self.x), device.upload(&self.y));
        let mut trace = PassBuffers::new(device, &ensemble.shape, self.y.len() / self.head.dims);
        let mut gradient = device.zeros(ensemble.params.len());
        let mut losses = device.zeros(ensemble.shape.members);
        ensemble.forward(device, Input::Shared(&x), &mut trace);
        let (output, d_output) = trace.output();
        device.gaussian_nll(&self.head, output, &y, Some((d_output, 0.0)), &mut losses);
        ensemble.backward(device, Input::Shared(&x), &mut trace, Some(&mut gradient), None);
        (gradient, device.download(&losses).unwrap())
    }
}

fn assert_all_close(actual: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (i, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(a) - e).abs() <= tolerance * (1.0 + e.abs()),
            "{what}, number {i}: {a} ≠ {e}"
        );
    }
}

#[test]
fn likelihood_gradient_works_like_pytorch() {
    let (device, reference) = (Device::cpu(Some(2)).unwrap(), Reference::read());
    let (gradient, losses) = reference.gradient(&device, &reference.ensemble(&device, 4));
    for (loss, expected) in losses.iter().zip(numbers(&reference.all["losses"])) {
        assert!((loss - expected).abs() < 1e-6 * expected.abs(), "{loss} ≠ {expected}");
    }
    let expected = numbers(&reference.all["gradient"]);
    let shape = &reference.ensemble(&device, 4).shape;
    assert_all_close(
        &shape.dense(&device.download(&gradient).unwrap()),
        &expected,
        2e-6,
        "gradient",
    );
}

#[test]
fn directions_work_like_pytorch() {
    let (device, reference) = (Device::cpu(Some(2)).unwrap(), Reference::read());
    for case in reference.all["cases"].as_array().unwrap() {
        let members = case["particles"].as_u64().unwrap() as usize;
        let ensemble = reference.ensemble(&device, members);
        let (gradient, _) = reference.gradient(&device, &ensemble);
        let mut direction = device.zeros(gradient.len());
        let svgd = reference.svgd(&case["kernel"]);
        device.svgd_direction(&svgd, members, &ensemble.params, &gradient, &mut direction);
        let what = format!("{} particles, kernel {}", members, case["kernel"]);
        let direction = ensemble.shape.dense(&device.download(&direction).unwrap());
        assert_all_close(&direction, &numbers(&case["direction"]), 5e-6, &what);
    }
}

#[test]
fn training_works_like_pytorch() {
    let (device, reference) = (Device::cpu(Some(2)).unwrap(), Reference::read());
    let steps = reference.number("steps") as u32;
    let rate = reference.number("rate");
    for case in reference.all["cases"].as_array().unwrap() {
        let members = case["particles"].as_u64().unwrap() as usize;
        for (schedule, adam) in
            [("constant", Adam::constant(rate)), ("cosine", Adam::cosine(rate, steps))]
        {
            let mut ensemble = reference.ensemble(&device, members);
            let mut optimizer = Optimizer::new(&device, adam, ensemble.params.len());
            for _ in 0..steps {
                let (gradient, _) = reference.gradient(&device, &ensemble);
                optimizer.svgd_step(
                    &device,
                    &reference.svgd(&case["kernel"]),
                    &mut ensemble,
                    &gradient,
                );
            }
            let what = format!("{members} particles, kernel {}, {schedule} rate", case["kernel"]);
            let params = ensemble.shape.dense(&device.download(&ensemble.params).unwrap());
            assert_all_close(&params, &numbers(&case[schedule]), 3e-6, &what);
        }
    }
    assert_eq!(Adam::cosine(rate, 8).rate_at(8), 0.0);
    assert_eq!(Adam::cosine(rate, 8).rate_at(9), 0.0, "the rate does not rise again");
}

fn random(n: usize, scale: f64, seed: u64) -> Vec<f32> {
    let mut generator = Stream::new(seed).generator();
    (0..n).map(|_| (scale * generator.normal()) as f32).collect()
}

#[test]
fn the_fused_step_is_the_direction_followed_by_adam() {
    let device = Device::cpu(Some(2)).unwrap();
    // More parameters than a block of 8192, and none of the sizes a multiple of anything.
    for (members, n) in [(1, 601), (3, 9001), (5, 16_411)] {
        let near = (10.0 / n as f64).sqrt(); // so near that all kernels act
        for kernel in
            [SteinKernel::Rbf { length_scale: 10.0 }, SteinKernel::Median, SteinKernel::None]
        {
            let svgd = Svgd { kernel, prior_temperature: 0.1, likelihood_scale: 3.0, groups: 1 };
            let adam = Adam::cosine(0.01, 20);
            let shape = Shape::new(members, vec![n - 1, 1], Activation::Relu).unwrap();
            let start = random(members * n, near, 1);
            let mut fused = Ensemble { shape, params: device.upload(&start) };
            let mut split = device.upload(&start);
            let mut direction = device.zeros(members * n);
            let mut optimizers = [0, 1].map(|_| Optimizer::new(&device, adam, members * n));
            for step in 0..5 {
                let gradient = device.upload(&random(members * n, 1.0, 2 + step));
                optimizers[0].svgd_step(&device, &svgd, &mut fused, &gradient);
                device.svgd_direction(&svgd, members, &split, &gradient, &mut direction);
                optimizers[1].step(&device, &mut split, &direction);
                let bits = |b: &Buffer| {
                    device.download(b).unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>()
                };
                assert_eq!(
                    bits(&fused.params),
                    bits(&split),
                    "step {step}, {members} × {n}, {kernel:?}"
                );
            }
        }
    }
}

/// The paper's ℓ = 10 at the paper's 4 × 256 networks: at random initialization already no particle sees another
/// one, each follows its own score over K.
#[test]
fn the_papers_kernel_vanishes_at_the_papers_size() {
    let device = Device::cpu(Some(2)).unwrap();
    let members = 5;
    let shape = Shape::new(members, vec![14, 256, 256, 256, 256, 22], Activation::Relu).unwrap();
    let n = shape.stride();
    let gradient = random(members * n, 1.0, 4);
    let fifth = 1.0 / members as f32;
    let svgd = Svgd {
        kernel: SteinKernel::Rbf { length_scale: 10.0 },
        prior_temperature: 0.25,
        likelihood_scale: 1.0,
        groups: 1,
    };
    let mut direction = device.zeros(members * n);

    // Weights of variance 1 / (3 · inputs), as PyTorch's and this library's: the kernel is not 0, but so small that
    // nothing of it is left beside the particle's own score in single precision.
    let ensemble = Ensemble::random(&device, shape, Stream::new(3));
    let params = device.download(&ensemble.params).unwrap();
    let largest = largest_kernel(&params, n);
    assert!(largest > 0.0 && largest < 1e-13, "off the diagonal the kernel reaches {largest}");
    device.svgd_direction(
        &svgd,
        members,
        &ensemble.params,
        &device.upload(&gradient),
        &mut direction,
    );
    let of = |(g, p): (&f32, &f32)| fifth * g + 0.05 * p;
    let alone: Vec<f32> = gradient.iter().zip(&params).map(of).collect();
    let pairs = device.download(&direction).unwrap();
    let worst = pairs.iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-12, "−φ and the score over K differ by {worst}");
    let same = pairs.iter().zip(&alone).filter(|(a, b)| a == b).count();
    assert!(
        same as f64 > 0.999 * alone.len() as f64,
        "equal to the last bit in {same} of {}",
        alone.len()
    );

    // Weights of variance 2 / inputs, He's for ReLU: it underflows, and −φ is the score over K exactly.
    let params: Vec<f32> = params.iter().map(|p| 6f32.sqrt() * p).collect();
    assert_eq!(largest_kernel(&params, n) as f32, 0.0);
    device.svgd_direction(
        &svgd,
        members,
        &device.upload(&params),
        &device.upload(&gradient),
        &mut direction,
    );
    let alone: Vec<f32> = gradient.iter().zip(&params).map(of).collect();
    assert!(device.download(&direction).unwrap() == alone, "−φ is the score over K");

    // The median heuristic does let them see each other.
    let svgd = Svgd { kernel: SteinKernel::Median, ..svgd };
    let mut acting = device.zeros(members * n);
    device.svgd_direction(
        &svgd,
        members,
        &device.upload(&params),
        &device.upload(&gradient),
        &mut acting,
    );
    let (acting, alone) = (device.download(&acting).unwrap(), device.download(&direction).unwrap());
    let changed = acting.iter().zip(&alone).filter(|(a, b)| (*a - *b).abs() > 0.01).count();
    assert!(changed > alone.len() / 2, "{changed} of {} numbers differ", alone.len());
}

/// The largest exp(−‖θ − θ'‖² / 20) of two different particles.
fn largest_kernel(params: &[f32], n: usize) -> f64 {
    let particles: Vec<&[f32]> = params.chunks_exact(n).collect();
    let distance = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>()
    };
    let pairs = (0..particles.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs.map(|(i, j)| (-distance(particles[i], particles[j]) / 20.0).exp()).fold(0.0, f64::max)
}
