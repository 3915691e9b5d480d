//! One page with all figures that are in a folder, beside what the paper says.

use super::Claim;
use crate::web::{escape, page, section, table};
use serde_json::Value;
use std::path::Path;

/// Figures, their titles in the paper's words.
const FIGURES: [(&str, &str); 4] = [
    ("fig1", "Figure 1: hallucinated trajectories on PointSafety"),
    ("fig2", "Figure 2: with a Gaussian process the bound approaches the true return"),
    ("fig3", "Figure 3: estimates against the number of transitions"),
    ("fig4", "Figure 4: estimates against the horizon"),
];

/// The page of what is there.
pub fn figures(folder: &Path) -> String {
    let mut body = String::new();
    for (name, title) in FIGURES {
        let read =
            |ending: &str| std::fs::read_to_string(folder.join(format!("{name}.{ending}"))).ok();
        let (Some(json), Some(svg)) = (read("json"), read("svg")) else { continue };
        let Ok(result) = serde_json::from_str::<Value>(&json) else { continue };
        let claims: Vec<Claim> =
            serde_json::from_value(result["claims"].clone()).unwrap_or_default();
        let svg = svg.trim_start_matches(|c| c != '<');
        let text = |key: &str| result[key].as_str().unwrap_or("").to_owned();
        let seconds = result["seconds"].as_f64().unwrap_or(0.0);
        let caption = format!(
            "hambo {} on {}, scale {}, {seconds:.0} s. All numbers: {name}.json",
            text("version"),
            text("device"),
            text("scale")
        );
        let text = read("txt").unwrap_or_default();
        let details = format!(
            "<details><summary>Table</summary><pre class=\"scroll\">{}</pre></details>\n",
            escape(&text)
        );
        let picture = format!("<div class=\"picture\">{svg}</div>\n");
        body += &section(title, &caption, &(picture + &said(&claims) + &details));
    }
    page("The paper’s figures, repeated", &body)
}

fn said(claims: &[Claim]) -> String {
    let row = |claim: &Claim| {
        let word = match claim.confirmed {
            Some(true) => "confirmed",
            Some(false) => "not confirmed",
            None => "cannot be told",
        };
        vec![claim.claim.clone(), word.to_owned(), claim.found.clone()]
    };
    let bad: Vec<bool> = claims.iter().map(|claim| claim.confirmed == Some(false)).collect();
    let rows: Vec<Vec<String>> = claims.iter().map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(&["the paper says", "here", "found"], &rows, &bad)
    }
}
