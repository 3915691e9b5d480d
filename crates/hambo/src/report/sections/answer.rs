//! What is to be decided, and the numbers behind it.

use super::{list, section, two_sided, words};
use crate::report::axis::{Axis, Line, Row};
use crate::report::text::{escape, number, percent, result_number};
use crate::report::{headline, is_conservative};
use serde_json::Value;

/// What is to be decided, in plain words.
pub(in crate::report) fn verdict(result: &Value) -> String {
    let first = &result["estimates"][0];
    let method = first["method"].as_str().unwrap_or("?");
    let (policy, task) = (words(&result["policy"]), words(&result["task"]));
    let horizon = &result["horizon"];
    let steps = if horizon == 1 { "step" } else { "steps" };
    let class = match result["verdict"].as_str() {
        Some("meets") => "meets",
        Some(_) => "fails",
        None => "open",
    };
    let confidence = percent(1.0 - result["delta_each"].as_f64().unwrap_or(0.0));
    let bound = result_number(&result["lower_bound"]);
    let mut lead = match (is_conservative(method), result["lower_bound"].is_null()) {
        (false, _) => format!(
            "<p>Method <b>{method}</b> was asked for first. It is a neutral estimate, which may be too high as well as \
             too low: nothing here bounds the return of <b>{policy}</b>.</p>"
        ),
        (true, true) => format!(
            "<p>Given only what the logs know, <b>{policy}</b> could do arbitrarily badly on <b>{task}</b>: there is no \
             finite bound.</p>"
        ),
        (true, false) => format!(
            "<p>Given only what the logs know, <b>{policy}</b> is expected to earn at least <b>{bound}</b> on \
             <b>{task}</b> in {horizon} {steps}, even if the world is as unkind as the model’s uncertainty allows \
             (confidence {confidence}, under the assumptions that <a href=\"#trust\">are checked below</a>).</p>"
        ),
    };
    if let Some(threshold) = result["threshold"].as_f64().filter(|_| is_conservative(method)) {
        let met = result["lower_bound"].as_f64().is_some_and(|bound| bound >= threshold);
        let told = if met { "reaches" } else { "does not reach" };
        lead += &format!("<p>The bound {told} the <b>{}</b> that was asked for.</p>", number(threshold));
    }
    if let Some(truth) = result["truth"]["value"].as_f64() {
        let error = result_number(&result["truth"]["std_error"]);
        let holds = match (result["lower_bound"].as_f64(), is_conservative(method)) {
            (_, false) => "",
            (Some(bound), true) if bound > truth => " <b>The bound is above it: it does not hold here.</b>",
            _ => " The bound holds.",
        };
        let n = &result["truth"]["episodes"];
        lead += &format!(
            "<p>For once the truth is known: {} ± {error}, by simulation of {n} episodes.{holds}</p>",
            number(truth)
        );
    }

    let mut tiles = String::new();
    if is_conservative(method) {
        tiles += &tile("lower bound", &bound, &format!("{method}, confidence {confidence}"));
    }
    let neutral = list(&result["estimates"]).find(|e| !e["method"].as_str().is_some_and(is_conservative));
    if let Some(neutral) = neutral {
        let below = format!("{}, nothing assumed unkind", words(&neutral["method"]));
        tiles += &tile("neutral estimate", &result_number(&neutral["value"]), &below);
    }
    if let Some(loss) = result["explanation"]["loss"].as_f64() {
        let n = &result["explanation"]["trajectories"];
        tiles += &tile("lost to uncertainty", &number(loss), &format!("on {n} trajectories"));
    }
    if let Some(truth) = result["truth"]["value"].as_f64() {
        tiles += &tile("true return", &number(truth), "by simulation");
    }
    let outside: Vec<f64> = list(&result["support"]["outside"]).filter_map(Value::as_f64).collect();
    if !outside.is_empty() {
        let share = outside.iter().sum::<f64>() / outside.len() as f64;
        tiles += &tile("outside the data", &percent(share), "of predicted states");
    }
    let episodes = &result["data"]["episodes"];
    let transitions = result["data"]["transitions"].to_string();
    tiles += &tile("logged transitions", &transitions, &format!("in {episodes} episodes"));
    format!(
        "<header class=\"verdict {class}\" id=\"verdict\">\n<p class=\"kicker\">hambo: {policy} on {task}</p>\n\
         <h1 id=\"headline\">{}</h1>\n{lead}\n</header>\n<div class=\"tiles\">\n{tiles}</div>\n",
        escape(&headline(result))
    )
}

