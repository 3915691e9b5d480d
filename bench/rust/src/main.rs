//! The speed workloads on hambo's engine; `bench/run` runs them side by side with PyTorch and JAX.

use clap::Parser;
use hambo::compute::{Activation, Adam, Buffer, Device, Gaussian, Input, Kernel, Shape, Svgd};
use hambo::nn::{Ensemble, Optimiser, Trace};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

const WORKLOADS: [&str; 2] = ["w1", "w2"];
const PARTICLES: usize = 5;
const BATCH: usize = 256;
const ROWS: usize = 1000;
const INPUTS: usize = 14;
const TARGETS: usize = 11;

/// Steps per second of one workload, as a JSON line.
#[derive(Parser)]
struct Arguments {
    /// Print the workloads that exist.
    #[arg(long)]
    list: bool,
    /// Workload: w1 or w2.
    #[arg(long, default_value = "w1")]
    work: String,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Folder of the inputs.
    #[arg(long, default_value = "bench/data")]
    data: PathBuf,
    /// Also print the values that all implementations must agree on.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    if arguments.list {
        println!("{}", json!(WORKLOADS));
        return Ok(());
    }
    let device = Device::cpu(Some(arguments.threads))?;
    let mut bnn = Bnn::new(&device, &arguments.data.join("w1.bin"))?;
    let check = device.run(|| if arguments.check { bnn.check() } else { Value::Null });
    let rates = device.run(|| match arguments.work.as_str() {
        "w1" => Ok(measure(arguments.seconds, || bnn.train())),
        "w2" => Ok(measure(arguments.seconds, || bnn.predict())),
        other => Err(format!("no workload {other}; there are {WORKLOADS:?}")),
    })?;
    let check = if check.is_null() { Value::Null } else { check[&arguments.work].clone() };
    println!(
        "{}",
        json!({"peer": "hambo", "work": arguments.work, "steps_per_second": rates, "check": check})
    );
    Ok(())
}

/// Steps per second of consecutive stretches of about 0.4 s.
fn measure(seconds: f64, mut step: impl FnMut()) -> Vec<f64> {
    (0..10).for_each(|_| step());
    let start = Instant::now();
    let mut rates = Vec::new();
    while start.elapsed().as_secs_f64() < seconds || rates.is_empty() {
        let stretch = Instant::now();
        let mut steps = 0;
        while stretch.elapsed().as_secs_f64() < 0.4 {
            (0..5).for_each(|_| step());
            steps += 5;
        }
        rates.push(f64::from(steps) / stretch.elapsed().as_secs_f64());
    }
    rates
}

/// W1: a training step of five particles by SVGD. W2: their prediction for a thousand rows.
struct Bnn<'a> {
    device: &'a Device,
    head: Gaussian,
    svgd: Svgd,
    ensemble: Ensemble,
    optimiser: Optimiser,
    trace: Trace,
    gradient: Buffer,
    losses: Buffer<f64>,
    batch: Buffer,
    targets: Buffer,
    rows: Buffer,
    output: Buffer,
    moments: [Buffer; 3],
}

impl<'a> Bnn<'a> {
    fn new(device: &'a Device, path: &Path) -> Result<Self, Box<dyn Error>> {
        let widths = vec![INPUTS, 256, 256, 256, 256, 2 * TARGETS];
        let shape = Shape::new(PARTICLES, widths, Activation::Relu)?;
        let mut inputs = Inputs::read(path)?;
        let parameters = PARTICLES * shape.parameters();
        Ok(Bnn {
            device,
            head: Gaussian { dims: TARGETS, floor: 1e-3 },
            svgd: Svgd {
                kernel: Kernel::Rbf { length_scale: 10.0 },
                prior_temperature: 1e-4,
                likelihood_scale: 1.0,
            },
            ensemble: Ensemble { params: device.adopt(inputs.take(parameters)?), shape: shape.clone() },
            optimiser: Optimiser::new(device, Adam::constant(1e-3), parameters),
            trace: Trace::new(device, &shape, BATCH),
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
        device.gaussian_nll(head, output, targets, Some(d_output), losses);
        ensemble.backward(device, Input::Shared(batch), trace, Some(gradient), None);
    }

    fn train(&mut self) {
        self.gradients();
        self.optimiser.svgd_step(self.device, &self.svgd, &mut self.ensemble, &self.gradient);
    }

    fn predict(&mut self) {
        let Bnn { device, head, ensemble, rows, output, moments: [mean, epistemic, aleatoric], .. } = self;
        ensemble.infer(device, Input::Shared(rows), ROWS, output);
        device.moments(head, PARTICLES, output, mean, epistemic, aleatoric);
    }

    /// The values of ten training steps and the prediction after them.
    fn check(&mut self) -> Value {
        let device = self.device;
        let loss = |b: &Self| device.download(&b.losses).iter().sum::<f64>() / PARTICLES as f64;
        self.gradients();
        let mut direction = device.zeros(self.gradient.len());
        device.svgd_direction(&self.svgd, PARTICLES, &self.ensemble.params, &self.gradient, &mut direction);
        let mut training = json!({
            "step1_loss": loss(self),
            "step1_gradient_norm": norm(device, &self.gradient),
            "step1_direction_norm": norm(device, &direction),
        });
        (0..10).for_each(|_| self.train());
        training["step10_loss"] = json!(loss(self));
        training["step10_gradient_norm"] = json!(norm(device, &self.gradient));
        self.predict();
        let [mean, epistemic, aleatoric] = self.moments.each_ref().map(|m| norm(device, m));
        let prediction = json!({
            "mean_norm": mean, "epistemic_variance_norm": epistemic, "aleatoric_variance_norm": aleatoric,
        });
        json!({"w1": training, "w2": prediction})
    }
}

fn norm(device: &Device, buffer: &Buffer) -> f64 {
    device.download(buffer).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// The seeded inputs, 32-bit floats one after the other.
struct Inputs {
    values: Vec<f32>,
    used: usize,
}

impl Inputs {
    fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes =
            std::fs::read(path).map_err(|e| format!("{}: {e}; bench/run makes it", path.display()))?;
        let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Ok(Inputs { values, used: 0 })
    }

    fn take(&mut self, n: usize) -> Result<Vec<f32>, Box<dyn Error>> {
        let part = self.values.get(self.used..self.used + n).ok_or("the input file is too short")?;
        self.used += n;
        Ok(part.to_vec())
    }
}
