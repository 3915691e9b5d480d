//! Follows a graph from its input to its output. Every value on the way is known, or an affine map of a layer, where a
//! layer is the input or what a non-linear operation made of an affine map of the layer before.

use super::Stop;
use super::affine::{Affine, Budget};
use super::constant::{self, axis, whole};
use super::graph::{Attribute, DOUBLE, FLOAT, Graph, Node, Tensor};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Largest number of columns of an input.
const WIDEST: usize = 1 << 16;

/// A non-linear operation and the affine map of an earlier layer that it is applied to.
#[derive(Debug)]
pub(super) struct Layer {
    pub from: usize,
    pub affine: Affine,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Relu,
    Tanh,
    /// Limited to \[low, high\], column by column.
    Clip(Vec<f64>, Vec<f64>),
}

/// An affine map of layer `base`, where 0 is the input and 1, 2, … are [`Walk::layers`].
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub base: usize,
    pub affine: Affine,
    /// 1 for `[columns]`, 2 for `[batch, columns]`.
    rank: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Known {
    Constant(Rc<Tensor>),
    Row(Rc<Row>),
}

pub(super) struct Walk {
    pub layers: Vec<Layer>,
    pub budget: Budget,
    /// Whether the input holds exactly one row.
    single: bool,
}

/// Layers and what the output is of the last of them.
pub(super) fn walk(graph: &Graph<'_>, bytes: usize) -> Result<(Walk, Row), Stop> {
    let output = chosen_output(graph)?;
    let needed = needed(graph, output);
    let inputs: Vec<_> = graph.inputs.iter().filter(|i| needed.contains(i.name)).collect();
    let [input] = inputs[..] else {
        let names: Vec<&str> = inputs.iter().map(|i| i.name).collect();
        return Err(Stop::Damaged(format!(
            "`{output}` depends on {} inputs ({}): expected one, the observation",
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
    let mut walk = Walk {
        layers: Vec::new(),
        budget: Budget { numbers: 8 * bytes as u64 + (1 << 20), products: 1 << 31 },
        single: rank == 1 || input.shape[0] == Some(1),
    };
    let mut values: HashMap<&str, Known> = HashMap::new();
    values.insert(input.name, Known::row(0, Affine::identity(width), rank));
    for (name, tensor) in graph.weights.iter().filter(|(name, _)| needed.contains(*name)) {
        values.insert(name, Known::constant(tensor.clone()));
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
                        "damaged: {} takes `{name}`, which nothing gives",
                        node.operator
                    )));
                }
            });
        }
        for name in node.inputs.iter().filter(|name| **name != output && last_use.get(*name) == Some(&i)) {
            values.remove(name);
        }
        let results = walk.apply(node, &arguments)?;
        values.extend(node.outputs.iter().copied().zip(results));
    }
    match values.remove(output) {
        Some(Known::Row(row)) => Ok((walk, Rc::unwrap_or_clone(row))),
        Some(Known::Constant(_)) => {
            Err(Stop::Damaged(format!("its output `{output}` does not depend on its input")))
        }
        None => Err(Stop::Damaged(format!("damaged: nothing gives its output `{output}`"))),
    }
}

/// The output that is the action.
pub(super) fn chosen_output<'a>(graph: &Graph<'a>) -> Result<&'a str, Stop> {
    let names: Vec<&str> = graph.outputs.iter().map(|o| o.name).collect();
    match names[..] {
        [one] => Ok(one),
        _ => names
            .iter()
            .copied()
            .find(|name| ["action", "actions", "mean", "mu"].contains(name))
            .ok_or_else(|| {
                Stop::Damaged(format!(
                    "it has the outputs {names:?}: expected one, or one that is called `action`, `actions`, `mean` or `mu`"
                ))
            }),
    }
}

/// Names that the output depends on; nodes are in an order in which each follows those it needs.
fn needed<'a>(graph: &Graph<'a>, output: &'a str) -> HashSet<&'a str> {
    let mut needed = HashSet::from([output]);
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(node.inputs.iter().copied());
        }
    }
    needed
}

impl Known {
    fn constant(tensor: Tensor) -> Self {
        Known::Constant(Rc::new(tensor))
    }

    fn row(base: usize, affine: Affine, rank: usize) -> Self {
        Known::Row(Rc::new(Row { base, affine, rank }))
    }
}

fn not_plain<T>(node: &Node<'_>, why: &str) -> Result<T, Stop> {
    Err(Stop::NotPlain(format!("its operator {}{why}", node.operator)))
}

