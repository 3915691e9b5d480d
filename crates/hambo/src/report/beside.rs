//! What stands beside a bound: what the logged behavior earned, which threshold would be met, what single episodes risk.

use super::answer::Answer;
use super::text::{number, percent};
use crate::evaluate::{Interval, Risk};

/// What the logged behavior earned.
pub(super) fn logged(answer: &Answer) -> String {
    let (logged, horizon) = (&answer.logged_return, answer.setup.horizon);
    let error = match logged.std_error.is_finite() {
        true => format!(" ± {}", number(logged.std_error)),
        false => String::new(),
    };
    let shorter = match logged.shorter {
        0 => String::new(),
        shorter => format!("; {shorter} of them are shorter, and count as far as they go"),
    };
    format!(
        "the logged episodes earned {}{error} in the same {horizon} steps ({} episode{}{shorter})",
        number(logged.value),
        logged.episodes,
        if logged.episodes == 1 { "" } else { "s" }
    )
}

/// The largest threshold that would be met.
pub(super) fn largest_threshold(answer: &Answer) -> String {
    match answer.largest_threshold {
        Some(bound) if bound.is_finite() => {
            format!("the largest threshold that would be met is {}", number(bound))
        }
        _ => "no threshold would be met".to_owned(),
    }
}

/// What single episodes risk, figure by figure: a name, the figure and its interval.
pub(super) fn risks(answer: &Answer) -> Vec<[String; 3]> {
    let Some(risk) = answer.first().and_then(|first| first.risk.as_ref()) else {
        return Vec::new();
    };
    let Risk { below_threshold, cvar_5, cvar_20, .. } = risk;
    let share = |i: &Interval| {
        let threshold = number(answer.setup.threshold.unwrap_or(f64::NAN));
        let name = format!("probability of a return below {threshold}");
        [name, percent(i.value), format!("{} to {}", percent(i.low), percent(i.high))]
    };
    let mean = |share: &str, i: &Interval| {
        let name = format!("CVaR at {share}: mean of the worst {share} of returns");
        [name, number(i.value), format!("{} to {}", number(i.low), number(i.high))]
    };
    let below = below_threshold.iter().map(share);
    below.chain([mean("5 %", cvar_5), mean("20 %", cvar_20)]).collect()
}

/// What the risks are of.
pub(super) const RISK: &str = "risk under the adversary, in the model";
