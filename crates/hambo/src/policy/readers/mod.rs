//! Readers of policy files. The files may come from strangers: nothing in them is executed.

mod archive;
mod d4rl;
mod numpy;
mod onnx;
mod pickle;
pub(super) mod safetensors;
mod sb3;
mod state_dict;
#[cfg(test)]
mod tests;
mod torch;
mod vec_normalize;

use super::{NormalizerFile, Policy, PolicyHints, builtin};
use crate::data::kind;
use crate::{Error, Result};
use std::io::Read;
use std::path::Path;

/// Extensions of the files that can be read.
const FILES: [&str; 8] = [".zip", ".hdf5", ".onnx", ".safetensors", ".pt", ".pth", ".pkl", ".d3"];
const FILE_KINDS: &str = "an agent of Stable-Baselines3 (.zip), a D4RL file with a policy in it (.hdf5), an ONNX graph \
                          (.onnx), the weights of a PyTorch network (.pt, .pth) or a network in the format hambo-policy/1 (.safetensors)";
/// Bytes at the start of a file that tell what it is.
const BEGINNING: u64 = 64;
/// Larger files are not read: they are not policies.
const LARGEST_FILE: u64 = 4 << 30;

/// Reads a policy from a file, whose kind is recognized by its content.
pub(super) fn read(spec: &str, hints: &PolicyHints) -> Result<Policy> {
    let normalizer = &hints.normalizer;
    let path = Path::new(spec);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if FILES.iter().any(|kind| spec.ends_with(kind)) => {
            return Err(Error::io(path, "read", e));
        }
        Err(_) => {
            return Err(Error::Mismatch(format!(
                "policy {spec:?}: not a kind of policy that can be read{}; expected builtin:NAME with NAME one of {}; \
                 or a file: {FILE_KINDS}",
                builtin::hint(spec),
                builtin::names()
            )));
        }
    };
    if !metadata.is_file() || metadata.len() > LARGEST_FILE {
        let problem = format!("not a file of at most {LARGEST_FILE} bytes: expected {FILE_KINDS}");
        return Err(Error::file(path, problem));
    }
    let mut start = Vec::new();
    let problem = |e| Error::io(path, "read", e);
    let file = std::fs::File::open(path).map_err(problem)?;
    file.take(BEGINNING).read_to_end(&mut start).map_err(problem)?;
    let bytes = || std::fs::read(path).map_err(problem);
    let weights = match &start[..] {
        [b'P', b'K', ..] => {
            archive::Archive::open(&bytes()?).is_ok_and(|zip| zip.name_ending("data.pkl").is_some())
        }
        [0x80, 2..=5, ..] => true,
        _ => false,
    };
    if weights {
        return match normalizer {
            NormalizerFile::At(_) => Err(no_normalizer(path)),
            _ => state_dict::read(spec, path, &bytes()?, hints),
        };
    }
    if hints.activation.is_some() || hints.squash.is_some() {
        return Err(Error::file(
            path,
            "it says itself what is between its layers and after them: leave --activation and --squash out",
        ));
    }
    let is_graph = matches!(start[..], [0x08, 1..=32, ..]) || spec.ends_with(".onnx");
    if hints.output.is_some() && !is_graph {
        return Err(Error::file(
            path,
            "not an ONNX graph, which alone has outputs to choose from: leave --output out",
        ));
    }
    match &start[..] {
        [b'P', b'K', ..] => sb3::read(spec, path, &bytes()?, normalizer),
        _ if matches!(normalizer, NormalizerFile::At(_)) => Err(no_normalizer(path)),
        [0x89, b'H', b'D', b'F', ..] => d4rl::read(spec, path),
        [_, _, _, _, _, _, _, 0, b'{', ..] => safetensors::read(spec, path, &bytes()?),
        _ if start.starts_with(b"version https://git-lfs") => {
            Err(Error::file(path, kind::other(path, &start).unwrap_or_default()))
        }
        _ if is_graph => onnx::read(spec, path, &bytes()?, hints.output.as_deref()),
        _ => {
            let known = kind::other(path, &start)
                .filter(|_| !start.is_empty())
                .map(|what| format!(" ({what})"))
                .unwrap_or_default();
            Err(Error::file(path, format!("not a policy{known}: expected {FILE_KINDS}")))
        }
    }
}

fn no_normalizer(path: &Path) -> Error {
    Error::file(
        path,
        "only agents of Stable-Baselines3 have an observation normalizer in a file of its own: leave --normalizer out",
    )
}

/// Why a file was refused, in words.
type Problem = String;
