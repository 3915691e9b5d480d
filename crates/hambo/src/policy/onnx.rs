//! Networks as ONNX graphs, a few messages of protocol buffers written by hand: normalizer, layers, bounds.

use super::layers::{Linear, Output};
use super::mlp::Mlp;
use super::normalizer::Normalizer;
use hambo_engine::backend::Activation;

/// Version of the file format, and of the operators in it.
const IR_VERSION: u64 = 8;
const OPSET: u64 = 13;
/// ONNX's number for f32.
const FLOAT: u64 = 1;

/// The bytes of a model with this network's graph.
pub(super) fn graph(mlp: &Mlp) -> Vec<u8> {
    let mut graph = Graph { nodes: Vec::new(), constants: Vec::new(), last: "observation".into() };
    if let Some(normalizer) = &mlp.normalizer {
        graph.normalize(normalizer);
    }
    let layers = Linear::unpack(&mlp.shape, &mlp.params);
    for (i, layer) in layers.iter().enumerate() {
        let shape = [layer.outputs, layer.inputs];
        let weight = graph.constant(&format!("layers.{i}.weight"), &shape, &layer.weight);
        let bias = graph.constant(&format!("layers.{i}.bias"), &[layer.outputs], &layer.bias);
        // In ONNX a Gemm is A · B + C, with B transposed if it says so.
        graph.node("Gemm", &[&weight, &bias], &[("transB", 1)]);
        match mlp.shape.hidden {
            _ if i + 1 == layers.len() => {}
            Activation::Relu => graph.node("Relu", &[], &[]),
            Activation::Tanh => graph.node("Tanh", &[], &[]),
            Activation::Elu => graph.node("Elu", &[], &[]),
            Activation::LeakyRelu => graph.node("LeakyRelu", &[], &[]),
            Activation::Softplus => graph.node("Softplus", &[], &[]),
            Activation::Linear => {}
        }
    }
    graph.bound(mlp);
    graph.model(mlp.shape.inputs(), mlp.shape.outputs())
}

struct Graph {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    /// The value that the next node takes.
    last: String,
}

impl Graph {
    /// (s − mean) / √(var + epsilon), within ± clip.
    fn normalize(&mut self, normalizer: &Normalizer) {
        let Normalizer { mean, var, clip, epsilon } = normalizer;
        let floats = |values: &mut dyn Iterator<Item = f64>| -> Vec<f32> {
            values.map(|x| x as f32).collect()
        };
        let std = floats(&mut var.iter().map(|v| (v + epsilon).sqrt()));
        let mean = self.constant("mean", &[mean.len()], &floats(&mut mean.iter().copied()));
        let std = self.constant("std", &[std.len()], &std);
        self.node("Sub", &[&mean], &[]);
        self.node("Div", &[&std], &[]);
        if clip.is_finite() {
            self.limit("clip", *clip as f32);
        }
    }

    /// From the last layer's output to an action.
    fn bound(&mut self, mlp: &Mlp) {
        let n = mlp.shape.outputs();
        let pairs = || mlp.low.iter().zip(&mlp.high);
        match mlp.output {
            Output::Tanh { limit } => {
                if limit.is_finite() {
                    self.limit("limit", limit);
                }
                let half: Vec<f32> = pairs().map(|(low, high)| 0.5 * (high - low)).collect();
                let middle: Vec<f32> = pairs().map(|(low, high)| 0.5 * (high + low)).collect();
                let half = self.constant("half_range", &[n], &half);
                let middle = self.constant("middle", &[n], &middle);
                self.node("Tanh", &[], &[]);
                self.node("Mul", &[&half], &[]);
                self.node("Add", &[&middle], &[]);
            }
            Output::Clip => {
                let limited = |x: &f32| x.is_finite();
                if mlp.low.iter().chain(&mlp.high).any(limited) {
                    let low = self.constant("low", &[n], &mlp.low);
                    let high = self.constant("high", &[n], &mlp.high);
                    self.node("Max", &[&low], &[]);
                    self.node("Min", &[&high], &[]);
                }
            }
        }
    }

    /// Within ± a number.
    fn limit(&mut self, name: &str, limit: f32) {
        let low = self.constant(&format!("{name}.low"), &[], &[-limit]);
        let high = self.constant(&format!("{name}.high"), &[], &[limit]);
        self.node("Clip", &[&low, &high], &[]);
    }

