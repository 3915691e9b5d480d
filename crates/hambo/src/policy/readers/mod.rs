//! Readers of policy files. The files may come from strangers: nothing in them is executed.

mod archive;
mod d4rl;
mod numpy;
mod onnx;
mod pickle;
pub(super) mod safetensors;
mod sb3;
#[cfg(test)]
mod tests;
mod torch;
mod vec_normalize;

use super::{NormalizerFile, Policy, builtin};
use crate::{Error, Result};
use std::io::Read;
use std::path::Path;

/// Extensions of the files that can be read.
const FILES: [&str; 4] = [".zip", ".hdf5", ".onnx", ".safetensors"];
const FILE_KINDS: &str = "an agent of Stable-Baselines3 (.zip), a D4RL file with a policy in it (.hdf5), an ONNX graph \
                          (.onnx) or a network in the format hambo-policy/1 (.safetensors)";
/// Larger files are not read: they are not policies.
const LARGEST_FILE: u64 = 4 << 30;

/// Reads a policy from a file, whose kind is recognized by its content.
pub(super) fn read(spec: &str, normalizer: &NormalizerFile) -> Result<Policy> {
    let path = Path::new(spec);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if FILES.iter().any(|kind| spec.ends_with(kind)) => {
            return Err(Error::io(path, "read", e));
        }
        Err(_) => {
            return Err(Error::Mismatch(format!(
                "policy {spec:?}: not a kind of policy that can be read; expected builtin:NAME with NAME one of {}; or a \
                 file: {FILE_KINDS}",
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
    file.take(9).read_to_end(&mut start).map_err(problem)?;
    let bytes = || std::fs::read(path).map_err(problem);
    match &start[..] {
        [b'P', b'K', ..] => sb3::read(spec, path, &bytes()?, normalizer),
        _ if matches!(normalizer, NormalizerFile::At(_)) => Err(Error::file(
            path,
            "only agents of Stable-Baselines3 have an observation normalizer in a file of its own: leave --normalizer out",
        )),
        [0x89, b'H', b'D', b'F', ..] => d4rl::read(spec, path),
        [_, _, _, _, _, _, _, 0, b'{'] => safetensors::read(spec, path, &bytes()?),
        [0x08, 1..=32, ..] => onnx::read(spec, path, &bytes()?),
        _ if spec.ends_with(".onnx") => onnx::read(spec, path, &bytes()?),
        _ => Err(Error::file(path, format!("not a policy: expected {FILE_KINDS}"))),
    }
}

/// Why a file was refused, in words.
type Problem = String;
