//! Policies that are networks: observation normaliser → network → limit, the same on every device.

use super::spread::{Sampler, Spread};
use crate::compute::{Activation, Buffer, Device, Input, Shape};
use crate::nn::{Ensemble, Trace};
use std::sync::{Mutex, PoisonError};

/// Working memories that a policy keeps, for as many batch sizes.
const KEPT: usize = 4;

/// A network with its normaliser and limits; every size in it fits every other.
#[derive(Debug)]
pub(super) struct Mlp {
    pub shape: Shape,
    /// As [`Shape`] orders them.
    pub params: Vec<f32>,
    pub normaliser: Option<Normaliser>,
    pub output: Output,
    /// Smallest and largest action.
    pub low: Vec<f32>,
    pub high: Vec<f32>,
    /// How it draws, if it can.
    pub spread: Option<Spread>,
    idle: Mutex<Vec<Working>>,
}

/// (s − mean) / √(var + epsilon), within ±clip.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normaliser {
    pub mean: Vec<f64>,
    pub var: Vec<f64>,
    pub clip: f64,
    pub epsilon: f64,
}

/// From what the network gives to an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output {
    /// Limited to the bounds.
    Clip,
    /// Limited to ±`limit`, then by tanh between the bounds.
    Tanh {
        /// Infinite where there is none.
        limit: f32,
    },
}

/// One layer as PyTorch stores it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Linear {
    pub inputs: usize,
    pub outputs: usize,
    /// `[outputs, inputs]`
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

/// What a batch of some size needs on a device, so that acting allocates nothing once it is there.
#[derive(Debug)]
struct Working {
    device: Device,
    rows: usize,
    network: Ensemble,
    bounds: [Buffer; 2],
    /// Mean and deviation of the observations, and the normalised observations.
    normal: Option<([Buffer<f64>; 2], Buffer)>,
    /// What back-propagation needs beside, if it was ever asked for.
    back: Option<(Trace, Buffer)>,
    /// What drawing needs, if it was ever asked for.
    sampler: Option<Sampler>,
}

impl Mlp {
    /// A network of these layers. An error in words if they do not fit each other or are not finite.
    pub fn new(
        layers: &[Linear],
        hidden: Activation,
        normaliser: Option<Normaliser>,
        output: Output,
        [low, high]: [Vec<f32>; 2],
    ) -> Result<Self, String> {
        let Some((first, last)) = layers.first().zip(layers.last()) else {
            return Err("the network has no layers".to_owned());
        };
        for (i, pair) in layers.windows(2).enumerate() {
            if pair[0].outputs != pair[1].inputs {
                return Err(format!(
                    "layer {i} gives {} numbers, layer {} takes {}",
                    pair[0].outputs,
                    i + 1,
                    pair[1].inputs
                ));
            }
        }
        let widths = std::iter::once(first.inputs).chain(layers.iter().map(|l| l.outputs)).collect();
        let shape = Shape::new(1, widths, hidden).map_err(|e| e.to_string())?;
        let mut params = Vec::with_capacity(shape.parameters());
        for (i, layer) in layers.iter().enumerate() {
            let Linear { inputs, outputs, weight, bias } = layer;
            if inputs.checked_mul(*outputs) != Some(weight.len()) || bias.len() != *outputs {
                return Err(format!("layer {i} has {} weights and {} biases", weight.len(), bias.len()));
            }
            if !weight.iter().chain(bias).all(|x| x.is_finite()) {
                return Err(format!("layer {i} holds weights that are not finite"));
            }
            params.extend((0..*inputs).flat_map(|i| (0..*outputs).map(move |o| weight[o * inputs + i])));
            params.extend_from_slice(bias);
        }
        if low.len() != last.outputs || high.len() != last.outputs {
            let (low, high) = (low.len(), high.len());
            return Err(format!(
                "the network gives {} numbers, but there are {low} and {high} bounds of actions",
                last.outputs
            ));
        }
        let ordered = low.iter().zip(&high).all(|(l, h)| l < h);
        let bounded = low.iter().chain(&high).all(|x| x.is_finite());
        if !ordered || (output != Output::Clip && !bounded) {
            return Err(format!(
                "bounds of actions {low:?} and {high:?}: expected low < high, and finite ones to squash into"
            ));
        }
        if let Some(normaliser) = &normaliser {
            normaliser.check(first.inputs)?;
        }
        Ok(Mlp { shape, params, normaliser, output, low, high, spread: None, idle: Mutex::default() })
    }

