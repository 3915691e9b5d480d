//! The table as a page, with all gaps in one picture.

use super::sheet::{introduction, sheets};
use super::table::{Row, Table};
use crate::web::{escape, page, section, table};
use std::fmt::Write;

/// Gaps beyond these are drawn at the edge.
const LEAST: f64 = -0.25;
const MOST: f64 = 1.0;
const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const ROW: f64 = 46.0;

/// The page.
pub fn html(found: &Table) -> String {
    let mut body = String::new();
    for line in introduction(found) {
        let _ = writeln!(body, "<p>{}</p>", escape(&line));
    }
    let caption = "Each point is a bound: how far it is below the truth, as a share of the truth. Left of the line it is above the \
                   truth. Points at the edges lie beyond.";
    if !found.rows.is_empty() {
        body += &section(
            "Gaps",
            caption,
            &format!("<div class=\"picture\">{}</div>\n", picture(&found.rows)),
        );
    }
    for sheet in sheets(found) {
        body += &section(sheet.title, &sheet.caption, &table(&sheet.head, &sheet.rows, &sheet.bad));
    }
    page(&format!("How often bounds hold: {}", found.suite), &body)
}

/// A strip for each rule and method, a point for each bound.
fn picture(rows: &[Row]) -> String {
    let mut strips: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = format!("{}, {}", row.method.name(), row.variant);
        match strips.iter_mut().find(|(found, _)| *found == name) {
            Some((_, points)) => points.push(row),
            None => strips.push((name, vec![row])),
        }
    }
    let height = ROW * strips.len() as f64 + 60.0;
    let at =
        |gap: f64| LEFT + (gap.clamp(LEAST, MOST) - LEAST) / (MOST - LEAST) * (WIDTH - LEFT - 20.0);
    let bottom = height - 44.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" xmlns=\"http://www.w3.org/2000/svg\" font-size=\"13\" role=\"img\">\n"
    );
    for tick in [-0.25, 0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, color) = (at(tick), if tick == 0.0 { "#157a4b" } else { "#dcdfe3" });
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"8\" y2=\"{bottom}\" stroke=\"{color}\" stroke-width=\"1.5\"/>\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#444\">{:.0} %</text>",
            bottom + 18.0,
            100.0 * tick
        );
    }
    for (i, (name, points)) in strips.iter().enumerate() {
        let y = 8.0 + ROW * (i as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{:.1}\" fill=\"#1d2228\">{}</text>",
            y + 4.0,
            escape(name)
        );
        for (j, row) in points.iter().enumerate() {
            let gap = row.gap.unwrap_or(f64::INFINITY);
            let title = escape(&row.case);
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{}\" fill-opacity=\"0.65\"><title>{title}</title></circle>",
                at(gap),
                y + 5.0 * ((j % 5) as f64 - 2.0),
                color(&row.evidence)
            );
        }
    }
    for (i, evidence) in ["supported", "extrapolated", "unsupported"].iter().enumerate() {
        let x = LEFT + 140.0 * i as f64;
        let y = height - 10.0;
        let _ = writeln!(
            svg,
            "<circle cx=\"{x}\" cy=\"{:.0}\" r=\"4\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{y}\" fill=\"#444\">{evidence}</text>",
            y - 4.0,
            color(evidence),
            x + 10.0
        );
    }
    svg + "</svg>\n"
}

fn color(evidence: &str) -> &'static str {
    match evidence {
        "supported" => "#1f62a8",
        "extrapolated" => "#d79a1b",
        _ => "#7b8086",
    }
}
