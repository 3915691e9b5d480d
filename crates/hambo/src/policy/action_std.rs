//! Gaussian policies: u = μ(s) + σ(s) ε, which [`Output`] makes an action of.
//!
//! | σ(s) | policies |
//! |---|---|
//! | the same in every state | A2C, PPO, TRPO |
//! | a second head of the network, ln σ within \[−20, 2\] | SAC, TQC, D4RL's policies |
//! | √(Σ features² · variances + 10⁻⁶) | generalized state-dependent exploration (gSDE) |
//!
//! gSDE samples a matrix now and then and keeps it for some steps. Here every step samples anew, which has the same
//! distribution in each step but no memory between steps: `predict` does not define when to sample again.

use super::layers::{Linear, Output};
use hambo_engine::backend::{Buffer, Device, FEATURE_VARIANCE, Input, LOG_STD, Shape};
use hambo_engine::nn::{Ensemble, PassBuffers};

/// Where the standard deviations of the actions come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ActionStd {
    /// One for each action dimension.
    Fixed(Vec<f32>),
    /// A layer from the last hidden layer to ln σ.
    Logs(Linear),
    /// Variances `[features, action]`, weighted by the squares of the last hidden layer.
    Features(Vec<f32>),
}

impl ActionStd {
    /// An error in words if it does not fit a network with `features` numbers before its last layer.
    pub fn check(&self, features: usize, actions: usize, output: Output) -> Result<(), String> {
        let (fits, values): (bool, Vec<&f32>) = match self {
            ActionStd::Fixed(std) => (std.len() == actions, std.iter().collect()),
            ActionStd::Logs(head) => (
                (head.inputs, head.outputs) == (features, actions) && head.is_complete(),
                head.weight.iter().chain(&head.bias).collect(),
            ),
            ActionStd::Features(variances) => {
                (features.checked_mul(actions) == Some(variances.len()), variances.iter().collect())
            }
        };
        let logs = matches!(self, ActionStd::Logs(_));
        if !fits {
            Err(format!(
                "the standard deviations of its actions are not for {actions} actions and {features} features"
            ))
        } else if values.iter().any(|x| !x.is_finite() || (!logs && **x < 0.0)) {
            Err("the standard deviations of its actions are negative or not finite".to_owned())
        } else if logs && output.limit().is_finite() {
            Err("a limit on the mean before tanh cannot be combined with a head for ln σ"
                .to_owned())
        } else {
            Ok(())
        }
    }
}

/// What sampling actions for a batch of one size needs on a device.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The network, with both heads where there are two.
    network: Ensemble,
    buffers: PassBuffers,
    output: Output,
    std: StdBuffers,
    /// ± what means are clipped to before the noise is added.
    limits: Option<[Buffer; 2]>,
    /// u and dL/du, `[rows, action]`.
    u: [Buffer; 2],
    d_input: Buffer,
}

/// [`ActionStd`] on a device; the head for ln σ is part of the network there.
#[derive(Debug)]
enum StdBuffers {
    Fixed(Buffer),
    Logs,
    Features(Buffer),
}

impl Sampler {
    /// For a network with this shape and these parameters.
    pub fn new(
        device: &Device,
        (shape, params): (&Shape, &[f32]),
        output: Output,
        std: &ActionStd,
        rows: usize,
    ) -> Self {
        let actions = shape.outputs();
        let ((shape, params), std) = match std {
            ActionStd::Logs(head) => (with_second_head(shape, params, head), StdBuffers::Logs),
            ActionStd::Fixed(std) => {
                ((shape.clone(), params.to_vec()), StdBuffers::Fixed(device.upload(std)))
            }
            ActionStd::Features(variances) => {
                ((shape.clone(), params.to_vec()), StdBuffers::Features(device.upload(variances)))
            }
        };
        let limit = output.limit();
        Sampler {
            buffers: PassBuffers::new(device, &shape, rows),
            d_input: device.zeros(rows * shape.inputs()),
            network: Ensemble { shape, params: device.adopt(params) },
            output: output.unlimited(),
            std,
            limits: limit
                .is_finite()
                .then(|| [-limit, limit].map(|l| device.adopt(vec![l; actions]))),
            u: [device.zeros(rows * actions), device.zeros(rows * actions)],
        }
    }

    /// u ← μ + σ ε
    pub fn sample(&mut self, device: &Device, input: &Buffer, noise: &Buffer) {
        let Sampler { network, buffers, std, limits, u: [u, _], .. } = self;
        network.forward(device, Input::Shared(input), buffers);
        if let StdBuffers::Logs = std {
            let dims = network.shape.outputs() / 2;
            return device.sample_gaussian(dims, buffers.output().0, noise, u);
        }
        device.copy(buffers.output().0, u);
        if let Some([low, high]) = limits {
            device.clamp(low, high, u);
        }
        match std {
            StdBuffers::Features(variances) => {
                let features = buffers.features().unwrap_or(input);
                device.sample_gsde(network.shape.outputs(), features, variances, noise, u);
            }
            StdBuffers::Fixed(std) => device.add_scaled_columns(std, noise, u),
            StdBuffers::Logs => {}
        }
    }

