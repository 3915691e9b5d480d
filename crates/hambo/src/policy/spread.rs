//! Policies that draw their actions: u = μ(s) + σ(s) ε, then the limit of [`Output`].
//!
//! | σ(s) | of |
//! |---|---|
//! | the same everywhere | A2C, PPO, TRPO |
//! | a second head of the network, ln σ within \[−20, 2\] | SAC, TQC, D4RL's policies |
//! | √(Σ features² · variances + 10⁻⁶) | generalized state-dependent exploration (gSDE) |
//!
//! gSDE draws a matrix once in a while and keeps it for some steps. Here every step draws anew, which has the same
//! distribution at every single step but no memory between steps: `predict` says nothing about when to draw again.

use super::mlp::{Linear, Mlp, Output};
use crate::compute::{Buffer, Counter, Device, FEATURE_VARIANCE, Input, LOG_STD, Shape};
use crate::nn::{Ensemble, Trace};
use crate::rng::Stream;

/// Where the standard deviations come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spread {
    /// One for each action.
    Fixed(Vec<f32>),
    /// A layer from the last hidden one to ln σ.
    Logs(Linear),
    /// Variances `[features, action]` that the squares of the last hidden layer weigh.
    Features(Vec<f32>),
}

impl Spread {
    /// An error in words if it does not belong to a network of `features` numbers before the last layer.
    pub fn check(&self, features: usize, actions: usize) -> Result<(), String> {
        let (fits, values): (bool, Vec<&f32>) = match self {
            Spread::Fixed(std) => (std.len() == actions, std.iter().collect()),
            Spread::Logs(Linear { inputs, outputs, weight, bias }) => (
                (*inputs, *outputs) == (features, actions)
                    && inputs.checked_mul(*outputs) == Some(weight.len())
                    && bias.len() == actions,
                weight.iter().chain(bias).collect(),
            ),
            Spread::Features(variances) => {
                (features.checked_mul(actions) == Some(variances.len()), variances.iter().collect())
            }
        };
        if !fits {
            return Err(format!(
                "the deviations of its actions are not for {actions} actions and {features} features"
            ));
        }
        let negative = !matches!(self, Spread::Logs(_)) && values.iter().any(|x| **x < 0.0);
        match negative || values.iter().any(|x| !x.is_finite()) {
            true => Err("the deviations of its actions are negative or not finite".to_owned()),
            false => Ok(()),
        }
    }
}

/// Random numbers of a policy for one step of a batch; empty where the policy draws nothing.
#[derive(Debug)]
pub struct Noise {
    groups: usize,
    drawn: Buffer,
    /// ε of the policy's own distribution, `[rows, action]`.
    pub(super) sample: Buffer,
    /// Standard normal numbers of the noise on top, `[rows, action]`, and its deviation, `[action]`.
    pub(super) extra: (Buffer, Buffer),
}

impl Noise {
    /// Room for `rows` rows in `groups` equal groups, of which each draws the same numbers.
    pub(super) fn new(
        device: &Device,
        rows: usize,
        groups: usize,
        actions: usize,
        sampling: bool,
        extra: f32,
    ) -> Self {
        let room = |wanted: bool| device.zeros(if wanted { rows * actions } else { 0 });
        let noisy = extra > 0.0;
        let sigma = device.adopt(vec![extra; if noisy { actions } else { 0 }]);
        let drawn = if sampling || noisy { rows / groups * actions } else { 0 };
        Noise { groups, drawn: device.zeros(drawn), sample: room(sampling), extra: (room(noisy), sigma) }
    }

    /// Draws the numbers of a step, a function of (stream, time) alone.
    pub fn draw(&mut self, device: &Device, stream: Stream, time: &Counter) {
        let n = self.drawn.len();
        for (numbers, name) in [(&mut self.sample, "sample"), (&mut self.extra.0, "noise")] {
            if !numbers.is_empty() {
                device.normals(stream.child(name), time, &mut self.drawn);
                (0..self.groups).for_each(|g| device.copy_part(&self.drawn, 0, numbers, g * n, n));
            }
        }
    }
}

