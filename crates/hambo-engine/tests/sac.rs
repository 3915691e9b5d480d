//! Soft Actor-Critic against PyTorch, its gradients against central differences, and its bits against the number
//! of threads.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

use hambo_engine::backend::{Buffer, Device, Shape, SquashedActions};
use hambo_engine::rl::{ReplayBuffer, Sac, SacUpdate, Widths};
use hambo_engine::rng::{Generator, Stream};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn single(value: &Value) -> Vec<f32> {
    numbers(value).iter().map(|&v| v as f32).collect()
}

fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let off = (got - expected).abs();
    assert!(off <= tolerance * (1.0 + expected.abs()), "{what}: {got} instead of {expected}");
}

fn all_close(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        close(&format!("{what} {i}"), g.into(), e, tolerance);
    }
}

#[test]
fn updates_work_like_pytorch() {
    let all: Value = serde_json::from_str(include_str!("reference/sac.json")).unwrap();
    let number = |name: &str| all[name].as_f64().unwrap() as f32;
    let device = Device::cpu(Some(2)).unwrap();
    let [observation, context, action] =
        [0, 1, 2].map(|i| all["widths"][i].as_u64().unwrap() as usize);
    let settings = SacUpdate {
        hidden: numbers(&all["hidden"]).iter().map(|&w| w as usize).collect(),
        batch: all["rows"].as_u64().unwrap() as usize,
        learning_rate: number("learning_rate"),
        actor_rate: None,
        temperature_rate: number("temperature_rate"),
        temperature: number("temperature"),
        target_entropy: None,
        discount: number("discount"),
        polyak: number("polyak"),
    };
    let widths = Widths { observation, context, action };
    let mut sac = Sac::new(&device, widths, &settings, Stream::new(0)).unwrap();
    let first =
        |name: &str, shape: &Shape| device.adopt(shape.spread(&single(&all["first"][name])));
    sac.actor.params = first("actor", &sac.actor.shape);
    sac.critics.params = first("critics", &sac.critics.shape);
    sac.target_critics.params = first("target_critics", &sac.critics.shape);
    let batch = |name: &str| device.adopt(single(&all["batch"][name]));
    sac.batch.observations = batch("observations");
    sac.batch.contexts = batch("contexts");
    sac.batch.actions = batch("actions");
    sac.batch.rewards = batch("rewards");
    sac.batch.continues = batch("continues");
    sac.batch.next_observations = batch("next_observations");
    sac.batch.next_contexts = batch("next_contexts");
    sac.noise = [batch("noise"), batch("next_noise")];

    for (i, expected) in all["steps"].as_array().unwrap().iter().enumerate() {
        sac.update(&device);
        let losses = sac.losses(&device).unwrap();
        for (name, got) in [
            ("critic_loss", losses.critics),
            ("actor_loss", losses.actor),
            ("entropy", losses.entropy),
        ] {
            close(&format!("update {i}, {name}"), got, expected[name].as_f64().unwrap(), 1e-5);
        }
        let (actor, critics) = (&sac.actor.shape, &sac.critics.shape);
        let buffers = [
            ("critic_gradient", critics, &sac.critic_gradient),
            ("actor_gradient", actor, &sac.actor_gradient),
            ("actor", actor, &sac.actor.params),
            ("critics", critics, &sac.critics.params),
            ("target_critics", critics, &sac.target_critics.params),
        ];
        for (name, shape, buffer) in buffers {
            let (got, expected) =
                (shape.dense(&device.download(buffer).unwrap()), numbers(&expected[name]));
            all_close(&format!("update {i}, {name}"), &got, &expected, 2e-5);
        }
        let log_temperature = f64::from(device.download(&sac.log_temperature).unwrap()[0]);
        close("ln α", log_temperature, expected["log_temperature"].as_f64().unwrap(), 1e-6);
    }
}

fn normals(generator: &mut Generator, n: usize, scale: f64) -> Vec<f32> {
    (0..n).map(|_| (scale * generator.normal()) as f32).collect()
}

