//! The answer as a page that a person can act on, as Markdown, and as one line.
//!
//! All of them are written from the JSON of the result, so that their numbers are its numbers. The page is one file
//! that needs nothing else: its plots are drawn by uPlot (MIT, see `LICENSE.uplot`), which is part of it.

mod axis;
mod sections;
#[cfg(test)]
mod tests;
mod text;

pub use text::number;

use crate::curves::Curves;
use crate::evaluate::Why;
use serde_json::{Value, json};
use text::{embedded, escape, escape_markdown, percent, result_number, shorten};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const UPLOT: &str = include_str!("uplot.js");
const UPLOT_STYLE: &str = include_str!("uplot.css");
const UPLOT_LICENCE: &str = include_str!("LICENSE.uplot");

/// The verdict in one line, for people and for the log of a build.
///
/// `result` is the object that `hambo evaluate --json` prints.
pub fn headline(result: &Value) -> String {
    let bound = &result["lower_bound"];
    let first = &result["estimates"][0];
    let method = first["method"].as_str().unwrap_or("?");
    let confidence = percent(1.0 - result["delta_each"].as_f64().unwrap_or(0.0));
    let conservative = first.get("converged").is_some() && is_conservative(method);
    if !conservative {
        let value = result_number(&first["value"]);
        return format!("NO BOUND: {method} is a neutral estimate, {value}, and may be too high");
    }
    let bound_text = result_number(bound);
    let broken = result["constraints"].as_array().into_iter().flatten().find(|c| c["met"] == false);
    let met = result["threshold"].as_f64().map(|threshold| {
        let met = bound.as_f64().is_some_and(|bound| bound >= threshold);
        (met, number(threshold))
    });
    match (result["verdict"].as_str(), met, broken) {
        (Some("meets"), Some((_, threshold)), _) => {
            format!("MEETS the threshold: bound {bound_text} against {threshold}, confidence {confidence}")
        }
        (Some("meets"), None, _) => {
            format!("MEETS every constraint: bound {bound_text}, confidence {confidence}")
        }
        (Some(_), Some((false, threshold)), _) => {
            format!("FAILS the threshold: bound {bound_text} against {threshold}, confidence {confidence}")
        }
        (Some(_), Some((true, threshold)), None) if first["converged"] == false => format!(
            "NOT SHOWN: the adversary had not converged, so that the bound {bound_text} says nothing about {threshold}"
        ),
        (Some(_), _, Some(constraint)) => format!(
            "FAILS constraint {}: bound {} against {}, confidence {confidence}",
            constraint["name"].as_str().unwrap_or("?"),
            result_number(&constraint["lower_bound"]),
            result_number(&constraint["threshold"])
        ),
        _ => format!("BOUND {bound_text}, confidence {confidence}"),
    }
}

/// Whether a method of this name bounds anything.
fn is_conservative(method: &str) -> bool {
    method.parse::<crate::estimate::Method>().is_ok_and(crate::estimate::Method::is_conservative)
}

/// What goes into the page of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The object that `hambo evaluate --json` prints.
    pub result: &'a Value,
    /// Where the bound comes from.
    pub why: Option<&'a Why>,
    /// What would be if.
    pub curves: Option<&'a Curves>,
    /// How the run is repeated.
    pub command: &'a str,
}

impl Page<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let result = self.result;
        let mut why = json!(self.why);
        shorten(&mut why);
        let mut curves = json!(self.curves);
        shorten(&mut curves);
        let data = json!({"kind": "evaluation", "result": result, "why": why, "curves": curves});
        let policy = result["policy"].as_str().unwrap_or("?");
        let task = result["task"].as_str().unwrap_or("?");
        let sections = [
            sections::verdict(result),
            sections::warnings(result),
            sections::estimates(result),
            sections::constraints(result),
            sections::trajectories(result, &why),
            sections::pessimism(result, &why),
            sections::help(result, &why),
            sections::distributions(&why),
            sections::trust(result, &why),
            sections::theory(result),
            sections::curves(&curves),
            sections::repeat(result, self.command),
        ];
        document(&format!("{policy} on {task}"), &sections.concat(), &data)
    }
}

