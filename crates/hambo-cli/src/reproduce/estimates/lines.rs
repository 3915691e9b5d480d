//! From runs to curves: means over seeds with their intervals.

use super::{Axis, Known};
use crate::output::{number, table};
use crate::plot::{Line, Panel};
use crate::validate::Record;
use hambo::evaluate::Method;
use hambo::stats::{Mean, student_quantile};
use serde::Serialize;

/// One method under one rule in one panel.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub env: String,
    /// What the panel has in common: the horizon or the number of transitions.
    pub fixed: usize,
    pub variant: String,
    pub method: Method,
    pub points: Vec<Point>,
}

/// All seeds at one place of the axis.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub x: usize,
    pub seeds: usize,
    /// Mean of the estimates; of conservative methods less what is subtracted, without the Monte-Carlo margin.
    pub mean: f64,
    /// Half the 95 % interval of the mean; none of a single seed.
    pub half: Option<f64>,
    pub truth: f64,
    /// Seeds whose estimate is above the truth by more than 3 of its standard errors.
    pub above: usize,
}

/// All curves, in the order of the runs.
pub fn curves(known: &[Known], axis: Axis) -> Vec<Curve> {
    let mut found: Vec<Curve> = Vec::new();
    for Known { run, .. } in known {
        let (_, fixed) = axis.place(run);
        for estimate in &run.estimates {
            // The rule for β is a matter of CA alone: other methods are shown once.
            let again = estimate.method != Method::Ca
                && found
                    .iter()
                    .any(|c| (&c.env, c.fixed, c.method) == (&run.env, fixed, estimate.method));
            let there = found.iter().any(|c| {
                (&c.env, c.fixed, &c.variant, c.method)
                    == (&run.env, fixed, &run.variant, estimate.method)
            });
            if !again && !there {
                found.push(Curve {
                    env: run.env.clone(),
                    fixed,
                    variant: run.variant.clone(),
                    method: estimate.method,
                    points: Vec::new(),
                });
            }
        }
    }
    for curve in &mut found {
        curve.points = points(known, axis, curve);
    }
    found
}

fn points(known: &[Known], axis: Axis, curve: &Curve) -> Vec<Point> {
    let own = |k: &&Known| {
        (&k.run.env, axis.place(&k.run).1, &k.run.variant)
            == (&curve.env, curve.fixed, &curve.variant)
    };
    let mut places: Vec<usize> = known.iter().filter(own).map(|k| axis.place(&k.run).0).collect();
    places.sort_unstable();
    places.dedup();
    let point = |x: usize| {
        let here: Vec<&Known> =
            known.iter().filter(own).filter(|k| axis.place(&k.run).0 == x).collect();
        let values: Vec<f64> = here.iter().filter_map(|k| value(&k.run, curve.method)).collect();
        let truth = here.first()?.truth.value;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let half = (values.len() > 1).then(|| {
            let t = student_quantile(0.975, values.len() as f64 - 1.0);
            t * Mean::of(values.iter().copied()).std_error
        });
        let is_above = |k: &&&Known| {
            value(&k.run, curve.method).is_some_and(|v| v > k.truth.value + 3.0 * k.truth.std_error)
        };
        let above = here.iter().filter(is_above).count();
        (!values.is_empty()).then_some(Point { x, seeds: values.len(), mean, half, truth, above })
    };
    places.into_iter().filter_map(point).collect()
}

/// What a method says of a run; none where that is no number.
pub fn value(run: &Record, method: Method) -> Option<f64> {
    let estimate = run.estimates.iter().find(|e| e.method == method)?;
    estimate.value.map(|value| value - estimate.subtracted)
}

impl Curve {
    fn name(&self) -> String {
        match self.method {
            Method::Ca => {
                format!("CA, {}", if self.variant == "one" { "β = 1" } else { "default β" })
            }
            Method::Da1 => "DA1".to_owned(),
            Method::DaInf => "DAinf".to_owned(),
            Method::Ds => "DS".to_owned(),
            Method::Ts1 => "TS1".to_owned(),
            Method::TsInf => "TSinf".to_owned(),
            Method::Mean => "mean".to_owned(),
        }
    }
}

fn fixed(axis: Axis, value: usize) -> String {
    match axis {
        Axis::Size => format!("T = {value}"),
        Axis::Horizon => format!("n = {value}"),
    }
}

/// The table, with what one has to know to read it.
pub fn text(curves: &[Curve], axis: Axis, about: &str, failed: &[Record]) -> String {
    let mut rows = Vec::new();
    for curve in curves {
        for p in &curve.points {
            rows.push(vec![
                curve.env.clone(),
                fixed(axis, curve.fixed),
                curve.name(),
                p.x.to_string(),
                p.seeds.to_string(),
                number(p.truth),
                number(p.mean),
                p.half.map_or("–".to_owned(), number),
                p.above.to_string(),
            ]);
        }
    }
    let x = if axis == Axis::Size { "n" } else { "T" };
    let head = [
        "environment",
        "",
        "method",
        x,
        "seeds",
        "truth",
        "estimate",
        "± (95 %)",
        "above the truth",
    ];
    let failures: String = failed
        .iter()
        .map(|f| format!("\nno answer: {}: {}", f.case, f.error.as_deref().unwrap_or("no truth")))
        .collect();
    format!(
        "Estimates against the {}. {about} Conservative estimates are less what is subtracted, before the Monte-Carlo \
         margin.\n\n{}{failures}",
        axis.name(),
        table(&head, &rows)
    )
}

/// A chart for each environment.
pub fn panels(curves: &[Curve], axis: Axis) -> Vec<Panel> {
    let mut found: Vec<(String, usize, Vec<&Curve>)> = Vec::new();
    for curve in curves {
        match found.iter_mut().find(|(env, fixed, _)| (env, *fixed) == (&curve.env, curve.fixed)) {
            Some((_, _, own)) => own.push(curve),
            None => found.push((curve.env.clone(), curve.fixed, vec![curve])),
        }
    }
    let panel = |(env, common, own): (String, usize, Vec<&Curve>)| {
        let line = |c: &&Curve| {
            let points = c.points.iter().map(|p| {
                let half = p.half.unwrap_or(0.0);
                [p.x as f64, p.mean, p.mean - half, p.mean + half]
            });
            Line { name: c.name(), points: points.collect() }
        };
        let truths: Vec<(usize, f64)> = own
            .iter()
            .max_by_key(|c| c.points.len())
            .map_or(Vec::new(), |c| c.points.iter().map(|p| (p.x, p.truth)).collect());
        Panel {
            title: format!("{env}, {}", fixed(axis, common)),
            x_name: axis.name().to_owned(),
            y_name: "return".to_owned(),
            lines: own.iter().map(line).collect(),
            reference: truths.iter().map(|(x, truth)| [*x as f64, *truth]).collect(),
            reference_name: "truth".to_owned(),
        }
    };
    found.into_iter().map(panel).collect()
}
