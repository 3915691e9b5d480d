//! Every kernel of a device against the CPU's, on random numbers and odd sizes.

mod expressions;
mod host;
mod networks;
mod reinforcement;
mod training;
mod trajectories;

use crate::Result;
use crate::backend::{Device, Muon, SteinKernel};
use expressions::{expressions, random};
use networks::{NETWORKS, side_by_side};
use reinforcement::values;
use training::{PAPERS, SMALL, muon, svgd, training};
use trajectories::{rollout_steps, trajectory};

/// How far a device is from the CPU in one kind of work.
#[derive(Clone, Debug)]
pub struct Check {
    /// The kernel and its sizes.
    pub name: String,
    /// The difference: of single numbers, the largest, relative to 1 + the largest number of the result; in fast
    /// arithmetic, where units at the tip of a ReLU may turn over, of all numbers together in the mean square.
    pub worst: f64,
    /// What it may be.
    pub tolerance: f64,
}

impl Check {
    /// Whether the device computes what the CPU computes.
    pub fn passed(&self) -> bool {
        self.worst <= self.tolerance
    }
}

/// Runs all checks of `device`, hands each to `report`, and tells whether all passed.
pub fn selftest(device: &Device, mut report: impl FnMut(&Check)) -> Result<bool> {
    let cpu = Device::cpu(None)?;
    let mut all = true;
    let mut compare =
        |name: String, tolerance: f64, work: &dyn Fn(&Device) -> Vec<Vec<f64>>| -> Result<()> {
            let (expected, found) = (work(&cpu), work(device));
            device.check()?;
            let check = Check { name, worst: difference(&expected, &found), tolerance };
            all &= check.passed();
            report(&check);
            Ok(())
        };
    for case in NETWORKS {
        compare(format!("networks {case}"), 1e-4, &|d| case.run(d))?;
    }
    for (members, groups, n) in [
        (1, 1, 601),
        (2, 1, 31),
        (5, 1, 16_412),
        (7, 1, 257),
        (9, 1, 1000),
        (15, 3, 300),
        (20, 2, 33),
    ] {
        for kernel in
            [SteinKernel::Rbf { length_scale: 10.0 }, SteinKernel::Median, SteinKernel::None]
        {
            compare(format!("SVGD of {members} × {n} in {groups}, {kernel:?}"), 1e-4, &|d| {
                svgd(d, (members, groups), n, kernel)
            })?;
        }
    }
    for rows in [1, 31, 257] {
        for dims in [1, 3, 64] {
            compare(format!("trajectories of {rows} × {dims}"), 1e-4, &|d| {
                trajectory(d, rows, dims)
            })?;
            compare(format!("whole steps of {rows} × {dims}"), 1e-4, &|d| {
                rollout_steps(d, rows, dims)
            })?;
            compare(format!("values of {rows} × {dims}"), 1e-4, &|d| values(d, rows, dims))?;
        }
        compare(format!("expressions on {rows} rows"), 1e-4, &|d| expressions(d, rows))?;
        compare(format!("random numbers for {rows} rows"), 1e-4, &|d| random(d, rows))?;
    }
    for rows in [1, 257, 1000] {
        compare(format!("passes side by side on {rows} rows"), 1e-4, &|d| side_by_side(d, rows))?;
    }
    compare("a training of 1000 steps".to_owned(), 1e-2, &|d| training(d, SMALL, None, true))?;
    let tolerance = if matches!(device, Device::Cpu(_)) { 1e-2 } else { 0.1 };
    for case in NETWORKS {
        let worst = mean_difference(&case.run(&cpu), &case.run(&device.fast()));
        let check = Check { name: format!("networks {case}, fast"), worst, tolerance };
        all &= check.passed();
        report(&check);
    }
    for (widths, groups) in [(&[3, 64, 64, 2][..], 1), (&[3, 40, 100, 130, 7, 2], 3), (PAPERS, 5)] {
        let worst = mean_difference(&muon(&cpu, widths, groups), &muon(device, widths, groups));
        let name = format!("orthogonal steps of {widths:?} in {groups}");
        let check = Check { name, worst, tolerance: 0.05 };
        all &= check.passed();
        report(&check);
    }
    for widths in [SMALL, PAPERS] {
        let fast = &device.fast();
        let hidden = Some(Muon::new(0.02));
        let first = training(fast, widths, hidden, true);
        for (name, there) in
            [("the same seed gives", true), ("rows that are sent when needed give", false)]
        {
            let again = training(fast, widths, hidden, there);
            let worst = if first == again { 0.0 } else { f64::INFINITY };
            let same =
                Check { name: format!("{name} the same bits, {widths:?}"), worst, tolerance: 0.0 };
            all &= same.passed();
            report(&same);
        }
    }
    device.check()?;
    Ok(all)
}

/// The largest difference, relative to 1 + the largest number; infinite where one of two is not finite.
fn difference(expected: &[Vec<f64>], found: &[Vec<f64>]) -> f64 {
    let mut worst = if expected.len() == found.len() { 0.0f64 } else { f64::INFINITY };
    for (expected, found) in expected.iter().zip(found) {
        if expected.len() != found.len() {
            return f64::INFINITY;
        }
        let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
        for (e, f) in expected.iter().zip(found) {
            let same = e == f || (e.is_nan() && f.is_nan());
            let apart = if same { 0.0 } else { (e - f).abs() / (1.0 + largest) };
            worst = worst.max(if apart.is_nan() { f64::INFINITY } else { apart });
        }
    }
    worst
}

/// The largest of ‖expected − found‖ / ‖expected‖.
fn mean_difference(expected: &[Vec<f64>], found: &[Vec<f64>]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let each = expected.iter().zip(found).map(|(e, f)| {
        let apart = norm(&mut e.iter().zip(f).map(|(e, f)| e - f)) / norm(&mut e.iter().copied());
        if apart.is_nan() { f64::INFINITY } else { apart }
    });
    each.fold(0.0, f64::max)
}
