//! Answers as they are printed in a terminal: tables, notes, and the headline last, where the log of a build ends.

use super::answer::Answer;
use super::beside;
use super::ranking::Ranking;
use super::setup::Setup;
use super::text::{number, printable};
use super::verdict::{Verdict, verdict_text, worst_share};
use super::waterfall::printed;
use crate::confidence::theory::TheoryReport;
use crate::evaluate::{Method, Warning};
use std::fmt::{Display, Formatter};

/// The answer for a terminal.
pub fn terminal(answer: &Answer) -> String {
    let Setup { task, horizon, data, declared, .. } = &answer.setup;
    let rows = answer.estimates.iter().map(|e| {
        let numbers = [number(e.value), number(e.std_error), known(e.lower_bound)];
        [words(e.method).to_vec(), numbers.to_vec()].concat()
    });
    let mut lines = vec![
        printable(&format!(
            "{} on {task}, horizon {horizon}, from {} transitions{}",
            answer.policy,
            data.transitions,
            answer.setup.risk.map_or(String::new(), |share| format!("; {}", worst_share(share)))
        )),
        printable(&format!(
            "reward {}; termination {}; initial states: {}",
            declared.reward, declared.termination, declared.initial
        )),
        String::new(),
        table(
            &["method", "kind", "estimate", "std error", "lower bound"],
            &rows.collect::<Vec<_>>(),
        ),
        String::new(),
    ];
    if !answer.constraints.is_empty() {
        lines.extend(constraint_table(answer));
    }
    lines.extend(answer.theory.as_ref().map(theory_line));
    if let Some(truth) = answer.finite_truth() {
        let (episodes, value) = (truth.episodes, number(truth.value));
        let of =
            answer.setup.risk.map_or(String::new(), |share| format!(" of {}", worst_share(share)));
        lines.push(format!("true return{of}, by simulation of {episodes} episodes: {value}"));
    }
    lines.extend(steps_and_risks(answer));
    let meaning = answer.verdict.map(|verdict| verdict.meaning(answer.evidence).to_owned());
    ended(lines, &answer.warnings, &answer.setup, (meaning, answer.headline()))
}

/// The ranking for a terminal.
pub fn ranking_terminal(ranking: &Ranking) -> String {
    let rows = ranking.policies.iter().map(|p| {
        let mut row = vec![p.name.clone(), verdict_text(p.verdict), known(p.lower_bound)];
        row.extend(p.estimates.iter().map(|e| number(e.value)));
        row.push(known(p.truth.as_ref().map(|truth| truth.value)));
        row
    });
    let methods =
        ranking.policies.first().map_or(&[][..], |p| &p.estimates).iter().map(|e| e.method.name());
    let header: Vec<&str> =
        ["policy", "verdict", "lower bound"].into_iter().chain(methods).chain(["truth"]).collect();
    let mut lines = vec![table(&header, &rows.collect::<Vec<_>>()), String::new()];
    if !ranking.scores.is_empty() {
        let rows = ranking.scores.iter().map(|s| {
            let spearman = s.spearman.map_or("–".to_owned(), |x| format!("{x:.3}"));
            let violations = format!("{:.0} %", 100.0 * s.violation_rate);
            let numbers = [spearman, number(s.regret_at_1), violations, number(s.gap)];
            [words(s.method).to_vec(), numbers.to_vec()].concat()
        });
        let header = ["method", "kind", "Spearman", "regret@1", "violations", "gap"];
        lines.extend([table(&header, &rows.collect::<Vec<_>>()), String::new()]);
    }
    ended(lines, &ranking.warnings, &ranking.setup, (None, ranking.headline()))
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&terminal(self))
    }
}

impl Display for Ranking {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&ranking_terminal(self))
    }
}

fn known(x: Option<f64>) -> String {
    x.map_or("–".to_owned(), number)
}

