//! Clipped double DQN against PyTorch, its choices against their odds, and its bits against the number of threads.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

use hambo_engine::backend::Device;
use hambo_engine::rl::{Dqn, DqnUpdate, ReplayBuffer, Widths};
use hambo_engine::rng::Stream;
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let off = (got - expected).abs();
    assert!(off <= tolerance * (1.0 + expected.abs()), "{what}: {got} instead of {expected}");
}

#[test]
fn updates_work_like_pytorch() {
    let all: Value = serde_json::from_str(include_str!("reference/dqn.json")).unwrap();
    let number = |name: &str| all[name].as_f64().unwrap() as f32;
    let count = |value: &Value| value.as_u64().unwrap() as usize;
    let device = Device::cpu(Some(2)).unwrap();
    let settings = DqnUpdate {
        hidden: numbers(&all["hidden"]).iter().map(|&w| w as usize).collect(),
        batch: count(&all["rows"]),
        learning_rate: number("learning_rate"),
        discount: number("discount"),
        polyak: number("polyak"),
    };
    let [observation, context] = [0, 1].map(|i| count(&all["widths"][i]));
    let widths = Widths { observation, context, action: 1 };
    let mut dqn =
        Dqn::new(&device, widths, count(&all["choices"]), &settings, Stream::new(0)).unwrap();
    let single = |value: &Value| numbers(value).iter().map(|&v| v as f32).collect::<Vec<f32>>();
    let read = |value: &Value| device.adopt(single(value));
    let shape = dqn.networks.shape.clone();
    let network = |name: &str| device.adopt(shape.spread(&single(&all["first"][name])));
    dqn.networks.params = network("networks");
    dqn.target_networks.params = network("target_networks");
    let batch = |name: &str| read(&all["batch"][name]);
    dqn.batch.observations = batch("observations");
    dqn.batch.contexts = batch("contexts");
    dqn.batch.actions =
        device.adopt(numbers(&all["batch"]["actions"]).iter().map(|&a| a as u32).collect());
    dqn.batch.rewards = batch("rewards");
    dqn.batch.continues = batch("continues");
    dqn.batch.next_observations = batch("next_observations");
    dqn.batch.next_contexts = batch("next_contexts");

    for (i, expected) in all["steps"].as_array().unwrap().iter().enumerate() {
        dqn.update(&device);
        close(
            &format!("update {i}, loss"),
            dqn.loss(&device).unwrap(),
            expected["loss"].as_f64().unwrap(),
            1e-5,
        );
        let buffers = [
            ("gradient", &dqn.gradient),
            ("networks", &dqn.networks.params),
            ("target_networks", &dqn.target_networks.params),
        ];
        for (name, buffer) in buffers {
            let (got, expected) =
                (shape.dense(&device.download(buffer).unwrap()), numbers(&expected[name]));
            assert_eq!(got.len(), expected.len());
            for (j, (&g, e)) in got.iter().zip(expected).enumerate() {
                close(&format!("update {i}, {name} {j}"), g.into(), e, 2e-5);
            }
        }
    }
}

/// Two networks whose sum is highest at choice 2 of 3 in even rows, at choice 0 in odd ones.
#[test]
fn choices_are_greedy_but_for_their_share_of_random_ones() {
    let device = Device::cpu(Some(2)).unwrap();
    let rows = 30_000;
    let first: Vec<f32> =
        (0..rows).flat_map(|row| [[9.0, 1.0, 8.0], [5.0, 5.0, 1.0]][row % 2]).collect();
    let second: Vec<f32> =
        (0..rows).flat_map(|row| [[0.0, 3.0, 2.0], [1.0, 1.0, 4.0]][row % 2]).collect();
    let values = device.adopt([first, second].concat());
    let mut time = device.counter();
    let mut draw = |epsilon: f32, stream: Stream| {
        let mut choices = device.zeros(rows);
        device.choose(&values, 3, epsilon, stream, &time, &mut choices);
        let choices = device.download(&choices).unwrap();
        device.advance(&mut time);
        choices
    };
    let greedy = |row: usize| [2, 0][row % 2];
    let shares = |choices: &[u32]| {
        let off = choices.iter().enumerate().filter(|&(row, &c)| c != greedy(row)).count();
        off as f64 / rows as f64
    };
    assert_eq!(shares(&draw(0.0, Stream::new(1))), 0.0, "the first of equals is taken");
    for epsilon in [0.3, 1.0] {
        let choices = draw(epsilon, Stream::new(1));
        close("share off the best", shares(&choices), f64::from(epsilon) * 2.0 / 3.0, 0.01);
        assert_ne!(choices, draw(epsilon, Stream::new(1)), "every step draws anew");
    }
}

