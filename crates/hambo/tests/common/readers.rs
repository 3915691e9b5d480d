//! Every reader of files from strangers as a function of bytes, for the fuzz targets (`fuzz/`) and for the regression
//! corpus (`corpus.rs`), so that both do the same. None may panic, hang, or ask for more memory than the bytes could fill.

#![allow(missing_docs, dead_code, clippy::unwrap_used)]

use hambo::data::{Logs, attributes, describe};
use hambo::dynamics::Bnn;
use hambo::policy::{Policy, PolicyHints};
use hambo_engine::backend::Device;
use hambo_engine::expression::{Program, Scope, Scratch};
use hambo_engine::rng::Stream;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use zip::write::SimpleFileOptions;

type Reader = fn(&[u8]);

/// Name of a target and what it does with bytes.
pub const READERS: [(&str, Reader); 18] = [
    ("hdf5", hdf5),
    ("minari", hdf5),
    ("npz", data),
    ("npy", npy),
    ("csv", data),
    ("parquet", parquet),
    ("arrow", data),
    ("lerobot", lerobot),
    ("state_dict", state_dict),
    ("state_dict_pickle", state_dict_pickle),
    ("sb3", policy),
    ("sb3_description", sb3_description),
    ("pickle", pickle),
    ("torch", torch),
    ("onnx", onnx),
    ("safetensors", policy),
    ("model", model),
    ("expression", expression),
];

/// Does what the target of that name does.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, reader) = READERS.iter().find(|(name, _)| *name == target).unwrap();
    reader(bytes);
}

/// A data file of any format, read and described.
fn data(bytes: &[u8]) {
    let path = file("data", bytes);
    let _ = Logs::read(&path);
    let _ = describe(&path);
    let _ = attributes(&path);
}

/// A Parquet file. The crate that reads it panics on some damaged ones, which our reader catches and makes an error of;
/// a fuzzer's own hook would end the process first.
fn parquet(bytes: &[u8]) {
    quiet();
    data(bytes);
}

/// No hook sees a panic that is caught.
fn quiet() {
    static QUIET: OnceLock<()> = OnceLock::new();
    QUIET.get_or_init(|| std::panic::set_hook(Box::new(|_| ())));
}

/// A folder of LeRobot: its description up to the first zero byte, one Parquet file after it.
fn lerobot(bytes: &[u8]) {
    let cut = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let root = folder().join("lerobot");
    std::fs::create_dir_all(root.join("meta")).unwrap();
    std::fs::create_dir_all(root.join("data/chunk-000")).unwrap();
    std::fs::write(root.join("meta/info.json"), &bytes[..cut]).unwrap();
    let rows = bytes.get(cut + 1..).unwrap_or_default();
    std::fs::write(root.join("data/chunk-000/file-000.parquet"), rows).unwrap();
    quiet();
    let _ = Logs::read(&root);
    let _ = describe(&root);
}

/// PyTorch's weights, or a pickle of arrays.
fn state_dict(bytes: &[u8]) {
    let path = file("policy.pt", bytes);
    for squash in ["none", "tanh"] {
        let [activation, squash] = ["relu", squash].map(|word| Some(word.to_owned()));
        let hints = PolicyHints { activation, squash, ..PolicyHints::default() };
        if let Ok(policy) = Policy::read_as(path.to_str().unwrap(), &hints) {
            let states = device().upload(&vec![0.5; 2 * policy.state_dim()]);
            let mut actions = device().zeros(2 * policy.action_dim());
            policy.act(device(), &states, &mut actions);
        }
    }
}

/// The pickle within such a file; its storages are sound.
fn state_dict_pickle(bytes: &[u8]) {
    state_dict(&weights(bytes));
}

/// Data, or a policy that D4RL put beside them.
fn hdf5(bytes: &[u8]) {
    data(bytes);
    policy(bytes);
}

/// A policy file of any kind; if it can be read, it can act.
fn policy(bytes: &[u8]) {
    act(&file("policy", bytes));
}

/// An ONNX graph; the ending says so where the first bytes do not.
fn onnx(bytes: &[u8]) {
    act(&file("policy.onnx", bytes));
}