/// What drawing for a batch of some size needs on a device.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The network, with both heads where there are two.
    network: Ensemble,
    trace: Trace,
    /// σ or variances; empty for [`Spread::Logs`].
    deviations: Buffer,
    /// ± what means are limited to before the noise.
    limits: Option<[Buffer; 2]>,
    /// u and dL/du
    u: [Buffer; 2],
    d_input: Buffer,
}

impl Mlp {
    /// This network with a distribution around its actions.
    pub fn with_spread(mut self, spread: Spread) -> Result<Self, String> {
        let widths = &self.shape.widths;
        spread.check(widths[widths.len() - 2], self.shape.outputs())?;
        let limited = matches!(self.output, Output::Tanh { limit } if limit.is_finite());
        if limited && matches!(spread, Spread::Logs(_)) {
            return Err("a limit of the mean before tanh does not go with a head for ln σ".to_owned());
        }
        self.spread = Some(spread);
        Ok(self)
    }

    pub(super) fn sampler(&self, device: &Device, spread: &Spread, rows: usize) -> Sampler {
        let (mut shape, mut params) = (self.shape.clone(), self.params.clone());
        if let Spread::Logs(head) = spread {
            (shape, params) = self.with_second_head(head);
        }
        let actions = self.shape.outputs();
        let limits = match self.output {
            Output::Tanh { limit } if limit.is_finite() => {
                Some([-limit, limit].map(|l| device.adopt(vec![l; actions])))
            }
            _ => None,
        };
        let deviations: &[f32] = match spread {
            Spread::Fixed(values) | Spread::Features(values) => values,
            Spread::Logs(_) => &[],
        };
        Sampler {
            trace: Trace::new(device, &shape, rows),
            d_input: device.zeros(rows * shape.inputs()),
            network: Ensemble { shape, params: device.adopt(params) },
            deviations: device.upload(deviations),
            limits,
            u: [device.zeros(rows * actions), device.zeros(rows * actions)],
        }
    }

    /// The network with outputs (μ, ln σ).
    fn with_second_head(&self, head: &Linear) -> (Shape, Vec<f32>) {
        let (mut shape, mut params) = (self.shape.clone(), self.params.clone());
        let Linear { inputs, outputs, weight, bias } = head;
        let last = params.len() - inputs * outputs - outputs;
        let means = params.split_off(last);
        let (mean_weights, mean_bias) = means.split_at(inputs * outputs);
        for i in 0..*inputs {
            params.extend_from_slice(&mean_weights[i * outputs..][..*outputs]);
            params.extend((0..*outputs).map(|o| weight[o * inputs + i]));
        }
        params.extend_from_slice(mean_bias);
        params.extend_from_slice(bias);
        if let Some(width) = shape.widths.last_mut() {
            *width *= 2;
        }
        (shape, params)
    }

    /// u = μ + σ ε into `sampler.u[0]`.
    pub(super) fn deviate(
        &self,
        device: &Device,
        spread: &Spread,
        sampler: &mut Sampler,
        input: &Buffer,
        noise: &Buffer,
    ) {
        let Sampler { network, trace, deviations, limits, u: [u, _], .. } = sampler;
        network.forward(device, Input::Shared(input), trace);
        let dims = self.shape.outputs();
        if let Spread::Logs(_) = spread {
            return device.deviate_by_logs(dims, trace.output().0, noise, u);
        }
        device.copy(trace.output().0, u);
        if let Some([low, high]) = limits {
            device.clamp(low, high, u);
        }
        match spread {
            Spread::Features(_) => {
                let features = trace.features().unwrap_or(input);
                device.deviate_by_features(dims, features, deviations, noise, u);
            }
            _ => device.add_scaled_columns(deviations, noise, u),
        }
    }

    /// The action from u, within bounds.
    pub(super) fn limit(
        &self,
        device: &Device,
        [low, high]: &[Buffer; 2],
        sampler: &Sampler,
        actions: &mut Buffer,
    ) {
        device.copy(&sampler.u[0], actions);
        match self.output {
            Output::Clip => device.clamp(low, high, actions),
            Output::Tanh { .. } => device.squash_to_bounds(low, high, f32::INFINITY, actions),
        }
    }