    /// TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9.
    fn constant(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let mut tensor = Vec::new();
        shape.iter().for_each(|&n| number(&mut tensor, 1, n as u64));
        number(&mut tensor, 2, FLOAT);
        bytes(&mut tensor, 8, name.as_bytes());
        let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        bytes(&mut tensor, 9, &raw);
        self.constants.push(tensor);
        name.to_owned()
    }

    /// NodeProto: input = 1, output = 2, name = 3, op_type = 4, attribute = 5 (name = 1, i = 3, type = 20, which is 2 for a whole
    /// number). It takes the last value first, and its own becomes the last.
    fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, u64)]) {
        let name = format!("{}_{}", operator.to_lowercase(), self.nodes.len());
        let mut node = Vec::new();
        bytes(&mut node, 1, self.last.as_bytes());
        inputs.iter().for_each(|input| bytes(&mut node, 1, input.as_bytes()));
        bytes(&mut node, 2, name.as_bytes());
        bytes(&mut node, 3, name.as_bytes());
        bytes(&mut node, 4, operator.as_bytes());
        for (key, value) in attributes {
            let mut attribute = Vec::new();
            bytes(&mut attribute, 1, key.as_bytes());
            number(&mut attribute, 3, *value);
            number(&mut attribute, 20, 2);
            bytes(&mut node, 5, &attribute);
        }
        self.nodes.push(node);
        self.last = name;
    }

    /// ModelProto: ir_version = 1, producer_name = 2, graph = 7, opset_import = 8 (version = 2); GraphProto: node = 1, name = 2,
    /// initializer = 5, input = 11, output = 12.
    fn model(mut self, inputs: usize, outputs: usize) -> Vec<u8> {
        // The last node's value is the action.
        let result = std::mem::take(&mut self.last);
        let mut identity = Vec::new();
        bytes(&mut identity, 1, result.as_bytes());
        bytes(&mut identity, 2, b"action");
        bytes(&mut identity, 3, b"action");
        bytes(&mut identity, 4, b"Identity");
        let mut graph = Vec::new();
        self.nodes.iter().chain([&identity]).for_each(|node| bytes(&mut graph, 1, node));
        bytes(&mut graph, 2, b"policy");
        self.constants.iter().for_each(|constant| bytes(&mut graph, 5, constant));
        bytes(&mut graph, 11, &value("observation", inputs));
        bytes(&mut graph, 12, &value("action", outputs));
        let mut opset = Vec::new();
        number(&mut opset, 2, OPSET);
        let mut model = Vec::new();
        number(&mut model, 1, IR_VERSION);
        bytes(&mut model, 2, b"hambo");
        bytes(&mut model, 7, &graph);
        bytes(&mut model, 8, &opset);
        model
    }
}

/// ValueInfoProto: name = 1, type = 2 (tensor_type = 1: elem_type = 1, shape = 2, of dimensions = 1 with dim_value = 1 or
/// dim_param = 2): f32 `[batch, columns]`.
fn value(name: &str, columns: usize) -> Vec<u8> {
    let (mut batch, mut width, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    bytes(&mut batch, 2, b"batch");
    number(&mut width, 1, columns as u64);
    bytes(&mut shape, 1, &batch);
    bytes(&mut shape, 1, &width);
    let (mut tensor, mut kind, mut value) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, FLOAT);
    bytes(&mut tensor, 2, &shape);
    bytes(&mut kind, 1, &tensor);
    bytes(&mut value, 1, name.as_bytes());
    bytes(&mut value, 2, &kind);
    value
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    varint(to, field << 3);
    varint(to, value);
}

