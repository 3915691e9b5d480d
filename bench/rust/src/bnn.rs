//! W1 and W2: training and prediction of a Bayesian ensemble.

use crate::{Inputs, norm};
use hambo_engine::backend::{
    Activation, Adam, Buffer, Device, Gaussian, Input, Shape, SteinKernel, Svgd,
};
use hambo_engine::nn::{Ensemble, Optimizer, PassBuffers};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;

const PARTICLES: usize = 5;
const BATCH: usize = 256;
const ROWS: usize = 1000;
const INPUTS: usize = 14;
const TARGETS: usize = 11;

/// W1: a training step of five particles by SVGD. W2: their prediction for a thousand rows.
pub struct Bnn<'a> {
    device: &'a Device,
    head: Gaussian,
    svgd: Svgd,
    ensemble: Ensemble,
    optimizer: Optimizer,
    trace: PassBuffers,
    gradient: Buffer,
    losses: Buffer<f64>,
    batch: Buffer,
    targets: Buffer,
    rows: Buffer,
    output: Buffer,
    moments: [Buffer; 3],
}

impl<'a> Bnn<'a> {
    pub fn new(device: &'a Device, path: &Path) -> Result<Self, Box<dyn Error>> {
        let widths = vec![INPUTS, 256, 256, 256, 256, 2 * TARGETS];
        let shape = Shape::new(PARTICLES, widths, Activation::Relu)?;
        let mut inputs = Inputs::read(path)?;
        let particles = shape.spread(&inputs.take(PARTICLES * shape.parameters())?);
        let parameters = particles.len();
        Ok(Bnn {
            device,
            head: Gaussian { dims: TARGETS, floor: 1e-3 },
            svgd: Svgd {
                kernel: SteinKernel::Rbf { length_scale: 10.0 },
                prior_temperature: 1e-4,
                likelihood_scale: 1.0,
                groups: 1,
            },
            ensemble: Ensemble { params: device.adopt(particles), shape: shape.clone() },
            optimizer: Optimizer::new(device, Adam::constant(1e-3), parameters),
            trace: PassBuffers::new(device, &shape, BATCH),
            gradient: device.zeros(parameters),
            losses: device.zeros(PARTICLES),
            batch: device.adopt(inputs.take(BATCH * INPUTS)?),
            targets: device.adopt(inputs.take(BATCH * TARGETS)?),
            rows: device.adopt(inputs.take(ROWS * INPUTS)?),
            output: device.zeros(PARTICLES * ROWS * 2 * TARGETS),
            moments: std::array::from_fn(|_| device.zeros(ROWS * TARGETS)),
        })
    }

    fn gradients(&mut self) {
        let Bnn { device, head, ensemble, trace, gradient, losses, batch, targets, .. } = self;
        ensemble.forward(device, Input::Shared(batch), trace);
        let (output, d_output) = trace.output();
        device.gaussian_nll(head, output, targets, Some((d_output, 0.0)), losses);
        ensemble.backward(device, Input::Shared(batch), trace, Some(gradient), None);
    }

    pub fn train(&mut self) {
        self.gradients();
        self.optimizer.svgd_step(self.device, &self.svgd, &mut self.ensemble, &self.gradient);
    }

    pub fn predict(&mut self) {
        let Bnn {
            device, head, ensemble, rows, output, moments: [mean, epistemic, aleatoric], ..
        } = self;
        ensemble.infer(device, Input::Shared(rows), ROWS, output);
        device.moments(head, PARTICLES, output, mean, epistemic, aleatoric);
    }

    /// The values of ten training steps and the prediction after them.
    pub fn check(&mut self) -> hambo::Result<Value> {
        let device = self.device;
        let loss = |b: &Self| {
            let losses = device.download(&b.losses)?;
            Ok::<_, hambo::Error>(losses.iter().sum::<f64>() / PARTICLES as f64)
        };
        self.gradients();
        let mut direction = device.zeros(self.gradient.len());
        device.svgd_direction(
            &self.svgd,
            PARTICLES,
            &self.ensemble.params,
            &self.gradient,
            &mut direction,
        );
        let mut training = json!({
            "step1_loss": loss(self)?,
            "step1_gradient_norm": norm(device, &self.gradient),
            "step1_direction_norm": norm(device, &direction),
        });
        (0..10).for_each(|_| self.train());
        training["step10_loss"] = json!(loss(self)?);
        training["step10_gradient_norm"] = json!(norm(device, &self.gradient));
        self.predict();
        let [mean, epistemic, aleatoric] = self.moments.each_ref().map(|m| norm(device, m));
        let prediction = json!({
            "mean_norm": mean, "epistemic_variance_norm": epistemic, "aleatoric_variance_norm": aleatoric,
        });
        Ok(json!({"w1": training, "w2": prediction}))
    }
}
