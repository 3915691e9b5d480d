//! Several policies.

use super::answer::lines;
use super::{list, section, two_sided, words};
use crate::report::axis::{Axis, Row};
use crate::report::is_conservative;
use crate::report::text::{number, percent, result_number};
use serde_json::Value;

/// Policies on one axis, the best bound first.
pub(in crate::report) fn ranking(result: &Value) -> String {
    let rows = list(&result["policies"]).enumerate().map(|(i, p)| {
        let first = &p["estimates"][0];
        let conservative = first["method"].as_str().is_some_and(is_conservative);
        let truth = p["truth"]["value"].as_f64();
        let truth_text = truth.map_or(String::new(), |t| format!("<br><small>truth {}</small>", number(t)));
        let figures = match conservative {
            true => format!("bound <b>{}</b>{truth_text}", result_number(&p["lower_bound"])),
            false => format!("estimate <b>{}</b>{truth_text}", result_number(&first["value"])),
        };
        Row {
            label: format!("<b>{}. {}</b><small>{}</small>", i + 1, words(&p["name"]), verdict_word(p)),
            figures,
            class: if conservative { "conservative" } else { "neutral" },
            value: first["value"].as_f64(),
            margin: two_sided() * first["std_error"].as_f64().unwrap_or(0.0),
            bound: conservative.then(|| p["lower_bound"].as_f64()),
            mark: truth,
        }
    });
    let axis = Axis { rows: rows.collect(), lines: lines(result), unit: "return" };
    let n = list(&result["policies"]).count();
    let (all, each) = (&result["delta"], &result["delta_each"]);
    let [all, each] = [all, each].map(|delta| percent(1.0 - delta.as_f64().unwrap_or(0.0)));
    let truth = match list(&result["policies"]).any(|p| !p["truth"].is_null()) {
        true => " ◆ is the true return, by simulation.",
        false => "",
    };
    format!(
        "<header class=\"verdict {}\" id=\"verdict\">\n<p class=\"kicker\">hambo: {n} policies on {}</p>\n\
         <h1 id=\"headline\">{}</h1>\n<p>All bounds together hold with a confidence of {all}, each with {each}, under the \
         assumptions of docs/guarantees.md.</p></header>\n",
        match result["verdict"].as_str() {
            Some("meets") => "meets",
            Some(_) => "fails",
            None => "open",
        },
        words(&result["task"]),
        words(&result["summary"])
    ) + &section(
        "estimates",
        "All policies on one axis",
        &(axis.html()
            + &format!(
                "<p class=\"caption\">▏ is the bound, the point the estimate it is made from.{truth}</p>\n"
            )),
    )
}

fn verdict_word(policy: &Value) -> &'static str {
    match policy["verdict"].as_str() {
        Some("meets") => "meets the threshold",
        Some(_) => "fails the threshold",
        None => "",
    }
}

/// How well each method ranked, where the truth is known.
pub(in crate::report) fn scores(result: &Value) -> String {
    let text = |value: &Value| value.as_f64().map_or("–".to_owned(), |x| format!("{x:.3}"));
    let rows: String = list(&result["scores"])
        .map(|s| {
            let violations = s["violation_rate"].as_f64().map_or("–".to_owned(), percent);
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{violations}</td><td>{}</td></tr>\n",
                words(&s["method"]),
                text(&s["spearman"]),
                result_number(&s["regret_at_1"]),
                result_number(&s["gap"])
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let body = format!(
        "<div class=\"scroll\"><table><thead><tr><th>method</th><th>Spearman</th><th>regret@1</th><th>violations</th><th>gap</th>\
         </tr></thead><tbody>\n{rows}</tbody></table></div>\n<p class=\"caption\">Spearman: rank correlation with the true returns. \
         Regret@1: what is lost by taking the policy that is ranked first. Violations: share of policies whose number is above \
         the truth. Gap: mean of truth less number.</p>\n"
    );
    section("scores", "Against the truth", &body)
}
