//! Fit and prediction of an exact Gaussian process with given hyper-parameters; `bench/gp.py` runs it beside its peers.

use super::Inputs;
use hambo::dynamics::gp::{Family, Kernel, Posterior};
use hambo_engine::backend::Device;
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Data, inputs, outputs and rows to predict: those of `bench/gp.py`.
const N: usize = 2000;
const WIDTH: usize = 6;
const OUTPUTS: usize = 3;
const ROWS: usize = 1000;

/// Seconds of each fit and each prediction for about `seconds`, and what all implementations must agree on.
pub fn measure(device: &Device, path: &Path, seconds: f64) -> Result<Value, Box<dyn Error>> {
    let mut inputs = Inputs::read(path)?;
    let mut take =
        |n: usize| inputs.take(n).map(|v| v.into_iter().map(f64::from).collect::<Vec<f64>>());
    let (x, y, queries) = (take(N * WIDTH)?, take(N * OUTPUTS)?, take(ROWS * WIDTH)?);
    let kernel = Kernel { family: Family::Rbf, variance: 1.0, length_scales: vec![1.5] };
    let (mut fits, mut predictions, mut check) = (Vec::new(), Vec::new(), Value::Null);
    let begin = Instant::now();
    while fits.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        let posterior = device.run(|| Posterior::new(kernel.clone(), 0.01, &x, &y, WIDTH))?;
        fits.push(start.elapsed().as_secs_f64());
        for _ in 0..3 {
            let start = Instant::now();
            let (mean, std) = device.run(|| posterior.predict(&queries));
            predictions.push(start.elapsed().as_secs_f64());
            check = json!({"mean": mean.iter().sum::<f64>(), "std": std.iter().sum::<f64>()});
        }
    }
    Ok(json!({"fit": fits, "predict": predictions, "check": check}))
}