fn bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::Graph;
    use crate::policy::Policy;
    use crate::policy::action_std::ActionStd;
    use crate::policy::layers::{Linear, Output};
    use crate::policy::mlp::Mlp;
    use crate::policy::normalizer::Normalizer;
    use hambo_engine::backend::{Activation, Device, Shape};
    use hambo_engine::nn::Ensemble;
    use hambo_engine::rng::Stream;

    fn layer(inputs: usize, outputs: usize, seed: u64) -> Linear {
        let mut generator = Stream::new(seed).generator();
        let mut draw = |n: usize| (0..n).map(|_| generator.normal() as f32).collect::<Vec<f32>>();
        Linear { inputs, outputs, weight: draw(inputs * outputs), bias: draw(outputs) }
    }

    fn network(hidden: Activation, normalizer: Option<Normalizer>, output: Output) -> Policy {
        let layers = [layer(3, 7, 1), layer(7, 5, 2), layer(5, 2, 3)];
        let bounds = [vec![-1.0, -3.0], vec![1.0, 0.5]];
        Policy::network("own", Mlp::new(&layers, hidden, normalizer, output, bounds).unwrap())
    }

    /// The largest difference between what a policy does and what its graph does, read back.
    fn difference(policy: &Policy) -> f32 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.onnx");
        policy.save_onnx(&path).unwrap();
        let back = Policy::read(path.to_str().unwrap()).unwrap();
        assert_eq!((back.state_dim(), back.action_dim()), (3, 2));
        let device = Device::cpu(Some(1)).unwrap();
        let states = device.adopt(layer(3, 40, 9).weight);
        let mut actions = [device.zeros(80), device.zeros(80)];
        policy.act(&device, &states, &mut actions[0]);
        back.act(&device, &states, &mut actions[1]);
        let [own, read] = actions.map(|a| device.download(&a).unwrap());
        own.iter().zip(&read).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same_policy() {
        let squashed = Output::Tanh { limit: f32::INFINITY };
        let normalizer = || {
            let (mean, var) = (vec![0.5, -2.0, 10.0], vec![4.0, 0.25, 1.0]);
            Some(Normalizer { mean, var, clip: 5.0, epsilon: 1e-8 })
        };
        let unlimited = normalizer().map(|n| Normalizer { clip: f64::INFINITY, ..n });
        for (hidden, normalizer, output) in [
            (Activation::Relu, None, squashed),
            (Activation::Tanh, None, Output::Clip),
            (Activation::Relu, normalizer(), squashed),
            (Activation::Tanh, unlimited, Output::Clip),
            (Activation::Relu, None, Output::Tanh { limit: 1.5 }),
            (Activation::Elu, None, squashed),
            (Activation::LeakyRelu, None, Output::Clip),
            (Activation::Softplus, None, squashed),
        ] {
            let error = difference(&network(hidden, normalizer, output));
            assert!(error < 2e-6, "{hidden:?}, {output:?}: {error}");
        }
        let controller = Policy::read("builtin:swing-up").unwrap();
        let error = controller.save_onnx(std::path::Path::new("no.onnx")).unwrap_err().to_string();
        assert!(error.contains("only networks can be saved"), "{error}");
    }

    /// ELU with another slope, told as a whole number, which it must not be: never the usual one.
    #[test]
    fn an_attribute_of_the_wrong_kind_is_not_taken_for_its_default() {
        let mut graph =
            Graph { nodes: Vec::new(), constants: Vec::new(), last: "observation".into() };
        let weight = graph.constant("weight", &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
        graph.node("MatMul", &[&weight], &[]);
        graph.node("Elu", &[], &[("alpha", 2)]);
        graph.node("MatMul", &[&weight], &[]);
        let path = std::env::temp_dir().join(format!("hambo-elu-{}.onnx", std::process::id()));
        std::fs::write(&path, graph.model(2, 2)).unwrap();
        let read = Policy::read(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        let error = read.unwrap_err().to_string();
        assert!(error.contains("Elu"), "{error}");
    }

    /// Both heads of an actor: it acts by tanh μ, and samples around it.
    #[test]
    fn an_actor_is_a_policy_with_a_distribution() {
        let device = Device::cpu(Some(1)).unwrap();
        let shape = Shape::new(1, vec![3, 7, 4], Activation::Relu).unwrap();
        let actor = Ensemble::random(&device, shape.clone(), Stream::new(4));
        let bounds = [vec![-1.0, -3.0], vec![1.0, 0.5]];
        let policy = Policy::gaussian("actor", &device, &actor, bounds.clone()).unwrap();
        assert!(policy.has_distribution() && difference(&policy) < 2e-6);
        let [first, last] = &Linear::unpack(&shape, &device.download(&actor.params).unwrap())[..]
        else {
            panic!()
        };
        let [mean, log_std] = [0, 1].map(|half| Linear {
            inputs: 7,
            outputs: 2,
            weight: last.weight[half * 14..][..14].to_vec(),
            bias: last.bias[half * 2..][..2].to_vec(),
        });
        let layers = [first.clone(), mean];
        let output = Output::Tanh { limit: f32::INFINITY };
        let mlp = Mlp::new(&layers, Activation::Relu, None, output, bounds).unwrap();
        let by_hand =
            Policy::network("hand", mlp.with_action_std(ActionStd::Logs(log_std)).unwrap());
        let (states, actions) = ([0.3, -1.0, 2.0], [0.2, -1.0]);
        let density = |p: &Policy| p.log_densities(&device, &states, &actions).unwrap();
        assert_eq!(density(&policy), density(&by_hand));
    }
}