/// A method and its kind.
fn words(method: Method) -> [String; 2] {
    let kind = if method.is_conservative() { "conservative" } else { "neutral" };
    [method.name(), kind].map(str::to_owned)
}

/// Warnings that stand beside the headline.
pub(super) const TOP: usize = 3;

/// The text with its end: the warnings that matter least first, so that those that matter most stand beside the headline.
fn ended(
    mut lines: Vec<String>,
    warnings: &[Warning],
    setup: &Setup,
    (meaning, headline): (Option<String>, String),
) -> String {
    let told = |warning: &Warning| printable(&format!("{}: {warning}", warning.rank()));
    let (top, others) = warnings.split_at(warnings.len().min(TOP));
    lines.extend(others.iter().map(told));
    if !others.is_empty() {
        lines.push(String::new());
    }
    lines.extend(top.iter().map(told));
    lines.extend(setup.page.as_ref().map(|page| format!("report: {}", page.display())));
    lines.extend(meaning);
    lines.push(printable(&headline));
    lines.join("\n")
}

/// How the bound comes about, and what stands beside it.
fn steps_and_risks(answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    if !answer.waterfall.is_empty() {
        let mut rows: Vec<Vec<String>> =
            printed(&answer.waterfall).into_iter().map(Vec::from).collect();
        let bound = rows.last().map_or(String::new(), |row| row[3].clone());
        rows.push(vec!["lower bound".to_owned(), String::new(), String::new(), bound]);
        let header = ["from estimate to bound", "by", "change", "return"];
        lines.extend([table(&header, &rows), String::new()]);
    }
    let risks: Vec<Vec<String>> = beside::risks(answer)
        .into_iter()
        .map(|[name, figure, interval]| vec![name, String::new(), figure, interval])
        .collect();
    if !risks.is_empty() {
        let header = [beside::RISK, "", "figure", "95 % interval"];
        lines.extend([table(&header, &risks), String::new()]);
    }
    lines.push(beside::logged(answer));
    if answer.is_conservative() {
        lines.push(beside::largest_threshold(answer));
    }
    lines
}

/// What the theory of Gaussian processes says, in a line.
fn theory_line(theory: &TheoryReport) -> String {
    format!(
        "theory: information gain {}, B {} (norm of the posterior mean: {}), β_n {}, L_k {}, L_f {}, L_σ {}, log₁₀ C_n {}, \
         log₁₀ of the worst-case gap {}",
        number(theory.information_gain),
        known(theory.norm_bound),
        number(theory.posterior_norm),
        known(theory.beta),
        number(theory.metric_constant),
        known(theory.dynamics_constant),
        number(theory.deviation_constant),
        known(theory.log10_gap_constant),
        known(theory.log10_gap)
    )
}

/// Every constraint by every method, and what all bounds share.
fn constraint_table(answer: &Answer) -> [String; 3] {
    let rows = answer.constraints.iter().flat_map(|c| {
        c.estimates.iter().enumerate().map(move |(i, e)| {
            let verdict = verdict_text(Verdict::of_constraint(c).filter(|_| i == 0));
            vec![
                if i == 0 { c.name.clone() } else { String::new() },
                e.method.name().to_owned(),
                number(e.value),
                known(e.lower_bound),
                known(c.threshold.filter(|_| i == 0)),
                verdict,
            ]
        })
    });
    let header = ["constraint", "method", "estimate", "lower bound", "threshold", "verdict"];
    [
        table(&header, &rows.collect::<Vec<_>>()),
        format!(
            "δ = {} is shared by {} bounds, {:.4} for each, so that those that are shown hold together",
            answer.setup.delta,
            1 + answer.constraints.len(),
            answer.delta_each
        ),
        String::new(),
    ]
}

/// A table with a header; the first two columns are words, the others numbers.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let printable = |row: &Vec<String>| row.iter().map(|cell| printable(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(printable).collect();
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(w, cell)| *w = (*w).max(cell.chars().count()));
    }
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
    let mut lines = vec![line(&header), line(&rule)];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}