impl Walk {
    fn apply(&mut self, node: &Node<'_>, arguments: &[Option<Known>]) -> Result<Vec<Known>, Stop> {
        if !["", "ai.onnx"].contains(&node.domain) {
            return not_plain(node, &format!(" is of the domain `{}`", node.domain));
        }
        let constants: Option<Vec<Option<&Tensor>>> = arguments
            .iter()
            .map(|a| match a {
                Some(Known::Constant(tensor)) => Some(Some(&**tensor)),
                Some(Known::Row(_)) => None,
                None => Some(None),
            })
            .collect();
        if let Some(constants) = constants {
            return Ok(vec![Known::constant(constant::apply(node, &constants, &mut self.budget)?)]);
        }
        let tensor = |i: usize| match arguments.get(i) {
            Some(Some(Known::Constant(tensor))) => Some(&**tensor),
            _ => None,
        };
        let first = match arguments.first() {
            Some(Some(Known::Row(row))) => Some(row),
            _ => None,
        };
        if let Some(known) = self.pairs(node, arguments)? {
            return Ok(vec![known]);
        }
        let Some(row) = first else {
            return not_plain(node, " takes the observation in a way that no MLP does");
        };
        let Row { base, affine, rank } = &**row;
        let width = affine.outputs();
        let made = |affine: Affine| Known::row(*base, affine, *rank);
        let one = |known: Known| Ok(vec![known]);
        match node.operator {
            "Identity" | "Dropout" => one(Known::Row(row.clone())),
            "Cast" => match node.attributes.get("to") {
                Some(Attribute::Integer(FLOAT | DOUBLE)) => one(Known::Row(row.clone())),
                to => not_plain(node, &format!(" to type {to:?}")),
            },
            "Neg" => {
                one(made(affine.copy(&mut self.budget)?.then_columns(&vec![-1.0; width], &vec![0.0; width])))
            }
            "Gemm" => one(made(self.gemm(node, affine, tensor(1), tensor(2))?)),
            "MatMul" => match tensor(1) {
                Some(Tensor { shape, values }) if shape.len() == 2 && shape[0] == width => one(made(
                    affine.copy(&mut self.budget)?.then_matrix(values, shape[1], &mut self.budget)?,
                )),
                _ => not_plain(node, &format!(" of {width} columns with something else than a matrix")),
            },
            "BatchNormalization" => {
                let part =
                    |i| tensor(i).filter(|t: &&Tensor| t.shape == [width]).map(|t| t.values.as_slice());
                let (Some(scale), Some(shift), Some(mean), Some(var)) = (part(1), part(2), part(3), part(4))
                else {
                    return not_plain(node, " of unusual shapes");
                };
                let epsilon = float(node, "epsilon", 1e-5);
                let factor: Vec<f64> = scale.iter().zip(var).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
                let term: Vec<f64> = (0..width).map(|c| shift[c] - factor[c] * mean[c]).collect();
                one(made(affine.copy(&mut self.budget)?.then_columns(&factor, &term)))
            }
            "Relu" => one(self.layer(row, Kind::Relu)?),
            "Tanh" => one(self.layer(row, Kind::Tanh)?),
            // σ(x) = ½ tanh(½ x) + ½
            "Sigmoid" => {
                let (half, zero) = (vec![0.5; width], vec![0.0; width]);
                let halved = affine.copy(&mut self.budget)?.then_columns(&half, &zero);
                let halved = Row { base: *base, affine: halved, rank: *rank };
                let Known::Row(layer) = self.layer(&halved, Kind::Tanh)? else { return not_plain(node, "") };
                let Row { base, affine, rank } = Rc::unwrap_or_clone(layer);
                one(Known::row(base, affine.then_columns(&half, &half), rank))
            }
            "Clip" => {
                let limit = |i: usize, name: &str, otherwise: f64| match tensor(i) {
                    Some(t) => columns(node, t, width),
                    None => Ok(vec![float(node, name, otherwise); width]),
                };
                let (low, high) = (limit(1, "min", f64::NEG_INFINITY)?, limit(2, "max", f64::INFINITY)?);
                one(self.layer(row, Kind::Clip(low, high))?)
            }
            "Shape" => {
                let mut shape = vec![width as f64];
                if *rank == 2 {
                    // Nobody knows the size of a batch; NaN goes through, and `Reshape` takes it for the batch.
                    shape.insert(0, if self.single { 1.0 } else { f64::NAN });
                }
                one(Known::constant(Tensor { shape: vec![shape.len()], values: shape }))
            }
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => {
                let rank = self.reshaped(node, *rank, width, tensor(1))?;
                one(Known::row(*base, affine.copy(&mut self.budget)?, rank))
            }
            "Concat" => self.concat(node, arguments).map(|known| vec![known]),
            "Slice" | "Gather" => {
                let chosen = match node.operator {
                    "Slice" => {
                        constant::slice(node, width, *rank, &[tensor(1), tensor(2), tensor(3), tensor(4)])?
                    }
                    _ => match tensor(1) {
                        Some(t) if axis(node, 0, *rank)? + 1 == *rank && t.shape.len() == 1 => {
                            t.values.iter().map(|&i| whole(i, width)).collect::<Result<_, _>>()?
                        }
                        _ => return not_plain(node, " of something else than columns"),
                    },
                };
                one(made(affine.copy(&mut self.budget)?.select(&chosen, &mut self.budget)?))
            }
            _ => not_plain(node, " is none of an MLP"),
        }
    }

