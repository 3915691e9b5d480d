//! The content of an ONNX file: nodes, weights, inputs and outputs, by name.

use crate::policy::readers::Problem;
use crate::policy::readers::onnx::protobuf::{Value, fields};
use crate::policy::readers::torch::half;
use std::collections::HashMap;

/// Numbers with a shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub operator: &'a str,
    pub domain: &'a str,
    /// Empty names stand for inputs that are left out.
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    pub attributes: HashMap<&'a str, Attribute>,
}

#[derive(Debug)]
pub(super) enum Attribute {
    Float(f64),
    Integer(i64),
    Tensor(Tensor),
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Other,
}

/// An input or output.
#[derive(Debug)]
pub(super) struct Port<'a> {
    pub name: &'a str,
    /// Size of each dimension; none if it is not fixed.
    pub shape: Vec<Option<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    pub nodes: Vec<Node<'a>>,
    pub weights: HashMap<&'a str, Tensor>,
    pub inputs: Vec<Port<'a>>,
    pub outputs: Vec<Port<'a>>,
}

impl<'a> Graph<'a> {
    /// The graph of a model file.
    pub fn read(model: &'a [u8]) -> Result<Self, Problem> {
        let mut graph = None;
        for field in fields(model) {
            if let (7, value) = field? {
                graph = Some(value.bytes()?);
            }
        }
        let message = graph.ok_or("not an ONNX file, or a damaged one: there is no graph in it")?;
        let mut graph = Graph::default();
        for field in fields(message) {
            match field? {
                (1, value) => graph.nodes.push(node(value)?),
                (5, value) => {
                    let (name, tensor) = tensor(value)?;
                    graph.weights.insert(name, tensor);
                }
                (11, value) => graph.inputs.push(port(value)?),
                (12, value) => graph.outputs.push(port(value)?),
                (15, _) => return Err("its weights are sparse, which is not supported".to_owned()),
                _ => {}
            }
        }
        // Old versions list the weights among the inputs, too.
        graph.inputs.retain(|input| !graph.weights.contains_key(input.name));
        Ok(graph)
    }

    /// Keeps the output of that name alone, if one is named.
    pub fn choose(&mut self, output: Option<&str>) -> Result<(), Problem> {
        let Some(output) = output else { return Ok(()) };
        let names: Vec<&str> = self.outputs.iter().map(|o| o.name).collect();
        if !names.contains(&output) {
            return Err(format!("no output `{output}`: it has {}", names.join(", ")));
        }
        self.outputs.retain(|port| port.name == output);
        Ok(())
    }

    /// The name of the output that is the action.
    pub fn action_output(&self) -> Result<&'a str, Problem> {
        let names: Vec<&str> = self.outputs.iter().map(|o| o.name).collect();
        let known = || ACTIONS.iter().find_map(|known| names.iter().find(|name| *name == known));
        let action = match names[..] {
            [one] => Some(one),
            _ => known().copied(),
        };
        action.ok_or_else(|| {
            format!(
                "it has the outputs {}: expected one output, or one that is called `action`, `actions`, `mean` or `mu`; say \
                 which it is with --output NAME",
                names.join(", ")
            )
        })
    }

    /// The operator by which it remembers, if it does.
    pub fn recurrent(&self) -> Option<&'a str> {
        let nodes = self.nodes.iter().map(|node| node.operator);
        nodes.into_iter().find(|operator| ["LSTM", "GRU", "RNN", "Loop", "Scan"].contains(operator))
    }
}

/// Names of outputs that are actions where there are several outputs, the best first: what is sampled comes after its mean.
const ACTIONS: [&str; 12] = [
    "deterministic_continuous_actions",
    "action",
    "actions",
    "mean",
    "mu",
    "action_mean",
    "mean_actions",
    "policy_output",
    "continuous_actions",
    "policy",
    "pi",
    "act",
];

impl Node<'_> {
    /// An attribute that is a whole number.
    pub fn integer(&self, name: &str, default: i64) -> i64 {
        match self.attributes.get(name) {
            Some(Attribute::Integer(value)) => *value,
            _ => default,
        }
    }

    /// An attribute that is a number; not a number if it is of another kind, so that nobody takes the default for it.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        match self.attributes.get(name) {
            Some(Attribute::Float(value)) => *value,
            Some(_) => f64::NAN,
            None => default,
        }
    }
}

