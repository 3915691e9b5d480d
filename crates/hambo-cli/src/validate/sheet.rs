//! The table in words: the same sheets make up the Markdown file and the page.

use super::table::{Row, Summary, Table};
use crate::output::number;

/// A heading, what has to be known to read it, and cells.
pub struct Sheet {
    pub title: &'static str,
    pub caption: String,
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// Rows that hold a violation or an error.
    pub bad: Vec<bool>,
}

const COUNTS: [&str; 9] = [
    "runs",
    "supported",
    "violations",
    "values above",
    "gap 10 %",
    "gap 50 %",
    "gap 90 %",
    "truth too coarse",
    "seconds",
];
const PLACE: [&str; 5] = ["rule", "environment", "data", "n", "T"];

/// All of a table.
pub fn sheets(table: &Table) -> Vec<Sheet> {
    let summaries = |title, caption: &str, head: &[&'static str], all: &[Summary]| Sheet {
        title,
        caption: caption.to_owned(),
        head: [head, &COUNTS].concat(),
        rows: all.iter().map(cells).collect(),
        bad: all.iter().map(|s| s.violations.count > 0).collect(),
    };
    let mut found = vec![
        summaries(
            "By rule and method",
            "A violation is a bound above the truth by more than 3 standard errors of the truth; in brackets is its \
             Clopper–Pearson interval of 95 %. Values above: before the Monte-Carlo margin is subtracted, the bound is above the \
             truth. Gap: |truth − bound| / |truth|. Truth too coarse: its standard error is above a tenth of the gap.",
            &["rule", "method"],
            &table.methods,
        ),
        summaries(
            "By evidence",
            "Of the method asked for first.",
            &["rule", "evidence"],
            &table.evidence,
        ),
        summaries(
            "By environment, data, n and T",
            "Of the method asked for first.",
            &PLACE,
            &table.groups,
        ),
        levels(table),
        rankings(table),
        rows(table),
    ];
    if !table.errors.is_empty() {
        found.push(Sheet {
            title: "Runs without an answer",
            caption: String::new(),
            head: vec!["case", "why"],
            rows: table.errors.iter().map(|e| vec![e.case.clone(), e.error.clone()]).collect(),
            bad: vec![true; table.errors.len()],
        });
    }
    found.retain(|sheet| !sheet.rows.is_empty());
    found
}

fn cells(summary: &Summary) -> Vec<String> {
    let gap = |gap: &Option<f64>| gap.map_or("∞".to_owned(), percent);
    let counts = [
        summary.runs.to_string(),
        summary.supported.to_string(),
        summary.violations.to_string(),
        summary.values_above.to_string(),
    ];
    let last =
        [summary.unresolved.to_string(), summary.median_seconds.map_or("–".to_owned(), number)];
    summary
        .of
        .iter()
        .cloned()
        .chain(counts)
        .chain(summary.gaps.iter().map(gap))
        .chain(last)
        .collect()
}

fn levels(table: &Table) -> Sheet {
    let row = |l: &super::table::Level| {
        let share = l.attained.count as f64 / l.attained.of.max(1) as f64;
        vec![
            l.variant.clone(),
            l.method.name().to_owned(),
            percent(l.claimed),
            percent(share),
            l.attained.to_string(),
        ]
    };
    Sheet {
        title: "Claimed and attained level",
        caption: "Of the bounds that claim a level, because the data support them: the share that is not above the truth."
            .to_owned(),
        head: vec!["rule", "method", "claimed", "attained", "bounds that hold"],
        rows: table.levels.iter().map(row).collect(),
        bad: table.levels.iter().map(|l| l.attained.high < l.claimed).collect(),
    }
}

