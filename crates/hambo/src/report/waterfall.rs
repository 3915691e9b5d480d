//! From the neutral estimate down to the bound, in steps that add up.

use super::text::number;
use crate::evaluate::{Estimate, Method};
use serde::Serialize;

/// One step on the way from the neutral estimate to the bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What it is.
    pub name: &'static str,
    /// What it adds to the return, mostly below 0; none for the estimate that it all begins with.
    pub change: Option<f64>,
    /// The return after it; the last one is the bound.
    pub level: f64,
    /// Of which method, or what for.
    pub by: &'static str,
}

/// The steps from the neutral estimate to the bound of the method asked for first; none where there is no finite bound.
pub(super) fn waterfall(estimates: &[Estimate]) -> Vec<Step> {
    let Some(first) = estimates.first() else { return Vec::new() };
    let Some(bound) = first.lower_bound.filter(|bound| bound.is_finite()) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    let mut add = |name, by, level: f64| {
        let change = steps.last().map(|last: &Step| level - last.level);
        steps.push(Step { name, change, level, by });
    };
    match neutral(first, estimates) {
        Some((method, value)) => {
            add("neutral estimate", method, value);
            add("lost to the adversary", first.method.name(), first.value);
        }
        None => add("estimate under the adversary", first.method.name(), first.value),
    }
    add("calibration", "what no set covers", first.value - first.subtracted);
    let starts = if first.starts_margin > 0.0 { "rollouts, logged starts" } else { "rollouts" };
    add("Monte Carlo and starts", starts, bound);
    steps
}

/// The neutral estimate that an adversary is held against: without it, on the same starts.
fn neutral(first: &Estimate, estimates: &[Estimate]) -> Option<(&'static str, f64)> {
    let without = match first.method {
        Method::Ca => Method::Ds,
        Method::Da1 => Method::Ts1,
        Method::DaInf => Method::TsInf,
        _ => return None,
    };
    let asked = estimates.iter().find(|e| e.method == without).map(|e| e.value);
    let value = asked.or(first.neutral).filter(|value| value.is_finite())?;
    Some((without.name(), value))
}

/// The steps as they are printed, `[name, by, change, level]`: the changes are those of the levels as they are printed, so
/// that they add up to the last digit.
pub(super) fn printed(steps: &[Step]) -> Vec<[String; 4]> {
    let bound = steps.last().map_or(0.0, |last| last.level);
    let largest = steps.iter().map(|step| step.level.abs()).fold(0.0, f64::max);
    let digits = if bound.abs() >= 1000.0 { 1 } else { 2 };
    let level = |value: f64| match largest >= 1e7 {
        true => number(value),
        false => unsigned_zero(format!("{value:.digits$}")),
    };
    let units = |value: f64| -> Option<i64> { level(value).replace('.', "").parse().ok() };
    let mut before: Option<f64> = None;
    let row = |step: &Step| {
        let change = match (before.replace(step.level).and_then(units), units(step.level)) {
            (Some(before), Some(after)) if largest < 1e7 => {
                signed((after - before) as f64 / 10f64.powi(digits as i32), digits)
            }
            _ => step.change.map_or(String::new(), number),
        };
        [step.name.to_owned(), step.by.to_owned(), change, level(step.level)]
    };
    steps.iter().map(row).collect()
}

/// A change with its sign.
fn signed(change: f64, digits: usize) -> String {
    let text = unsigned_zero(format!("{change:.digits$}"));
    if change > 0.0 { format!("+{text}") } else { text }
}

/// What rounds to nothing has no sign.
fn unsigned_zero(text: String) -> String {
    if text.chars().all(|c| "-0.".contains(c)) { text.replace('-', "") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::neutral as estimate;
    use crate::rollout::Returns;

    fn of(method: Method, value: f64) -> Estimate {
        let (values, none) = (vec![0.0; 2], vec![false; 2]);
        let returns =
            Returns { values, diverged: none.clone(), left: none.clone(), far: none, folds: 1 };
        Estimate { value, ..estimate(method, &returns) }
    }

    /// CA with these parts, and DS.
    fn estimates(neutral: f64, value: f64, subtracted: f64, bound: f64) -> Vec<Estimate> {
        let ca = Estimate { subtracted, lower_bound: Some(bound), ..of(Method::Ca, value) };
        vec![ca, of(Method::Ds, neutral)]
    }

    #[test]
    fn the_parts_add_up_to_the_bound() {
        let steps = waterfall(&estimates(-56.764, -235.731, 1.125, -245.449));
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        let expected =
            ["neutral estimate", "lost to the adversary", "calibration", "Monte Carlo and starts"];
        assert_eq!(names, expected);
        let sum = steps[0].level + steps.iter().filter_map(|step| step.change).sum::<f64>();
        assert!((sum + 245.449).abs() < 1e-9, "{steps:?}");
        assert_eq!(steps[3].level, -245.449, "the last level is the bound itself");
        assert_eq!(steps[2].change.map(|x| (x * 1000.0).round()), Some(-1125.0));
    }

    #[test]
    fn so_do_the_parts_that_are_printed_to_the_last_digit() {
        let mut cases = vec![(0.005, 0.0, 0.0, -0.015), (1234.56, 999.996, 0.004, 999.98)];
        let mut x = 0.123_f64;
        for _ in 0..200 {
            x = (x * 7919.77).fract();
            cases.push((900.0 * x, 800.0 * x - 0.111, 3.0 * x, 790.0 * x - 5.0 * x));
        }
        for (neutral, value, subtracted, bound) in cases {
            let rows = printed(&waterfall(&estimates(neutral, value, subtracted, bound)));
            let units = |text: &str| text.replace(['.', '+'], "").parse::<i64>().unwrap();
            let parts: i64 = rows[1..].iter().map(|row| units(&row[2])).sum();
            assert_eq!(units(&rows[0][3]) + parts, units(&rows[3][3]), "{rows:?}");
            assert_eq!(rows[3][3], number(bound), "as in the headline");
        }
    }

    #[test]
    fn without_a_neutral_estimate_it_begins_under_the_adversary() {
        let ca = Estimate { lower_bound: Some(-14.0), ..of(Method::Ca, -13.0) };
        let steps = waterfall(std::slice::from_ref(&ca));
        assert_eq!((steps.len(), steps[0].name), (3, "estimate under the adversary"));
        let held = waterfall(&[Estimate { neutral: Some(-12.0), ..ca.clone() }]);
        assert_eq!((held[0].level, held[0].by, held[1].change), (-12.0, "ds", Some(-1.0)));
        let endless = Estimate { lower_bound: Some(f64::NEG_INFINITY), ..ca };
        assert!(waterfall(&[endless]).is_empty());
        assert!(waterfall(&[of(Method::Ds, 1.0)]).is_empty(), "neutral estimates have no bound");
    }
}