    /// A new layer, and the map that is just it.
    fn layer(&mut self, row: &Row, kind: Kind) -> Result<Known, Stop> {
        if let Some(merged) = self.merged_limits(row, &kind) {
            let Layer { from, affine, .. } = &self.layers[row.base - 1];
            let before = Row { base: *from, affine: affine.copy(&mut self.budget)?, rank: row.rank };
            return self.layer(&before, merged);
        }
        let affine = row.affine.copy(&mut self.budget)?;
        let same = Affine::identity(affine.outputs()).copy(&mut self.budget)?;
        self.layers.push(Layer { from: row.base, affine, kind });
        Ok(Known::row(self.layers.len(), same, row.rank))
    }

    /// A limit of a limit is one limit: exporters write a lower and an upper one after another.
    fn merged_limits(&self, row: &Row, kind: &Kind) -> Option<Kind> {
        let before = self.layers.get(row.base.checked_sub(1)?)?;
        let (Kind::Clip(first_low, first_high), Kind::Clip(low, high)) = (&before.kind, kind) else {
            return None;
        };
        let untouched = row.affine.dense.is_none()
            && row.affine.scale.iter().all(|s| *s == 1.0)
            && row.affine.offset.iter().all(|o| *o == 0.0);
        let limited = |values: &[f64]| {
            let limits = low.iter().zip(high);
            values.iter().zip(limits).map(|(v, (low, high))| v.max(*low).min(*high)).collect::<Vec<f64>>()
        };
        untouched.then(|| Kind::Clip(limited(first_low), limited(first_high)))
    }

    /// Operations of two values, of which either may be known.
    fn pairs(&mut self, node: &Node<'_>, arguments: &[Option<Known>]) -> Result<Option<Known>, Stop> {
        let [Some(a), Some(b)] = arguments else { return Ok(None) };
        let operator = node.operator;
        if !["Add", "Sub", "Mul", "Div", "Min", "Max"].contains(&operator) {
            return Ok(None);
        }
        let sign = if operator == "Sub" { -1.0 } else { 1.0 };
        let (row, tensor, row_first) = match (a, b) {
            (Known::Row(a), Known::Row(b)) => {
                let same = a.base == b.base && a.affine.outputs() == b.affine.outputs();
                if !same || !["Add", "Sub"].contains(&operator) {
                    return not_plain(node, " joins two branches");
                }
                let sum = a.affine.plus(&b.affine, sign, &mut self.budget)?;
                return Ok(Some(Known::row(a.base, sum, a.rank)));
            }
            (Known::Row(row), Known::Constant(tensor)) => (row, tensor, true),
            (Known::Constant(tensor), Known::Row(row)) => (row, tensor, false),
            _ => return Ok(None),
        };
        let width = row.affine.outputs();
        let values = columns(node, tensor, width)?;
        let rank = row.rank.max(tensor.shape.len());
        let same = || vec![1.0; width];
        let (factor, term) = match (operator, row_first) {
            ("Add", _) => (same(), values),
            ("Sub", true) => (same(), values.iter().map(|v| -v).collect()),
            ("Sub", false) => (vec![-1.0; width], values),
            ("Mul", _) => (values, vec![0.0; width]),
            ("Div", true) => (values.iter().map(|v| 1.0 / v).collect(), vec![0.0; width]),
            ("Min", _) => {
                return self.layer(row, Kind::Clip(vec![f64::NEG_INFINITY; width], values)).map(Some);
            }
            ("Max", _) => return self.layer(row, Kind::Clip(values, vec![f64::INFINITY; width])).map(Some),
            _ => return not_plain(node, " divides by what depends on the observation"),
        };
        let affine = row.affine.copy(&mut self.budget)?.then_columns(&factor, &term);
        Ok(Some(Known::row(row.base, affine, rank)))
    }