fn tile(title: &str, figure: &str, below: &str) -> String {
    let below = below.replace(" %", "\u{a0}%"); // the sign stays with its number
    format!("<div class=\"tile\"><span>{title}</span><b>{figure}</b><small>{below}</small></div>\n")
}

/// Every warning, with the advice that is part of it.
pub(in crate::report) fn warnings(result: &Value) -> String {
    let notes: String = list(&result["warnings"]).map(|w| format!("<li>{}</li>\n", words(w))).collect();
    match notes.is_empty() {
        true => "<section id=\"warnings\"><p class=\"quiet\">No warnings.</p></section>\n".to_owned(),
        false => section(
            "warnings",
            "Before you rely on this",
            &format!("<ul class=\"warnings\">\n{notes}</ul>\n"),
        ),
    }
}

/// All methods on one axis.
pub(in crate::report) fn estimates(result: &Value) -> String {
    let rows = list(&result["estimates"]).map(|e| {
        let method = e["method"].as_str().unwrap_or("?");
        let conservative = is_conservative(method);
        let figures = match conservative {
            true => format!(
                "bound <b>{}</b><br><small>estimate {}</small>",
                result_number(&e["lower_bound"]),
                result_number(&e["value"])
            ),
            false => format!("<small>estimate</small> {}", result_number(&e["value"])),
        };
        Row {
            label: format!("<b>{}</b><small>{}</small>", escape(method), meaning(method)),
            figures,
            class: if conservative { "conservative" } else { "neutral" },
            value: e["value"].as_f64(),
            margin: two_sided() * e["std_error"].as_f64().unwrap_or(0.0),
            bound: conservative.then(|| e["lower_bound"].as_f64()),
            mark: None,
        }
    });
    let axis = Axis { rows: rows.collect(), lines: lines(result), unit: "return" };
    let caption = "<p class=\"caption\">Points are estimates, bars around them 95 % of their Monte-Carlo error. A \
                   conservative method’s bound, ▏, lies below its estimate by a margin for that error. Neutral methods bound \
                   nothing.</p>\n";
    section("estimates", "All estimates on one axis", &(axis.html() + caption))
}

fn meaning(method: &str) -> &'static str {
    match method {
        "ca" => "worst case inside the confidence set",
        "da1" => "worst particle at every step",
        "dainf" => "worst particle throughout",
        "ds" => "one Gaussian for all that is unknown",
        "ts1" => "a random particle every step",
        "tsinf" => "a random particle per trajectory",
        "mean" => "mean prediction, no noise",
        _ => "",
    }
}

/// Truth and threshold.
pub(super) fn lines(result: &Value) -> Vec<Line> {
    let line = |name, class, value: &Value| value.as_f64().map(|value| Line { name, class, value });
    let truth = line("truth", "truth", &result["truth"]["value"]);
    truth.into_iter().chain(line("threshold", "threshold", &result["threshold"])).collect()
}

/// Further rewards with bounds of their own.
pub(in crate::report) fn constraints(result: &Value) -> String {
    let rows: String = list(&result["constraints"])
        .map(|c| {
            let verdict = match c["met"].as_bool() {
                Some(true) => "<b class=\"good\">meets</b>",
                Some(false) => "<b class=\"bad\">FAILS</b>",
                None => "–",
            };
            let threshold = c["threshold"].as_f64().map_or("–".to_owned(), number);
            let bound = result_number(&c["lower_bound"]);
            format!(
                "<tr><td>{}</td><td><code>{}</code></td><td>{bound}</td><td>{threshold}</td><td>{verdict}</td></tr>\n",
                words(&c["name"]),
                words(&c["expression"])
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let each = percent(1.0 - result["delta_each"].as_f64().unwrap_or(0.0));
    let all = percent(1.0 - result["delta"].as_f64().unwrap_or(0.0));
    let body = format!(
        "<div class=\"scroll\"><table><thead><tr><th>constraint</th><th>sum of</th><th>lower bound</th><th>threshold</th>\
         <th>verdict</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n<p class=\"caption\">Every bound has a \
         confidence of {each}, so that all of them hold together with {all}.</p>\n"
    );
    section("constraints", "Constraints", &body)
}
