//! Figures 3 and 4: estimates of all methods against the number of transitions and against the horizon.
//!
//! Both are suites of `hambo validate`, and run as such. The data are of mediocre checkpoints, the evaluated policy is a good
//! one. The paper's rule is β = 1; the default rule here is beside it.

mod claims;
mod lines;
#[cfg(test)]
mod tests;

use super::{Picture, Reproduced};
use crate::args::Scale;
use crate::validate::{Book, Lab, Plan, Record, TruthRecord, Written, fits};
use hambo::{Device, Result};
use lines::{curves, panels, text};
use serde_json::json;
use std::path::Path;

/// What the horizontal axis is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// The number of transitions.
    Size,
    /// The horizon.
    Horizon,
}

impl Axis {
    fn suite(self, scale: Scale) -> (&'static str, &'static str) {
        match (self, scale) {
            (Axis::Size, Scale::Quick) => {
                ("fig3 (quick)", include_str!("../../../suites/fig3-quick.toml"))
            }
            (Axis::Size, Scale::Paper) => ("fig3", include_str!("../../../suites/fig3-paper.toml")),
            (Axis::Horizon, Scale::Quick) => {
                ("fig4 (quick)", include_str!("../../../suites/fig4-quick.toml"))
            }
            (Axis::Horizon, Scale::Paper) => {
                ("fig4", include_str!("../../../suites/fig4-paper.toml"))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Axis::Size => "transitions n",
            Axis::Horizon => "horizon T",
        }
    }

    /// What a run is drawn at, and the rest, which a panel has in common.
    fn place(self, run: &Record) -> (usize, usize) {
        match self {
            Axis::Size => (run.n, run.horizon),
            Axis::Horizon => (run.horizon, run.n),
        }
    }
}

/// A run with its truth.
pub struct Known {
    pub run: Record,
    pub truth: TruthRecord,
}

/// Runs the experiment in a folder, or goes on with it, and draws its figure.
pub fn run(
    axis: Axis,
    scale: Scale,
    (device, threads, build): (&Device, Option<usize>, &str),
    folder: &Path,
) -> Result<Reproduced> {
    let (name, suite) = axis.suite(scale);
    let plan = Plan::of(&Written::shipped(name, suite)?)?;
    let lab = Lab::new(&plan, device.clone(), threads, build)?;
    let fits = fits(&plan, device.is_host())?;
    hambo_engine::files::make_folder(folder)?;
    let mut book = Book::open(folder, &[], &lab.program)?;
    lab.work(&fits, &mut book)?;
    let (mut known, mut failed) = (Vec::new(), Vec::new());
    for case in fits.iter().flat_map(|fit| &fit.cases) {
        let Some(run) = book.runs.iter().find(|run| run.case == case.name).cloned() else {
            continue;
        };
        match (book.truth(&run.truth).cloned(), &run.error) {
            (Some(truth), None) => known.push(Known { run, truth }),
            _ => failed.push(run),
        }
    }
    let curves = curves(&known, axis);
    Ok(Reproduced {
        text: text(&curves, axis, &plan.about, &failed),
        numbers: json!({"about": plan.about, "curves": curves, "runs": known.iter().map(|k| &k.run).collect::<Vec<_>>(),
            "truths": book.truths, "failed": failed}),
        claims: claims::claims(&known, &curves, axis),
        picture: Picture::Charts(panels(&curves, axis)),
    })
}