    /// The layers as PyTorch stores them.
    pub fn layers(&self) -> Vec<Linear> {
        layers(&self.shape, &self.params)
    }

    /// actions `[rows, action]` ← π(states).
    pub fn act(&self, device: &Device, states: &Buffer, actions: &mut Buffer) {
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { network, bounds: [low, high], normal, .. } = working;
            let input = self.normalised(device, states, normal);
            let (Ensemble { shape, params }, input) = (network, Input::Shared(input));
            match self.output {
                Output::Clip => {
                    device.infer(shape, params, input, rows, actions);
                    device.clamp(low, high, actions);
                }
                Output::Tanh { limit } => {
                    device.infer_within(shape, params, input, rows, ([low, high], limit), actions);
                }
            }
        });
    }

    /// d_states += d_actionsᵀ · dπ/ds.
    pub fn back(&self, device: &Device, states: &Buffer, d_actions: &Buffer, d_states: &mut Buffer) {
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { network, bounds: [low, high], normal, back, .. } = working;
            let (trace, d_input) = back.get_or_insert_with(|| {
                (Trace::new(device, &self.shape, rows), device.zeros(rows * self.shape.inputs()))
            });
            let input = self.normalised(device, states, normal);
            network.forward(device, Input::Shared(input), trace);
            let (output, d_output) = trace.output();
            device.copy(d_actions, d_output);
            match self.output {
                Output::Clip => device.clamp_gradient(low, high, output, d_output),
                Output::Tanh { limit } => {
                    device.squash_to_bounds_gradient(low, high, limit, output, d_output)
                }
            }
            network.backward(device, Input::Shared(input), trace, None, Some(d_input));
            match (normal, &self.normaliser) {
                (Some(([_, std], normalised)), Some(n)) => {
                    device.normalize_gradient(normalised, std, n.clip, d_input, d_states);
                }
                _ => device.add(d_input, d_states),
            }
        });
    }

    /// actions `[rows, action]` ~ π(· | states), with ε from `noise`; the mean where it cannot draw.
    pub fn draw(&self, device: &Device, states: &Buffer, noise: &Buffer, actions: &mut Buffer) {
        let Some(spread) = &self.spread else { return self.act(device, states, actions) };
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { bounds, normal, sampler, .. } = working;
            let sampler = sampler.get_or_insert_with(|| self.sampler(device, spread, rows));
            let input = self.normalised(device, states, normal);
            self.deviate(device, spread, sampler, input, noise);
            self.limit(device, bounds, sampler, actions);
        });
    }

    /// d_states += d_actionsᵀ · da/ds of the actions that [`Mlp::draw`] gave with the same noise.
    pub fn draw_back(
        &self,
        device: &Device,
        states: &Buffer,
        noise: &Buffer,
        d_actions: &Buffer,
        d_states: &mut Buffer,
    ) {
        let Some(spread) = &self.spread else { return self.back(device, states, d_actions, d_states) };
        let rows = states.len() / self.shape.inputs();
        self.with_working(device, rows, |working| {
            let Working { bounds, normal, sampler, .. } = working;
            let sampler = sampler.get_or_insert_with(|| self.sampler(device, spread, rows));
            let input = self.normalised(device, states, normal);
            self.deviate(device, spread, sampler, input, noise);
            let d_input = self.back_from_deviated(device, spread, sampler, bounds, (input, noise, d_actions));
            match (normal, &self.normaliser) {
                (Some(([_, std], normalised)), Some(n)) => {
                    device.normalize_gradient(normalised, std, n.clip, d_input, d_states);
                }
                _ => device.add(d_input, d_states),
            }
        });
    }

    /// ln π(a | s) of every row; none where it cannot draw.
    pub fn log_densities(&self, device: &Device, states: &Buffer, actions: &[f32]) -> Option<Vec<f64>> {
        let spread = self.spread.as_ref()?;
        let rows = states.len() / self.shape.inputs();
        let mut working = self.working(device, rows);
        let input = self.normalised(device, states, &mut working.normal);
        let mut sampler = self.sampler(device, spread, rows);
        Some(self.log_probs(device, spread, &mut sampler, input, actions))
    }

    /// The network's input: the states, or what the normaliser makes of them.
    fn normalised<'a>(
        &self,
        device: &Device,
        states: &'a Buffer,
        normal: &'a mut Option<([Buffer<f64>; 2], Buffer)>,
    ) -> &'a Buffer {
        match (normal, &self.normaliser) {
            (Some(([mean, std], normalised)), Some(n)) => {
                device.normalize(states, (mean, std), n.clip, normalised);
                normalised
            }
            _ => states,
        }
    }

    /// Lends out a working memory. The lock is not held meanwhile: a thread that waits for its kernel may be given
    /// other work of the pool that acts, too.
    fn with_working(&self, device: &Device, rows: usize, work: impl FnOnce(&mut Working)) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let mut idle = idle();
            let fits = idle.iter().position(|w| w.rows == rows && w.device.is(device));
            fits.map(|i| idle.remove(i))
        };
        let mut working = kept.unwrap_or_else(|| self.working(device, rows));
        work(&mut working);
        let mut idle = idle();
        if idle.len() == KEPT {
            idle.remove(0);
        }
        idle.push(working);
    }

    fn working(&self, device: &Device, rows: usize) -> Working {
        let normal = self
            .normaliser
            .as_ref()
            .map(|n| ([device.upload(&n.mean), device.adopt(n.std())], device.zeros(rows * n.mean.len())));
        Working {
            device: device.clone(),
            rows,
            network: Ensemble { shape: self.shape.clone(), params: device.upload(&self.params) },
            bounds: [device.upload(&self.low), device.upload(&self.high)],
            normal,
            back: None,
            sampler: None,
        }
    }
}

