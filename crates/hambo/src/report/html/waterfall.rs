//! From the neutral estimate to the bound, as bars that begin where the one before ends.

use super::{finite, section};
use crate::report::answer::Answer;
use crate::report::beside;
use crate::report::text::{escape, number};
use crate::report::verdict::worst_share;
use crate::report::waterfall::printed;

/// The steps from the neutral estimate to the bound; nothing where there is no finite bound.
pub(super) fn waterfall(answer: &Answer) -> String {
    let steps = &answer.waterfall;
    let Some(last) = steps.last() else { return String::new() };
    let scale = Scale::of(answer);
    let lines = scale.lines();
    let mut before = None;
    let mut rows = String::new();
    for (step, [name, by, change, level]) in steps.iter().zip(printed(steps)) {
        let bar = match before.replace(step.level) {
            None => format!("<i class=\"point\" style=\"left:{:.2}%\"></i>", scale.at(step.level)),
            Some(from) => {
                let (left, right) =
                    (scale.at(from.min(step.level)), scale.at(from.max(step.level)));
                let class = if step.level > from { "bar gained" } else { "bar" };
                format!(
                    "<i class=\"{class}\" style=\"left:{left:.2}%;width:{:.2}%\"></i>",
                    right - left
                )
            }
        };
        let figure = if change.is_empty() { level } else { change };
        let class = if step.name == "neutral estimate" { "neutral" } else { "conservative" };
        rows += &row(class, [&name, &by], &format!("{lines}{bar}"), &figure);
    }
    let bound =
        format!("{lines}<i class=\"bound\" style=\"left:{:.2}%\"></i>", scale.at(last.level));
    let figure = printed(steps).pop().map_or(String::new(), |[.., level]| level);
    rows += &row(
        "conservative",
        ["lower bound", &answer.short_standing()],
        &bound,
        &format!("<b>{figure}</b>"),
    );
    let caption =
        format!("<p class=\"caption\">The parts add up to the bound. {}</p>\n", scale.legend());
    let body = format!("<div class=\"axis steps\">\n{rows}</div>\n{caption}");
    section("waterfall", "From the estimate to the bound", &body)
}

fn row(class: &str, [name, by]: [&str; 2], track: &str, figure: &str) -> String {
    format!(
        "<div class=\"row {class}\"><span class=\"label\"><b>{name}</b><small>{}</small></span><div class=\"track\">{track}</div>\
         <span class=\"figures\">{figure}</span></div>\n",
        escape(by)
    )
}

/// Where returns are on the tracks: the threshold, the logged return and the truth are always among them.
struct Scale {
    low: f64,
    high: f64,
    /// Name, class and value.
    marks: Vec<(&'static str, &'static str, f64)>,
}

impl Scale {
    fn of(answer: &Answer) -> Self {
        let mut marks = Vec::new();
        let mut mark = |name, class, value: Option<f64>| {
            marks.extend(value.and_then(finite).map(|value| (name, class, value)));
        };
        mark("threshold", "threshold", answer.setup.threshold);
        mark("what the logged behavior earned", "logged", Some(answer.logged_return.value));
        mark("truth", "truth", answer.finite_truth().map(|truth| truth.value));
        let levels = answer.waterfall.iter().map(|step| step.level);
        let all: Vec<f64> = levels.chain(marks.iter().map(|&(_, _, value)| value)).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let room = 0.04 * (high - low).max(1e-9 * high.abs().max(1.0));
        Scale { low: low - room, high: high + room, marks }
    }

    /// In percent of the track.
    fn at(&self, value: f64) -> f64 {
        100.0 * (value - self.low) / (self.high - self.low)
    }

    fn lines(&self) -> String {
        let line = |&(_, class, value): &(&str, &str, f64)| {
            format!("<i class=\"line {class}\" style=\"left:{:.2}%\"></i>", self.at(value))
        };
        self.marks.iter().map(line).collect()
    }

    fn legend(&self) -> String {
        let line = |&(name, class, value): &(&str, &str, f64)| {
            format!("<span class=\"mark-name {class}\">{name}&nbsp;{}</span>", number(value))
        };
        let lines: String = self.marks.iter().map(line).collect();
        format!("Lines:{lines}")
    }
}

/// What single episodes risk under the adversary.
pub(super) fn risk(answer: &Answer) -> String {
    let rows: String = beside::risks(answer)
        .iter()
        .map(|[name, figure, interval]| {
            format!("<tr><td>{}</td><td>{figure}</td><td>{interval}</td></tr>\n", escape(name))
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let rollouts = answer.first().map_or(0, |first| first.rollouts);
    let about = answer.setup.risk.map_or("the mean of returns".to_owned(), worst_share);
    let body = format!(
        "<div class=\"scroll\"><table><thead><tr><th>under the adversary, in the model</th><th>figure</th><th>95 % interval</th>\
         </tr></thead><tbody>\n{rows}</tbody></table></div>\n<p class=\"caption\">The bound is about {about}; this is about \
         single episodes, in the {rollouts} rollouts that it was measured on. Intervals are of the Monte-Carlo error alone: \
         Clopper–Pearson’s for the probability, for CVaR by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, which \
         assumes nothing about the distribution. They say nothing about the world.</p>\n"
    );
    section("risk", "What single episodes risk", &body)
}
