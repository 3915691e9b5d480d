//! What is to be decided, and the numbers behind it.

use super::axis::{Axis, Line, Row};
use super::{finite, section};
use crate::evaluate::{Method, Warning};
use crate::report::answer::Answer;
use crate::report::terminal::TOP;
use crate::report::text::{escape, number, percent, two_sided};
use crate::report::verdict::{Verdict, bound_text, worst_share};

/// What is to be decided, in plain words.
pub(super) fn verdict(answer: &Answer) -> String {
    let method = answer.first().map_or("?", |first| first.method.name());
    let (policy, task) = (escape(&answer.policy), escape(&answer.setup.task));
    let data = &answer.setup.data;
    let class = answer.verdict.map_or("", Verdict::class);
    let lead = [bound_in_words(answer, method), threshold(answer), truth(answer)].concat();
    let (tiles, notes) = (tiles(answer, method), top_warnings(&answer.warnings));
    format!(
        "<header class=\"verdict {class}\" id=\"verdict\">\n<p class=\"kicker\">hambo: {policy} on {task}, from {} logged transitions in {} episodes</p>\n\
         <h1 id=\"headline\">{}</h1>\n{lead}\n{notes}</header>\n<div class=\"tiles\">\n{tiles}</div>\n",
        data.transitions,
        data.episodes,
        escape(&answer.headline())
    )
}

fn bound_in_words(answer: &Answer, method: &str) -> String {
    let (policy, task) = (escape(&answer.policy), escape(&answer.setup.task));
    let horizon = answer.setup.horizon;
    let steps = if horizon == 1 { "step" } else { "steps" };
    let standing = answer.standing();
    let bound = answer.bound_text();
    let earns =
        answer.setup.risk.map_or(String::new(), |share| format!(" in {}", worst_share(share)));
    match (answer.is_conservative(), answer.finite_bound().is_none()) {
        (false, _) => format!(
            "<p>Method <b>{method}</b> was asked for first. It is a neutral estimate, which may be too high as well as \
             too low: nothing here bounds the return of <b>{policy}</b>.</p>"
        ),
        (true, true) => format!(
            "<p>Given only what the logs know, <b>{policy}</b> could do arbitrarily badly on <b>{task}</b>: there is no \
             finite bound.</p>"
        ),
        (true, false) if answer.first().is_some_and(|first| first.converged == Some(false)) => {
            format!(
                "<p>The search for the worst future had not ended: it had found <b>{bound}</b> for <b>{policy}</b> on <b>{task}</b> in \
             {horizon} {steps}, and a longer one may find less. Nothing is shown yet.</p>"
            )
        }
        (true, false) if answer.vacuous => format!(
            "<p>The bound, <b>{bound}</b>, is vacuous: it is no better than the worst reward, logged or declared, at every step, \
             which makes {}. The logs leave open whatever <b>{policy}</b> may do on <b>{task}</b>.</p>",
            number(answer.first().map_or(f64::NAN, |first| first.floor))
        ),
        (true, false) if !answer.first().is_some_and(|first| first.is_shown()) => format!(
            "<p>In the worst future that a large set around the model allows, <b>{policy}</b> earns <b>{bound}</b> on \
             <b>{task}</b> in {horizon} {steps}{earns}. No logged episodes show that this holds in the world: the bound is \
             {standing}; see <a href=\"#trust\">below</a>.</p>"
        ),
        (true, false) => format!(
            "<p>Given only what the logs know, <b>{policy}</b> is expected to earn at least <b>{bound}</b> on \
             <b>{task}</b> in {horizon} {steps}{earns}, even if the world is as unkind as the model’s uncertainty allows \
             ({standing}, under the assumptions <a href=\"#trust\">below</a>).</p>"
        ),
    }
}

