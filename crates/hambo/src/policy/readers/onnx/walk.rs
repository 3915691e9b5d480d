//! Follows a graph from its input to its output, and collects its layers on the way.

use crate::policy::readers::onnx::Stop;
use crate::policy::readers::onnx::affine::{Affine, Budget};
use crate::policy::readers::onnx::graph::{Graph, Node};
use crate::policy::readers::onnx::layers::{Layers, Row, Value};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Largest width of an input.
const WIDEST: usize = 1 << 16;

/// The layers of a graph in a file of `bytes` bytes, and its output as an affine map of one of them.
pub(super) fn walk(graph: &Graph<'_>, bytes: usize) -> Result<(Layers, Row), Stop> {
    let output = graph.action_output().map_err(Stop::Damaged)?;
    let needed = needed(graph, output);
    let inputs: Vec<_> = graph.inputs.iter().filter(|i| needed.contains(i.name)).collect();
    let [input] = inputs[..] else {
        let names: Vec<&str> = inputs.iter().map(|i| i.name).collect();
        return Err(Stop::Damaged(format!(
            "`{output}` depends on {} inputs ({}): expected one, the observation; a recurrent policy, which takes what it \
             remembers, is not supported",
            names.len(),
            names.join(", ")
        )));
    };
    let width = match input.shape.last() {
        Some(Some(width)) if (1..=WIDEST).contains(width) => *width,
        _ => {
            return Err(Stop::Damaged(format!(
                "its input `{}` has shape {:?}: expected [batch, columns] with a fixed number of columns",
                input.name, input.shape
            )));
        }
    };
    let rank = input.shape.len();
    if rank > 2 {
        return Err(Stop::NotPlain(format!("its input `{}` has {rank} dimensions", input.name)));
    }
    let mut layers = Layers {
        layers: Vec::new(),
        budget: Budget { numbers: 8 * bytes as u64 + (1 << 20), products: 1 << 31 },
        single: rank == 1 || input.shape[0] == Some(1),
    };
    let mut values: HashMap<&str, Value> = HashMap::new();
    values.insert(input.name, Value::row(0, Affine::identity(width), rank));
    for (name, tensor) in graph.weights.iter().filter(|(name, _)| needed.contains(*name)) {
        values.insert(name, Value::constant(tensor.clone()));
    }
    let nodes: Vec<&Node<'_>> =
        graph.nodes.iter().filter(|n| n.outputs.iter().any(|o| needed.contains(o))).collect();
    let last_use: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .flat_map(|(i, node)| node.inputs.iter().map(move |name| (*name, i)))
        .collect();
    for (i, node) in nodes.into_iter().enumerate() {
        let mut arguments = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            arguments.push(match (name.is_empty(), values.get(name)) {
                (true, _) => None,
                (_, Some(known)) => Some(known.clone()),
                _ => {
                    return Err(Stop::Damaged(format!(
                        "damaged: {} takes `{name}`, which does not exist",
                        node.operator
                    )));
                }
            });
        }
        for name in
            node.inputs.iter().filter(|name| **name != output && last_use.get(*name) == Some(&i))
        {
            values.remove(name);
        }
        let results = layers.apply(node, &arguments)?;
        values.extend(node.outputs.iter().copied().zip(results));
    }
    match values.remove(output) {
        Some(Value::Row(row)) => Ok((layers, Rc::unwrap_or_clone(row))),
        Some(Value::Constant(_)) => {
            Err(Stop::Damaged(format!("its output `{output}` does not depend on its input")))
        }
        None => Err(Stop::Damaged(format!("damaged: its output `{output}` does not exist"))),
    }
}

/// Names that the output depends on; every node comes after those that it needs.
fn needed<'a>(graph: &Graph<'a>, output: &'a str) -> HashSet<&'a str> {
    let mut needed = HashSet::from([output]);
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(node.inputs.iter().copied());
        }
    }
    needed
}