fn rankings(table: &Table) -> Sheet {
    let score = |x: Option<f64>| x.map_or("–".to_owned(), |x| format!("{x:.2}"));
    let share = |x: Option<f64>| x.map_or("–".to_owned(), percent);
    let row = |r: &super::table::Ranking| {
        let scores = [
            r.sets.to_string(),
            r.policies.to_string(),
            score(r.spearman_bound),
            share(r.regret_bound),
            score(r.spearman_neutral),
            share(r.regret_neutral),
        ];
        r.of.iter().cloned().chain(scores).collect()
    };
    let scores = [
        "seeds",
        "policies",
        "Spearman, bound",
        "regret@1, bound",
        "Spearman, neutral",
        "regret@1, neutral",
    ];
    Sheet {
        title: "Order of the policies",
        caption: "Means over seeds. Spearman: rank correlation with the true returns. Regret@1: what is lost by taking the policy \
                  that comes first, as a share of the range of the true returns. Neutral: by the first neutral method."
            .to_owned(),
        head: [&PLACE[..], &scores].concat(),
        rows: table.rankings.iter().map(row).collect(),
        bad: vec![false; table.rankings.len()],
    }
}

fn rows(table: &Table) -> Sheet {
    let row = |r: &Row| {
        let optional = |x: Option<f64>| x.map_or("–".to_owned(), number);
        let bound = r.bound.map_or("−∞".to_owned(), number);
        vec![
            format!("{} {}", r.env, r.policy),
            r.data.clone(),
            r.n.to_string(),
            r.horizon.to_string(),
            r.seed.to_string(),
            r.variant.clone(),
            r.method.name().to_owned(),
            format!(
                "{} ± {}{}",
                number(r.truth),
                number(r.truth_std_error),
                if r.truth_resolved { "" } else { " (too coarse)" }
            ),
            optional(r.neutral),
            optional(r.value),
            bound + if r.violated { " (above)" } else { "" },
            r.gap.map_or("∞".to_owned(), percent),
            r.evidence.clone(),
            optional(r.beta),
            match r.converged {
                Some(true) => "yes",
                Some(false) => "no",
                None => "–",
            }
            .to_owned(),
            number(r.seconds),
        ]
    };
    Sheet {
        title: "Every run",
        caption: "Gap: (truth − bound) / |truth|. Seconds are those of the evaluation, without the fit that runs on the same data \
                  share."
            .to_owned(),
        head: vec![
            "policy", "data", "n", "T", "seed", "rule", "method", "truth", "neutral", "value", "bound", "gap", "evidence", "β",
            "converged", "seconds",
        ],
        rows: table.rows.iter().map(row).collect(),
        bad: table.rows.iter().map(|r| r.violated).collect(),
    }
}

fn percent(x: f64) -> String {
    if x.abs() < 100.0 { format!("{:.1} %", 100.0 * x) } else { format!("{x:.0e}") }
}

/// What the table is of, in a few sentences.
pub fn introduction(table: &Table) -> Vec<String> {
    let mut lines = vec![format!(
        "{} of {} runs of the suite {}, by {} on {}, in {:.0} s of computation.",
        table.done,
        table.asked,
        table.suite,
        table.builds.join(", "),
        table.devices.join(", "),
        table.seconds
    )];
    if !table.about.is_empty() {
        lines.push(table.about.clone());
    }
    lines
}

/// The table as Markdown.
pub fn markdown(table: &Table) -> String {
    let mut parts = vec![format!("# How often bounds hold: {}", table.suite)];
    parts.extend(introduction(table));
    for sheet in sheets(table) {
        parts.push(format!("## {}", sheet.title));
        if !sheet.caption.is_empty() {
            parts.push(sheet.caption);
        }
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let clean = |cell: &String| cell.replace('|', "\\|").replace('\n', " ");
        let head = sheet.head.iter().map(|h| (*h).to_owned()).collect();
        let rule = vec!["---".to_owned(); sheet.head.len()];
        let rows = sheet.rows.iter().map(|row| line(row.iter().map(clean).collect()));
        parts.push([line(head), line(rule)].into_iter().chain(rows).collect::<Vec<_>>().join("\n"));
    }
    parts.join("\n\n") + "\n"
}
