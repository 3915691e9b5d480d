//! The speed workloads on hambo's engine; `bench/run` runs them side by side with PyTorch and JAX.

mod bnn;
mod end_to_end;
mod environment;
mod floor;
mod gp;
mod rollout;
mod sac;

use clap::Parser;
use hambo_engine::backend::{Buffer, Device};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

const WORKLOADS: [&str; 3] = ["w1", "w2", "w3"];

/// Steps per second of one workload, as a JSON line.
#[derive(Parser)]
struct Arguments {
    /// Print the workloads that exist.
    #[arg(long)]
    list: bool,
    /// Workload: w1, w2 or w3; gp, for bench/gp.py; rollout, a step of 1000 hallucinated trajectories; an environment, whose steps under
    /// random actions are counted; end-to-end, a whole evaluation on the Pendulum data of --read; or floor, what a GPU
    /// can do at best.
    #[arg(long, default_value = "w1")]
    work: String,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Where to compute: cpu or cuda.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Products of full precision, or those that hambo learns with: TF32 on a GPU (where it is the default, as the peers
    /// with --tf32), 16 bits of the factors on AMX. Of w1, w2, w3 and rollout; end-to-end takes for each stage what hambo does.
    #[arg(long, value_parser = ["full", "fast"])]
    precision: Option<String>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// end-to-end: methods, ca or da1 or both.
    #[arg(long, default_value = "ca")]
    methods: String,
    /// end-to-end: training steps of the model.
    #[arg(long, default_value_t = 8000)]
    steps: u32,
    /// end-to-end: rounds of the adversaries.
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Folder of the inputs.
    #[arg(long, default_value = "bench/data")]
    data: PathBuf,
    /// Instead: seconds to read this data file, as a JSON line.
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
    /// Also print the values that all implementations must agree on.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let arguments = Arguments::parse();
    if arguments.list {
        println!("{}", json!(WORKLOADS));
        return Ok(());
    }
    if let Some(path) = arguments.read.as_ref().filter(|_| arguments.work != "end-to-end") {
        let start = Instant::now();
        let loaded = hambo::data::read_d4rl(path)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({"peer": "hambo", "seconds": seconds, "transitions": loaded.transitions.len()})
        );
        return Ok(());
    }
    let (device, usual) = match arguments.device.as_str() {
        "cpu" => (Device::cpu(Some(arguments.threads))?, "full"),
        "cuda" => (Device::cuda()?, "fast"),
        other => return Err(format!("no device {other}; there are cpu and cuda").into()),
    };
    if arguments.work == "gp" {
        println!("{}", gp::measure(&device, &arguments.data.join("gp.bin"), arguments.seconds)?);
        return Ok(());
    }
    if arguments.work == "floor" {
        println!("{}", floor::measure(&device)?);
        return Ok(());
    }
    let (work, seconds, data) = (arguments.work.as_str(), arguments.seconds, &arguments.data);
    if work == "end-to-end" {
        let data =
            arguments.read.as_deref().ok_or("end-to-end needs the data: --read FILE.hdf5")?;
        let Arguments { methods, steps, rounds, .. } = &arguments;
        let work = end_to_end::Work { data, methods, steps: *steps, rounds: *rounds };
        println!("{}", end_to_end::measure(&device, &work, start)?);
        return Ok(());
    }
    let fast = arguments.precision.as_deref().unwrap_or(usual) == "fast";
    let device = if fast { device.fast() } else { device };
    let (check, rates) = match work {
        "w1" | "w2" => {
            let mut bnn = bnn::Bnn::new(&device, &data.join("w1.bin"))?;
            let check = arguments
                .check
                .then(|| device.run(|| bnn.check()))
                .transpose()?
                .map(|check| check[work].clone());
            let rates = device.run(|| match work {
                "w1" => measure(&device, seconds, || bnn.train()),
                _ => measure(&device, seconds, || bnn.predict()),
            });
            (check, rates)
        }
        "w3" => {
            let mut sac = sac::SacStep::new(&device, &data.join("w3.bin"))?;
            let check = arguments.check.then(|| device.run(|| sac.check())).transpose()?;
            (check, device.run(|| measure(&device, seconds, || sac.step())))
        }
        "rollout" => {
            let (rates, mean) = rollout::measure(&device, seconds)?;
            (Some(json!({"mean_return": mean})), rates)
        }
        other => {
            let env =
                other.parse().map_err(|e| format!("no workload of {WORKLOADS:?}, and {e}"))?;
            (None, environment::measure(env, seconds, arguments.threads)?)
        }
    };
    device.check()?;
    let check = check.unwrap_or(Value::Null);
    println!(
        "{}",
        json!({"peer": "hambo", "work": arguments.work, "steps_per_second": rates, "check": check})
    );
    Ok(())
}

/// Steps per second of consecutive stretches of about 0.4 s.
fn measure(device: &Device, seconds: f64, mut step: impl FnMut()) -> Vec<f64> {
    let mut some = |times: usize| {
        let start = Instant::now();
        device.repeat(times, &mut step);
        device.check().map(|()| start.elapsed().as_secs_f64())
    };
    let Ok(once) = some(16).and_then(|_| some(16)) else { return Vec::new() };
    let times = (0.4 * 16.0 / once).ceil() as usize;
    let start = Instant::now();
    let mut rates = Vec::new();
    while start.elapsed().as_secs_f64() < seconds || rates.is_empty() {
        let Ok(stretch) = some(times) else { break };
        rates.push(times as f64 / stretch);
    }
    rates
}

fn norm(device: &Device, buffer: &Buffer) -> f64 {
    device.download_or_nan(buffer).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// The seeded inputs, 32-bit floats one after the other.
struct Inputs {
    values: Vec<f32>,
    used: usize,
}

impl Inputs {
    fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(path)
            .map_err(|e| format!("{}: {e}; bench/run makes it", path.display()))?;
        let values =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Ok(Inputs { values, used: 0 })
    }

    fn take(&mut self, n: usize) -> Result<Vec<f32>, Box<dyn Error>> {
        let part =
            self.values.get(self.used..self.used + n).ok_or("the input file is too short")?;
        self.used += n;
        Ok(part.to_vec())
    }
}
