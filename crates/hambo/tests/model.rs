//! The Bayesian network model on systems that are known: what it learns, when it stops, what it writes.

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::{Folder, fit, linear_model, small, transitions, write_description};
use hambo::data::{Columns, Fold, Split, Transitions};
use hambo::dynamics::{Bnn, BnnConfig, Dynamics, Target};
use hambo::run::{Observer, Run};
use hambo_engine::backend::{Device, Input, SteinKernel};
use hambo_engine::rng::Stream;
use std::sync::Mutex;

/// The deviation of the first dimension's noise grows eightfold over the data, that of the second is 0.05.
fn deviation(s: [f64; 2]) -> [f64; 2] {
    [0.05 * s[0].exp(), 0.05]
}

fn mean([x, y]: [f64; 2], [a]: [f64; 1]) -> [f64; 2] {
    [0.9 * x + 0.2 * y + 0.1, -0.3 * x + 0.8 * y + 0.5 * a]
}

fn noisy(n: usize) -> Transitions {
    transitions(n, |s, a, noise| {
        let (mean, std) = (mean(s, a), deviation(s));
        [0, 1].map(|i| mean[i] + std[i] * noise[i])
    })
}

#[test]
fn a_linear_system_and_its_noise_are_recovered() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = noisy(6000);
    for target in [Target::Change, Target::NextState] {
        let config = BnnConfig { target, ..small(3, 1500) };
        let model = fit(&device, &data, &config);
        let mut generator = Stream::new(31).generator();
        let points: Vec<([f64; 2], [f64; 1])> = (0..500)
            .map(|_| ([0, 1].map(|_| generator.range(-0.9, 0.9)), [generator.range(-0.9, 0.9)]))
            .collect();
        let states: Vec<f32> = points.iter().flat_map(|p| p.0.map(|x| x as f32)).collect();
        let actions: Vec<f32> = points.iter().map(|p| p.1[0] as f32).collect();
        let prediction = model.predict(&device, &states, &actions).unwrap();
        for dimension in 0..2 {
            let (mut of_mean, mut of_std) = (0.0, 0.0);
            for (i, &(s, a)) in points.iter().enumerate() {
                let at = 2 * i + dimension;
                of_mean += (f64::from(prediction.mean[at]) - mean(s, a)[dimension]).powi(2);
                let ratio = f64::from(prediction.aleatoric_std[at]) / deviation(s)[dimension];
                of_std += ratio.ln().powi(2);
            }
            let (of_mean, of_std) = ((of_mean / 500.0).sqrt(), (of_std / 500.0).sqrt());
            assert!(
                of_mean < 0.015,
                "{target:?}: mean of dimension {dimension} is off by {of_mean}"
            );
            assert!(
                of_std < 0.15,
                "{target:?}: noise of dimension {dimension} is off by {of_std} of itself"
            );
        }
        let typical = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
        let far: Vec<f32> = states.iter().map(|s| s + 4.0 * s.signum()).collect();
        let on_data = typical(&prediction.epistemic_std);
        let off_data = typical(&model.predict(&device, &far, &actions).unwrap().epistemic_std);
        assert!(
            off_data > 5.0 * on_data,
            "{target:?}: epistemic {off_data} off, {on_data} on the data"
        );
        // The true noise is in the family, so there is little to recalibrate.
        assert!(
            model.tau().iter().all(|t| (0.85..1.15).contains(t)),
            "{target:?}: τ = {:?}",
            model.tau()
        );
        assert!(model.report().broken_particles.is_empty());
    }
}

#[test]
fn particles_that_agree_have_no_epistemic_variance_at_all() {
    let device = Device::cpu(Some(2)).unwrap();
    let one = fit(&device, &noisy(300), &small(1, 20));
    let states: Vec<f32> = (0..100).map(|i| (i as f32).sin() * 3.0).collect();
    let actions: Vec<f32> = (0..100).map(|i| (i as f32).cos()).collect();
    let prediction = one.predict(&device, &states, &actions[..50]).unwrap();
    assert!(prediction.epistemic_std.iter().all(|&e| e == 0.0), "one particle");
    assert!(prediction.aleatoric_std.iter().all(|&a| a > 0.0));

    // A seventh and its like have no exact sum: seven times itself over seven is not always itself.
    for gains in [&[1.0 / 7.0; 7][..], &[0.1; 3], &[1.0; 1]] {
        let same = linear_model(&device, gains, -1.0);
        let prediction = same.predict(&device, &states, &actions).unwrap();
        assert!(prediction.epistemic_std.iter().all(|&e| e == 0.0), "{} particles", gains.len());
    }
    let different = linear_model(&device, &[0.5, 1.5], -1.0);
    let prediction = different.predict(&device, &[0.0, 0.0], &[2.0, -1.0]).unwrap();
    assert_eq!(prediction.mean, [2.0, -1.0]);
    assert_eq!(prediction.epistemic_std, [1.0, 0.5]);
}

