//! The parts of the page, from top to bottom: what a reader must decide first, why after that, how to repeat it last.

use super::axis::{Line, Row};
use super::text::{brief, escape, number, percent, result_number, shorten};
use super::{Axis, headline, is_conservative};
use crate::stats::normal_quantile;
use serde_json::Value;

/// Intervals on the axis are this many standard errors to both sides: 95 %.
fn two_sided() -> f64 {
    normal_quantile(0.975)
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// A place that the script fills, and the words below it.
fn plot(kind: &str, index: usize, caption: &str) -> String {
    format!(
        "<figure><div class=\"plot\" data-plot=\"{kind}\" data-index=\"{index}\"></div>\
         <figcaption>{caption}</figcaption></figure>\n"
    )
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn words(value: &Value) -> String {
    escape(value.as_str().unwrap_or("?"))
}

/// Name of an entry of the state, or of what a learned reward has paid.
fn state_name(result: &Value, dimension: usize) -> String {
    result["names"]["state"][dimension].as_str().unwrap_or("learned reward").to_owned()
}

/// Name of a coordinate of (s, a).
fn coordinate_name(result: &Value, coordinate: usize) -> String {
    let states = result["names"]["state"].as_array().map_or(0, Vec::len);
    match coordinate.checked_sub(states) {
        None => state_name(result, coordinate),
        Some(action) => result["names"]["action"][action].as_str().unwrap_or("action").to_owned(),
    }
}

fn tile(title: &str, figure: &str, below: &str) -> String {
    let below = below.replace(" %", "\u{a0}%"); // the sign stays with its number
    format!("<div class=\"tile\"><span>{title}</span><b>{figure}</b><small>{below}</small></div>\n")
}

/// What is to be decided, in plain words.
pub(super) fn verdict(result: &Value) -> String {
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

/// Every warning, with the advice that is part of it.
pub(super) fn warnings(result: &Value) -> String {
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

/// All methods on one axis.
pub(super) fn estimates(result: &Value) -> String {
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

/// Truth and threshold.
fn lines(result: &Value) -> Vec<Line> {
    let line = |name, class, value: &Value| value.as_f64().map(|value| Line { name, class, value });
    let truth = line("truth", "truth", &result["truth"]["value"]);
    truth.into_iter().chain(line("threshold", "threshold", &result["threshold"])).collect()
}

/// Further rewards with bounds of their own.
pub(super) fn constraints(result: &Value) -> String {
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

/// Trajectories with and without the adversary.
pub(super) fn trajectories(result: &Value, why: &Value) -> String {
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
    let bands: String = list(&trace["dimensions"])
        .enumerate()
        .map(|(i, d)| {
            let name = escape(&state_name(result, d.as_u64().unwrap_or(0) as usize));
            plot("band", i, &format!("{name} over the steps: median and 90 % of the trajectories"))
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
pub(super) fn pessimism(result: &Value, why: &Value) -> String {
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
pub(super) fn regions_in_words(result: &Value) -> Vec<String> {
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

/// What data would help.
pub(super) fn help(result: &Value, why: &Value) -> String {
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
pub(super) fn distributions(why: &Value) -> String {
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

/// Whether model and adversary can be trusted.
pub(super) fn trust(result: &Value, why: &Value) -> String {
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
                " On {} segments of {} steps from {} held-out episodes its worst return was not above the logged one at a level of {}.",
                t["segments"],
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
pub(super) fn curves(curves: &Value) -> String {
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
pub(super) fn repeat(result: &Value, command: &str) -> String {
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

/// Policies on one axis, the best bound first.
pub(super) fn ranking(result: &Value) -> String {
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
            label: format!("<b>{}. {}</b><small>{}</small>", i + 1, words(&p["policy"]), verdict_word(p)),
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
pub(super) fn scores(result: &Value) -> String {
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
