//! Peak memory of learning from a million transitions of HalfCheetah's size, 17 + 6 + 1 + 17 numbers each.
//!
//!     cargo run --release -p hambo --example memory [TRANSITIONS]
//!
//! Prints the data's size and the process's peak, and fails if the peak is above three times the data plus 1 GiB.

use hambo::data::{Columns, Transitions};
use hambo::dynamics::{Bnn, BnnConfig};
use hambo::run::Run;
use hambo_engine::backend::{Activation, Device};
use hambo_engine::rng::Stream;
use std::error::Error;

const STATE: usize = 17;
const ACTION: usize = 6;
const MIB: f64 = 1024.0 * 1024.0;

fn main() -> Result<(), Box<dyn Error>> {
    let n = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let mut generator = Stream::new(0).generator();
    let mut uniform = |len: usize| (0..len).map(|_| generator.uniform() as f32).collect::<Vec<_>>();
    let data = Transitions::new(Columns {
        state_dim: STATE,
        action_dim: ACTION,
        states: uniform(n * STATE),
        actions: uniform(n * ACTION),
        rewards: uniform(n),
        next_states: uniform(n * STATE),
        terminals: vec![false; n],
        timeouts: vec![false; n],
        episode_starts: (0..n).step_by(1000).collect(),
        ..Default::default()
    })?;
    let bytes = (4 * n * (2 * STATE + ACTION + 1)) as f64;
    let before = peak_rss()?;
    let device = Device::cpu(None)?;
    let config = BnnConfig {
        folds: Some(1),
        activation: Some(Activation::Relu),
        steps: Some(20),
        check_every: 10,
        ..Default::default()
    };
    let model = Bnn::learn(&device, &data, &config, 0, &Run::default())?;
    let peak = peak_rss()?;
    println!(
        "data {:.0} MiB, peak {:.0} MiB with the data loaded, {:.0} MiB after {} steps and the calibration: {:.2} × data",
        bytes / MIB,
        before / MIB,
        peak / MIB,
        model.report().steps,
        peak / bytes
    );
    let allowed = 3.0 * bytes + 1024.0 * MIB;
    if peak > allowed {
        return Err(format!("that is more than the {:.0} MiB allowed", allowed / MIB).into());
    }
    Ok(())
}

/// The most bytes that this process had in memory.
fn peak_rss() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}
