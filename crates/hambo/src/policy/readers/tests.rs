//! Malicious pickles and agents, and kinds that are not supported: each is an error in words.

use super::pickle::Pickle;
use super::torch;
use crate::policy::Policy;
use std::io::Write;
use std::path::PathBuf;
use zip::write::SimpleFileOptions;

fn problem(pickle: &[u8]) -> String {
    Pickle::read(pickle).map(|_| ()).unwrap_err()
}

#[test]
fn calls_are_refused_by_name() {
    for (pickle, name) in [
        (&b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."[..], "os.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", "builtins.eval"),
        (b"\x80\x02cposix\nsystem\n.", "posix.system"),
        (b"\x80\x02ctorch\nload\n.", "torch.load"),
        (b"\x80\x02ctorch\nFloatStorage.__init__.__globals__\n.", "__globals__"),
        (b"\x80\x02cnumpy\ncore.os.system\n.", "core.os.system"),
        (b"\x80\x04\x8c\x0bcloudpickle\x8c\x09_make_fun\x93.", "cloudpickle._make_fun"),
    ] {
        let problem = problem(pickle);
        assert!(
            problem.contains(name) && problem.contains("nothing in it was executed"),
            "{problem}"
        );
    }
    // A known name is never called either: what it would make is a record.
    let (pickle, _) = Pickle::read(b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00f8\x85R.").unwrap();
    assert_eq!(pickle.root().call().map(|(name, _)| name), Some("dtype"));
    // Extensions, instances and textual persistent ids execute or import, and are not known.
    for opcode in [&b"\x82\x01."[..], b"(ios\nsystem\n.", b"Pid\n.", b"\x97.", b"(cos\no."] {
        let problem = problem(opcode);
        assert!(
            problem.contains("opcode") || problem.contains("os.") || problem.contains("name"),
            "{problem}"
        );
    }
}

#[test]
fn announced_lengths_are_not_believed() {
    for pickle in [
        &b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xffab."[..],
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fab.",
        b"\x80\x04\x96\x00\x00\x00\x00\x00\x00\x00\x80ab.",
        b"\x80\x02B\xff\xff\xff\xffab.",
        b"\x80\x02X\xff\xff\xff\xffab.",
        b"\x80\x02\x8b\xff\xff\xff\xffab.",
    ] {
        assert!(problem(pickle).contains("more were announced"));
    }
    assert!(problem(b"\x80\x02j\xff\xff\xff\xff.").contains("never written"));
    assert!(problem(b"\x80\x02Nr\xff\xff\xff\xff0.").contains("empty stack"));
    assert!(problem(b"\x80\x02)\x87.").contains("empty stack"));
    assert!(problem(b"\x80\x02N(\x85.").contains("empty stack"), "not from below a mark");
    assert!(problem(b"").contains("ends"));
}

#[test]
fn depth_and_cycles_are_harmless() {
    let mut deep = b"\x80\x02N".to_vec();
    deep.extend(std::iter::repeat_n(b'\x85', 2_000_000));
    deep.push(b'.');
    assert!(Pickle::read(&deep).is_ok());
    let mut marks = vec![b'('; 2_000_000];
    marks.push(b'.');
    assert!(problem(&marks).contains("empty stack"));
    // A list that holds itself.
    assert!(Pickle::read(b"\x80\x02]q\x00h\x00a.").is_ok());
    // A shape that names itself, and one of very many dimensions.
    let (cycle, _) = Pickle::read(b"\x80\x02]q\x00h\x00a.").unwrap();
    assert_eq!(cycle.root().sizes(), None);
}

/// A state dictionary as today's torch.save writes it, one storage of zeros a tensor.
fn state_dictionary(tensors: &[(&str, &[u32])]) -> Vec<u8> {
    let text =
        |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let int = |i: u32| [&b"J"[..], &i.to_le_bytes()].concat();
    let mut pickle = b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec();
    for (key, (name, shape)) in tensors.iter().enumerate() {
        let tuple = |items: Vec<Vec<u8>>| [b"(".to_vec(), items.concat(), b"t".to_vec()].concat();
        let strides = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).map(int).collect();
        let sizes = shape.iter().copied().map(int).collect();
        let storage = [
            text("storage"),
            b"ctorch\nFloatStorage\n".to_vec(),
            text(&key.to_string()),
            text("cpu"),
        ];
        let storage =
            [tuple([storage.concat(), int(shape.iter().product())].to_vec()), b"Q".to_vec()]
                .concat();
        let arguments = tuple(vec![
            storage,
            int(0),
            tuple(sizes),
            tuple(strides),
            b"\x89".to_vec(),
            b"N".to_vec(),
        ]);
        pickle.extend(
            [text(name), b"ctorch._utils\n_rebuild_tensor_v2\n".to_vec(), arguments, b"R".to_vec()]
                .concat(),
        );
    }
    pickle.extend(b"u.");
    let mut entries = vec![("archive/data.pkl".to_owned(), pickle)];
    for (key, (_, shape)) in tensors.iter().enumerate() {
        entries.push((
            format!("archive/data/{key}"),
            vec![0; 4 * shape.iter().product::<u32>() as usize],
        ));
    }
    archive(&entries)
}

fn archive(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(
            name,
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored),
        )
        .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

const BOX: &str = r#"{":type:": "<class 'gymnasium.spaces.box.Box'>", "_shape": [2], "low": "[-1. -1.]", "high": "[1. 1.]"}"#;

fn description(action_space: &str, more: &str) -> Vec<u8> {
    format!(r#"{{"action_space": {action_space}, "_last_mean_reward": NaN{more}}}"#).into_bytes()
}

fn agent(description: Vec<u8>, weights: Vec<u8>) -> Vec<u8> {
    archive(&[("data".to_owned(), description), ("policy.pth".to_owned(), weights)])
}

fn read(name: &str, bytes: &[u8]) -> crate::Result<Policy> {
    let path: PathBuf =
        std::env::temp_dir().join(format!("hambo-hostile-{name}-{}.zip", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let policy = Policy::read(path.to_str().unwrap());
    std::fs::remove_file(path).unwrap();
    policy
}

const TD3: &[(&str, &[u32])] = &[
    ("actor.mu.0.weight", &[4, 3]),
    ("actor.mu.0.bias", &[4]),
    ("actor.mu.2.weight", &[2, 4]),
    ("actor.mu.2.bias", &[2]),
    ("critic.qf0.0.weight", &[4, 5]),
];

#[test]
fn kinds_that_are_not_supported_are_named() {
    let td3 = || state_dictionary(TD3);
    assert_eq!(read("sound", &agent(description(BOX, ""), td3())).unwrap().state_dim(), 3);
    let space =
        |name: &str| format!(r#"{{":type:": "<class 'gymnasium.spaces.{name}'>", "n": 2}}"#);
    let weights =
        |tensors: &[(&str, &[u32])]| agent(description(BOX, ""), state_dictionary(tensors));
    let with = |more: &str| agent(description(BOX, more), td3());
    let cases = [
        (
            "its actions are in the space Discrete",
            agent(description(&space("discrete.Discrete"), ""), td3()),
        ),
        (
            "its observations are in the space Dict",
            with(&format!(r#", "observation_space": {}"#, space("dict.Dict"))),
        ),
        (
            "an image (CNN) policy",
            weights(&[("actor.features_extractor.cnn.0.weight", &[2, 1, 2, 2])]),
        ),
        (
            "a policy with its own feature extractor",
            weights(&[("features_extractor.net.0.weight", &[2, 3])]),
        ),
        (
            "a recurrent policy",
            weights(&[("lstm_actor.weight_ih_l0", &[4, 3]), ("action_net.weight", &[2, 4])]),
        ),
        (
            "no actor in it, but `q_net.q_net.0.weight`",
            weights(&[("q_net.q_net.0.weight", &[2, 3])]),
        ),
        ("`actor.mu.1.running_mean` is not part of a linear layer", {
            let mut tensors = TD3.to_vec();
            tensors.push(("actor.mu.1.running_mean", &[4]));
            weights(&tensors)
        }),
        (
            "`actor.mu.0` is not a linear layer",
            weights(&[("actor.mu.0.weight", &[4, 3, 1]), ("actor.mu.0.bias", &[4])]),
        ),
        (
            "layer 0 gives 5 numbers, but layer 1 takes 4",
            weights(&[("actor.mu.0.weight", &[5, 3]), ("actor.mu.2.weight", &[2, 4])]),
        ),
        (
            "activation SiLU: this version does not compute it",
            with(
                r#", "policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.SiLU'>"}"#,
            ),
        ),
        (
            "defined in \"my_project.policies\"",
            with(r#", "policy_class": {"__module__": "my_project.policies"}"#),
        ),
        (
            "does not give the bounds",
            agent(description(&BOX.replace("[-1. -1.]", "[-1. ... -1.]"), ""), td3()),
        ),
        (
            "3 lower and 3 upper bounds",
            agent(
                description(
                    &BOX.replace("[2]", "[3]")
                        .replace("1. -1.]", "1. -1. -1.]")
                        .replace("[1. 1.]", "[1. 1. 1.]"),
                    "",
                ),
                td3(),
            ),
        ),
        (
            "finite bounds for tanh",
            agent(description(&BOX.replace("[1. 1.]", "[inf inf]"), ""), td3()),
        ),
        ("`data` does not describe an agent", agent(b"{".to_vec(), td3())),
        (
            "not an agent of Stable-Baselines3",
            archive(&[("data".to_owned(), description(BOX, ""))]),
        ),
        (
            "`policy.pth`: it names \"os.system\"",
            agent(description(BOX, ""), b"\x80\x02cos\nsystem\n.".to_vec()),
        ),
        ("not written by torch.save", agent(description(BOX, ""), b"\x80\x02N.".to_vec())),
    ];
    for (i, (part, bytes)) in cases.iter().enumerate() {
        let error = read(&format!("kind-{i}"), bytes).unwrap_err().to_string();
        assert!(error.contains(part), "expected {part:?} in {error}");
    }
}

/// Cut after every byte and flipped in many: an error or a policy, never a panic.
#[test]
fn damage_is_an_error() {
    let weights = state_dictionary(TD3);
    for end in 0..weights.len() {
        assert!(torch::read(&weights[..end], |_| true).is_err(), "cut at {end}");
    }
    let legacy = legacy_dictionary();
    assert_eq!(torch::read(&legacy, |_| true).unwrap()["w"].as_ref().unwrap().values, [1.5, -2.0]);
    for end in 0..legacy.len() {
        assert!(torch::read(&legacy[..end], |_| true).is_err(), "cut at {end}");
    }
    for bytes in [weights, legacy] {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let _ = torch::read(&flipped, |_| true);
            }
        }
    }
}

/// What torch.save wrote before version 1.6.
fn legacy_dictionary() -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    let storage =
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x007X\x03\x00\x00\x00cpuK\x02NtQ";
    let tensor =
        [&b"ctorch._utils\n_rebuild_tensor_v2\n("[..], storage, b"K\x00K\x02\x85K\x01\x85\x89NtR"]
            .concat();
    let dictionary = [&b"\x80\x02}X\x01\x00\x00\x00w"[..], &tensor, b"s."].concat();
    let numbers = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
    let keys = b"\x80\x02]X\x01\x00\x00\x007a.";
    [
        &magic[..],
        b"\x80\x02M\xe9\x03.",
        b"\x80\x02}.",
        &dictionary,
        keys,
        &2u64.to_le_bytes(),
        &numbers,
    ]
    .concat()
}

#[test]
fn storages_hold_what_tensors_take() {
    let legacy = legacy_dictionary();
    let change = |from: &[u8], to: &[u8]| {
        let at = legacy.windows(from.len()).position(|w| w == from).unwrap();
        [&legacy[..at], to, &legacy[at + from.len()..]].concat()
    };
    for (bytes, part) in [
        (
            change(b"K\x02\x85K\x01\x85\x89", b"K\x03\x85K\x01\x85\x89"),
            "shape [3] does not fit the 2 numbers stored",
        ),
        (change(b"K\x02\x85K\x01\x85\x89", b"K\x02\x85K\x02\x85\x89"), "shape [2] does not fit"),
        (change(b"K\x00K\x02\x85", b"K\x01K\x02\x85"), "shape [2] does not fit"),
        (change(b"K\x00K\x02\x85", b"J\xff\xff\xff\xffK\x02\x85"), "not a tensor"),
        (change(&2u64.to_le_bytes(), &u64::MAX.to_le_bytes()), "cut short"),
        (change(&2u64.to_le_bytes(), &(1u64 << 62).to_le_bytes()), "cut short"),
    ] {
        let error = torch::read(&bytes, |_| true).unwrap_err();
        assert!(error.contains(part), "expected {part:?} in {error}");
    }
}

/// An entry of zeros that unpacks to a thousand times the archive's size.
#[test]
fn archives_that_unpack_to_far_more_are_refused() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["data", "policy.pth"] {
        zip.start_file(
            name,
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated),
        )
        .unwrap();
        zip.write_all(&vec![b' '; 20 << 20]).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    assert!(bytes.len() < 100_000);
    let error = read("bomb", &bytes).unwrap_err().to_string();
    assert!(error.contains("far more than the archive's own size"), "{error}");
}
