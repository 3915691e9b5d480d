//! What the paper says in words, and what these runs say.

use super::lines::{Curve, value};
use super::{Axis, Known};
use crate::plot::FAR;
use crate::reproduce::Claim;
use hambo::evaluate::Method;

/// The claims that the figure is about.
pub fn claims(known: &[Known], curves: &[Curve], axis: Axis) -> Vec<Claim> {
    let mut found = vec![lower_bounds(known), da1_below_dainf(known), neutral_above(known)];
    found.push(match axis {
        Axis::Size => trend(curves, "Bounds tighten with n.", |first, last| last < first),
        Axis::Horizon => trend(curves, "Bounds loosen with T.", |first, last| last > first),
    });
    if axis == Axis::Horizon {
        found.push(out_of_chart(curves));
    }
    found
}

fn counted(
    claim: &str,
    what: &str,
    values: &[bool],
    enough: impl Fn(usize, usize) -> bool,
) -> Claim {
    let (count, of) = (values.iter().filter(|v| **v).count(), values.len());
    Claim {
        claim: claim.to_owned(),
        found: if of == 0 { "no such runs".to_owned() } else { format!("{what}: {count} of {of}") },
        confirmed: (of > 0).then(|| enough(count, of)),
    }
}

fn lower_bounds(known: &[Known]) -> Claim {
    let holds = |k: &Known| {
        let conservative = k.run.estimates.iter().filter(|e| e.method.is_conservative());
        let limit = k.truth.value + 3.0 * k.truth.std_error;
        conservative.map(|e| e.lower_bound.is_none_or(|bound| bound <= limit)).collect::<Vec<_>>()
    };
    let values: Vec<bool> = known.iter().flat_map(holds).collect();
    let claim = "Conservative methods give lower bounds in all runs.";
    counted(claim, "bounds that are not above the truth", &values, |count, of| count == of)
}

fn da1_below_dainf(known: &[Known]) -> Claim {
    let pair = |k: &Known| Some(value(&k.run, Method::Da1)? <= value(&k.run, Method::DaInf)?);
    let values: Vec<bool> = known.iter().filter_map(pair).collect();
    counted("DA1 ≤ DAinf always.", "runs in which it is", &values, |count, of| count == of)
}

fn neutral_above(known: &[Known]) -> Claim {
    let above = |k: &Known| {
        let neutral = k.run.estimates.iter().filter(|e| !e.method.is_conservative());
        let limit = k.truth.value + 3.0 * k.truth.std_error;
        neutral.filter_map(|e| e.value.map(|v| v > limit)).collect::<Vec<_>>()
    };
    let hopper = known.iter().filter(|k| k.run.env.starts_with("hopper"));
    let values: Vec<bool> = hopper.flat_map(above).collect();
    let claim = "Neutral methods overestimate on Hopper.";
    counted(claim, "neutral estimates above the truth", &values, |count, of| 2 * count > of)
}

/// Whether the mean gap of conservative methods changes as is said, from the first to the last point of a curve.
fn trend(curves: &[Curve], claim: &str, changes: impl Fn(f64, f64) -> bool) -> Claim {
    let curve = |c: &Curve| {
        let (first, last) = (c.points.first()?, c.points.last()?);
        let gap = |p: &super::lines::Point| p.truth - p.mean;
        (c.method.is_conservative() && first.x < last.x).then(|| changes(gap(first), gap(last)))
    };
    let values: Vec<bool> = curves.iter().filter_map(curve).collect();
    counted(claim, "curves that do", &values, |count, of| count == of)
}

fn out_of_chart(curves: &[Curve]) -> Claim {
    let dainf = curves.iter().find(|c| c.env == "pendulum" && c.method == Method::DaInf);
    let point = dainf.and_then(|c| c.points.iter().find(|p| p.x == 400));
    Claim {
        claim: "DAinf goes out of the chart on Pendulum at T = 400.".to_owned(),
        found: point.map_or("no such runs".to_owned(), |p| {
            format!("DAinf {:.1}, truth {:.1}", p.mean, p.truth)
        }),
        confirmed: point.map(|p| p.mean < p.truth - FAR * p.truth.abs()),
    }
}