/// L = Σ weights · actions + α · mean ln π
fn loss(device: &Device, output: &[f32], noise: &Buffer, weights: &[f32], temperature: f64) -> f64 {
    let rows = output.len() / 6;
    let (mut actions, mut log_probs) = (device.zeros(rows * 3), device.zeros(rows));
    device.squash(&device.upload(output), noise, [], &mut actions, &mut log_probs);
    let sum =
        |x: &Buffer| device.download(x).unwrap().into_iter().map(f64::from).collect::<Vec<_>>();
    let actions = sum(&actions);
    let linear: f64 = actions.iter().zip(weights).map(|(a, &w)| a * f64::from(w)).sum();
    linear + temperature * sum(&log_probs).iter().sum::<f64>() / rows as f64
}

#[test]
fn squashed_actions_have_the_gradient_of_central_differences() {
    let device = Device::cpu(Some(1)).unwrap();
    let mut generator = Stream::new(4).generator();
    let rows = 5;
    let mut output = normals(&mut generator, rows * 6, 0.8);
    output[3] = 2.5; // log standard deviations beyond their limits do not move anything
    output[10] = -25.0;
    let noise = device.adopt(normals(&mut generator, rows * 3, 1.0));
    let weights = normals(&mut generator, rows * 3, 1.0);
    let temperature = 0.7f32;
    let log_temperature = device.upload(&[temperature.ln()]);

    // Two critics with inputs of one column more than the actions; each has half of the gradient.
    let d_inputs: Vec<f32> =
        weights.chunks_exact(3).flat_map(|w| [9.0, w[0] / 2.0, w[1] / 2.0, w[2] / 2.0]).collect();
    let d_inputs = device.adopt(d_inputs.repeat(2));
    let (mut inputs, mut log_probs) = (device.zeros(rows * 4), device.zeros(rows));
    let mut gradient = device.zeros(rows * 6);
    let on_device = device.upload(&output);
    let seen = normals(&mut generator, rows, 1.0);
    device.squash(&on_device, &noise, [(&device.upload(&seen), 1)], &mut inputs, &mut log_probs);
    let first: Vec<f32> = device.download(&inputs).unwrap().chunks(4).map(|row| row[0]).collect();
    assert_eq!(first, seen, "what critics see stands before the actions");
    let drawn = SquashedActions { rows, output: &on_device, noise: &noise, joined: &inputs };
    device.squash_gradient(&drawn, &d_inputs, &log_temperature, &mut gradient);

    let step = 1e-2f32;
    let gradient = device.download(&gradient).unwrap();
    for i in 0..output.len() {
        let at = |offset: f32| {
            let mut moved = output.clone();
            moved[i] += offset;
            loss(&device, &moved, &noise, &weights, temperature.into())
        };
        let slope = |h: f32| (at(h) - at(-h)) / (2.0 * f64::from(h));
        // Richardson's extrapolation: single precision allows no small step.
        let difference = (4.0 * slope(step) - slope(2.0 * step)) / 3.0;
        close(&format!("gradient {i}"), gradient[i].into(), difference, 1e-3);
    }
    assert_eq!([gradient[3], gradient[10]], [0.0; 2]);
}

/// The log-probability in `f64`, straight from its definition, also where tanh is 1 in single precision.
#[test]
fn log_probabilities_are_those_of_the_definition() {
    let device = Device::cpu(Some(1)).unwrap();
    let dims = 130; // more than are gathered under one logarithm
    for scale in [0.1, 1.0, 4.0] {
        let mut generator = Stream::new(7).generator();
        let means = normals(&mut generator, dims, scale);
        let log_stds = normals(&mut generator, dims, 0.5);
        let noise = normals(&mut generator, dims, 1.0);
        let (mut actions, mut log_probs) = (device.zeros(dims), device.zeros(1));
        let output = device.adopt([means.clone(), log_stds.clone()].concat());
        device.squash(&output, &device.upload(&noise), [], &mut actions, &mut log_probs);
        let mut expected = 0.0;
        for i in 0..dims {
            let [mean, log_std, noise] = [means[i], log_stds[i], noise[i]].map(f64::from);
            let u = mean + log_std.exp() * noise;
            let half_log_tau = 0.5 * std::f64::consts::TAU.ln();
            expected += -0.5 * noise * noise - log_std - half_log_tau + 2.0 * u.cosh().ln();
            close("action", device.download(&actions).unwrap()[i].into(), u.tanh(), 1e-6);
        }
        close("ln π", device.download(&log_probs).unwrap()[0].into(), expected, 1e-5);
    }
}

