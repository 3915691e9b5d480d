//! Several policies.

use super::axis::{Axis, Row};
use super::lead::{threshold_line, top_warnings};
use super::{finite, section};
use crate::report::ranking::Ranking;
use crate::report::text::{escape, number, percent, two_sided};
use crate::report::verdict::{Verdict, bound_text};

/// Policies on one axis, the best bound first.
pub(super) fn policies(ranking: &Ranking) -> String {
    let Ranking { setup, policies, .. } = ranking;
    let rows = policies.iter().enumerate().map(|(i, p)| {
        let (first, conservative, truth) = (p.first(), p.is_conservative(), p.finite_truth());
        let value = first.map(|first| first.value);
        let truth_text =
            truth.map_or(String::new(), |t| format!("<br><small>truth {}</small>", number(t)));
        let figures = match conservative {
            true => format!("bound <b>{}</b>{truth_text}", p.bound_text()),
            false => format!("estimate <b>{}</b>{truth_text}", bound_text(value)),
        };
        Row {
            label: format!(
                "<b>{}. {}</b><small>{}</small>",
                i + 1,
                escape(&p.name),
                verdict_word(p.verdict)
            ),
            figures,
            class: if conservative { "conservative" } else { "neutral" },
            value: value.and_then(finite),
            margin: two_sided() * first.and_then(|first| finite(first.std_error)).unwrap_or(0.0),
            bound: conservative.then(|| p.lower_bound.and_then(finite)),
            mark: truth,
        }
    });
    let lines = threshold_line(setup.threshold).into_iter().collect();
    let axis = Axis { rows: rows.collect(), lines, unit: "return" };
    let [all, each] =
        [setup.delta, ranking.delta_each.unwrap_or(0.0)].map(|delta| percent(1.0 - delta));
    let confidence = match policies
        .iter()
        .filter(|p| p.first().is_some_and(|e| e.is_shown()))
        .count()
    {
        0 => "<p>None of the bounds is shown by the logs at a confidence.</p>".to_owned(),
        shown => format!(
            "<p>{shown} of {} bounds are shown by the logs. Together they hold with a confidence of {all}, each with {each}, under \
             the assumptions of docs/guarantees.md.</p>",
            policies.len()
        ),
    };
    let notes = top_warnings(&ranking.warnings);
    let truth = match policies.iter().any(|p| p.truth.is_some()) {
        true => " ◆ is the true return, by simulation.",
        false => "",
    };
    format!(
        "<header class=\"verdict {}\" id=\"verdict\">\n<p class=\"kicker\">hambo: {} policies on {}</p>\n\
         <h1 id=\"headline\">{}</h1>\n{confidence}{notes}</header>\n",
        ranking.verdict.map_or("", Verdict::class),
        policies.len(),
        escape(&setup.task),
        escape(&ranking.headline())
    ) + &section(
        "estimates",
        "All policies on one axis",
        &(axis.html()
            + &format!(
                "<p class=\"caption\">▏ is the bound, the point the estimate it is made from.{truth}</p>\n"
            )),
    )
}

fn verdict_word(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Meets) => "meets the threshold",
        Some(Verdict::NotShown) => "not shown to reach the threshold",
        Some(Verdict::NotEnoughEvidence) => "not enough evidence",
        None => "",
    }
}

/// How well each method ranked, where the truth is known.
pub(super) fn scores(ranking: &Ranking) -> String {
    let rows: String = ranking
        .scores
        .iter()
        .map(|s| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                s.method.name(),
                s.spearman.map_or("–".to_owned(), |x| format!("{x:.3}")),
                number(s.regret_at_1),
                percent(s.violation_rate),
                number(s.gap)
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