fn node(message: Value<'_>) -> Result<Node<'_>, Problem> {
    let mut node = Node {
        operator: "",
        domain: "",
        inputs: vec![],
        outputs: vec![],
        attributes: HashMap::new(),
    };
    for field in fields(message.bytes()?) {
        match field? {
            (1, value) => node.inputs.push(value.text()?),
            (2, value) => node.outputs.push(value.text()?),
            (4, value) => node.operator = value.text()?,
            (5, value) => {
                let (name, attribute) = attribute(value)?;
                node.attributes.insert(name, attribute);
            }
            (7, value) => node.domain = value.text()?,
            _ => {}
        }
    }
    Ok(node)
}

fn attribute(message: Value<'_>) -> Result<(&str, Attribute), Problem> {
    let (mut name, mut found) = ("", Attribute::Other);
    for field in fields(message.bytes()?) {
        match (field?, &mut found) {
            ((1, value), _) => name = value.text()?,
            ((2, Value::Bits32(bits)), _) => found = Attribute::Float(f32::from_bits(bits).into()),
            ((3, value), _) => found = Attribute::Integer(value.integer()?),
            ((4, _), _) => found = Attribute::Other,
            ((5, value), _) => found = Attribute::Tensor(tensor(value)?.1),
            ((7, value), Attribute::Floats(values)) => value.floats(values)?,
            ((7, value), _) => {
                let mut values = Vec::new();
                value.floats(&mut values)?;
                found = Attribute::Floats(values);
            }
            ((8, value), Attribute::Integers(values)) => value.integers(values)?,
            ((8, value), _) => {
                let mut values = Vec::new();
                value.integers(&mut values)?;
                found = Attribute::Integers(values);
            }
            _ => {}
        }
    }
    Ok((name, found))
}

/// Codes of number types.
pub(super) const FLOAT: i64 = 1;
pub(super) const DOUBLE: i64 = 11;
pub(super) const FLOAT16: i64 = 10;
const BFLOAT16: i64 = 16;
const INT32: i64 = 6;
const INT64: i64 = 7;
const BOOL: i64 = 9;

fn tensor(message: Value<'_>) -> Result<(&str, Tensor), Problem> {
    let (mut dims, mut kind, mut name, mut raw) = (Vec::new(), 0, "", None);
    let (mut values, mut integers) = (Vec::new(), Vec::new());
    for field in fields(message.bytes()?) {
        match field? {
            (1, value) => value.integers(&mut dims)?,
            (2, value) => kind = value.integer()?,
            (4, value) => value.floats(&mut values)?,
            (5 | 7, value) => value.integers(&mut integers)?,
            (8, value) => name = value.text()?,
            (9, value) => raw = Some(value.bytes()?),
            (10, value) => value.doubles(&mut values)?,
            (13, _) | (14, Value::Number(1)) => {
                return Err(format!(
                    "the weights `{name}` lie in another file (external data), which is not read: export everything into one \
                     file, for example with `external_data=False` in torch.onnx.export"
                ));
            }
            _ => {}
        }
    }
    match (kind, raw) {
        (FLOAT, Some(raw)) => Value::Bytes(raw).floats(&mut values)?,
        (DOUBLE, Some(raw)) => Value::Bytes(raw).doubles(&mut values)?,
        (INT64, Some(raw)) => {
            values.extend(raw.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64))
        }
        (INT32, Some(raw)) => {
            values.extend(raw.as_chunks().0.iter().map(|b| f64::from(i32::from_le_bytes(*b))))
        }
        (BOOL, Some(raw)) => values.extend(raw.iter().map(|b| f64::from(*b))),
        (FLOAT16 | BFLOAT16, raw) => {
            // Without raw bytes the bits are in a list of integers.
            let bits: Vec<u16> = match raw {
                Some(raw) => raw.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect(),
                None => integers.iter().map(|&i| i as u16).collect(),
            };
            let number = |bits: u16| match kind {
                FLOAT16 => half(bits),
                _ => f32::from_bits(u32::from(bits) << 16),
            };
            values.extend(bits.into_iter().map(|bits| f64::from(number(bits))));
        }
        (FLOAT | DOUBLE, None) => {}
        (INT32 | INT64 | BOOL, None) => values.extend(integers.iter().map(|&i| i as f64)),
        _ => {
            return Err(format!(
                "the tensor `{name}` has type {kind}: supported are float, double, float16, int and bool"
            ));
        }
    }
    let shape: Option<Vec<usize>> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    let count = shape.as_ref().and_then(|s| s.iter().try_fold(1usize, |n, &d| n.checked_mul(d)));
    match shape {
        Some(shape) if count == Some(values.len()) => Ok((name, Tensor { shape, values })),
        _ => Err(format!(
            "damaged: the tensor `{name}` of shape {dims:?} holds {} numbers",
            values.len()
        )),
    }
}

fn port(message: Value<'_>) -> Result<Port<'_>, Problem> {
    let mut port = Port { name: "", shape: Vec::new() };
    for field in fields(message.bytes()?) {
        match field? {
            (1, value) => port.name = value.text()?,
            (2, value) => port.shape = shape(value)?,
            _ => {}
        }
    }
    Ok(port)
}

/// TypeProto → tensor_type → shape → dim → dim_value.
fn shape(message: Value<'_>) -> Result<Vec<Option<usize>>, Problem> {
    let mut sizes = Vec::new();
    for tensor in within(message, 1)? {
        for shape in within(tensor, 2)? {
            for dimension in within(shape, 1)? {
                let mut size = None;
                for field in fields(dimension.bytes()?) {
                    if let (1, value) = field? {
                        size = usize::try_from(value.integer()?).ok();
                    }
                }
                sizes.push(size);
            }
        }
    }
    Ok(sizes)
}

/// The fields with this number.
fn within(message: Value<'_>, number: u64) -> Result<Vec<Value<'_>>, Problem> {
    let mut found = Vec::new();
    for field in fields(message.bytes()?) {
        let (n, value) = field?;
        if n == number {
            found.push(value);
        }
    }
    Ok(found)
}