    /// α · A B + β · C
    fn gemm(
        &mut self,
        node: &Node<'_>,
        affine: &Affine,
        matrix: Option<&Tensor>,
        term: Option<&Tensor>,
    ) -> Result<Affine, Stop> {
        let width = affine.outputs();
        let Some(Tensor { shape, values }) = matrix.filter(|m| m.shape.len() == 2) else {
            return not_plain(node, " without a constant matrix");
        };
        if integer(node, "transA", 0) != 0 {
            return not_plain(node, " transposes the observation");
        }
        let transposed = integer(node, "transB", 0) != 0;
        let (rows, outputs) = if transposed { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
        if rows != width {
            return Err(Stop::Damaged(format!(
                "damaged: Gemm of {width} columns with a matrix of {shape:?}"
            )));
        }
        let alpha = float(node, "alpha", 1.0);
        let at = |i: usize| match transposed {
            true => values[i % outputs * rows + i / outputs],
            false => values[i],
        };
        let matrix: Vec<f64> = (0..values.len()).map(|i| alpha * at(i)).collect();
        let product = affine.copy(&mut self.budget)?.then_matrix(&matrix, outputs, &mut self.budget)?;
        let Some(term) = term else { return Ok(product) };
        let beta = float(node, "beta", 1.0);
        let term: Vec<f64> = columns(node, term, outputs)?.iter().map(|t| beta * t).collect();
        Ok(product.then_columns(&vec![1.0; outputs], &term))
    }

    fn concat(&mut self, node: &Node<'_>, arguments: &[Option<Known>]) -> Result<Known, Stop> {
        let mut all: Option<Row> = None;
        for argument in arguments {
            let Some(Known::Row(row)) = argument else {
                return not_plain(node, " adds columns that are constant");
            };
            all = Some(match all {
                None => (**row).clone(),
                Some(all) if all.base == row.base && all.rank == row.rank => {
                    Row { affine: all.affine.stack(&row.affine, &mut self.budget)?, ..all }
                }
                Some(_) => return not_plain(node, " joins two branches"),
            });
        }
        match all {
            Some(row) if axis(node, -1, row.rank)? + 1 == row.rank => Ok(Known::Row(Rc::new(row))),
            _ => not_plain(node, " of something else than columns"),
        }
    }

    /// The rank afterwards, for what leaves every row as it is.
    fn reshaped(
        &self,
        node: &Node<'_>,
        rank: usize,
        width: usize,
        shape: Option<&Tensor>,
    ) -> Result<usize, Stop> {
        let axes = || -> Vec<i64> {
            match (shape, node.attributes.get("axes")) {
                (Some(t), _) => t.values.iter().map(|&v| v as i64).collect(),
                (None, Some(Attribute::Integers(axes))) => axes.clone(),
                _ => Vec::new(),
            }
        };
        let allowed = match node.operator {
            "Flatten" => match axis(node, 1, rank)? {
                1 if rank == 2 => Some(2),
                0 if self.single => Some(2),
                _ => None,
            },
            "Squeeze" => (rank == 2 && self.single && (axes() == [0] || axes() == [-2])).then_some(1),
            "Unsqueeze" => (rank == 1 && (axes() == [0] || axes() == [-2])).then_some(2),
            _ => shape.and_then(|shape| {
                let (last, rest) = shape.values.split_last()?;
                let columns = *last == width as f64 || (*last == -1.0 && !rest.contains(&-1.0));
                let batch = match rest {
                    [] => self.single,
                    [b] => b.is_nan() || *b == -1.0 || (*b == 0.0 && rank == 2) || (*b == 1.0 && self.single),
                    _ => false,
                };
                (columns && batch).then_some(rest.len() + 1)
            }),
        };
        match allowed {
            Some(rank) => Ok(rank),
            None => not_plain(node, " does more than leaving every row as it is"),
        }
    }
}

/// One number a column, from a constant that is the same for every row.
fn columns(node: &Node<'_>, tensor: &Tensor, width: usize) -> Result<Vec<f64>, Stop> {
    match (tensor.shape.split_last(), &tensor.values[..]) {
        (_, [one]) => Ok(vec![*one; width]),
        (Some((last, rest)), values) if *last == width && rest.iter().all(|&d| d == 1) => Ok(values.to_vec()),
        _ => not_plain(node, &format!(" of {width} columns with a constant of shape {:?}", tensor.shape)),
    }
}

pub(super) fn integer(node: &Node<'_>, name: &str, otherwise: i64) -> i64 {
    match node.attributes.get(name) {
        Some(Attribute::Integer(value)) => *value,
        _ => otherwise,
    }
}

fn float(node: &Node<'_>, name: &str, otherwise: f64) -> f64 {
    match node.attributes.get(name) {
        Some(Attribute::Float(value)) => *value,
        _ => otherwise,
    }
}
