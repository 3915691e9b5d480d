//! Gradients of network policies against finite differences, and what is refused.

use super::*;
use hambo_engine::rng::Stream;

const INPUTS: usize = 3;
const OUTPUTS: usize = 2;
const ROWS: usize = 300; // several blocks

fn network(hidden: Activation, normalizer: Option<Normalizer>, output: Output) -> Mlp {
    let mut generator = Stream::new(5).generator();
    let mut linear = |inputs: usize, outputs: usize| Linear {
        inputs,
        outputs,
        weight: (0..inputs * outputs).map(|_| generator.normal() as f32).collect(),
        bias: (0..outputs).map(|_| generator.normal() as f32).collect(),
    };
    let layers = [linear(INPUTS, 7), linear(7, 6), linear(6, OUTPUTS)];
    Mlp::new(&layers, hidden, normalizer, output, [vec![-1.0, 0.5], vec![3.0, 0.75]]).unwrap()
}

fn normalizer() -> Normalizer {
    Normalizer { mean: vec![0.1, -0.3, 0.2], var: vec![0.5, 4.0, 1e-4], clip: 1.5, epsilon: 1e-8 }
}

fn head() -> ActionStd {
    let weight = (0..12).map(|i| (i as f32 * 0.7).sin()).collect();
    ActionStd::Logs(Linear { inputs: 6, outputs: 2, weight, bias: vec![-0.5, 0.2] })
}

/// The share of the gradient of Σ weights · a that agrees with central differences of the actions, which `actions` and
/// `backward` compute; around states in units of the normalizer's deviations.
fn agreement(
    actions: impl Fn(&Device, &Buffer, &mut Buffer),
    backward: impl Fn(&Device, &Buffer, &Buffer, &mut Buffer),
) -> f64 {
    let device = Device::cpu(Some(2)).unwrap();
    let mut generator = Stream::new(6).generator();
    let (center, scale) = ([0.1, -0.3, 0.2], [1.0, 3.0, 0.015]);
    let states: Vec<f32> = (0..ROWS * INPUTS)
        .map(|i| (center[i % 3] + scale[i % 3] * generator.normal()) as f32)
        .collect();
    let weights: Vec<f32> = (0..ROWS * OUTPUTS).map(|_| generator.normal() as f32).collect();
    let mut gradient = device.zeros(states.len());
    device.fill(&mut gradient, 1.0);
    backward(&device, &device.upload(&states), &device.upload(&weights), &mut gradient);
    let gradient = device.download(&gradient).unwrap();
    let mut agreeing = 0;
    for column in 0..INPUTS {
        let h = 2e-3 * scale[column] as f32;
        let value = |h: f32| {
            let mut moved = states.clone();
            moved.iter_mut().skip(column).step_by(INPUTS).for_each(|s| *s += h);
            let mut given = device.zeros(ROWS * OUTPUTS);
            actions(&device, &device.upload(&moved), &mut given);
            let products: Vec<f32> =
                device.download(&given).unwrap().iter().zip(&weights).map(|(a, w)| a * w).collect();
            products.chunks_exact(OUTPUTS).map(|p| p.iter().sum()).collect::<Vec<f32>>()
        };
        for (row, (up, down)) in value(h).iter().zip(value(-h)).enumerate() {
            let (ours, difference) =
                (gradient[row * INPUTS + column] - 1.0, (up - down) / (2.0 * h));
            let tolerance = 0.01 * (1.0 / scale[column] as f32 + difference.abs());
            agreeing += usize::from((ours - difference).abs() < tolerance);
        }
    }
    agreeing as f64 / (ROWS * INPUTS) as f64
}

/// Differences that step over a kink do not agree.
const MOST: f64 = 0.97;

#[test]
fn gradients_are_those_of_finite_differences() {
    for hidden in [Activation::Tanh, Activation::Relu] {
        for normalizer in [None, Some(normalizer())] {
            for output in
                [Output::Clip, Output::Tanh { limit: f32::INFINITY }, Output::Tanh { limit: 1.0 }]
            {
                let mlp = network(hidden, normalizer.clone(), output);
                let share = agreement(
                    |device, states, actions| mlp.act(device, states, actions),
                    |device, states, d_actions, d_states| {
                        mlp.backward(device, states, d_actions, d_states)
                    },
                );
                assert!(share > MOST, "{hidden:?} {output:?} {normalizer:?}: {share}");
            }
        }
    }
}

