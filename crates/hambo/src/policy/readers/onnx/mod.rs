//! ONNX graphs. Plain MLPs run in our own engine, on every device and with gradients; all others run in ONNX Runtime, if
//! hambo was built with it.

mod affine;
mod constant;
mod graph;
mod layers;
mod operators;
mod plain;
mod protobuf;
#[cfg(feature = "onnxruntime")]
mod runtime;
mod walk;

use crate::policy::Policy;
#[cfg(feature = "onnxruntime")]
use crate::policy::function::Function;
use crate::{Error, Result};
use graph::Graph;
use std::path::Path;
#[cfg(feature = "onnxruntime")]
use std::sync::Arc;

/// Why a graph cannot be read as a plain MLP.
#[derive(Debug, PartialEq)]
enum Stop {
    /// It is damaged, or cannot be a policy.
    Damaged(String),
    /// It computes something that our engine does not.
    NotPlain(String),
}

/// Reads the graph in the file at `path` with these bytes.
pub(in crate::policy) fn read(
    spec: &str,
    path: &Path,
    bytes: &[u8],
    output: Option<&str>,
) -> Result<Policy> {
    let mut graph = Graph::read(bytes).map_err(|e| Error::file(path, e))?;
    graph.choose(output).map_err(|e| Error::file(path, e))?;
    if let Some(operator) = graph.recurrent() {
        let problem = format!(
            "a recurrent policy ({operator}): it remembers what it saw, which rollouts here cannot; not supported"
        );
        return Err(Error::file(path, problem));
    }
    let network =
        walk::walk(&graph, bytes.len()).and_then(|(layers, output)| plain::network(layers, output));
    match network {
        Ok(mlp) => Ok(Policy::network(spec, mlp)),
        Err(Stop::Damaged(problem)) => Err(Error::file(path, problem)),
        Err(Stop::NotPlain(reason)) => other(spec, path, &graph, bytes, &reason),
    }
}

#[cfg(feature = "onnxruntime")]
fn other(spec: &str, path: &Path, graph: &Graph<'_>, bytes: &[u8], reason: &str) -> Result<Policy> {
    let problem =
        |e| Error::file(path, format!("an ONNX graph that is not a plain MLP: {reason}. {e}"));
    let runtime = runtime::Runtime::new(graph, bytes).map_err(problem)?;
    let (state_dim, action_dim) = (runtime.state_dim, runtime.action_dim);
    let function = Function { kind: "graph", state_dim, action_dim, function: Arc::new(runtime) };
    Ok(Policy::function(spec, function))
}

#[cfg(not(feature = "onnxruntime"))]
fn other(_: &str, path: &Path, _: &Graph<'_>, _: &[u8], reason: &str) -> Result<Policy> {
    let problem = format!(
        "an ONNX graph that is not a plain MLP: {reason}. Such graphs need ONNX Runtime: build hambo with \
         `cargo build --release --features onnxruntime`, install its library (`pip install onnxruntime`) and set \
         ORT_DYLIB_PATH to its path (libonnxruntime.so.*, in the package's folder `capi`)"
    );
    Err(Error::file(path, problem))
}
