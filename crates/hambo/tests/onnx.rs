//! ONNX policies: their actions against those of Stable-Baselines3 and ONNX Runtime (`reference/make_onnx.py`).

#![allow(clippy::unwrap_used)] // the exemption for tests does not reach their helping functions

mod common;

use common::Folder;
use hambo::policy::Policy;
use hambo_engine::backend::Device;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Case {
    observations: Vec<Vec<f32>>,
    actions: Vec<Vec<f32>>,
}

fn graphs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/onnx")
}

fn largest_error(path: &Path, case: &Case) -> f32 {
    let policy = Policy::read(path.to_str().unwrap()).unwrap();
    let device = Device::cpu(Some(2)).unwrap();
    let mut actions = device.zeros(case.actions.concat().len());
    policy.act(&device, &device.upload(&case.observations.concat()), &mut actions);
    let ours = device.download(&actions).unwrap();
    let error =
        ours.iter().zip(case.actions.concat()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{:<60} {error:.1e}", path.display());
    error
}

/// Every kind of agent, exported by docs/export_onnx.py, does what its zip does.
#[test]
fn exported_agents_do_what_stable_baselines3_does() {
    let all: BTreeMap<String, Case> =
        serde_json::from_str(include_str!("reference/sb3.json")).unwrap();
    let mut seen = 0;
    for (name, case) in &all {
        let Some(kind) = name.strip_prefix("agents/").and_then(|n| n.strip_suffix("/agent.zip"))
        else {
            continue;
        };
        let path = graphs().join(format!("{kind}.onnx"));
        let error = largest_error(&path, case);
        assert!(error < 1e-5, "{kind}: {error}");
        seen += 1;
    }
    assert_eq!(seen, 7);
}

/// MLPs written in other ways than torch's exporter writes them, against ONNX Runtime; and what is no MLP.
#[test]
fn graphs_do_what_onnx_runtime_does() {
    let all: BTreeMap<String, Case> =
        serde_json::from_str(include_str!("reference/onnx/actions.json")).unwrap();
    assert_eq!(all.len(), 6);
    for (name, case) in &all {
        if name.starts_with("other_") && !cfg!(feature = "onnxruntime") {
            continue;
        }
        if name.starts_with("other_") && std::env::var_os("ORT_DYLIB_PATH").is_none() {
            println!("SKIPPED: {name} needs ORT_DYLIB_PATH");
            continue;
        }
        let error = largest_error(&graphs().join(name), case);
        // Single precision: a mean of 2·10⁵ leaves 0.02 of the observation.
        assert!(error < 1e-5, "{name}: {error}");
    }
}

/// The agents of other people, in the folder that make_onnx.py wrote, on 1000 observations each.
#[test]
fn exported_agents_of_others_do_what_stable_baselines3_does() {
    let Some(folder) = std::env::var_os("HAMBO_ONNX").map(PathBuf::from) else {
        println!("SKIPPED: HAMBO_ONNX names no folder that make_onnx.py wrote");
        return;
    };
    let text = std::fs::read_to_string(folder.join("actions.json")).unwrap();
    let all: BTreeMap<String, Case> = serde_json::from_str(&text).unwrap();
    assert!(all.len() > 10);
    for (name, case) in &all {
        assert_eq!(case.observations.len(), 1000);
        let error = largest_error(&folder.join(name), case);
        assert!(error < 1e-5, "{name}: {error}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let folder = Folder::new("no-onnx");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let whole = std::fs::read(graphs().join("td3.onnx")).unwrap();
    let mut cases = vec![
        (graphs().join("external.onnx"), "lie in another file (external data)"),
        (file("text.onnx", b"no graph at all"), "not an ONNX file, or a damaged one"),
        (file("empty.onnx", b""), "there is no graph in it"),
        (file("cut.onnx", &whole[..whole.len() / 2]), "not an ONNX file, or a damaged one"),
    ];
    if !cfg!(feature = "onnxruntime") {
        let softmax = graphs().join("other_softmax_batch_of_one.onnx");
        cases.push((softmax.clone(), "not a plain MLP: its operator Softmax"));
        cases.push((softmax, "--features onnxruntime"));
    }
    for (path, part) in cases {
        let error = Policy::read(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let policy = Policy::read(graphs().join("sac.onnx").to_str().unwrap()).unwrap();
    let error = policy.sampling().unwrap_err().to_string();
    assert!(error.contains("is deterministic") && error.contains("--policy-noise"), "{error}");
}