/// Whether the bound reaches what was asked for.
fn threshold(answer: &Answer) -> String {
    let Some(threshold) = answer.setup.threshold.filter(|_| answer.is_conservative()) else {
        return String::new();
    };
    let reached = answer.finite_bound().is_some_and(|bound| bound >= threshold);
    let told = match (answer.meets(threshold), reached) {
        (true, _) => "The bound reaches",
        (false, true) => "The bound would reach",
        (false, false) => "The bound does not reach",
    };
    let meaning =
        answer.verdict.map_or(String::new(), |verdict| sentence(verdict.meaning(answer.evidence)));
    format!("<p>{told} the <b>{}</b> that was asked for. {meaning}</p>", number(threshold))
}

/// Words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map_or(String::new(), |letter| letter.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str())
}

/// What a simulator says, and whether the bound holds.
fn truth(answer: &Answer) -> String {
    let Some(truth) = answer.finite_truth() else { return String::new() };
    let holds = match (answer.finite_bound(), answer.is_conservative()) {
        (_, false) => "",
        (Some(bound), true) if bound > truth.value => {
            " <b>The bound is above it: it does not hold here.</b>"
        }
        _ => " The bound holds.",
    };
    format!(
        "<p>For once the truth is known: {} ± {}, by simulation of {} episodes.{holds}</p>",
        number(truth.value),
        number(truth.std_error),
        truth.episodes
    )
}

/// The most important numbers.
fn tiles(answer: &Answer, method: &str) -> String {
    let mut tiles = String::new();
    if answer.is_conservative() {
        let confidence = answer.short_standing();
        tiles += &tile("lower bound", &answer.bound_text(), &format!("{method}, {confidence}"));
    }
    if answer.waterfall.is_empty()
        && let Some(neutral) = answer.estimates.iter().find(|e| !e.method.is_conservative())
    {
        let below = format!("{}, nothing assumed unkind", neutral.method.name());
        tiles += &tile("neutral estimate", &number(neutral.value), &below);
    }
    if answer.is_conservative() {
        let (largest, below) = match answer.largest_threshold.and_then(finite) {
            Some(bound) => (number(bound), "the largest threshold met"),
            None => ("none".to_owned(), "not enough evidence"),
        };
        tiles += &tile("would meet", &largest, below);
    }
    let logged = &answer.logged_return;
    let below = match logged.shorter {
        0 => format!("mean of {} episodes", logged.episodes),
        shorter => format!("{shorter} of {} episodes are shorter", logged.episodes),
    };
    tiles += &tile("logged behavior earned", &number(logged.value), &below);
    if let Some(risk) = answer.first().and_then(|first| first.risk.as_ref()) {
        let (figure, below) = match &risk.below_threshold {
            Some(share) => {
                (percent(share.value), "of returns below the threshold, under the adversary")
            }
            None => (number(risk.cvar_5.value), "CVaR at 5 %, under the adversary"),
        };
        tiles += &tile("risk in the model", &figure, below);
    }
    if let Some(truth) = answer.finite_truth() {
        let below = answer.setup.risk.map_or("by simulation".to_owned(), worst_share);
        tiles += &tile("true return", &number(truth.value), &below);
    }
    let outside = &answer.support.outside;
    if !outside.is_empty() {
        let share = outside.iter().sum::<f64>() / outside.len() as f64;
        tiles += &tile("outside the data", &percent(share), "of predicted states");
    }
    tiles
}

fn tile(title: &str, figure: &str, below: &str) -> String {
    let below = below.replace(" %", "\u{a0}%"); // the sign stays with its number
    format!("<div class=\"tile\"><span>{title}</span><b>{figure}</b><small>{below}</small></div>\n")
}

/// The warnings that matter most, with the advice that is part of them.
pub(super) fn top_warnings(warnings: &[Warning]) -> String {
    match warnings.is_empty() {
        true => "<p class=\"quiet\">No notes.</p>\n".to_owned(),
        false => list("warnings", &warnings[..warnings.len().min(TOP)]),
    }
}

