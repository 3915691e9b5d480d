//! Figure 2: the bound of a Gaussian process approaches the truth as the data grow.

use super::Reproduced;
use crate::arguments::Scale;
use crate::output::{number, table};
use crate::plot::{Line, Panel};
use hambo::Result;
use hambo::compute::Device;
use hambo::progress::Progress;
use hambo::reproduce::fig2::{self, Effort};
use serde_json::json;

/// Two standard errors on each side.
const BAND: f64 = 1.96;

pub fn run(device: &Device, scale: Scale, progress: &dyn Progress) -> Result<Reproduced> {
    let effort = match scale {
        Scale::Quick => Effort::quick(),
        Scale::Paper => Effort::paper(),
    };
    let figure = fig2::run(device, &effort, progress)?;
    let mut rows = Vec::new();
    for panel in &figure.panels {
        for s in &panel.summary {
            rows.push(vec![
                panel.env.to_owned(),
                s.n.to_string(),
                number(panel.truth),
                number(s.value),
                number(s.gap),
                format!("{:.2} %", 100.0 * s.relative_gap),
                if s.all_below { "yes" } else { "NO" }.to_owned(),
            ]);
        }
    }
    let header = ["environment", "n", "J", "J̃_n", "gap", "gap / |J|", "all seeds below"];
    let text = format!(
        "HAMBO-CA with a Gaussian process (RBF), {} seeds, horizons {}; J̃_n and J of a seed are on the same starts.\n\
         Hyper-parameters are given, not learned: length scale {}, σ_ε {}, in standardized units; β is the normal quantile \
         at δ = {}.\n\n{}",
        effort.seeds,
        figure.panels.iter().map(|p| p.horizon.to_string()).collect::<Vec<_>>().join(" and "),
        figure.length_scale,
        figure.noise_std,
        figure.delta,
        table(&header, &rows)
    );
    let plot = figure.panels.iter().map(|panel| Panel {
        title: format!("{}, {}", panel.env, panel.policy),
        x_name: "transitions n".to_owned(),
        y_name: "return".to_owned(),
        lines: vec![Line {
            name: "bound (CA)".to_owned(),
            points: panel
                .summary
                .iter()
                .map(|s| {
                    let half = BAND * s.gap_std_error;
                    [s.n as f64, s.value, s.value - half, s.value + half]
                })
                .collect(),
        }],
        reference: Some(("true return J".to_owned(), panel.truth)),
    });
    Ok(Reproduced { text, numbers: json!(figure), plot: plot.collect() })
}