/// One array of an NPZ file, which the first byte chooses; the zip around it is sound.
fn npy(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let sound = sound_npy();
    let names = ["observations", "actions", "rewards", "terminals", "next_observations"];
    let entries: Vec<(String, &[u8])> = (0..names.len())
        .map(|i| {
            let chosen = i == usize::from(*choice) % names.len();
            (format!("{}.npy", names[i]), if chosen { bytes } else { sound.as_slice() })
        })
        .collect();
    data(&archive(&entries));
}

/// The description of an agent; its weights are sound.
fn sb3_description(bytes: &[u8]) {
    policy(&archive(&[("data".to_owned(), bytes), ("policy.pth".to_owned(), agent().1)]));
}

/// The normaliser beside an agent, a pickle.
fn pickle(bytes: &[u8]) {
    file("vecnormalize.pkl", bytes);
    let (description, weights) = agent();
    act(&file(
        "policy",
        &archive(&[("data".to_owned(), description), ("policy.pth".to_owned(), weights)]),
    ));
    let _ = std::fs::remove_file(folder().join("vecnormalize.pkl"));
}

/// The pickle within PyTorch's file of weights.
fn torch(bytes: &[u8]) {
    let weights = weights(bytes);
    policy(&archive(&[("data".to_owned(), agent().0), ("policy.pth".to_owned(), &weights)]));
}

/// PyTorch's file with this pickle in it.
fn weights(pickle: &[u8]) -> Vec<u8> {
    let storages: Vec<String> = (0..8).map(|i| format!("archive/data/{i}")).collect();
    let numbers = [0u8; 4 * 64];
    let mut entries = vec![("archive/data.pkl".to_owned(), pickle)];
    entries.extend(storages.into_iter().map(|name| (name, &numbers[..])));
    archive(&entries)
}

/// A fitted model: the description up to the first zero byte, the tensors after it, with digests that are right.
fn model(bytes: &[u8]) {
    let cut = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let weights = bytes.get(cut + 1..).unwrap_or_default();
    file("model.json", &hambo::dynamics::seal(&bytes[..cut], weights));
    file("model.safetensors", weights);
    let _ = Bnn::load(device(), &folder());
}

/// An expression of a reward; if it can be read, it can be evaluated and differentiated.
fn expression(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(program) = Program::parse(&[text], 3, 2, Scope::REWARD) {
        // Where it speaks of the learned reward, that is the last entry of the states.
        let width = if program.uses_reward(3) { 4 } else { 3 };
        let (s, a, n) = ([0.5, -1.0, 2.0, 0.3], [0.1, -0.2], [1.0, 0.0, f32::MAX, -0.7]);
        let mut out = [0.0];
        program
            .evaluate(1, &s[..width], &a, &n[..width], &mut out, &mut Scratch::default())
            .unwrap();
    }
}

fn act(path: &Path) {
    if let Ok(policy) = Policy::read(path.to_str().unwrap()) {
        let states = device().upload(&vec![0.5; 2 * policy.state_dim()]);
        let mut actions = device().zeros(2 * policy.action_dim());
        policy.act(device(), &states, &mut actions);
        if let Ok(policy) = policy.sampling() {
            let mut noise = policy.noise(device(), 2, 1);
            noise.draw(device(), Stream::new(0), &device().counter());
            policy.sample(device(), &states, &noise, &mut actions);
        }
    }
}

fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| Device::cpu(Some(1)).unwrap())
}

/// `data` and `policy.pth` of a small agent.
fn agent() -> (&'static [u8], &'static [u8]) {
    static AGENT: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    let (data, weights) = AGENT.get_or_init(|| {
        let bytes = include_bytes!("../reference/agents/td3/agent.zip");
        let mut zip = zip::ZipArchive::new(Cursor::new(&bytes[..])).unwrap();
        let mut read = |name: &str| {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut zip.by_name(name).unwrap(), &mut bytes).unwrap();
            bytes
        };
        (read("data"), read("policy.pth"))
    });
    (data, weights)
}

/// Four numbers, `[4, 1]`.
fn sound_npy() -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    bytes.extend(
        format!("{:<69}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }").bytes(),
    );
    bytes.extend([0.0f32, 1.0, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

fn archive(entries: &[(String, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in entries {
        zip.start_file(name, stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A folder of this thread's own.
fn folder() -> PathBuf {
    let name = format!("hambo-readers-{}-{:?}", std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
