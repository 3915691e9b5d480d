//! A sweep as pages: how far it is, and what came out.

use super::plan::{Job, Plan};
use super::ranking::{HEAD, rankings};
use super::record::Record;
use super::status::{Held, Status, Trouble};
use crate::web::{escape, page, section, table};
use std::fmt::Write;

/// Loads the page anew every five seconds.
const RELOAD: &str = "<script>setTimeout(() => location.reload(), 5000)</script>\n";
/// Of long lists so many rows are shown.
const MOST: usize = 200;

/// How far it is; the page looks again by itself until all jobs have ended.
pub fn live(plan: &Plan, status: &Status) -> String {
    let mut body = format!("<p>{}</p>\n", escape(&status.counts()));
    for line in [&plan.about, &status.estimate()].into_iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(body, "<p>{}</p>", escape(line));
    }
    let held = |held: &[Held]| -> Vec<Vec<String>> {
        let cells = |h: &Held| {
            let silent = format!("{:.0} s", h.silent);
            vec![h.job.clone(), h.what.clone(), h.worker.clone(), h.doing.clone(), silent]
        };
        held.iter().take(MOST).map(cells).collect()
    };
    let head = ["job", "what", "worker", "doing", "last heard of"];
    let quiet = "Their workers said nothing for a while; others take them up.";
    for (title, caption, list) in
        [("Running", "", &status.running), ("Stale", quiet, &status.stale)]
    {
        if !list.is_empty() {
            body += &section(title, caption, &table(&head, &held(list), &[]));
        }
    }
    let troubles = |list: &[Trouble]| -> Vec<Vec<String>> {
        let cells = |t: &Trouble| vec![t.job.clone(), t.what.clone(), t.problem.clone()];
        list.iter().take(MOST).map(cells).collect()
    };
    for (title, list) in [("Failed", &status.failed), ("Gate failed", &status.gates_failed)] {
        if !list.is_empty() {
            let rows = troubles(list);
            body += &section(
                title,
                "",
                &table(&["job", "what", "why"], &rows, &vec![true; rows.len()]),
            );
        }
    }
    if status.done + status.failed.len() < status.jobs {
        body += RELOAD;
    }
    page(&format!("Sweep {}", plan.name), &body)
}

/// What came out: the policies of each data set in the order of their bounds.
pub fn ranked(plan: &Plan, status: &Status, records: &[(&Job, Option<Record>)]) -> String {
    let mut body = String::new();
    let note = "Policies are sorted by the mean over the seeds of the bound of the first method; a job that failed counts as −∞. \
                Each bound holds on its own at the confidence asked for, where it is supported. For bounds that hold together \
                use hambo rank, which splits δ among the policies.";
    for line in [plan.about.as_str(), &status.counts(), note].into_iter().filter(|l| !l.is_empty())
    {
        let _ = writeln!(body, "<p>{}</p>", escape(line));
    }
    let programs: std::collections::BTreeSet<String> = records
        .iter()
        .filter_map(|(_, record)| record.as_ref())
        .map(|r| format!("version {}, build {}, {}", r.version, r.build, r.device))
        .collect();
    let several = "Several programs or kinds of devices computed these: the last digits of their numbers differ.";
    let rows: Vec<Vec<String>> = programs.into_iter().map(|program| vec![program]).collect();
    let caption = if rows.len() > 1 { several } else { "" };
    for ranking in rankings(plan, records) {
        body += &section(&ranking.title, "", &table(&HEAD, &ranking.rows, &ranking.bad));
    }
    body += &section("Programs", caption, &table(&["program"], &rows, &[]));
    page(&format!("Sweep {}", plan.name), &body)
}