/// Mean negative log-likelihood of each particle on the validation rows.
fn held_out_nll(device: &Device, model: &Bnn, data: &Transitions, split: &Split) -> Vec<f64> {
    let rows = split.folds[0].validation.len();
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for &row in &split.folds[0].validation {
        let row = row as usize;
        x.extend_from_slice(data.state(row));
        x.extend_from_slice(data.action(row));
        y.extend(data.next_state(row).iter().zip(data.state(row)).map(|(n, s)| n - s));
    }
    model.frame().inputs.apply(&mut x);
    model.frame().targets.apply(&mut y);
    let mut output = device.zeros(model.particles() * rows * 2 * model.state_dim());
    let mut losses = device.zeros(model.particles());
    model.ensemble().infer(device, Input::Shared(&device.upload(&x)), rows, &mut output);
    device.gaussian_nll(model.head(), &output, &device.upload(&y), None, &mut losses);
    device.download(&losses).unwrap()
}

#[derive(Default)]
struct Notes(Mutex<Vec<f64>>);

impl Observer for Notes {
    fn report(&self, _: &str, _: usize, _: usize, note: &str) {
        self.0.lock().unwrap().push(note.rsplit(' ').next().unwrap().parse().unwrap());
    }
}

#[test]
fn training_stops_early_and_keeps_each_particle_at_its_best() {
    let device = Device::cpu(Some(2)).unwrap();
    let data = noisy(400);
    let split = Split::new(&data, 0.2, Stream::new(1)).unwrap();
    // A rate so large and constant that the likelihood jumps up and down.
    let config = BnnConfig {
        learning_rate: 0.05,
        decay: false,
        steps: Some(5000),
        check_every: 7,
        patience: 70,
        ..small(4, 0)
    };
    let notes = Notes::default();
    let model =
        Bnn::fit(&device, &data, &split, &config, Stream::new(2), &Run::new(&notes, None)).unwrap();
    let report = model.report();
    assert!(
        report.stopped_early && report.steps < 5000 && report.steps >= 70,
        "{} steps",
        report.steps
    );
    assert_eq!(held_out_nll(&device, &model, &data, &split), report.validation_nll);
    // The mean over particles was never as low as what was kept of each.
    let notes = notes.0.into_inner().unwrap();
    assert_eq!(notes.len() as u32, report.steps / 7);
    let kept = report.validation_nll.iter().sum::<f64>() / 4.0;
    assert!(notes.iter().all(|&n| kept < n), "kept {kept}, seen {notes:?}");

    // The rate does not depend on the steps to come, so shorter runs are prefixes: the best of all of them
    // is what the long run kept.
    let shorter = |steps| {
        let config = BnnConfig { steps: Some(steps), ..config.clone() };
        let model =
            Bnn::fit(&device, &data, &split, &config, Stream::new(2), &Run::default()).unwrap();
        (device.download(&model.ensemble().params).unwrap(), model.report().validation_nll.clone())
    };
    let (params, nll) = shorter(report.steps - 70);
    assert_eq!(nll, report.validation_nll, "nothing improved in the last 70 steps");
    assert_eq!(params, device.download(&model.ensemble().params).unwrap());
    assert_ne!(shorter(report.steps - 77).1, report.validation_nll, "something did just before");

    let patient = BnnConfig { steps: Some(21), ..config };
    let model =
        Bnn::fit(&device, &data, &split, &patient, Stream::new(2), &Run::default()).unwrap();
    assert!(!model.report().stopped_early && model.report().steps == 21);
}

#[test]
fn training_that_leaves_the_numbers_is_an_error() {
    let device = Device::cpu(Some(1)).unwrap();
    let config = BnnConfig { learning_rate: 1e30, ..small(2, 50) };
    let split = Split::new(&noisy(100), 0.1, Stream::new(1)).unwrap();
    let error = Bnn::fit(&device, &noisy(100), &split, &config, Stream::new(1), &Run::default())
        .unwrap_err();
    assert!(error.to_string().contains("lower the learning rate"), "{error}");

    let deep = BnnConfig { hidden: vec![4; 16], ..small(2, 5) };
    let error =
        Bnn::fit(&device, &noisy(100), &split, &deep, Stream::new(1), &Run::default()).unwrap_err();
    assert!(error.to_string().contains("at most 16 layers"), "{error}");
}