#[test]
fn a_look_ahead_scores_choices_by_where_they_lead() {
    let device = Device::cpu(Some(2)).unwrap();
    let (networks, options, rows) = (2, 3, 400);
    let (all, mut generator) = (options * rows, Stream::new(6).generator());
    let mut normals = |n: usize| (0..n).map(|_| generator.normal() as f32).collect::<Vec<_>>();
    let (rewards, values) = (normals(all), normals(networks * all * options));
    let ended: Vec<u32> = (0..all as u32).map(|i| if i % 7 == 0 { 1 + i % 3 } else { 0 }).collect();
    let mut scores = device.zeros(all);
    let [rewards_there, values_there] = &[&rewards, &values].map(|x| device.upload(x));
    let (discounts, now) = (device.upload(&[0.9]), device.counter());
    let there = (rewards_there, &device.upload(&ended));
    device.look_ahead(-0.5, (&discounts, &now), there, values_there, options, &mut scores);
    let scores = device.download(&scores).unwrap();
    for (row, choice) in (0..rows).flat_map(|row| (0..options).map(move |choice| (row, choice))) {
        let at = choice * rows + row;
        let mean = |j: usize| {
            (0..networks).map(|n| f64::from(values[(n * all + at) * options + j])).sum::<f64>()
                / 2.0
        };
        let value = (0..options).map(mean).fold(f64::NEG_INFINITY, f64::max);
        let goes_on = f64::from(u8::from(ended[at] == 0));
        let expected = -0.5 * f64::from(rewards[at]) + 0.9 * goes_on * value;
        close("score", scores[row * options + choice].into(), expected, 1e-6);
    }
}

/// Updates from a replay memory; the transition of its last row is an end.
fn learn(device: Device) -> Vec<f32> {
    let widths = Widths { observation: 3, context: 1, action: 1 };
    let settings = DqnUpdate { hidden: vec![140, 33], batch: 300, ..Default::default() };
    let mut dqn = Dqn::new(&device, widths, 5, &settings, Stream::new(1)).unwrap();
    let mut replay = ReplayBuffer::new(&device, widths, 500, settings.batch);
    let mut generator = Stream::new(2).generator();
    let [observations, contexts, rewards] = [3, 1, 1]
        .map(|width| device.adopt((0..500 * width).map(|_| generator.normal() as f32).collect()));
    let actions = device.adopt((0..500).map(|_| generator.below(5) as u32).collect());
    replay.store(&device, 0, [&observations, &contexts, &rewards], &actions);
    replay.mark(&device, 0, &[1.0; 499]);
    let rows: Vec<u32> = (0..500).collect();
    let next: Vec<u32> = (0..500).map(|row| (row + 1).min(499)).collect();
    replay.set_transitions(&device, &rows, &next);
    let scale = device.upload(&[0.5]);
    for _ in 0..20 {
        dqn.draw(&device, &mut replay, &scale, Stream::new(3));
        dqn.update(&device);
    }
    device.download(&dqn.networks.params).unwrap()
}

#[test]
fn updates_do_not_depend_on_the_number_of_threads() {
    let device = |threads| Device::cpu(Some(threads)).unwrap();
    assert!(learn(device(1)) == learn(device(3)));
    assert!(learn(device(1).fast()) == learn(device(3).fast()));
}
