//! The table and the plot of Figure 2.

use super::experiment::Figure;
use crate::output::{number, table};
use crate::plot::{Line, Panel};
use crate::reproduce::Claim;

/// Standard errors on each side of a line: a 95 % interval.
const BAND: f64 = 1.96;

/// The table, with what one has to know to read it.
pub fn text(figure: &Figure, seeds: u64) -> String {
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
    format!(
        "HAMBO-CA with a Gaussian process (RBF), {seeds} seeds, horizons {}; J̃_n and J of a seed have the same initial \
         states.\nThe hyperparameters are given, not learned: length scale {}, σ_ε {}, in standardized units; β is the \
         normal quantile at δ = {}.\n\n{}",
        figure.panels.iter().map(|p| p.horizon.to_string()).collect::<Vec<_>>().join(" and "),
        figure.length_scale,
        figure.noise_std,
        figure.delta,
        table(&header, &rows)
    )
}

/// A chart for each environment: the bound against n, below the true return.
pub fn plot(figure: &Figure) -> Vec<Panel> {
    let panels = figure.panels.iter().map(|panel| Panel {
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
        reference: panel.summary.first().map(|s| [s.n as f64, panel.truth]).into_iter().collect(),
        reference_name: "true return J".to_owned(),
    });
    panels.collect()
}

/// What the paper says of it, and what was found.
pub fn claims(figure: &Figure) -> Vec<Claim> {
    let panel = |panel: &super::experiment::Panel| {
        let gaps: Vec<String> = panel
            .summary
            .iter()
            .map(|s| format!("{:.1} % at n = {}", 100.0 * s.relative_gap, s.n))
            .collect();
        let below = panel.summary.iter().all(|s| s.all_below);
        let ends = panel.summary.first().zip(panel.summary.last());
        Claim {
            claim: format!("{}: the lower bound approaches the true return.", panel.env),
            found: format!(
                "gap {}; {} seed is above",
                gaps.join(", "),
                if below { "no" } else { "a" }
            ),
            confirmed: ends.map(|(first, last)| below && last.gap < first.gap),
        }
    };
    figure.panels.iter().map(panel).collect()
}