    /// actions ← the actions of u, within the bounds
    pub fn actions(&self, device: &Device, bounds: &[Buffer; 2], actions: &mut Buffer) {
        device.copy(&self.u[0], actions);
        self.output.apply(device, bounds, actions);
    }

    /// dL/d(input of the network) from dL/da, after [`Sampler::sample`] with the same input and noise. The standard
    /// deviation of gSDE counts as constant.
    pub fn backward(
        &mut self,
        device: &Device,
        bounds: &[Buffer; 2],
        (input, noise): (&Buffer, &Buffer),
        d_actions: &Buffer,
    ) -> &Buffer {
        let Sampler { network, buffers, output, std, limits, u: [u, d_u], d_input } = self;
        device.copy(d_actions, d_u);
        output.backward(device, bounds, u, d_u);
        let (means, d_means) = buffers.output();
        match std {
            StdBuffers::Logs => device.sample_gaussian_gradient(
                network.shape.outputs() / 2,
                means,
                noise,
                d_u,
                d_means,
            ),
            _ => {
                device.copy(d_u, d_means);
                if let Some([low, high]) = limits {
                    device.clamp_gradient(low, high, means, d_means);
                }
            }
        }
        network.backward(device, Input::Shared(input), buffers, None, Some(d_input));
        d_input
    }

    /// ln π(a | s) of every row, by the standard deviations in `std` that it was made with.
    pub fn log_densities(
        &mut self,
        device: &Device,
        std: &ActionStd,
        [low, high]: [&[f32]; 2],
        input: &Buffer,
        actions: &[f32],
    ) -> Vec<f64> {
        let dims = low.len();
        let noise = device.zeros(actions.len());
        self.sample(device, input, &noise); // without noise u is the mean
        let means = device.download_or_nan(&self.u[0]);
        let outputs = device.download_or_nan(self.buffers.output().0);
        let features = match std {
            ActionStd::Features(_) => {
                device.download_or_nan(self.buffers.features().unwrap_or(input))
            }
            _ => Vec::new(),
        };
        let std = |row: usize, c: usize| match std {
            ActionStd::Fixed(std) => f64::from(std[c]),
            ActionStd::Logs(_) => {
                f64::from(outputs[row * 2 * dims + dims + c].clamp(LOG_STD[0], LOG_STD[1])).exp()
            }
            ActionStd::Features(variances) => {
                let width = variances.len() / dims;
                let features = &features[row * width..][..width];
                let squares = features.iter().map(|&f| f64::from(f).powi(2));
                let variance: f64 =
                    squares.enumerate().map(|(i, f)| f * f64::from(variances[i * dims + c])).sum();
                (variance + f64::from(FEATURE_VARIANCE)).sqrt()
            }
        };
        let density = |row: usize, c: usize, action: f64| {
            let (u, log_slope) = match self.output {
                Output::Clip => (action, 0.0),
                Output::Tanh { .. } => {
                    let (low, high) = (f64::from(low[c]), f64::from(high[c]));
                    let scaled = (2.0 * (action - low) / (high - low) - 1.0)
                        .clamp(-LARGEST_TANH, LARGEST_TANH);
                    (scaled.atanh(), ((1.0 - scaled * scaled) * 0.5 * (high - low)).ln())
                }
            };
            let (mean, std) = (f64::from(means[row * dims + c]), std(row, c));
            let z = (u - mean) / std;
            -0.5 * z * z - std.ln() - 0.5 * std::f64::consts::TAU.ln() - log_slope
        };
        let rows = actions.chunks_exact(dims).enumerate();
        rows.map(|(row, action)| (0..dims).map(|c| density(row, c, f64::from(action[c]))).sum())
            .collect()
    }
}

/// Actions at a bound are moved inside by as much as f32 leaves open.
const LARGEST_TANH: f64 = 1.0 - 1e-7;

/// The network with outputs (μ, ln σ).
fn with_second_head(shape: &Shape, params: &[f32], head: &Linear) -> (Shape, Vec<f32>) {
    let Linear { inputs, outputs, weight, bias } = head;
    let (before, means) = params.split_at(params.len() - inputs * outputs - outputs);
    let (mean_weights, mean_bias) = means.split_at(inputs * outputs);
    let mut params = before.to_vec();
    for i in 0..*inputs {
        params.extend_from_slice(&mean_weights[i * outputs..][..*outputs]);
        params.extend((0..*outputs).map(|o| weight[o * inputs + i]));
    }
    params.extend_from_slice(mean_bias);
    params.extend_from_slice(bias);
    let mut shape = shape.clone();
    if let Some(width) = shape.widths.last_mut() {
        *width *= 2;
    }
    (shape, params)
}
