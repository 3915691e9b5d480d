//! Operators on constants: what exporters leave to be computed from weights and shapes.

use crate::policy::readers::onnx::Stop;
use crate::policy::readers::onnx::affine::Budget;
use crate::policy::readers::onnx::graph::{Attribute, Node, Tensor};

/// The result of an operator whose inputs are all constant.
pub(super) fn apply(
    node: &Node<'_>,
    inputs: &[Option<&Tensor>],
    budget: &mut Budget,
) -> Result<Tensor, Stop> {
    let size = |t: &Option<&Tensor>| t.map_or(0, |t| t.values.len() as u64);
    let numbers: u64 = inputs.iter().map(size).sum();
    budget.numbers = budget.numbers.checked_sub(numbers).ok_or_else(|| too_much(node))?;
    let input = |i: usize| {
        let found = inputs.get(i).copied().flatten();
        found.ok_or_else(|| Stop::Damaged(format!("damaged: {} lacks an input", node.operator)))
    };
    let each = |f: fn(f64) -> f64| {
        let Tensor { shape, values } = input(0)?;
        Ok(Tensor { shape: shape.clone(), values: values.iter().map(|&v| f(v)).collect() })
    };
    match node.operator {
        "Constant" => constant(node),
        "Identity" | "Dropout" | "Cast" => each(|v| v),
        "Neg" => each(|v| -v),
        "Sqrt" => each(f64::sqrt),
        "Exp" => each(f64::exp),
        "Reciprocal" => each(|v| 1.0 / v),
        "Add" => pairs(node, input(0)?, input(1)?, |a, b| a + b),
        "Sub" => pairs(node, input(0)?, input(1)?, |a, b| a - b),
        "Mul" => pairs(node, input(0)?, input(1)?, |a, b| a * b),
        "Div" => pairs(node, input(0)?, input(1)?, |a, b| a / b),
        "Pow" => pairs(node, input(0)?, input(1)?, f64::powf),
        "Transpose" => transpose(node, input(0)?),
        "Reshape" | "Squeeze" | "Unsqueeze" => {
            let Tensor { shape, values } = input(0)?;
            reshape(node, shape, inputs.get(1).copied().flatten())
                .map(|shape| Tensor { shape, values: values.clone() })
        }
        "Gather" => {
            let (from, indices) = (input(0)?, input(1)?);
            match (from.shape.len(), node.integer("axis", 0)) {
                (1, 0 | -1) => Ok(Tensor {
                    shape: indices.shape.clone(),
                    values: indices
                        .values
                        .iter()
                        .map(|&i| whole(i, from.values.len()).map(|i| from.values[i]))
                        .collect::<Result<_, _>>()?,
                }),
                _ => Err(unknown(node)),
            }
        }
        "Concat" => {
            let parts: Vec<&Tensor> = inputs.iter().copied().flatten().collect();
            match parts.iter().all(|t| t.shape.len() == 1) {
                true => {
                    let values: Vec<f64> =
                        parts.iter().flat_map(|t| t.values.iter().copied()).collect();
                    Ok(Tensor { shape: vec![values.len()], values })
                }
                false => Err(unknown(node)),
            }
        }
        _ => Err(unknown(node)),
    }
}

fn unknown(node: &Node<'_>) -> Stop {
    Stop::NotPlain(format!("its operator {} is applied to constants", node.operator))
}

fn too_much(node: &Node<'_>) -> Stop {
    Stop::Damaged(format!(
        "its operator {} asks for far more than the file could hold",
        node.operator
    ))
}

fn constant(node: &Node<'_>) -> Result<Tensor, Stop> {
    let scalar = |value: f64| Tensor { shape: Vec::new(), values: vec![value] };
    let list = |values: Vec<f64>| Tensor { shape: vec![values.len()], values };
    match node.attributes.iter().next() {
        Some((_, Attribute::Tensor(tensor))) => Ok(tensor.clone()),
        Some((_, Attribute::Float(value))) => Ok(scalar(*value)),
        Some((_, Attribute::Integer(value))) => Ok(scalar(*value as f64)),
        Some((_, Attribute::Floats(values))) => Ok(list(values.clone())),
        Some((_, Attribute::Integers(values))) => {
            Ok(list(values.iter().map(|&v| v as f64).collect()))
        }
        _ => Err(unknown(node)),
    }
}

/// Element by element, where the shapes are equal or one of the two is a single number.
fn pairs(node: &Node<'_>, a: &Tensor, b: &Tensor, f: fn(f64, f64) -> f64) -> Result<Tensor, Stop> {
    let (shape, n) = match (a.values.len(), b.values.len()) {
        _ if a.shape == b.shape => (&a.shape, a.values.len()),
        (n, 1) if b.shape.len() <= a.shape.len() => (&a.shape, n),
        (1, n) if a.shape.len() <= b.shape.len() => (&b.shape, n),
        _ => return Err(unknown(node)),
    };
    let at = |t: &Tensor, i: usize| if t.values.len() == 1 { t.values[0] } else { t.values[i] };
    Ok(Tensor { shape: shape.clone(), values: (0..n).map(|i| f(at(a, i), at(b, i))).collect() })
}