/// With the same noise on both sides. Of gSDE only the mean is followed, so its variances are 0 here.
#[test]
fn gradients_of_samples_are_those_of_finite_differences() {
    let mut generator = Stream::new(7).generator();
    let noise: Vec<f32> = (0..ROWS * OUTPUTS).map(|_| generator.normal() as f32).collect();
    let unlimited = Output::Tanh { limit: f32::INFINITY };
    for (output, std) in [
        (Output::Clip, ActionStd::Fixed(vec![0.3, 0.1])),
        (Output::Clip, head()),
        (unlimited, head()),
        (unlimited, ActionStd::Fixed(vec![0.3, 0.6])),
        (Output::Tanh { limit: 0.8 }, ActionStd::Features(vec![0.0; 12])),
    ] {
        let mlp =
            network(Activation::Tanh, Some(normalizer()), output).with_action_std(std).unwrap();
        let share = agreement(
            |device, states, actions| mlp.sample(device, states, &device.upload(&noise), actions),
            |device, states, d_actions, d_states| {
                mlp.sample_backward(device, (states, &device.upload(&noise)), d_actions, d_states)
            },
        );
        assert!(share > MOST, "{output:?} {:?}: {share}", mlp.action_std);
    }
}

#[test]
fn bounds_are_met_and_nan_stays_nan() {
    let device = Device::cpu(Some(1)).unwrap();
    for output in [Output::Clip, Output::Tanh { limit: f32::INFINITY }] {
        let mlp = network(Activation::Relu, Some(normalizer()), output);
        let mut actions = device.zeros(2 * OUTPUTS);
        mlp.act(&device, &device.upload(&[1e30, -1e30, 0.0, f32::NAN, 0.0, 0.0]), &mut actions);
        let actions = device.download(&actions).unwrap();
        assert!(
            (-1.0..=3.0).contains(&actions[0]) && (0.5..=0.75).contains(&actions[1]),
            "{actions:?}"
        );
        assert!(actions[2].is_nan(), "{actions:?}");
    }
}

#[test]
fn buffers_are_kept_for_a_few_sizes() {
    let device = Device::cpu(Some(1)).unwrap();
    let mlp = network(Activation::Tanh, None, Output::Clip);
    for rows in [1, 2, 1, 3, 4, 5, 6, 2] {
        let mut actions = device.zeros(rows * OUTPUTS);
        mlp.act(&device, &device.zeros(rows * INPUTS), &mut actions);
    }
    let kept: Vec<usize> = mlp.idle.lock().unwrap().iter().map(|b| b.rows).collect();
    assert_eq!(kept, [4, 5, 6, 2]);
}

#[test]
fn parts_that_do_not_fit_are_named() {
    let linear = |inputs: usize, outputs: usize| Linear {
        inputs,
        outputs,
        weight: vec![0.1; inputs * outputs],
        bias: vec![0.0; outputs],
    };
    let make = |layers: &[Linear], normalizer, bounds| {
        Mlp::new(layers, Activation::Relu, normalizer, Output::Tanh { limit: 1.0 }, bounds)
            .unwrap_err()
    };
    let bounds = || [vec![-1.0; 2], vec![1.0; 2]];
    let nan = Linear { weight: vec![f32::NAN; 6], ..linear(3, 2) };
    for (problem, part) in [
        (make(&[], None, bounds()), "no layers"),
        (
            make(&[linear(3, 4), linear(5, 2)], None, bounds()),
            "layer 0 gives 4 numbers, but layer 1 takes 5",
        ),
        (make(&[Linear { bias: vec![], ..linear(3, 2) }], None, bounds()), "0 biases"),
        (make(&[nan], None, bounds()), "not finite"),
        (
            make(&[linear(3, 3)], None, bounds()),
            "gives 3 numbers, but there are 2 lower and 2 upper bounds",
        ),
        (make(&[linear(3, 2)], None, [vec![-1.0; 2], vec![f32::INFINITY; 2]]), "finite bounds"),
        (make(&[linear(2, 2)], Some(normalizer()), bounds()), "observations of 3 numbers"),
        (
            make(&[linear(3, 2)], Some(Normalizer { clip: 0.0, ..normalizer() }), bounds()),
            "positive limit",
        ),
    ] {
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn standard_deviations_that_do_not_fit_are_named() {
    let limited = || network(Activation::Relu, None, Output::Tanh { limit: 1.0 });
    for (std, part) in [
        (ActionStd::Fixed(vec![0.1; 3]), "not for 2 actions and 6 features"),
        (ActionStd::Features(vec![0.1; 6]), "not for 2 actions"),
        (ActionStd::Fixed(vec![0.1, f32::NAN]), "not finite"),
        (ActionStd::Fixed(vec![0.1, -0.1]), "not finite"),
        (head(), "cannot be combined with a head"),
    ] {
        let error = limited().with_action_std(std).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