    /// dL/d(input of the network) from dL/da, after [`Mlp::deviate`]. The deviation of gSDE counts as constant.
    pub(super) fn back_from_deviated<'a>(
        &self,
        device: &Device,
        spread: &Spread,
        sampler: &'a mut Sampler,
        [low, high]: &[Buffer; 2],
        (input, noise, d_actions): (&Buffer, &Buffer, &Buffer),
    ) -> &'a Buffer {
        let Sampler { network, trace, limits, u: [u, d_u], d_input, .. } = sampler;
        device.copy(d_actions, d_u);
        match self.output {
            Output::Clip => device.clamp_gradient(low, high, u, d_u),
            Output::Tanh { .. } => device.squash_to_bounds_gradient(low, high, f32::INFINITY, u, d_u),
        }
        let (output, d_output) = trace.output();
        match spread {
            Spread::Logs(_) => {
                device.deviate_by_logs_gradient(self.shape.outputs(), output, noise, d_u, d_output)
            }
            _ => {
                device.copy(d_u, d_output);
                if let Some([low, high]) = limits {
                    device.clamp_gradient(low, high, output, d_output);
                }
            }
        }
        network.backward(device, Input::Shared(input), trace, None, Some(d_input));
        d_input
    }

    /// ln π(a | s) of every row, for actions within the bounds; with tanh in the way, of u before the limits.
    pub(super) fn log_probs(
        &self,
        device: &Device,
        spread: &Spread,
        sampler: &mut Sampler,
        input: &Buffer,
        actions: &[f32],
    ) -> Vec<f64> {
        let dims = self.shape.outputs();
        let noise = device.zeros(actions.len());
        self.deviate(device, spread, sampler, input, &noise); // without noise u is the mean
        let means = device.download(&sampler.u[0]);
        let outputs = device.download(sampler.trace.output().0);
        let features = match spread {
            Spread::Features(_) => device.download(sampler.trace.features().unwrap_or(input)),
            _ => Vec::new(),
        };
        let std = |row: usize, c: usize| match spread {
            Spread::Fixed(std) => f64::from(std[c]),
            Spread::Logs(_) => {
                f64::from(outputs[row * 2 * dims + dims + c].clamp(LOG_STD[0], LOG_STD[1])).exp()
            }
            Spread::Features(variances) => {
                let width = variances.len() / dims;
                let features = &features[row * width..][..width];
                let squares = features.iter().map(|&f| f64::from(f).powi(2));
                let variance: f64 =
                    squares.enumerate().map(|(i, f)| f * f64::from(variances[i * dims + c])).sum();
                (variance + f64::from(FEATURE_VARIANCE)).sqrt()
            }
        };
        let density = |row: usize, action: &[f32]| -> f64 {
            (0..dims)
                .map(|c| {
                    let a = f64::from(action[c]);
                    let (u, log_slope) = match self.output {
                        Output::Clip => (a, 0.0),
                        Output::Tanh { .. } => {
                            let (low, high) = (f64::from(self.low[c]), f64::from(self.high[c]));
                            let scaled =
                                (2.0 * (a - low) / (high - low) - 1.0).clamp(-LARGEST_TANH, LARGEST_TANH);
                            (scaled.atanh(), ((1.0 - scaled * scaled) * 0.5 * (high - low)).ln())
                        }
                    };
                    let (mean, std) = (f64::from(means[row * dims + c]), std(row, c));
                    let z = (u - mean) / std;
                    -0.5 * z * z - std.ln() - 0.5 * std::f64::consts::TAU.ln() - log_slope
                })
                .sum()
        };
        actions.chunks_exact(dims).enumerate().map(|(row, action)| density(row, action)).collect()
    }
}

