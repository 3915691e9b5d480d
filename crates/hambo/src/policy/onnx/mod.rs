//! ONNX graphs. Those that are plain MLPs run in our own engine, on every device and with gradients; any other goes
//! through ONNX Runtime, where this was built with it.

mod affine;
mod constant;
mod graph;
mod plain;
mod protobuf;
#[cfg(feature = "onnxruntime")]
mod runtime;
mod walk;

use super::Policy;
use crate::{Error, Result};
use graph::Graph;
use std::path::Path;

#[cfg(feature = "onnxruntime")]
pub(super) use runtime::Runtime;

/// Why a graph is no plain MLP.
#[derive(Debug, PartialEq)]
enum Stop {
    /// Nothing can be done with it.
    Damaged(String),
    /// It does something that our engine does not.
    NotPlain(String),
}

/// Reads the graph at `path`, whose bytes these are.
pub(super) fn read(spec: &str, path: &Path, bytes: &[u8]) -> Result<Policy> {
    let graph = Graph::read(bytes).map_err(|e| Error::file(path, e))?;
    let network = walk::walk(&graph, bytes.len()).and_then(|(walk, output)| plain::network(walk, output));
    match network {
        Ok(mlp) => Ok(Policy::network(spec, mlp)),
        Err(Stop::Damaged(problem)) => Err(Error::file(path, problem)),
        Err(Stop::NotPlain(reason)) => other(spec, path, &graph, bytes, &reason),
    }
}

#[cfg(feature = "onnxruntime")]
fn other(spec: &str, path: &Path, graph: &Graph<'_>, bytes: &[u8], reason: &str) -> Result<Policy> {
    let problem = |e| Error::file(path, format!("an ONNX graph that is no plain MLP: {reason}. {e}"));
    Runtime::new(graph, bytes).map(|runtime| Policy::graph(spec, runtime)).map_err(problem)
}

#[cfg(not(feature = "onnxruntime"))]
fn other(_: &str, path: &Path, _: &Graph<'_>, _: &[u8], reason: &str) -> Result<Policy> {
    let problem = format!(
        "an ONNX graph that is no plain MLP: {reason}. Such graphs need ONNX Runtime: build hambo with \
         `cargo build --release --features onnxruntime`, install its library (`pip install onnxruntime`) and let \
         ORT_DYLIB_PATH name it (libonnxruntime.so.*, in the package's folder `capi`)"
    );
    Err(Error::file(path, problem))
}