/// Updates from a replay memory; the transition of its last row is an end.
fn learn(device: Device) -> (Vec<f32>, Vec<f32>) {
    let widths = Widths { observation: 3, context: 1, action: 2 };
    let settings = SacUpdate { hidden: vec![140, 33], batch: 300, ..Default::default() };
    let mut sac = Sac::new(&device, widths, &settings, Stream::new(1)).unwrap();
    let mut replay = ReplayBuffer::new(&device, widths, 500, settings.batch);
    let mut generator = Stream::new(2).generator();
    let columns = [3, 1, 2, 1].map(|width| device.adopt(normals(&mut generator, 500 * width, 0.5)));
    let [observations, contexts, actions, rewards] = &columns;
    replay.store(&device, 0, [observations, contexts, rewards], actions);
    replay.mark(&device, 0, &[1.0; 499]);
    let rows: Vec<u32> = (0..500).collect();
    let next: Vec<u32> = (0..500).map(|row| (row + 1).min(499)).collect();
    replay.set_transitions(&device, &rows, &next);
    let scale = device.upload(&[0.5]);
    for _ in 0..20 {
        sac.draw(&device, &mut replay, &scale, Stream::new(3));
        sac.update(&device);
    }
    (device.download(&sac.actor.params).unwrap(), device.download(&sac.critics.params).unwrap())
}

#[test]
fn updates_do_not_depend_on_the_number_of_threads() {
    let device = |threads| Device::cpu(Some(threads)).unwrap();
    assert!(learn(device(1)) == learn(device(3)));
    assert!(learn(device(1).fast()) == learn(device(3).fast()));
}

#[test]
fn the_deterministic_actor_is_tanh_of_the_mean() {
    let device = Device::cpu(Some(1)).unwrap();
    let widths = Widths { observation: 3, context: 0, action: 2 };
    let settings = SacUpdate { hidden: vec![7, 5], batch: 4, ..Default::default() };
    let sac = Sac::new(&device, widths, &settings, Stream::new(1)).unwrap();
    let x = device.adopt(normals(&mut Stream::new(2).generator(), 12, 1.0));
    let (mut both, mut means) = (device.zeros(16), device.zeros(8));
    sac.actor.infer(&device, hambo_engine::backend::Input::Shared(&x), 4, &mut both);
    sac.deterministic(&device).unwrap().infer(
        &device,
        hambo_engine::backend::Input::Shared(&x),
        4,
        &mut means,
    );
    let expected = device.download(&both).unwrap();
    let expected: Vec<f64> = expected
        .chunks_exact(4)
        .flat_map(|row| [row[0].tanh(), row[1].tanh()])
        .map(f64::from)
        .collect();
    all_close("η", &device.download(&means).unwrap(), &expected, 1e-6);
}

/// Adam's first step is as long as its learning rate, in every parameter that has a gradient.
#[test]
fn the_actor_may_have_a_learning_rate_of_its_own() {
    let device = Device::cpu(Some(1)).unwrap();
    let widths = Widths { observation: 3, context: 0, action: 2 };
    let settings = SacUpdate {
        hidden: vec![7, 5],
        batch: 4,
        learning_rate: 0.01,
        actor_rate: Some(0.001),
        ..Default::default()
    };
    let mut sac = Sac::new(&device, widths, &settings, Stream::new(1)).unwrap();
    sac.batch.rewards = device.upload(&[1.0; 4]);
    let params =
        |sac: &Sac| [&sac.actor, &sac.critics].map(|e| device.download(&e.params).unwrap());
    let before = params(&sac);
    sac.update(&device);
    let after = params(&sac);
    for (i, rate) in [0.001, 0.01].into_iter().enumerate() {
        let moved = before[i].iter().zip(&after[i]).map(|(a, b)| (a - b).abs());
        close("step", moved.fold(0.0, f32::max).into(), rate, 1e-3);
    }
}