/// Actions at a bound are moved inside by as much as f32 leaves open.
const LARGEST_TANH: f64 = 1.0 - 1e-7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::Activation;
    use crate::policy::mlp::Normaliser;

    fn network(output: Output, spread: Spread) -> Mlp {
        let mut generator = Stream::new(5).generator();
        let mut linear = |inputs: usize, outputs: usize| Linear {
            inputs,
            outputs,
            weight: (0..inputs * outputs).map(|_| generator.normal() as f32).collect(),
            bias: (0..outputs).map(|_| generator.normal() as f32).collect(),
        };
        let layers = [linear(3, 6), linear(6, 2)];
        let normaliser =
            Normaliser { mean: vec![0.1, -0.3, 0.2], var: vec![0.5, 4.0, 1.0], clip: 5.0, epsilon: 1e-8 };
        let bounds = [vec![-1.0, 0.5], vec![3.0, 0.75]];
        Mlp::new(&layers, Activation::Tanh, Some(normaliser), output, bounds)
            .unwrap()
            .with_spread(spread)
            .unwrap()
    }

    fn head() -> Spread {
        let weight = (0..12).map(|i| (i as f32 * 0.7).sin()).collect();
        Spread::Logs(Linear { inputs: 6, outputs: 2, weight, bias: vec![-0.5, 0.2] })
    }

    /// Every output and deviation against central differences of `draw` with the same noise. Of gSDE only the mean
    /// is followed, so that its variances are 0 here.
    #[test]
    fn gradients_are_those_of_finite_differences() {
        let device = Device::cpu(Some(2)).unwrap();
        let mut generator = Stream::new(6).generator();
        let rows = 300;
        let mut normals = |n: usize| (0..n).map(|_| generator.normal() as f32).collect::<Vec<f32>>();
        let (states, noise, weights) =
            (normals(rows * 3), device.adopt(normals(rows * 2)), normals(rows * 2));
        let unlimited = Output::Tanh { limit: f32::INFINITY };
        for (output, spread) in [
            (Output::Clip, Spread::Fixed(vec![0.3, 0.1])),
            (Output::Clip, head()),
            (unlimited, head()),
            (unlimited, Spread::Fixed(vec![0.3, 0.6])),
            (Output::Tanh { limit: 0.8 }, Spread::Features(vec![0.0; 12])),
        ] {
            let mlp = network(output, spread);
            let mut gradient = device.zeros(states.len());
            mlp.draw_back(&device, &device.upload(&states), &noise, &device.upload(&weights), &mut gradient);
            let gradient = device.download(&gradient);
            let h = 2e-3;
            let mut agreeing = 0;
            for column in 0..3 {
                let value = |h: f32| {
                    let mut moved = states.clone();
                    moved.iter_mut().skip(column).step_by(3).for_each(|s| *s += h);
                    let mut actions = device.zeros(rows * 2);
                    mlp.draw(&device, &device.upload(&moved), &noise, &mut actions);
                    let actions = device.download(&actions);
                    (0..rows)
                        .map(|r| (0..2).map(|c| actions[2 * r + c] * weights[2 * r + c]).sum())
                        .collect::<Vec<f32>>()
                };
                for (row, (up, down)) in value(h).iter().zip(value(-h)).enumerate() {
                    let difference = (up - down) / (2.0 * h);
                    let close =
                        (gradient[row * 3 + column] - difference).abs() < 0.01 * (1.0 + difference.abs());
                    agreeing += usize::from(close);
                }
            }
            // All but those that pass a kink within the difference.
            assert!(agreeing as f64 > 0.97 * (rows * 3) as f64, "{output:?} {:?}: {agreeing}", mlp.spread);
        }
    }

    #[test]
    fn deviations_that_do_not_fit_are_named() {
        for (spread, part) in [
            (Spread::Fixed(vec![0.1; 3]), "not for 2 actions and 6 features"),
            (Spread::Features(vec![0.1; 6]), "not for 2 actions"),
            (Spread::Fixed(vec![0.1, f32::NAN]), "not finite"),
            (Spread::Fixed(vec![0.1, -0.1]), "not finite"),
        ] {
            let error = network(Output::Clip, head()).with_spread(spread).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
