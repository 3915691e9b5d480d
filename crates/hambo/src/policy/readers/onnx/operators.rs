//! The operators of an MLP, applied to what is known of their inputs.

use crate::policy::readers::onnx::Stop;
use crate::policy::readers::onnx::affine::Affine;
use crate::policy::readers::onnx::constant::{self, axis, whole};
use crate::policy::readers::onnx::graph::{Attribute, DOUBLE, FLOAT, FLOAT16, Node, Tensor};
use crate::policy::readers::onnx::layers::{Kind, Layers, Row, Value};
use hambo_engine::backend::Activation;
use std::rc::Rc;

fn not_plain<T>(node: &Node<'_>, why: &str) -> Result<T, Stop> {
    Err(Stop::NotPlain(format!("its operator {}{why}", node.operator)))
}

impl Layers {
    /// What is known of the outputs of an operation.
    pub fn apply(
        &mut self,
        node: &Node<'_>,
        arguments: &[Option<Value>],
    ) -> Result<Vec<Value>, Stop> {
        if !["", "ai.onnx"].contains(&node.domain) {
            return not_plain(node, &format!(" is of the domain `{}`", node.domain));
        }
        let constants: Option<Vec<Option<&Tensor>>> = arguments
            .iter()
            .map(|a| match a {
                Some(Value::Constant(tensor)) => Some(Some(&**tensor)),
                Some(Value::Row(_)) => None,
                None => Some(None),
            })
            .collect();
        if let Some(constants) = constants {
            return Ok(vec![Value::constant(constant::apply(node, &constants, &mut self.budget)?)]);
        }
        let tensor = |i: usize| match arguments.get(i) {
            Some(Some(Value::Constant(tensor))) => Some(&**tensor),
            _ => None,
        };
        let first = match arguments.first() {
            Some(Some(Value::Row(row))) => Some(row),
            _ => None,
        };
        if let Some(known) = self.pairs(node, arguments)? {
            return Ok(vec![known]);
        }
        let Some(row) = first else {
            return not_plain(node, " uses the observation in a way that no MLP does");
        };
        let Row { base, affine, rank } = &**row;
        let width = affine.outputs();
        let made = |affine: Affine| Value::row(*base, affine, *rank);
        let one = |known: Value| Ok(vec![known]);
        match node.operator {
            "Identity" | "Dropout" => one(Value::Row(row.clone())),
            "Cast" => match node.attributes.get("to") {
                Some(Attribute::Integer(FLOAT | DOUBLE | FLOAT16)) => one(Value::Row(row.clone())),
                to => not_plain(node, &format!(" to type {to:?}")),
            },
            "Neg" => one(made(
                affine.copy(&mut self.budget)?.then_columns(&vec![-1.0; width], &vec![0.0; width]),
            )),
            "Gemm" => one(made(self.gemm(node, affine, tensor(1), tensor(2))?)),
            "MatMul" => match tensor(1) {
                Some(Tensor { shape, values }) if shape.len() == 2 && shape[0] == width => {
                    one(made(affine.copy(&mut self.budget)?.then_matrix(
                        values,
                        shape[1],
                        &mut self.budget,
                    )?))
                }
                _ => not_plain(
                    node,
                    &format!(" of {width} columns with something other than a matrix"),
                ),
            },
            "BatchNormalization" => {
                let part = |i| {
                    tensor(i).filter(|t: &&Tensor| t.shape == [width]).map(|t| t.values.as_slice())
                };
                let (Some(scale), Some(shift), Some(mean), Some(var)) =
                    (part(1), part(2), part(3), part(4))
                else {
                    return not_plain(node, " of unusual shapes");
                };
                let epsilon = node.float("epsilon", 1e-5);
                let factor: Vec<f64> =
                    scale.iter().zip(var).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
                let term: Vec<f64> = (0..width).map(|c| shift[c] - factor[c] * mean[c]).collect();
                one(made(affine.copy(&mut self.budget)?.then_columns(&factor, &term)))
            }
            "Relu" => one(self.add(row, Kind::Activation(Activation::Relu))?),
            "Tanh" => one(self.add(row, Kind::Activation(Activation::Tanh))?),
            "Softplus" => one(self.add(row, Kind::Activation(Activation::Softplus))?),
            "Elu" if node.float("alpha", 1.0) == 1.0 => {
                one(self.add(row, Kind::Activation(Activation::Elu))?)
            }
            "LeakyRelu" if (node.float("alpha", 0.01) - 0.01).abs() < 1e-6 => {
                one(self.add(row, Kind::Activation(Activation::LeakyRelu))?)
            }
            // σ(x) = ½ tanh(½ x) + ½
            "Sigmoid" => {
                let (half, zero) = (vec![0.5; width], vec![0.0; width]);
                let halved = affine.copy(&mut self.budget)?.then_columns(&half, &zero);
                let halved = Row { base: *base, affine: halved, rank: *rank };
                let Value::Row(layer) = self.add(&halved, Kind::Activation(Activation::Tanh))?
                else {
                    return not_plain(node, "");
                };
                let Row { base, affine, rank } = Rc::unwrap_or_clone(layer);
                one(Value::row(base, affine.then_columns(&half, &half), rank))
            }
            "Clip" => {
                let limit = |i: usize, name: &str, default: f64| match tensor(i) {
                    Some(t) => columns(node, t, width),
                    None => Ok(vec![node.float(name, default); width]),
                };
                let (low, high) =
                    (limit(1, "min", f64::NEG_INFINITY)?, limit(2, "max", f64::INFINITY)?);
                one(self.add(row, Kind::Clip(low, high))?)
            }
            "Shape" => {
                let mut shape = vec![width as f64];
                if *rank == 2 {
                    // The size of a batch is unknown: NaN stands for it, and `Reshape` recognizes it.
                    shape.insert(0, if self.single { 1.0 } else { f64::NAN });
                }
                one(Value::constant(Tensor { shape: vec![shape.len()], values: shape }))
            }
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => {
                let rank = self.reshaped(node, *rank, width, tensor(1))?;
                one(Value::row(*base, affine.copy(&mut self.budget)?, rank))
            }
            "Concat" => self.concat(node, arguments).map(|known| vec![known]),
            "Slice" | "Gather" => {
                let chosen = match node.operator {
                    "Slice" => constant::slice(
                        node,
                        width,
                        *rank,
                        &[tensor(1), tensor(2), tensor(3), tensor(4)],
                    )?,
                    _ => match tensor(1) {
                        Some(t) if axis(node, 0, *rank)? + 1 == *rank && t.shape.len() == 1 => {
                            t.values.iter().map(|&i| whole(i, width)).collect::<Result<_, _>>()?
                        }
                        _ => return not_plain(node, " of something other than columns"),
                    },
                };
                one(made(affine.copy(&mut self.budget)?.select(&chosen, &mut self.budget)?))
            }
            _ => not_plain(node, " does not occur in an MLP"),
        }
    }