#[test]
fn a_saved_model_predicts_the_same() {
    let device = Device::cpu(Some(2)).unwrap();
    let folder = Folder::new("saved");
    for (target, kernel) in [
        (Target::Change, SteinKernel::Rbf { length_scale: 10.0 }),
        (Target::NextState, SteinKernel::Median),
    ] {
        let model = fit(&device, &noisy(300), &BnnConfig { target, kernel, ..small(3, 30) });
        model.save(&device, &folder.0).unwrap();
        let loaded = Bnn::load(&device, &folder.0).unwrap();
        let states: Vec<f32> = (0..200).map(|i| (i as f32).sin()).collect();
        let actions: Vec<f32> = (0..100).map(|i| (i as f32).cos()).collect();
        let [a, b] = [&model, &loaded].map(|m| m.predict(&device, &states, &actions).unwrap());
        assert!(a == b && a.mean.iter().all(|x| x.is_finite()));
        assert_eq!(model.tau(), loaded.tau());
        assert_eq!(model.report(), loaded.report());
        assert_eq!(model.frame().relative(), loaded.frame().relative());
    }
}

#[test]
fn damaged_model_files_are_errors() {
    let device = Device::cpu(Some(1)).unwrap();
    let folder = Folder::new("damaged");
    fit(&device, &noisy(100), &BnnConfig { hidden: vec![3], ..small(2, 5) })
        .save(&device, &folder.0)
        .unwrap();
    let states = [0.5, 0.25];
    let load =
        || Bnn::load(&device, &folder.0).map(|m| m.predict(&device, &states, &[0.1]).unwrap());
    load().unwrap();

    for name in ["model.json", "model.safetensors"] {
        let path = folder.0.join(name);
        let good = std::fs::read(&path).unwrap();
        for length in (0..good.len() - 1).step_by(1 + good.len() / 97) {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(load().is_err(), "{name} cut to {length} bytes is read");
        }
        // A flipped bit is seen wherever it is.
        for (i, position) in (0..good.len()).step_by(1 + good.len() / 997).enumerate() {
            let mut bytes = good.clone();
            bytes[position] ^= [0x01, 0x80, 0x10, 0xff][i % 4];
            std::fs::write(&path, &bytes).unwrap();
            assert!(load().is_err(), "{name} with byte {position} changed is read");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(load().unwrap_err().to_string().contains(name));
        std::fs::write(&path, &good).unwrap();
    }
    load().unwrap();

    let path = folder.0.join("model.json");
    let good: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for (pointer, value, part) in [
        ("/schema", "\"hambo/bnn/0\"", "schema is"),
        ("/layout/observed", "3", "do not fit"),
        ("/layout/observed", "0", "do not fit"),
        ("/layout/reward", "true", "do not fit"),
        ("/layout/angles", "[{\"index\": 0, \"from\": null}]", "do not fit"),
        ("/layout/observed", "18446744073709551615", "do not fit"),
        ("/head/dims", "9223372036854775808", "do not fit"),
        ("/head/floor", "1e40", "out of range"),
        ("/head/floor", "-1.0", "positive"),
        ("/shape/members", "3", "do not fit"),
        ("/shape/members", "0", "at least one member"),
        ("/shape/output", "\"tanh\"", "do not fit"),
        ("/shape/widths", "[3, 4611686018427387904, 4]", "at most"),
        ("/shape/widths", "[3, 9223372036854775807, 9223372036854775807, 4]", "at most"),
        ("/shape/widths", "[3, 4]", "params"),
        ("/shape/widths", "[3, 0, 4]", "at least 1"),
        ("/shape/widths", "[]", "at least"),
        ("/shape/widths", "[3,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]", "at most 16 layers"),
        ("/tau", "[1.0]", "do not fit"),
        ("/tau", "[1.0, 1e39]", "out of range"),
        ("/inputs/std", "[1.0, 0.0, 1.0]", "positive"),
        ("/inputs/std", "[1.0, null, 1.0]", "null"),
        ("/inputs/mean", "[]", "do not fit"),
        ("/config/learning_rate", "-1.0", "learning_rate"),
    ] {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
        write_description(&folder.0, json);
        let error = load().expect_err(&format!("{pointer} = {value} is read")).to_string();
        assert!(error.contains(part), "{pointer} = {value}: {error}");
    }
}

/// Rows of two kinds, on which s' − s is +1 or −1, and a model for each: what is held out of one trains the other.
fn two_kinds() -> (Transitions, Split) {
    let n = 400;
    let data = transitions::<1, 1>(n, |s, _, _| s);
    let mut columns = Columns {
        state_dim: 1,
        action_dim: 1,
        states: data.states().to_vec(),
        actions: data.actions().to_vec(),
        rewards: vec![0.0; n],
        next_states: data.states().to_vec(),
        terminals: vec![false; n],
        timeouts: vec![false; n],
        episode_starts: vec![0],
        ..Default::default()
    };
    let kind = |row: usize| if row.is_multiple_of(2) { 1.0 } else { -1.0 };
    columns.next_states.iter_mut().enumerate().for_each(|(row, s)| *s += kind(row));
    let rows = |kind: u32, from: u32| (from..n as u32).filter(move |row| row % 2 == kind);
    let fold = |kind: u32| Fold {
        train: rows(kind, 100).collect(),
        validation: rows(kind, 0).take(30).collect(),
        held_out: rows(1 - kind, 0).take(40 + kind as usize).collect(), // not as many of both
    };
    let data = Transitions::new(columns).unwrap();
    let split =
        Split { data_sha256: data.digest(), folds: vec![fold(0), fold(1)], by_episode: true };
    (data, split)
}

#[test]
fn every_fold_learns_from_its_own_rows_and_answers_for_its_own_part() {
    let device = Device::cpu(Some(2)).unwrap();
    let (data, split) = two_kinds();
    for own_minibatches in [true, false] {
        let config = BnnConfig { own_minibatches, ..small(3, 400) };
        let model =
            Bnn::fit(&device, &data, &split, &config, Stream::new(1), &Run::default()).unwrap();
        assert_eq!((model.folds(), model.members(), model.particles()), (2, 3, 3));
        assert!(model.report().validation_nll.iter().all(|nll| *nll < 0.0), "{:?}", model.report());
        // The first half of the rows is of the first fold, whatever the particle.
        let (x, _) = model_inputs(&model, &data, 50);
        let [mean, ..] = model.moments(&device, &device.adopt(x.repeat(2)), 100).unwrap();
        let unit =
            |row: usize| mean[row] * model.frame().targets.std[0] + model.frame().targets.mean[0];
        assert!((0..50).all(|row| (unit(row) - 1.0).abs() < 0.1), "{mean:?}");
        assert!((50..100).all(|row| (unit(row) + 1.0).abs() < 0.1), "{mean:?}");
        // Held-out rows are those of the other kind: each fold is off by 2, and knows nothing of it.
        let folds: Vec<&[u32]> = model.held_out().folds.iter().map(|f| &f.held_out[..]).collect();
        let residuals = model.standardized_residuals(&device, &data, &folds).unwrap();
        assert_eq!(residuals[0].len(), 81);
        assert!(residuals[0][..40].iter().all(|z| *z < -5.0), "{residuals:?}");
        assert!(residuals[0][40..].iter().all(|z| *z > 5.0), "{residuals:?}");
        // Saved and read again it is the same.
        let folder = Folder::new(&format!("folds-{own_minibatches}"));
        model.save(&device, &folder.0).unwrap();
        let again = Bnn::load(&device, &folder.0).unwrap();
        let [mean_again, ..] = again.moments(&device, &device.adopt(x.repeat(2)), 100).unwrap();
        assert_eq!(mean, mean_again);
        // A description whose rows lie beyond the data is refused before they are looked up.
        let path = folder.0.join("model.json");
        let mut json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        json["held_out"]["folds"][1]["held_out"][0] = (data.len() as u32 + 1).into();
        write_description(&folder.0, json);
        let refused = match Bnn::load(&device, &folder.0) {
            Err(error) => error.to_string(),
            Ok(model) => model.check_data(&data).unwrap_err().to_string(),
        };
        assert!(refused.contains("held-out rows beyond"), "{refused}");
    }
}

/// The first rows as the model sees them.
fn model_inputs(model: &Bnn, data: &Transitions, rows: usize) -> (Vec<f32>, usize) {
    let units = &model.frame().inputs;
    let row = |i: usize| [data.state(i)[0], data.action(i)[0]];
    let unit = |(c, x): (usize, f32)| (x - units.mean[c]) / units.std[c];
    ((0..rows).flat_map(|i| row(i).into_iter().enumerate().map(unit)).collect(), rows)
}