/// The layers of one network as PyTorch stores them.
pub(super) fn layers(shape: &Shape, params: &[f32]) -> Vec<Linear> {
    let layer = |(_, l): (usize, crate::compute::Layer)| {
        let (inputs, outputs) = (l.inputs, l.outputs);
        let (weight, rest) = params[l.offset..].split_at(inputs * outputs);
        Linear {
            inputs,
            outputs,
            weight: (0..outputs).flat_map(|o| (0..inputs).map(move |i| weight[i * outputs + o])).collect(),
            bias: rest[..outputs].to_vec(),
        }
    };
    shape.layers().map(layer).collect()
}

impl Normaliser {
    fn std(&self) -> Vec<f64> {
        self.var.iter().map(|v| (v + self.epsilon).sqrt()).collect()
    }

    fn check(&self, inputs: usize) -> Result<(), String> {
        if self.mean.len() != inputs || self.var.len() != inputs {
            return Err(format!(
                "the normaliser is for observations of {} numbers, the network takes {inputs}",
                self.mean.len()
            ));
        }
        let sound = self.mean.iter().all(|m| m.is_finite())
            && self.std().iter().all(|s| s.is_finite() && *s > 0.0)
            && self.clip > 0.0;
        match sound {
            true => Ok(()),
            false => {
                Err("the normaliser must have finite means, positive variances and a positive limit"
                    .to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    const INPUTS: usize = 3;
    const OUTPUTS: usize = 2;

    fn network(hidden: Activation, normaliser: Option<Normaliser>, output: Output) -> Mlp {
        let mut generator = Stream::new(5).generator();
        let mut linear = |inputs: usize, outputs: usize| Linear {
            inputs,
            outputs,
            weight: (0..inputs * outputs).map(|_| generator.normal() as f32).collect(),
            bias: (0..outputs).map(|_| generator.normal() as f32).collect(),
        };
        let layers = [linear(INPUTS, 7), linear(7, 5), linear(5, OUTPUTS)];
        Mlp::new(&layers, hidden, normaliser, output, [vec![-1.0, 0.5], vec![3.0, 0.75]]).unwrap()
    }

    fn normaliser() -> Normaliser {
        Normaliser { mean: vec![0.1, -0.3, 0.2], var: vec![0.5, 4.0, 1e-4], clip: 1.5, epsilon: 1e-8 }
    }

    /// Every output, normaliser and activation, against central differences of `act`; on 300 rows, several blocks.
    #[test]
    fn gradients_are_those_of_finite_differences() {
        let device = Device::cpu(Some(2)).unwrap();
        let mut generator = Stream::new(6).generator();
        let rows = 300;
        let centre = [0.1, -0.3, 0.2];
        let spread = [1.0, 3.0, 0.015];
        let states: Vec<f32> =
            (0..rows * INPUTS).map(|i| (centre[i % 3] + spread[i % 3] * generator.normal()) as f32).collect();
        let weights: Vec<f32> = (0..rows * OUTPUTS).map(|_| generator.normal() as f32).collect();
        for hidden in [Activation::Tanh, Activation::Relu] {
            for normaliser in [None, Some(normaliser())] {
                for output in
                    [Output::Clip, Output::Tanh { limit: f32::INFINITY }, Output::Tanh { limit: 1.0 }]
                {
                    let mlp = network(hidden, normaliser.clone(), output);
                    let mut gradient = device.zeros(states.len());
                    device.fill(&mut gradient, 1.0);
                    mlp.back(&device, &device.upload(&states), &device.upload(&weights), &mut gradient);
                    let gradient = device.download(&gradient);
                    let mut agreeing = 0;
                    for column in 0..INPUTS {
                        let h = 2e-3 * spread[column] as f32;
                        let value = |h: f32| {
                            let mut moved = states.clone();
                            moved.iter_mut().skip(column).step_by(INPUTS).for_each(|s| *s += h);
                            let mut actions = device.zeros(rows * OUTPUTS);
                            mlp.act(&device, &device.upload(&moved), &mut actions);
                            let products: Vec<f32> =
                                device.download(&actions).iter().zip(&weights).map(|(a, w)| a * w).collect();
                            products.chunks_exact(OUTPUTS).map(|p| p.iter().sum()).collect::<Vec<f32>>()
                        };
                        for (row, (up, down)) in value(h).iter().zip(value(-h)).enumerate() {
                            let (ours, difference) =
                                (gradient[row * INPUTS + column] - 1.0, (up - down) / (2.0 * h));
                            let tolerance = 0.01 * (1.0 / spread[column] as f32 + difference.abs());
                            agreeing += usize::from((ours - difference).abs() < tolerance);
                        }
                    }
                    // All but those that pass a kink within the difference.
                    let share = agreeing as f64 / (rows * INPUTS) as f64;
                    assert!(share > 0.97, "{hidden:?} {output:?} {normaliser:?}: {share}");
                }
            }
        }
    }

    #[test]
    fn limits_are_met_and_what_is_no_number_stays() {
        let device = Device::cpu(Some(1)).unwrap();
        for output in [Output::Clip, Output::Tanh { limit: f32::INFINITY }] {
            let mlp = network(Activation::Relu, Some(normaliser()), output);
            let mut actions = device.zeros(2 * OUTPUTS);
            mlp.act(&device, &device.upload(&[1e30, -1e30, 0.0, f32::NAN, 0.0, 0.0]), &mut actions);
            let actions = device.download(&actions);
            assert!((-1.0..=3.0).contains(&actions[0]) && (0.5..=0.75).contains(&actions[1]), "{actions:?}");
            assert!(actions[2].is_nan(), "{actions:?}");
        }
    }

    #[test]
    fn working_memory_is_kept_for_a_few_sizes() {
        let device = Device::cpu(Some(1)).unwrap();
        let mlp = network(Activation::Tanh, None, Output::Clip);
        for rows in [1, 2, 1, 3, 4, 5, 6, 2] {
            let mut actions = device.zeros(rows * OUTPUTS);
            mlp.act(&device, &device.zeros(rows * INPUTS), &mut actions);
        }
        let kept: Vec<usize> = mlp.idle.lock().unwrap().iter().map(|w| w.rows).collect();
        assert_eq!(kept, [4, 5, 6, 2]);
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let linear = |inputs: usize, outputs: usize| Linear {
            inputs,
            outputs,
            weight: vec![0.1; inputs * outputs],
            bias: vec![0.0; outputs],
        };
        let make = |layers: &[Linear], normaliser, bounds| {
            Mlp::new(layers, Activation::Relu, normaliser, Output::Tanh { limit: 1.0 }, bounds).unwrap_err()
        };
        let bounds = || [vec![-1.0; 2], vec![1.0; 2]];
        let nan = Linear { weight: vec![f32::NAN; 6], ..linear(3, 2) };
        for (problem, part) in [
            (make(&[], None, bounds()), "no layers"),
            (make(&[linear(3, 4), linear(5, 2)], None, bounds()), "layer 0 gives 4 numbers, layer 1 takes 5"),
            (make(&[Linear { bias: vec![], ..linear(3, 2) }], None, bounds()), "0 biases"),
            (make(&[nan], None, bounds()), "not finite"),
            (make(&[linear(3, 3)], None, bounds()), "gives 3 numbers, but there are 2 and 2 bounds"),
            (make(&[linear(3, 2)], None, [vec![-1.0; 2], vec![f32::INFINITY; 2]]), "finite ones"),
            (make(&[linear(2, 2)], Some(normaliser()), bounds()), "observations of 3 numbers"),
            (
                make(&[linear(3, 2)], Some(Normaliser { clip: 0.0, ..normaliser() }), bounds()),
                "positive limit",
            ),
        ] {
            assert!(problem.contains(part), "{problem}");
        }
    }
}
