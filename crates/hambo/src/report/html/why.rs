//! Why the bound is what it is, and what would raise it.

use super::{plot, section};
use crate::explain::trace::{Trace, Worst};
use crate::report::answer::{Answer, Explanation};
use crate::report::text::{brief, escape, number, percent};

fn trace(answer: &Answer) -> Option<&Trace> {
    answer.why.as_ref()?.trace.as_ref()
}

/// Trajectories with and without the adversary.
pub(super) fn trajectories(answer: &Answer) -> String {
    let Some(trace) = trace(answer) else { return String::new() };
    let samples = &trace.neutral.samples;
    let set = match samples.first() {
        Some(sample) if !sample.reach.is_empty() => {
            "<button type=\"button\" data-toggle=\"sets\" aria-pressed=\"true\">confidence sets</button>"
        }
        _ => "",
    };
    let mut body = format!(
        "<p>The same {n} trajectories, with the same starts and the same noise, without an adversary \
         (<span class=\"key neutral\"></span>) and with the one that was found (<span class=\"key hallucinated\"></span>). \
         {shown} of them are drawn, the five worst among them.</p>\n\
         <div class=\"toggles\"><button type=\"button\" data-toggle=\"neutral\" aria-pressed=\"true\">without adversary</button>\
         <button type=\"button\" data-toggle=\"hallucinated\" aria-pressed=\"true\">with adversary</button>\
         <button type=\"button\" data-toggle=\"samples\" aria-pressed=\"true\">single trajectories</button>{set}</div>\n",
        n = trace.trajectories,
        shown = samples.len(),
    );
    if let Some(plane) = &trace.plane {
        let shaded = match plane.rewards.is_empty() {
            false => "; the shading is the reward, darker where it is lower",
            true => "",
        };
        body += &plot(
            "plane",
            0,
            &format!(
                "States in the plane. Gray points are logged states{shaded}. Mark a part to enlarge it, click twice to go back."
            ),
        );
    }
    let violet = match set.is_empty() {
        true => "",
        false => "; violet: the confidence set along the worst of them",
    };
    let bands: String = trace
        .dimensions
        .iter()
        .enumerate()
        .map(|(i, &d)| {
            let name = escape(answer.setup.names.of_state(d));
            plot(
                "band",
                i,
                &format!("{name} over the steps: median and 90 % of the trajectories{violet}."),
            )
        })
        .collect();
    let bands = format!("<div class=\"grid\">\n{bands}</div>\n");
    body += &match trace.plane.is_some() {
        true => {
            format!("<details><summary>The same, entry by entry</summary>\n{bands}</details>\n")
        }
        false => bands,
    };
    let (shown, all) = (trace.dimensions.len(), trace.all_dimensions);
    if shown < all {
        body += &format!(
            "<p class=\"caption\">{shown} of {all} entries of the state are shown: those that the adversary pushes most.</p>\n"
        );
    }
    body += &worst(answer, trace);
    section("trajectories", "What could go wrong", &body)
}