fn transpose(node: &Node<'_>, from: &Tensor) -> Result<Tensor, Stop> {
    let order = match node.attributes.get("perm") {
        Some(Attribute::Integers(order)) => order.clone(),
        _ => (0..from.shape.len() as i64).rev().collect(),
    };
    match (&from.shape[..], &order[..]) {
        ([_, _], [0, 1]) | ([] | [_], _) => Ok(from.clone()),
        ([rows, columns], [1, 0]) => Ok(Tensor {
            shape: vec![*columns, *rows],
            values: (0..*columns)
                .flat_map(|c| (0..*rows).map(move |r| from.values[r * columns + c]))
                .collect(),
        }),
        _ => Err(unknown(node)),
    }
}

/// The new shape of a constant.
fn reshape(node: &Node<'_>, shape: &[usize], wanted: Option<&Tensor>) -> Result<Vec<usize>, Stop> {
    let numbers: Vec<i64> = match (wanted, node.attributes.get("axes")) {
        (Some(t), _) => t.values.iter().map(|&v| v as i64).collect(),
        (None, Some(Attribute::Integers(axes))) => axes.clone(),
        _ => return Err(unknown(node)),
    };
    let total: usize = shape.iter().product();
    let made: Option<Vec<usize>> = match (node.operator, &numbers[..]) {
        ("Unsqueeze", [0]) => Some([&[1], shape].concat()),
        ("Unsqueeze", [-1]) => Some([shape, &[1]].concat()),
        ("Unsqueeze", [1]) if shape.len() == 1 => Some(vec![shape[0], 1]),
        ("Squeeze", [0]) if shape.first() == Some(&1) => Some(shape[1..].to_vec()),
        ("Squeeze", [-1]) if shape.last() == Some(&1) => Some(shape[..shape.len() - 1].to_vec()),
        ("Reshape", [-1]) => Some(vec![total]),
        ("Reshape", sizes) => {
            let sizes: Option<Vec<usize>> =
                sizes.iter().map(|&s| usize::try_from(s).ok()).collect();
            sizes.filter(|s| s.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) == Some(total))
        }
        _ => None,
    };
    made.ok_or_else(|| unknown(node))
}

/// The columns that a `Slice` of columns takes; starts, ends, axes, steps are inputs, or attributes in old versions.
pub(super) fn slice(
    node: &Node<'_>,
    width: usize,
    rank: usize,
    given: &[Option<&Tensor>; 4],
) -> Result<Vec<usize>, Stop> {
    let list = |i: usize, name: &str| -> Option<Vec<i64>> {
        match (given[i], node.attributes.get(name)) {
            (Some(t), _) => Some(t.values.iter().map(|&v| v as i64).collect()),
            (None, Some(Attribute::Integers(values))) => Some(values.clone()),
            _ => None,
        }
    };
    let (starts, ends) = (list(0, "starts"), list(1, "ends"));
    let axes = list(2, "axes").unwrap_or_else(|| vec![0]);
    let steps = list(3, "steps").unwrap_or_else(|| vec![1]);
    match (starts.as_deref(), ends.as_deref(), &axes[..], &steps[..]) {
        (Some([start]), Some([end]), [axis], [1])
            if *axis == -1 || usize::try_from(*axis).is_ok_and(|a| a + 1 == rank) =>
        {
            let place = |i: i64| {
                let i = if i < 0 { i.saturating_add(width as i64) } else { i };
                usize::try_from(i.clamp(0, width as i64)).unwrap_or(0)
            };
            Ok((place(*start)..place(*end)).collect())
        }
        _ => Err(Stop::NotPlain(
            "its operator Slice takes something other than adjacent columns".to_owned(),
        )),
    }
}

/// An index into `n` values, which may count from the end.
pub(super) fn whole(index: f64, n: usize) -> Result<usize, Stop> {
    let from_start = if index < 0.0 { index + n as f64 } else { index };
    match from_start >= 0.0 && from_start < n as f64 && from_start.fract() == 0.0 {
        true => Ok(from_start as usize),
        false => Err(Stop::Damaged(format!("damaged: index {index} of {n} values"))),
    }
}

/// The attribute `axis`, counted from the start.
pub(super) fn axis(node: &Node<'_>, default: i64, rank: usize) -> Result<usize, Stop> {
    let axis = node.integer("axis", default);
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    from_start
        .and_then(|a| usize::try_from(a).ok())
        .filter(|a| *a <= rank)
        .ok_or_else(|| Stop::Damaged(format!("damaged: axis {axis} of {}", node.operator)))
}