/// All others.
pub(super) fn other_warnings(warnings: &[Warning]) -> String {
    match warnings.get(TOP..) {
        None | Some([]) => String::new(),
        Some(others) => section("other-warnings", "Further notes", &list("more-warnings", others)),
    }
}

fn list(id: &str, warnings: &[Warning]) -> String {
    let one = |w: &Warning| {
        let (rank, text) = (w.rank(), escape(&w.to_string()));
        format!("<li class=\"{rank}\"><b>{rank}</b> {text}</li>\n")
    };
    let items: String = warnings.iter().map(one).collect();
    format!("<ul class=\"warnings\" id=\"{id}\">\n{items}</ul>\n")
}

/// All methods on one axis.
pub(super) fn estimates(answer: &Answer) -> String {
    let rows = answer.estimates.iter().map(|e| {
        let conservative = e.method.is_conservative();
        let figures = match conservative {
            true => format!(
                "bound <b>{}</b><br><small>estimate {}</small>",
                bound_text(e.lower_bound),
                number(e.value)
            ),
            false => format!("<small>estimate</small> {}", number(e.value)),
        };
        Row {
            label: format!("<b>{}</b><small>{}</small>", e.method.name(), meaning(e.method)),
            figures,
            class: if conservative { "conservative" } else { "neutral" },
            value: finite(e.value),
            margin: two_sided() * finite(e.std_error).unwrap_or(0.0),
            bound: conservative.then(|| e.lower_bound.and_then(finite)),
            mark: None,
        }
    });
    let truth =
        answer.finite_truth().map(|t| Line { name: "truth", class: "truth", value: t.value });
    let lines = truth.into_iter().chain(threshold_line(answer.setup.threshold)).collect();
    let axis = Axis { rows: rows.collect(), lines, unit: "return" };
    let caption = "<p class=\"caption\">Points are estimates, bars around them 95 % of their Monte-Carlo error. A \
                   conservative method’s bound, ▏, lies below its estimate by a margin for that error. Neutral methods bound \
                   nothing.</p>\n";
    section("estimates", "All estimates on one axis", &(axis.html() + caption))
}

fn meaning(method: Method) -> &'static str {
    match method {
        Method::Ca => "worst case inside the confidence set",
        Method::Da1 => "worst particle at every step",
        Method::DaInf => "worst particle throughout",
        Method::Ds => "one Gaussian for all that is unknown",
        Method::Ts1 => "a random particle every step",
        Method::TsInf => "a random particle per trajectory",
        Method::Mean => "mean prediction, no noise",
    }
}

pub(super) fn threshold_line(threshold: Option<f64>) -> Option<Line> {
    threshold.map(|value| Line { name: "threshold", class: "threshold", value })
}

/// Further rewards with bounds of their own.
pub(super) fn constraints(answer: &Answer) -> String {
    let rows: String = answer
        .constraints
        .iter()
        .map(|c| {
            let verdict = Verdict::of_constraint(c).map_or("–".to_owned(), |verdict| {
                let class = if verdict.passes() { "good" } else { "bad" };
                format!("<b class=\"{class}\">{}</b>", verdict.words())
            });
            let threshold = c.threshold.map_or("–".to_owned(), number);
            let bound = bound_text(c.lower_bound);
            format!(
                "<tr><td>{}</td><td><code>{}</code></td><td>{bound}</td><td>{threshold}</td><td>{verdict}</td></tr>\n",
                escape(&c.name),
                escape(&c.expression)
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let each = percent(1.0 - answer.delta_each);
    let all = percent(1.0 - answer.setup.delta);
    let body = format!(
        "<div class=\"scroll\"><table><thead><tr><th>constraint</th><th>sum of</th><th>lower bound</th><th>threshold</th>\
         <th>verdict</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n<p class=\"caption\">A bound that is shown has a \
         confidence of {each}, so that all that are hold together with {all}.</p>\n"
    );
    section("constraints", "Constraints", &body)
}