    /// Operators on two values, of which one may be constant.
    fn pairs(
        &mut self,
        node: &Node<'_>,
        arguments: &[Option<Value>],
    ) -> Result<Option<Value>, Stop> {
        let [Some(a), Some(b)] = arguments else { return Ok(None) };
        let operator = node.operator;
        if !["Add", "Sub", "Mul", "Div", "Min", "Max"].contains(&operator) {
            return Ok(None);
        }
        let sign = if operator == "Sub" { -1.0 } else { 1.0 };
        let (row, tensor, row_first) = match (a, b) {
            (Value::Row(a), Value::Row(b)) => {
                let same = a.base == b.base && a.affine.outputs() == b.affine.outputs();
                if !same || !["Add", "Sub"].contains(&operator) {
                    return not_plain(node, " joins two branches");
                }
                let sum = a.affine.plus(&b.affine, sign, &mut self.budget)?;
                return Ok(Some(Value::row(a.base, sum, a.rank)));
            }
            (Value::Row(row), Value::Constant(tensor)) => (row, tensor, true),
            (Value::Constant(tensor), Value::Row(row)) => (row, tensor, false),
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
                return self.add(row, Kind::Clip(vec![f64::NEG_INFINITY; width], values)).map(Some);
            }
            ("Max", _) => {
                return self.add(row, Kind::Clip(values, vec![f64::INFINITY; width])).map(Some);
            }
            _ => return not_plain(node, " divides by a function of the observation"),
        };
        let affine = row.affine.copy(&mut self.budget)?.then_columns(&factor, &term);
        Ok(Some(Value::row(row.base, affine, rank)))
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
        if node.integer("transA", 0) != 0 {
            return not_plain(node, " transposes the observation");
        }
        let transposed = node.integer("transB", 0) != 0;
        let (rows, outputs) = if transposed { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
        if rows != width {
            return Err(Stop::Damaged(format!(
                "damaged: Gemm of {width} columns with a matrix of {shape:?}"
            )));
        }
        let alpha = node.float("alpha", 1.0);
        let at = |i: usize| match transposed {
            true => values[i % outputs * rows + i / outputs],
            false => values[i],
        };
        let matrix: Vec<f64> = (0..values.len()).map(|i| alpha * at(i)).collect();
        let product =
            affine.copy(&mut self.budget)?.then_matrix(&matrix, outputs, &mut self.budget)?;
        let Some(term) = term else { return Ok(product) };
        let beta = node.float("beta", 1.0);
        let term: Vec<f64> = columns(node, term, outputs)?.iter().map(|t| beta * t).collect();
        Ok(product.then_columns(&vec![1.0; outputs], &term))
    }

