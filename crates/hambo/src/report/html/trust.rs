//! Whether to believe it, and what would be otherwise.

use super::{finite, plot, section};
use crate::adversary::SearchReport;
use crate::confidence::SetReport;
use crate::report::answer::Answer;
use crate::report::text::{brief, escape, number, percent};

/// Whether model and adversary can be trusted.
pub(super) fn trust(answer: &Answer) -> String {
    let mut body = String::from(
        "<p>The bound is right if the confidence set contains the truth and if the adversary is the worst one. Neither can be \
         proven from logs; this is what can be measured.</p>\n",
    );
    body += &answer
        .confidence_set
        .as_ref()
        .filter(|set| set.one_step_coverage.is_finite())
        .map_or(String::new(), size);
    body += "<div class=\"grid\">\n";
    if let Some(reliability) = answer.why.as_ref().and_then(|why| why.reliability.as_ref()) {
        body += &plot(
            "reliability",
            0,
            &format!(
                "Calibration, mean over entries: of what the model says is below its 30 % quantile, 30 % should be. Before and \
                 after recalibration by τ on {} held-out rows, and on {} others.",
                reliability.rows[0], reliability.rows[1]
            ),
        );
        body += &plot(
            "coverage",
            0,
            "Share of single held-out steps within the set, by its size β. The line is the size that was used.",
        );
    }
    if !answer.support.steps.is_empty() {
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
    let searches = [("ca", &answer.adversary), ("da1", &answer.adversary_da1)];
    for (i, (method, search)) in searches.into_iter().enumerate() {
        if search.as_ref().is_some_and(|search| search.curve.len() > 1) {
            let caption = format!(
                "The search for {method}’s adversary: lowest return found so far, on fixed seeds."
            );
            body += &plot("search", i, &caption);
        }
    }
    body += "</div>\n";
    let agreement = |(method, search): (&str, &Option<SearchReport>)| {
        search.as_ref().map_or(String::new(), |search| agreement(method, search))
    };
    section("trust", "Can this be trusted?", &(body + &searches.map(agreement).concat()))
}

/// How the confidence set was sized.
fn size(set: &SetReport) -> String {
    let beta =
        set.beta.and_then(finite).map_or(String::new(), |beta| format!(", β = {}", brief(beta)));
    let measured = set.trajectory.as_ref().map_or(String::new(), |t| {
        let level = t.level.map_or(String::new(), |level| format!(", at a level of {}", percent(level)));
        let neutral = t.tried.last().map_or(String::new(), |last| {
            let (mean, upper) = (number(last.mean), number(last.upper));
            format!(" Without an adversary the model overstates them by {mean}, at most by {upper}.")
        });
        format!(
            " Evidence: <b>{}</b>. {} of {} held-out episodes are near the policy; they were replayed in models that had \
             not seen them, with the policy in the loop{level}.{neutral}",
            t.evidence, t.near, t.episodes
        )
    });
    format!(
        "<p>The set was sized by the rule <b>{}</b>{beta}: it holds {} of single held-out steps.{measured}</p>\n",
        escape(&set.rule.to_string()),
        percent(set.one_step_coverage)
    )
}

/// How far the searches agree.
fn agreement(method: &str, search: &SearchReport) -> String {
    let rows: String = search
        .candidates
        .iter()
        .map(|c| {
            let optimizer = escape(&c.found_by.to_string());
            format!("<tr><td>{optimizer} {}</td><td>{}</td></tr>\n", c.index + 1, number(c.value))
        })
        .collect();
    let converged = match search.converged {
        true => "The lowest value had stopped falling.",
        false => {
            "<b>The lowest value was still falling: a longer search may find a lower return.</b>"
        }
    };
    format!(
        "<details><summary>How far the searches for {method}’s adversary agree</summary>\n<p>{converged} Without an adversary: {}; \
         lowest: {}.</p>\n<div class=\"scroll\"><table><thead><tr><th>search</th><th>lowest return, on fixed seeds</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div></details>\n",
        number(search.neutral),
        number(search.lowest)
    )
}

/// What would be if.
pub(super) fn curves(answer: &Answer) -> String {
    let Some(curves) = &answer.curves else { return String::new() };
    let points = [&curves.horizon, &curves.beta, &curves.data];
    let captions = [
        "The bound by the horizon, each with a search of its own.",
        "By the size of the confidence set, from none (neutral) on; a larger set never raises it.",
        "By the amount of data, whole episodes chosen at random, each with a model of its own.",
    ];
    let plots: String = points
        .into_iter()
        .zip(captions)
        .enumerate()
        .filter(|(_, (points, _))| !points.is_empty())
        .map(|(i, (_, caption))| plot("curve", i, caption))
        .collect();
    let notes: String = curves
        .notes
        .iter()
        .map(|note| format!("<p class=\"caption\">{}</p>", escape(&note.to_string())))
        .collect();
    section("curves", "What if?", &format!("<div class=\"grid\">\n{plots}</div>\n{notes}"))
}
