//! Networks as their own tools save them, against the actions that these tools compute (`reference/make_torch.py`).

#![allow(clippy::unwrap_used, clippy::panic)] // the exemption for tests does not reach their helping functions

use hambo::policy::{Policy, PolicyHints};
use hambo_engine::backend::Device;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/networks").join(name)
}

fn read(name: &str, hints: &PolicyHints) -> Result<Policy, String> {
    Policy::read_as(file(name).to_str().unwrap(), hints).map_err(|e| {
        let told = e.to_string();
        let prefix = format!("{}: ", file(name).display());
        told.strip_prefix(&prefix).unwrap_or_else(|| panic!("{told}")).to_owned()
    })
}

fn said(activation: &str, squash: &str) -> PolicyHints {
    let [activation, squash] = [activation, squash].map(|word| Some(word.to_owned()));
    PolicyHints { activation, squash, ..PolicyHints::default() }
}

#[test]
fn networks_act_as_in_the_tools_that_saved_them() {
    let content: Value =
        serde_json::from_str(&std::fs::read_to_string(file("actions.json")).unwrap()).unwrap();
    let floats = |rows: &Value| -> Vec<f32> {
        let rows = rows.as_array().unwrap().iter();
        rows.flat_map(|row| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32))
            .collect()
    };
    let device = Device::cpu(Some(1)).unwrap();
    let observations = device.upload(&floats(&content["observations"]));
    let mut read_some = 0;
    for (name, told) in content["files"].as_object().unwrap() {
        let hint = |key: &str| told["hints"][key].as_str().map(str::to_owned);
        let (activation, squash, output) = (hint("activation"), hint("squash"), hint("output"));
        let hints = PolicyHints { activation, squash, output, ..PolicyHints::default() };
        let policy = read(name, &hints).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let expected = floats(&told["actions"]);
        let mut actions = device.zeros(expected.len());
        policy.act(&device, &observations, &mut actions);
        let actions = device.download(&actions).unwrap();
        let worst = actions.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let worst = worst.fold(0.0, f32::max);
        assert!(worst < 2e-5, "{name}: {worst}");
        read_some += 1;
    }
    assert!(read_some >= 10, "{read_some}");
}

#[test]
fn what_is_not_in_a_file_of_weights_is_asked_for() {
    let told = read("td3_actor.pth", &PolicyHints::default()).unwrap_err();
    assert!(
        told.starts_with("a PyTorch file, which holds weights (layers 3 → 8 → 8 → 2)")
            && told.contains("say --activation relu, tanh,")
            && told.contains("docs/export_onnx.py"),
        "{told}"
    );
    let told = read("td3_actor.pth", &said("sine", "none")).unwrap_err();
    assert!(told.starts_with("activation \"sine\": expected relu,"), "{told}");
    let told = read("td3_actor.pth", &said("relu", "sigmoid")).unwrap_err();
    assert_eq!(told, "--squash sigmoid: expected tanh, tanh:LIMIT or none");
    let told = read("td3_actor.pth", &said("relu", "tanh:-1")).unwrap_err();
    assert_eq!(told, "--squash tanh:-1: expected a positive number");
    let told = read("cleanrl_sac.pt", &said("relu", "none")).unwrap_err();
    assert!(told.starts_with("it has an `action_scale`"), "{told}");
    // A standard deviation that does not depend on the state is known, one that a head gives is not.
    assert!(read("cleanrl_ppo.pt", &said("tanh", "none")).unwrap().has_distribution());
    assert!(!read("cleanrl_sac.pt", &said("relu", "tanh")).unwrap().has_distribution());
}

#[test]
fn what_says_itself_how_it_acts_takes_no_hints() {
    let told = read("float16.onnx", &said("relu", "none")).unwrap_err();
    assert!(told.contains("leave --activation and --squash out"), "{told}");
    let output = PolicyHints { output: Some("third".into()), ..PolicyHints::default() };
    assert_eq!(read("two.onnx", &output).unwrap_err(), "no output `third`: it has second, first");
    let told = read("two.onnx", &PolicyHints::default()).unwrap_err();
    assert!(
        told.starts_with("it has the outputs second, first") && told.ends_with("--output NAME"),
        "{told}"
    );
}

#[test]
fn what_is_no_chain_of_linear_layers_is_refused_with_the_way_out() {
    for (name, starts, ends) in [
        ("refused_torchscript.pt", "a TorchScript file", "docs/export_onnx.py"),
        (
            "refused_module.pt",
            "a PyTorch file: export it with docs/export_onnx.py (it names",
            "executed)",
        ),
        ("refused_lstm.pt", "a recurrent policy (`actor.weight_ih_l0`)", "not supported"),
        ("refused_lstm.onnx", "a recurrent policy (LSTM)", "not supported"),
        (
            "refused_norm.pt",
            "`1.weight` of shape [8] is no part of linear layers",
            "docs/export_onnx.py",
        ),
        (
            "refused_normalizer.pt",
            "a PyTorch file: export it with docs/export_onnx.py (it has an observation normalizer (`obs_norm_state_dict`)",
            "another policy)",
        ),
        (
            "refused_encoder.pt",
            "`encoder.weight` is beside the actor, and may be a part of it",
            "docs/export_onnx.py",
        ),
        (
            "refused_chain.pt",
            "`b` takes 3 numbers, the layer before it gives 8",
            "docs/export_onnx.py",
        ),
        (
            "refused_scaler.d3",
            "a d3rlpy file whose settings have an `observation_scaler`",
            "docs/export_onnx.py",
        ),
    ] {
        let hints =
            if name.ends_with(".onnx") { PolicyHints::default() } else { said("relu", "tanh") };
        let told = read(name, &hints).unwrap_err();
        assert!(told.starts_with(starts) && told.ends_with(ends), "{name}: {told}");
    }
}

#[test]
fn files_that_are_no_policies_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, told) in [
        ("policy.onnx", &b"version https://git-lfs.github.com/spec/v1\n"[..], "a Git-LFS pointer"),
        (
            "checkpoint",
            b"model_checkpoint_path: 1",
            "not a policy (a part of a TensorFlow checkpoint",
        ),
        ("saved_model.pb", b"\x12\x01", "not a policy (a TensorFlow SavedModel"),
        ("policy.pkl", b"\x80\x04cos\nsystem\n.", "a Python pickle with more in it than arrays"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = Policy::read(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
