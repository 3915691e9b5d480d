//! Why the bound is what it is, and what would raise it.

use super::{list, plot, section, state_name};
use crate::report::text::{brief, escape, number, percent, result_number};
use serde_json::Value;

/// Trajectories with and without the adversary.
pub(in crate::report) fn trajectories(result: &Value, why: &Value) -> String {
    let trace = &why["trace"];
    if trace.is_null() {
        return String::new();
    }
    let set = match list(&trace["neutral"]["samples"]).next() {
        Some(sample) if list(&sample["reach"]).next().is_some() => {
            "<button type=\"button\" data-toggle=\"sets\" aria-pressed=\"true\">confidence sets</button>"
        }
        _ => "",
    };
    let mut body = format!(
        "<p>The same {n} trajectories, with the same starts and the same luck, without an adversary \
         (<span class=\"key neutral\"></span>) and with the one that was found (<span class=\"key hallucinated\"></span>). \
         {shown} of them are drawn, the five worst among them.</p>\n\
         <div class=\"toggles\"><button type=\"button\" data-toggle=\"neutral\" aria-pressed=\"true\">without adversary</button>\
         <button type=\"button\" data-toggle=\"hallucinated\" aria-pressed=\"true\">with adversary</button>\
         <button type=\"button\" data-toggle=\"samples\" aria-pressed=\"true\">single trajectories</button>{set}</div>\n",
        n = trace["trajectories"],
        shown = list(&trace["neutral"]["samples"]).count(),
    );
    let plane = !trace["plane"].is_null();
    if plane {
        let shaded = match list(&trace["plane"]["rewards"]).next() {
            Some(_) => "; the shading is the reward, darker where it is lower",
            None => "",
        };
        body += &plot(
            "plane",
            0,
            &format!(
                "States in the plane. Grey points are logged states{shaded}. Mark a part to enlarge it, click twice to go back."
            ),
        );
    }
    let violet = match set.is_empty() {
        true => "",
        false => "; violet: the confidence set along the worst of them",
    };
    let bands: String = list(&trace["dimensions"])
        .enumerate()
        .map(|(i, d)| {
            let name = escape(&state_name(result, d.as_u64().unwrap_or(0) as usize));
            plot("band", i, &format!("{name} over the steps: median and 90 % of the trajectories{violet}."))
        })
        .collect();
    let bands = format!("<div class=\"grid\">\n{bands}</div>\n");
    body += &match plane {
        true => format!("<details><summary>The same, entry by entry</summary>\n{bands}</details>\n"),
        false => bands,
    };
    let (shown, all) =
        (list(&trace["dimensions"]).count() as u64, trace["all_dimensions"].as_u64().unwrap_or(0));
    if shown < all {
        body += &format!(
            "<p class=\"caption\">{shown} of {all} entries of the state are shown: those that the adversary pushes most.</p>\n"
        );
    }
    body += &worst(result, trace);
    section("trajectories", "What could go wrong", &body)
}

