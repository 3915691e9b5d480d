//! Small systems whose answers are known.

#![allow(dead_code, missing_docs, clippy::unwrap_used)] // every test uses some of it

use hambo::data::{Columns, Split, Transitions};
use hambo::dynamics::{Bnn, BnnConfig, Dynamics};
use hambo::evaluate::{Evaluation, EvaluationConfig, Problem};
use hambo::policy::Policy;
use hambo::run::Run;
use hambo::task::Task;
use hambo_engine::backend::{Activation, Device, SteinKernel};
use hambo_engine::rng::Stream;
use std::path::{Path, PathBuf};

/// A folder that is removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hambo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Transitions s' = `step`(s, a, ε) from states and actions uniform in [−1, 1].
pub fn transitions<const S: usize, const A: usize>(
    n: usize,
    step: impl Fn([f64; S], [f64; A], [f64; S]) -> [f64; S],
) -> Transitions {
    let mut generator = Stream::new(21).generator();
    let mut columns = Columns { state_dim: S, action_dim: A, ..Default::default() };
    for _ in 0..n {
        let s = std::array::from_fn(|_| generator.range(-1.0, 1.0));
        let a = std::array::from_fn(|_| generator.range(-1.0, 1.0));
        let next = step(s, a, std::array::from_fn(|_| generator.normal()));
        columns.states.extend(s.map(|x| x as f32));
        columns.actions.extend(a.map(|x| x as f32));
        columns.next_states.extend(next.map(|x| x as f32));
    }
    columns.rewards = vec![0.0; n];
    columns.terminals = vec![false; n];
    columns.timeouts = vec![false; n];
    columns.episode_starts = vec![0];
    Transitions::new(columns).unwrap()
}

/// Small networks that train in a second.
pub fn small(particles: usize, steps: u32) -> BnnConfig {
    BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        particles,
        hidden: vec![32, 32],
        kernel: SteinKernel::None,
        learning_rate: 5e-3,
        steps: Some(steps),
        batch: 128,
        ..Default::default()
    }
}

pub fn fit(device: &Device, data: &Transitions, config: &BnnConfig) -> Bnn {
    let split = Split::new(data, 0.1, Stream::new(1).child("split")).unwrap();
    Bnn::fit(device, data, &split, config, Stream::new(1), &Run::default()).unwrap()
}

/// The evaluation of a policy in a given model.
pub fn evaluate(
    device: &Device,
    data: &Transitions,
    model: &dyn Dynamics,
    task: &Task,
    policy: &Policy,
    config: &EvaluationConfig,
) -> hambo::Result<Evaluation> {
    let problem = Problem { device, data, model, task, constraints: &[], config };
    problem.evaluate(policy, &Run::default())
}

/// Writes a description of a model that fits the weights beside it, digests and all.
pub fn write_description(folder: &Path, mut description: serde_json::Value) {
    for digest in ["weights_sha256", "sha256"] {
        description.as_object_mut().unwrap().remove(digest);
    }
    let weights = std::fs::read(folder.join("model.safetensors")).unwrap();
    let sealed = hambo::dynamics::seal(description.to_string().as_bytes(), &weights);
    std::fs::write(folder.join("model.json"), sealed).unwrap();
}

/// A linear model without hidden layers, in units of one: particle k predicts s' − s = gains\[k\] · a, with
/// states and actions of two dimensions and a noise of softplus(raw), wherever it is asked.
pub fn linear_model(device: &Device, gains: &[f32], raw: f32) -> Bnn {
    linear_model_as(device, gains, raw, (None, None))
}

/// The same with limits on its first entry.
pub fn linear_model_within(
    range: Option<[f32; 2]>,
    device: &Device,
    gains: &[f32],
    raw: f32,
) -> Bnn {
    linear_model_as(device, gains, raw, (range, None))
}

/// The same with a temperature of one's own.
pub fn linear_model_with(device: &Device, gains: &[f32], raw: f32, tau: Option<f32>) -> Bnn {
    linear_model_as(device, gains, raw, (None, tau))
}

fn linear_model_as(
    device: &Device,
    gains: &[f32],
    raw: f32,
    (range, tau): (Option<[f32; 2]>, Option<f32>),
) -> Bnn {
    let data = transitions::<2, 2>(100, |s, a, _| [s[0] + a[0], s[1] + a[1]]);
    let config = BnnConfig { hidden: vec![], std_floor: 1e-12, ..small(gains.len(), 1) };
    let thread = std::thread::current().id();
    let folder = Folder::new(&format!("linear-{gains:?}-{raw}-{range:?}-{tau:?}-{thread:?}"));
    fit(device, &data, &config).save(device, &folder.0).unwrap();

    let path = folder.0.join("model.json");
    let mut json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    json["inputs"] = serde_json::json!({"mean": [0, 0, 0, 0], "std": [1, 1, 1, 1]});
    json["targets"] = serde_json::json!({"mean": [0, 0], "std": [1, 1]});
    json["range"] = serde_json::json!([range, null]);
    if let Some(tau) = tau {
        json["tau"] = serde_json::json!([tau, tau]);
    }

    // Weights [s₀, s₁, a₀, a₁] × [mean₀, mean₁, raw₀, raw₁], then the biases.
    let params: Vec<f32> = gains
        .iter()
        .flat_map(|&g| {
            let mut p = [0.0; 20];
            (p[2 * 4], p[3 * 4 + 1], p[18], p[19]) = (g, g, raw, raw);
            p
        })
        .collect();
    let bytes: Vec<u8> = params.iter().flat_map(|p| p.to_le_bytes()).collect();
    let shape = vec![gains.len(), 20];
    let tensor =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape, &bytes).unwrap();
    let path = folder.0.join("model.safetensors");
    safetensors::serialize_to_file([("params", tensor)], None, &path).unwrap();
    write_description(&folder.0, json);
    Bnn::load(device, &folder.0).unwrap()
}