/// The outcome of a ranking in one line; `result` is the object that `hambo rank --json` prints.
pub fn ranking_headline(result: &Value) -> String {
    let policies = result["policies"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(best) = policies.first() else { return "NO POLICIES".to_owned() };
    let name = best["name"].as_str().unwrap_or("?");
    let first = &best["estimates"][0];
    if !first["method"].as_str().is_some_and(is_conservative) {
        return format!("NO BOUND: highest neutral estimate: {name}, {}", result_number(&first["value"]));
    }
    let confidence = percent(1.0 - result["delta"].as_f64().unwrap_or(0.0));
    let bound = result_number(&best["lower_bound"]);
    let best = format!("best bound: {name}, {bound}, confidence {confidence} for all together");
    match result["verdict"].as_str() {
        None => format!("RANKED {} policies: {best}", policies.len()),
        Some(verdict) => {
            let good = policies.iter().filter(|p| p["verdict"] == "meets").count();
            let word = if verdict == "meets" { "MEETS" } else { "FAILS" };
            let threshold = result["threshold"].as_f64().map_or("what was asked".to_owned(), number);
            format!("{word}: {good} of {} policies reach {threshold}; {best}", policies.len())
        }
    }
}

/// A ranking in Markdown.
pub fn ranking_markdown(result: &Value) -> String {
    let text = |value: &Value| escape_markdown(value.as_str().unwrap_or("?"));
    let mut lines = vec![
        format!("## {}", escape_markdown(&ranking_headline(result))),
        String::new(),
        "| | policy | lower bound | estimate | true return | verdict |".to_owned(),
        "|--:|---|--:|--:|--:|---|".to_owned(),
    ];
    for (i, p) in result["policies"].as_array().into_iter().flatten().enumerate() {
        let first = &p["estimates"][0];
        let bound = match first["method"].as_str().is_some_and(is_conservative) {
            true => result_number(&p["lower_bound"]),
            false => "–".to_owned(),
        };
        let truth = p["truth"]["value"].as_f64().map_or("–".to_owned(), number);
        let verdict = p["verdict"].as_str().unwrap_or("–");
        let value = result_number(&first["value"]);
        lines.push(format!("| {} | {} | {bound} | {value} | {truth} | {verdict} |", i + 1, text(&p["name"])));
    }
    lines.push(String::new());
    let warnings = result["warnings"].as_array().into_iter().flatten();
    lines.extend(warnings.map(|warning| format!("- note: {}", text(warning))));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The page of a ranking; `result` is the object that `hambo rank --json` prints.
pub fn ranking_html(result: &Value, command: &str) -> String {
    let sections = [
        sections::ranking(result),
        sections::warnings(result),
        sections::scores(result),
        sections::repeat(result, command),
    ];
    let data = json!({"kind": "ranking", "result": result});
    let task = result["task"].as_str().unwrap_or("?");
    document(&format!("Ranking on {task}"), &sections.concat(), &data)
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
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>/*\nuPlot: {UPLOT_LICENCE}*/\n{UPLOT}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A summary in Markdown, for the page of a build or a pull request.
pub fn markdown(result: &Value) -> String {
    let text = |value: &Value| escape_markdown(value.as_str().unwrap_or("?"));
    let mut lines = vec![
        format!("## {}", escape_markdown(&headline(result))),
        String::new(),
        format!(
            "{} on {}, {} steps, from {} logged transitions.",
            text(&result["policy"]),
            text(&result["task"]),
            result["horizon"],
            result["data"]["transitions"]
        ),
        String::new(),
        "| method | kind | estimate | std error | lower bound |".to_owned(),
        "|---|---|--:|--:|--:|".to_owned(),
    ];
    for estimate in result["estimates"].as_array().into_iter().flatten() {
        let method = estimate["method"].as_str().unwrap_or("?");
        let (kind, bound) = match is_conservative(method) {
            true => ("conservative", result_number(&estimate["lower_bound"])),
            false => ("neutral", "–".to_owned()),
        };
        let [value, error] = ["value", "std_error"].map(|name| result_number(&estimate[name]));
        lines.push(format!("| {method} | {kind} | {value} | {error} | {bound} |"));
    }
    if let Some(truth) = result["truth"]["value"].as_f64() {
        let (error, n) = (result_number(&result["truth"]["std_error"]), &result["truth"]["episodes"]);
        lines.extend([
            String::new(),
            format!("True return: {} ± {error}, by simulation of {n} episodes.", number(truth)),
        ]);
    }
    let constraints = result["constraints"].as_array().filter(|c| !c.is_empty());
    if let Some(constraints) = constraints {
        lines.extend([
            String::new(),
            "| constraint | lower bound | threshold | verdict |".to_owned(),
            "|---|--:|--:|---|".to_owned(),
        ]);
        for c in constraints {
            let threshold = c["threshold"].as_f64().map_or("–".to_owned(), number);
            let verdict = c["met"].as_bool().map_or("–", |met| if met { "meets" } else { "FAILS" });
            let bound = result_number(&c["lower_bound"]);
            lines.push(format!("| {} | {bound} | {threshold} | {verdict} |", text(&c["name"])));
        }
    }
    let regions = sections::regions_in_words(result);
    if !regions.is_empty() {
        lines.extend([String::new(), "Data that would help:".to_owned(), String::new()]);
        lines.extend(regions.iter().map(|region| format!("- {}", escape_markdown(region))));
    }
    lines.push(String::new());
    let warnings = result["warnings"].as_array().into_iter().flatten();
    lines.extend(warnings.map(|warning| format!("- note: {}", text(warning))));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The part of a [`Trace`](crate::trace::Trace) that belongs into a result: numbers, not trajectories.
pub fn explanation(why: &Why) -> Value {
    let Some(trace) = &why.trace else { return Value::Null };
    json!({
        "method": trace.method,
        "trajectories": trace.trajectories,
        "neutral": trace.neutral.value,
        "hallucinated": trace.hallucinated.value,
        "loss": trace.neutral.value - trace.hallucinated.value,
        "dimensions": trace.dimensions,
        "spans": trace.spans,
        "loss_alone": trace.loss_alone,
        "worst": trace.worst,
        "regions": trace.regions,
    })
}