fn worst(result: &Value, trace: &Value) -> String {
    let starts = |i: usize| {
        let states = list(&trace["hallucinated"]["samples"][i]["states"][0]).enumerate();
        let texts = states.take(4).map(|(place, x)| {
            let d = trace["dimensions"][place].as_u64().unwrap_or(0) as usize;
            format!("{} {}", escape(&state_name(result, d)), brief(x.as_f64().unwrap_or(f64::NAN)))
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let rows: String = list(&result["explanation"]["worst"])
        .enumerate()
        .map(|(i, w)| {
            let span = &w["costliest"];
            let steps = match (span["from"].as_u64(), span["to"].as_u64()) {
                (Some(from), Some(to)) if to > from + 1 => format!("{from} to {}", to - 1),
                (Some(from), _) => from.to_string(),
                _ => "–".to_owned(),
            };
            format!(
                "<tr data-trajectory=\"{i}\" tabindex=\"0\"><td>{}</td><td>{}</td><td>{}</td><td>{steps} \
                 <small>({})</small></td></tr>\n",
                starts(i),
                result_number(&w["neutral"]),
                result_number(&w["value"]),
                result_number(&span["loss"]),
            )
        })
        .collect();
    format!(
        "<h3>The worst trajectories</h3>\n<p>Click on one to see it alone.</p>\n<div class=\"scroll\"><table class=\"worst\">\
         <thead><tr><th>start</th><th>without adversary</th><th>with adversary</th><th>costliest steps (loss)</th></tr>\
         </thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Where the pessimism comes from.
pub(in crate::report) fn pessimism(result: &Value, why: &Value) -> String {
    let trace = &why["trace"];
    let explanation = &result["explanation"];
    if trace.is_null() {
        return String::new();
    }
    let mut body = format!(
        "<p>Without an adversary these trajectories earn {} on average, with it {}: a loss of <b>{}</b>.</p>\n",
        result_number(&explanation["neutral"]),
        result_number(&explanation["hallucinated"]),
        result_number(&explanation["loss"])
    );
    body += &plot(
        "spans",
        0,
        "When the pushes that cost the return are made: what is lost more, if the adversary acts in these steps, too. The bars add \
         up to the whole loss. The line says when the rewards are missed.",
    );
    body += "<div class=\"grid\">\n";
    if list(&trace["pushes"][0]["effort"]).next().is_some() {
        body += &plot("effort", 0, "How hard the adversary pushes: 1 is the edge of the confidence set.");
    } else {
        body += &plot("members", 0, "Which particle the adversary chooses, as a share of the trajectories.");
    }
    body += &plot(
        "uncertainty",
        0,
        "How little the model knows where the adversary leads: σₑ in multiples of its median on logged data.",
    );
    body += "</div>\n";
    let losses: Vec<f64> = list(&explanation["loss_alone"]).filter_map(Value::as_f64).collect();
    let largest = losses.iter().copied().fold(0.0, f64::max);
    if !losses.is_empty() {
        let bars: String = list(&explanation["dimensions"])
            .zip(&losses)
            .map(|(d, &loss)| {
                let width = if largest > 0.0 { (100.0 * loss / largest).clamp(0.0, 100.0) } else { 0.0 };
                let name = escape(&state_name(result, d.as_u64().unwrap_or(0) as usize));
                format!(
                    "<div><span>{name}</span><div><i style=\"width:{width:.2}%\"></i></div><b>{}</b></div>\n",
                    number(loss)
                )
            })
            .collect();
        body += &format!(
            "<h3>By entry of the state</h3>\n<p>What is lost if the same adversary may push in this entry alone. Pushes help each \
             other, so these do not add up.</p>\n<div class=\"bars\">\n{bars}</div>\n"
        );
    }
    section("pessimism", "Where the pessimism comes from", &body)
}

/// Plain words for each region of a result's explanation.
pub(in crate::report) fn regions_in_words(result: &Value) -> Vec<String> {
    let side = |side: &Value| {
        let name = coordinate_name(result, side["coordinate"].as_u64().unwrap_or(0) as usize);
        match (side["low"].as_f64(), side["high"].as_f64()) {
            (Some(low), Some(high)) => format!("{name} is between {} and {}", brief(low), brief(high)),
            (Some(low), None) => format!("{name} is above {}", brief(low)),
            (None, Some(high)) => format!("{name} is at most {}", brief(high)),
            (None, None) => format!("{name} is anything"),
        }
    };
    let region = |region: &Value| {
        let sides: Vec<String> = list(&region["bounds"]["sides"]).map(side).collect();
        let dimension = region["least_known"][0].as_u64().unwrap_or(0) as usize;
        let transitions = result["data"]["transitions"].as_f64().unwrap_or(1.0);
        let logged = region["logged"].as_f64().unwrap_or(0.0);
        format!(
            "Log data where {}. Not knowing what happens there costs {} of the return ({} of the loss), though only {} of the \
             steps are there. {} of the logged transitions ({}) are; the model knows {} least, {} times worse than usual.",
            sides.join(" and "),
            result_number(&region["loss"]),
            percent(region["share"].as_f64().unwrap_or(0.0)),
            percent(region["visits"].as_f64().unwrap_or(0.0)),
            region["logged"],
            percent(logged / transitions),
            state_name(result, dimension),
            brief(region["least_known"][1].as_f64().unwrap_or(0.0)),
        )
    };
    list(&result["explanation"]["regions"]).map(region).collect()
}

/// Name of a coordinate of (s, a).
fn coordinate_name(result: &Value, coordinate: usize) -> String {
    let states = result["names"]["state"].as_array().map_or(0, Vec::len);
    match coordinate.checked_sub(states) {
        None => state_name(result, coordinate),
        Some(action) => result["names"]["action"][action].as_str().unwrap_or("action").to_owned(),
    }
}

/// What data would help.
pub(in crate::report) fn help(result: &Value, why: &Value) -> String {
    if why["trace"].is_null() {
        return String::new();
    }
    let [loss, neutral] = ["loss", "neutral"].map(|name| result["explanation"][name].as_f64().unwrap_or(0.0));
    let regions = regions_in_words(result);
    let mut body = String::new();
    if loss.abs() <= 0.01 * neutral.abs() {
        body += &format!(
            "<p>Uncertainty costs {} here, {} of the return: more data will hardly raise this bound.</p>\n",
            number(loss),
            percent(loss.abs() / neutral.abs().max(f64::MIN_POSITIVE))
        );
    }
    if regions.is_empty() {
        body += "<p>No region of states and actions stands out: what uncertainty costs is spread over all of them.</p>\n";
    } else {
        let items: String = regions.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
        body += &format!("<ol class=\"regions\">\n{items}</ol>\n");
    }
    section("help", "What data would help", &body)
}

/// Distributions of returns.
pub(in crate::report) fn distributions(why: &Value) -> String {
    if list(&why["distributions"]["methods"]).next().is_none() {
        return String::new();
    }
    let thinned = list(&why["distributions"]["methods"]).any(|m| m["counted"] == 100_000);
    let note = if thinned { " The first 100,000 trajectories of each method are counted." } else { "" };
    let caption = format!(
        "Returns of single trajectories, as shares of each method’s. Click on a method to hide or show it. Returns beyond the ends \
         (0.2 % on each side) are not drawn.{note}"
    );
    section("distributions", "How returns spread", &plot("distributions", 0, &caption))
}
