//! Whether to believe it, what would be otherwise, and how to get it again.

use super::{list, plot, section, words};
use crate::report::text::{brief, escape, percent, result_number, shorten};
use serde_json::Value;

/// Whether model and adversary can be trusted.
pub(in crate::report) fn trust(result: &Value, why: &Value) -> String {
    let mut body = String::from(
        "<p>The bound is right if the confidence set contains the truth and if the adversary is the worst one. Neither can be \
         proven from logs; this is what can be measured.</p>\n",
    );
    let set = &result["confidence_set"];
    if let Some(coverage) = set["one_step_coverage"].as_f64() {
        body += &format!(
            "<p>The set was sized by the rule <b>{}</b>{}: it holds {} of single held-out steps.",
            words(&set["rule"]),
            set["beta"].as_f64().map_or(String::new(), |beta| format!(", β = {}", brief(beta))),
            percent(coverage)
        );
        let t = &set["trajectory"];
        if let Some(level) = t["level"].as_f64() {
            body += &format!(
                " On {} windows (segments of {} steps) of {} held-out episodes its worst shifts take at least what the model overstates, at a level of {}.",
                t["windows"],
                t["segment_length"],
                t["episodes"],
                percent(level)
            );
        }
        body += "</p>\n";
    }
    body += "<div class=\"grid\">\n";
    if !why["reliability"].is_null() {
        let rows = &why["reliability"]["rows"];
        body += &plot(
            "reliability",
            0,
            &format!(
                "Calibration, mean over entries: of what the model says is below its 30 % quantile, 30 % should be. Before and \
                 after recalibration by τ on {} held-out rows, and on {} others.",
                rows[0], rows[1]
            ),
        );
        body += &plot(
            "coverage",
            0,
            "Share of single held-out steps within the set, by its size β. The line is the size that was used.",
        );
    }
    if list(&result["support"]["steps"]).next().is_some() {
        body += &plot(
            "outside",
            0,
            "Where the policy leaves the data: share of predicted states less known than 99 % of held-out data.",
        );
        body += &plot(
            "support",
            0,
            "How far it leaves them: distance to the nearest logged state and action, and σₑ, in multiples of what is usual.",
        );
    }
    if list(&result["adversary"]["curve"]).nth(1).is_some() {
        body +=
            &plot("search", 0, "The search for ca’s adversary: lowest return found so far, on fixed seeds.");
    }
    if list(&result["adversary_da1"]["curve"]).nth(1).is_some() {
        body +=
            &plot("search", 1, "The search for da1’s adversary: lowest return found so far, on fixed seeds.");
    }
    body += "</div>\n";
    body += &agreement(result, "adversary", "ca");
    body += &agreement(result, "adversary_da1", "da1");
    section("trust", "Can this be trusted?", &body)
}

/// How far the searches agree.
fn agreement(result: &Value, name: &str, method: &str) -> String {
    let search = &result[name];
    if search.is_null() {
        return String::new();
    }
    let rows: String = list(&search["candidates"])
        .map(|c| {
            let index = c["index"].as_u64().unwrap_or(0) + 1;
            format!(
                "<tr><td>{} {index}</td><td>{}</td></tr>\n",
                words(&c["optimiser"]),
                result_number(&c["value"])
            )
        })
        .collect();
    let converged = match search["converged"].as_bool() {
        Some(true) => "The lowest value had stopped falling.",
        _ => "<b>The lowest value was still falling: a longer search may find a lower return.</b>",
    };
    format!(
        "<details><summary>How far the searches for {method}’s adversary agree</summary>\n<p>{converged} Without an adversary: {}; \
         lowest: {}.</p>\n<div class=\"scroll\"><table><thead><tr><th>search</th><th>lowest return, on fixed seeds</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div></details>\n",
        result_number(&search["neutral"]),
        result_number(&search["lowest"])
    )
}

/// What would be if.
pub(in crate::report) fn curves(curves: &Value) -> String {
    if curves.is_null() {
        return String::new();
    }
    let names = ["horizon", "beta", "data"];
    let captions = [
        "The bound by the horizon, each with a search of its own.",
        "By the size of the confidence set, from none (neutral) on; a larger set never raises it.",
        "By the amount of data, whole episodes chosen at random, each with a model of its own.",
    ];
    let plots: String = names
        .iter()
        .zip(captions)
        .enumerate()
        .filter(|(_, (name, _))| list(&curves[**name]).next().is_some())
        .map(|(i, (_, caption))| plot("curve", i, caption))
        .collect();
    let notes: String =
        list(&curves["notes"]).map(|n| format!("<p class=\"caption\">{}</p>", words(n))).collect();
    section("curves", "What if?", &format!("<div class=\"grid\">\n{plots}</div>\n{notes}"))
}

/// Everything that is needed to get the same numbers again.
pub(in crate::report) fn repeat(result: &Value, command: &str) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => escape(text),
        Value::Null => "–".to_owned(),
        other => escape(&other.to_string()),
    };
    let mut settings = result["settings"].clone();
    shorten(&mut settings);
    let fields = [
        ("version", text(&result["version"])),
        ("task", text(&result["task"])),
        ("reward", text(&result["declared"]["reward"])),
        ("policy", text(&result["policy"])),
        ("policies", list(&result["policies"]).map(|p| text(&p["policy"])).collect::<Vec<_>>().join("<br>")),
        ("policy’s SHA-256", text(&result["policy_sha256"])),
        ("data’s SHA-256", text(&result["data"]["sha256"])),
        ("seed", text(&result["seed"])),
        ("horizon", text(&result["horizon"])),
        ("discount", text(&result["discount"])),
        ("δ", text(&result["delta"])),
        ("settings", format!("<code>{}</code>", escape(&settings.to_string()))),
        ("device", text(&result["device"])),
        ("seconds", result["seconds"].as_f64().map_or("–".to_owned(), |s| format!("{s:.1}"))),
    ];
    let known = fields.iter().filter(|(_, value)| !value.is_empty() && value != "–");
    let rows: String = known.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).collect();
    let body = format!(
        "<pre><code>{}</code></pre>\n<dl>\n{rows}</dl>\n<p class=\"caption\">The same seed gives the same numbers on the same \
         device. What the bound guarantees, and what it does not: docs/guarantees.md.</p>\n",
        escape(command)
    );
    section("repeat", "How to repeat this", &body)
}
