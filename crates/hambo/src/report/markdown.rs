//! Answers in Markdown, for the page of a build or a pull request.

use super::answer::Answer;
use super::beside;
use super::ranking::Ranking;
use super::text::{escape_markdown, number};
use super::verdict::{Verdict, bound_text, verdict_text, worst_share};
use super::waterfall::printed;
use crate::evaluate::Warning;

/// A summary in Markdown.
pub fn markdown(answer: &Answer) -> String {
    let setup = &answer.setup;
    let mut lines = vec![
        format!("## {}", escape_markdown(&answer.headline())),
        String::new(),
        format!(
            "{} on {}, {} steps, from {} logged transitions.",
            escape_markdown(&answer.policy),
            escape_markdown(&setup.task),
            setup.horizon,
            setup.data.transitions
        ),
        String::new(),
        "| method | kind | estimate | std error | lower bound |".to_owned(),
        "|---|---|--:|--:|--:|".to_owned(),
    ];
    for estimate in &answer.estimates {
        let (kind, bound) = match estimate.method.is_conservative() {
            true => ("conservative", bound_text(estimate.lower_bound)),
            false => ("neutral", "–".to_owned()),
        };
        let [value, error] = [estimate.value, estimate.std_error].map(number);
        lines
            .push(format!("| {} | {kind} | {value} | {error} | {bound} |", estimate.method.name()));
    }
    lines.extend(steps_and_risks(answer));
    if let Some(truth) = answer.finite_truth() {
        let (value, error) = (number(truth.value), number(truth.std_error));
        let of =
            answer.setup.risk.map_or(String::new(), |share| format!(" of {}", worst_share(share)));
        let text = format!(
            "True return{of}: {value} ± {error}, by simulation of {} episodes.",
            truth.episodes
        );
        lines.extend([String::new(), text]);
    }
    if !answer.constraints.is_empty() {
        lines.extend([
            String::new(),
            "| constraint | lower bound | threshold | verdict |".to_owned(),
            "|---|--:|--:|---|".to_owned(),
        ]);
    }
    for c in &answer.constraints {
        let threshold = c.threshold.map_or("–".to_owned(), number);
        let verdict = verdict_text(Verdict::of_constraint(c));
        let bound = bound_text(c.lower_bound);
        lines.push(format!("| {} | {bound} | {threshold} | {verdict} |", escape_markdown(&c.name)));
    }
    let regions = answer.regions_in_words();
    if !regions.is_empty() {
        lines.extend([String::new(), "Data that would help:".to_owned(), String::new()]);
        lines.extend(regions.iter().map(|region| format!("- {}", escape_markdown(region))));
    }
    with_notes(lines, &answer.warnings)
}

/// A ranking in Markdown.
pub fn ranking_markdown(ranking: &Ranking) -> String {
    let mut lines = vec![
        format!("## {}", escape_markdown(&ranking.headline())),
        String::new(),
        "| | policy | lower bound | estimate | true return | verdict |".to_owned(),
        "|--:|---|--:|--:|--:|---|".to_owned(),
    ];
    for (i, p) in ranking.policies.iter().enumerate() {
        let bound = if p.is_conservative() { p.bound_text() } else { "–".to_owned() };
        let truth = p.finite_truth().map_or("–".to_owned(), number);
        let verdict = verdict_text(p.verdict);
        let value = bound_text(p.first().map(|first| first.value));
        let name = escape_markdown(&p.name);
        lines.push(format!("| {} | {name} | {bound} | {value} | {truth} | {verdict} |", i + 1));
    }
    with_notes(lines, &ranking.warnings)
}

/// How the bound comes about, and what stands beside it.
fn steps_and_risks(answer: &Answer) -> Vec<String> {
    let mut lines = Vec::new();
    let steps = printed(&answer.waterfall);
    if let Some([.., bound]) = steps.last() {
        lines.extend(
            ["", "| from estimate to bound | by | change | return |", "|---|---|--:|--:|"]
                .map(str::to_owned),
        );
        lines.extend(steps.iter().map(|step| format!("| {} |", step.join(" | "))));
        lines.push(format!("| **lower bound** | | | **{bound}** |"));
    }
    let risks = beside::risks(answer);
    if !risks.is_empty() {
        lines.extend([
            String::new(),
            format!("| {} | figure | 95 % interval |", beside::RISK),
            "|---|--:|--:|".to_owned(),
        ]);
        lines.extend(risks.iter().map(|risk| format!("| {} |", risk.join(" | "))));
    }
    let bound =
        answer.is_conservative().then(|| format!("; {}", beside::largest_threshold(answer)));
    lines.extend([
        String::new(),
        format!("Beside it: {}{}.", beside::logged(answer), bound.unwrap_or_default()),
    ]);
    lines
}

/// The text, with warnings at its end.
fn with_notes(mut lines: Vec<String>, warnings: &[Warning]) -> String {
    lines.push(String::new());
    lines.extend(
        warnings.iter().map(|w| format!("- {}: {}", w.rank(), escape_markdown(&w.to_string()))),
    );
    lines.join("\n").trim_end().to_owned() + "\n"
}
