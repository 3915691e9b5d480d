//! The page: one file that needs nothing else. Its plots are drawn by uPlot (MIT, see `LICENSE.uplot`), which is part
//! of it.
//!
//! Its sections, from top to bottom: what a reader must decide first, why after that, how to repeat it last.

mod axis;
mod ranking;
mod repeat;
mod theory;
mod trust;
mod lead;
mod waterfall;
mod why;

use super::answer::Answer;
use super::ranking::Ranking;
use super::text::{embedded, escape, shortened};
use serde_json::{Value, json};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const UPLOT: &str = include_str!("uplot.js");
const UPLOT_STYLE: &str = include_str!("uplot.css");
const UPLOT_LICENSE: &str = include_str!("LICENSE.uplot");

/// The page of an answer.
pub fn html(answer: &Answer) -> String {
    let sections = [
        lead::verdict(answer),
        waterfall::waterfall(answer),
        lead::estimates(answer),
        lead::constraints(answer),
        why::help(answer),
        folded(
            "details",
            "Details: risk, all notes, what could go wrong, whether to trust it, how to repeat it",
            &[
                waterfall::risk(answer),
                lead::other_warnings(&answer.warnings),
                why::trajectories(answer),
                why::pessimism(answer),
                why::distributions(answer),
                trust::trust(answer),
                theory::theory(answer),
                trust::curves(answer),
                repeat::repeat(answer),
            ],
        ),
    ];
    let (why, curves) = (shortened(&answer.why), shortened(&answer.curves));
    let data = json!({"kind": "evaluation", "result": answer, "why": why, "curves": curves});
    document(&format!("{} on {}", answer.policy, answer.setup.task), &sections.concat(), &data)
}

/// The page of a ranking.
pub fn ranking_html(ranking: &Ranking) -> String {
    let sections = [
        ranking::policies(ranking),
        ranking::scores(ranking),
        folded(
            "details",
            "Details: all notes, how to repeat it",
            &[lead::other_warnings(&ranking.warnings), repeat::repeat_ranking(ranking)],
        ),
    ];
    let data = json!({"kind": "ranking", "result": ranking});
    document(&format!("Ranking on {}", ranking.setup.task), &sections.concat(), &data)
}

fn document(title: &str, body: &str, data: &Value) -> String {
    let title = escape(title);
    let data = embedded(data);
    // Nothing may be fetched, whatever a name in the data says.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title} – hambo</title>\n\
         <style>{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>/*\nuPlot: {UPLOT_LICENSE}*/\n{UPLOT}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// What can be drawn.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// Sections that are opened by a click.
fn folded(id: &str, title: &str, sections: &[String]) -> String {
    format!(
        "<details class=\"fold\" id=\"{id}\">\n<summary>{title}</summary>\n{}</details>\n",
        sections.concat()
    )
}

/// A place that the script fills, and the words below it.
fn plot(kind: &str, index: usize, caption: &str) -> String {
    format!(
        "<figure><div class=\"plot\" data-plot=\"{kind}\" data-index=\"{index}\"></div>\
         <figcaption>{caption}</figcaption></figure>\n"
    )
}