fn worst(answer: &Answer, trace: &Trace) -> String {
    let start = |i: usize| {
        let first = trace.hallucinated.samples.get(i).and_then(|sample| sample.states.first());
        let entries = trace.dimensions.iter().zip(first.into_iter().flatten()).take(4);
        let texts = entries.map(|(&d, &x)| {
            format!("{} {}", escape(answer.setup.names.of_state(d)), brief(f64::from(x)))
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let row = |(i, w): (usize, &Worst)| {
        let span = &w.costliest;
        let steps = match span.to > span.from + 1 {
            true => format!("{} to {}", span.from, span.to - 1),
            false => span.from.to_string(),
        };
        format!(
            "<tr data-trajectory=\"{i}\" tabindex=\"0\"><td>{}</td><td>{}</td><td>{}</td><td>{steps} \
             <small>({})</small></td></tr>\n",
            start(i),
            number(w.neutral),
            number(w.value),
            number(span.loss),
        )
    };
    let rows: String = trace.worst.iter().enumerate().map(row).collect();
    format!(
        "<h3>The worst trajectories</h3>\n<p>Click on one to see it alone.</p>\n<div class=\"scroll\"><table class=\"worst\">\
         <thead><tr><th>start</th><th>without adversary</th><th>with adversary</th><th>costliest steps (loss)</th></tr>\
         </thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Where the pessimism comes from.
pub(super) fn pessimism(answer: &Answer) -> String {
    let (Some(trace), Some(explanation)) = (trace(answer), &answer.explanation) else {
        return String::new();
    };
    let mut body = format!(
        "<p>Without an adversary these trajectories earn {} on average, with it {}: a loss of <b>{}</b>.</p>\n",
        number(explanation.neutral),
        number(explanation.hallucinated),
        number(explanation.loss)
    );
    body += &plot(
        "spans",
        0,
        "When the pushes that cost the return are made: what is lost more, if the adversary acts in these steps, too. The bars add \
         up to the whole loss. The line says when the rewards are missed.",
    );
    body += "<div class=\"grid\">\n";
    if trace.pushes.first().is_some_and(|push| !push.effort.is_empty()) {
        body += &plot(
            "effort",
            0,
            "How hard the adversary pushes: 1 is the edge of the confidence set.",
        );
    } else {
        body += &plot(
            "members",
            0,
            "Which particle the adversary chooses, as a share of the trajectories.",
        );
    }
    body += &plot(
        "uncertainty",
        0,
        "How little the model knows where the adversary leads: σₑ in multiples of its median on logged data.",
    );
    body += "</div>\n";
    body += &by_entry(answer, explanation);
    section("pessimism", "Where the pessimism comes from", &body)
}

/// What pushes in single entries of the state cost.
fn by_entry(answer: &Answer, explanation: &Explanation) -> String {
    let pairs = explanation.dimensions.iter().zip(&explanation.loss_alone);
    let losses: Vec<(&usize, &f64)> = pairs.filter(|(_, loss)| loss.is_finite()).collect();
    if losses.is_empty() {
        return String::new();
    }
    let largest = losses.iter().map(|(_, loss)| **loss).fold(0.0, f64::max);
    let bar = |(&d, &loss): (&usize, &f64)| {
        let width = if largest > 0.0 { (100.0 * loss / largest).clamp(0.0, 100.0) } else { 0.0 };
        let name = escape(answer.setup.names.of_state(d));
        format!(
            "<div><span>{name}</span><div><i style=\"width:{width:.2}%\"></i></div><b>{}</b></div>\n",
            number(loss)
        )
    };
    let bars: String = losses.into_iter().map(bar).collect();
    format!(
        "<h3>By entry of the state</h3>\n<p>What is lost if the same adversary may push in this entry alone. Pushes help each \
         other, so these do not add up.</p>\n<div class=\"bars\">\n{bars}</div>\n"
    )
}

/// What data would help.
pub(super) fn help(answer: &Answer) -> String {
    let Some(explanation) = &answer.explanation else { return String::new() };
    let (loss, neutral) = (explanation.loss, explanation.neutral);
    let regions = answer.regions_in_words();
    let mut body = String::new();
    if loss.abs() <= 0.01 * neutral.abs() {
        body += &format!(
            "<p>Uncertainty costs {} here, {} of the return: more data will hardly raise this bound.</p>\n",
            number(loss),
            percent(loss.abs() / neutral.abs().max(f64::MIN_POSITIVE))
        );
    }
    if regions.is_empty() && !explanation.regions.is_empty() {
        body += "<p>No region of states and actions costs more than the Monte-Carlo error of the estimate: data would hardly help.</p>\n";
    } else if regions.is_empty() {
        body += "<p>No region of states and actions stands out: what uncertainty costs is spread over all of them.</p>\n";
    } else {
        let items: String =
            regions.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
        body += &format!("<ol class=\"regions\">\n{items}</ol>\n");
    }
    section("help", "What data would help", &body)
}

/// Distributions of returns.
pub(super) fn distributions(answer: &Answer) -> String {
    let methods = answer.why.as_ref().map_or(&[][..], |why| &why.distributions.methods);
    if methods.is_empty() {
        return String::new();
    }
    let thinned = methods.iter().any(|m| m.counted == 100_000);
    let note =
        if thinned { " The first 100,000 trajectories of each method are counted." } else { "" };
    let caption = format!(
        "Returns of single trajectories, as shares of each method’s. Click on a method to hide or show it. Returns beyond the ends \
         (0.2 % on each side) are not drawn.{note}"
    );
    section("distributions", "How returns spread", &plot("distributions", 0, &caption))
}
