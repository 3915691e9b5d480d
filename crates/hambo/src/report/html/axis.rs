//! Numbers with their intervals as marks on one axis, in plain HTML: it is as wide as the screen and prints.

use crate::report::text::{escape, number};
use std::fmt::Write;

/// One line of marks.
pub(super) struct Row {
    /// What it is, as HTML.
    pub label: String,
    /// Numbers beside it, as HTML.
    pub figures: String,
    /// Class for its colors.
    pub class: &'static str,
    /// The point; none: not a finite number.
    pub value: Option<f64>,
    /// Half the width of the interval around it.
    pub margin: f64,
    /// The bound, where there is one: `Some(None)` is −∞.
    pub bound: Option<Option<f64>>,
    /// A mark of its own, such as the truth of this line.
    pub mark: Option<f64>,
}

/// A line through all rows.
pub(super) struct Line {
    pub name: &'static str,
    pub class: &'static str,
    pub value: f64,
}

pub(super) struct Axis {
    pub rows: Vec<Row>,
    pub lines: Vec<Line>,
    /// What is measured along it.
    pub unit: &'static str,
}

impl Axis {
    pub fn html(&self) -> String {
        let ends = self.rows.iter().flat_map(|row| {
            let value = row.value.map(|v| [v - row.margin, v + row.margin]);
            value.into_iter().flatten().chain(row.bound.flatten()).chain(row.mark)
        });
        let all: Vec<f64> = ends.filter(|x| x.is_finite()).collect();
        if all.is_empty() {
            return "<p>No estimate is a finite number.</p>".to_owned();
        }
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A line that is far off stands at the end of the axis, so that the estimates can still be told apart.
        let off = |x: f64| x < low - (high - low) || x > high + (high - low);
        let near = || self.lines.iter().map(|line| line.value).filter(|&x| !off(x));
        let (low, high) = (near().fold(low, f64::min), near().fold(high, f64::max));
        let margin = 0.06 * (high - low).max(1e-3 * high.abs().max(1e-3));
        let (low, high) = (low - margin, high + margin);
        let at = |x: f64| (100.0 * (x - low) / (high - low)).clamp(0.0, 100.0);

        let mut html = String::from("<div class=\"axis\">\n");
        let _ = write!(html, "<div class=\"row lines\"><span></span><div class=\"track\">");
        for (i, line) in self.lines.iter().enumerate() {
            let place = at(line.value);
            let side = if place > 50.0 { "left" } else { "right" };
            let (class, name, value) = (line.class, line.name, number(line.value));
            let (text, off) = match (off(line.value), side) {
                (false, _) => (format!("{name} {value}"), ""),
                (true, "left") => (format!("{name} {value} ►"), " off"),
                (true, _) => (format!("◄ {name} {value}"), " off"),
            };
            let _ = write!(
                html,
                "<span class=\"line-label {class} {side} level{i}{off}\" style=\"left:{place:.3}%\">{text}</span>"
            );
        }
        html.push_str("</div><span></span></div>\n");
        for row in &self.rows {
            let _ = write!(
                html,
                "<div class=\"row {}\"><span class=\"label\">{}</span><div class=\"track\">",
                row.class, row.label
            );
            for line in self.lines.iter().filter(|line| !off(line.value)) {
                let _ = write!(
                    html,
                    "<i class=\"line {}\" style=\"left:{:.3}%\"></i>",
                    line.class,
                    at(line.value)
                );
            }
            if let Some(value) = row.value {
                let (from, to) = (at(value - row.margin), at(value + row.margin));
                if let Some(bound) = row.bound {
                    let bound = bound.map_or(0.0, at);
                    let _ = write!(
                        html,
                        "<i class=\"reach\" style=\"left:{bound:.3}%;width:{:.3}%\"></i>",
                        (at(value) - bound).max(0.0)
                    );
                }
                let _ = write!(
                    html,
                    "<i class=\"interval\" style=\"left:{from:.3}%;width:{:.3}%\"></i><i class=\"point\" style=\"left:{:.3}%\"></i>",
                    to - from,
                    at(value)
                );
            }
            match row.bound {
                Some(Some(bound)) => {
                    let _ =
                        write!(html, "<i class=\"bound\" style=\"left:{:.3}%\"></i>", at(bound));
                }
                Some(None) => html.push_str("<b class=\"endless\">◄ -∞</b>"),
                None => {}
            }
            if let Some(mark) = row.mark {
                let _ = write!(html, "<i class=\"mark\" style=\"left:{:.3}%\"></i>", at(mark));
            }
            let _ = writeln!(html, "</div><span class=\"figures\">{}</span></div>", row.figures);
        }
        html.push_str("<div class=\"row ticks\"><span></span><div class=\"track\">");
        for tick in ticks(low, high) {
            let digits = decimals(low, high);
            let _ = write!(html, "<span style=\"left:{:.3}%\">{tick:.digits$}</span>", at(tick));
        }
        let _ =
            writeln!(html, "</div><span class=\"unit\">{}</span></div>\n</div>", escape(self.unit));
        html
    }
}

/// A round step that divides the axis into about five parts.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let multiples = [1.0, 2.0, 5.0, 10.0];
    power * multiples.into_iter().find(|m| m * power >= rough).unwrap_or(10.0)
}

fn decimals(low: f64, high: f64) -> usize {
    (-step(low, high).log10().floor()).clamp(0.0, 8.0) as usize
}

fn ticks(low: f64, high: f64) -> Vec<f64> {
    let step = step(low, high);
    if !(step > 0.0 && step.is_finite()) {
        return Vec::new();
    }
    let first = (low / step).ceil();
    (0..12)
        .map(|i| (first + f64::from(i)) * step)
        .filter(|&tick| tick <= high)
        .map(|t| t + 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(-124.5, -119.8), [-124.0, -123.0, -122.0, -121.0, -120.0]);
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(decimals(0.0, 1.0), 1);
        assert_eq!(decimals(-500.0, 0.0), 0);
        assert!(ticks(-1e300, 1e300).len() < 12);
    }

    #[test]
    fn a_line_that_is_far_off_does_not_squeeze_the_rest() {
        let row = |value: f64| Row {
            label: String::new(),
            figures: String::new(),
            class: "neutral",
            value: Some(value),
            margin: 0.0,
            bound: None,
            mark: None,
        };
        let line = |value: f64| Line { name: "threshold", class: "threshold", value };
        let html = |value: f64| {
            let rows = vec![row(-124.0), row(-119.0)];
            Axis { rows, lines: vec![line(value)], unit: "return" }.html()
        };
        assert!(
            html(-50.0).contains("threshold -50.00 ►")
                && !html(-50.0).contains("class=\"line threshold\"")
        );
        assert!(html(-150.0).contains("◄ threshold -150.00"));
        assert_eq!(html(-116.0).matches("class=\"line threshold\"").count(), 2);
    }

    #[test]
    fn an_endless_bound_stays_on_the_axis() {
        let row = |value, bound| Row {
            label: String::new(),
            figures: String::new(),
            class: "conservative",
            value,
            margin: 0.5,
            bound: Some(bound),
            mark: None,
        };
        let axis = Axis {
            rows: vec![row(Some(1.0), None), row(None, None)],
            lines: Vec::new(),
            unit: "return",
        };
        let html = axis.html();
        assert_eq!(html.matches("◄ -∞").count(), 2);
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        let nothing = Axis { rows: vec![row(None, None)], lines: Vec::new(), unit: "return" };
        assert!(nothing.html().contains("No estimate is a finite number"));
    }
}