    fn concat(&mut self, node: &Node<'_>, arguments: &[Option<Value>]) -> Result<Value, Stop> {
        let mut all: Option<Row> = None;
        for argument in arguments {
            let Some(Value::Row(row)) = argument else {
                return not_plain(node, " appends constant columns");
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
            Some(row) if axis(node, -1, row.rank)? + 1 == row.rank => Ok(Value::Row(Rc::new(row))),
            _ => not_plain(node, " of something other than columns"),
        }
    }

    /// The rank after an operator that keeps every row as it is.
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
            "Squeeze" => {
                (rank == 2 && self.single && (axes() == [0] || axes() == [-2])).then_some(1)
            }
            "Unsqueeze" => (rank == 1 && (axes() == [0] || axes() == [-2])).then_some(2),
            _ => shape.and_then(|shape| {
                let (last, rest) = shape.values.split_last()?;
                let columns = *last == width as f64 || (*last == -1.0 && !rest.contains(&-1.0));
                let batch = match rest {
                    [] => self.single,
                    [b] => {
                        b.is_nan()
                            || *b == -1.0
                            || (*b == 0.0 && rank == 2)
                            || (*b == 1.0 && self.single)
                    }
                    _ => false,
                };
                (columns && batch).then_some(rest.len() + 1)
            }),
        };
        match allowed {
            Some(rank) => Ok(rank),
            None => not_plain(node, " does more than keep every row as it is"),
        }
    }
}

/// One number per column, from a constant that is the same for every row.
fn columns(node: &Node<'_>, tensor: &Tensor, width: usize) -> Result<Vec<f64>, Stop> {
    match (tensor.shape.split_last(), &tensor.values[..]) {
        (_, [one]) => Ok(vec![*one; width]),
        (Some((last, rest)), values) if *last == width && rest.iter().all(|&d| d == 1) => {
            Ok(values.to_vec())
        }
        _ => not_plain(
            node,
            &format!(" of {width} columns with a constant of shape {:?}", tensor.shape),
        ),
    }
}
