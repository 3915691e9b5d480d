use super::claims::claims;
use super::lines::{curves, panels, text};
use super::*;
use serde_json::json;

/// A run of two conservative methods and a neutral one, all with the same truth, −100.
fn known(
    env: &str,
    (n, horizon): (usize, usize),
    seed: u64,
    [ca, da1, dainf, ds]: [f64; 4],
) -> Known {
    let estimate = |method: &str, value: f64| {
        json!({"method": method, "value": value, "std_error": 0.1, "subtracted": 0.0, "diverged_rollouts": 0,
            "lower_bound": if method == "ds" { None } else { Some(value - 1.0) }, "left_rollouts": 0})
    };
    let estimates =
        [("ca", ca), ("da1", da1), ("dainf", dainf), ("ds", ds)].map(|(m, v)| estimate(m, v));
    let run = json!({
        "case": format!("{env}-{n}-{horizon}-{seed}"), "build": "b", "version": "0", "device": "cpu", "env": env, "policy": "good",
        "data": "mediocre", "n": n, "horizon": horizon, "seed": seed, "variant": "default", "rule": "trajectory",
        "delta": 0.05, "truth": "t", "episodes": 10, "estimates": estimates, "seconds": 1.0, "fit_seconds": 1.0,
    });
    let truth = json!({"key": "t", "env": env, "policy": "good", "horizon": horizon, "value": -100.0, "std_error": 1.0,
        "episodes": 1000, "diverged": 0, "seconds": 0.1});
    Known {
        run: serde_json::from_value(run).unwrap(),
        truth: serde_json::from_value(truth).unwrap(),
    }
}

fn of(claims: &[crate::reproduce::Claim], word: &str) -> (Option<bool>, String) {
    let found = claims.iter().find(|c| c.claim.contains(word)).unwrap();
    (found.confirmed, found.found.clone())
}

#[test]
fn curves_are_means_over_seeds() {
    let runs = [
        known("pendulum", (1000, 200), 1, [-130.0, -125.0, -120.0, -101.0]),
        known("pendulum", (1000, 200), 2, [-150.0, -125.0, -120.0, -99.0]),
        known("pendulum", (4000, 200), 1, [-110.0, -109.0, -108.0, -100.0]),
    ];
    let found = curves(&runs, Axis::Size);
    assert_eq!(found.len(), 4);
    let first = &found[0].points[0];
    assert_eq!((first.x, first.seeds, first.mean, first.truth), (1000, 2, -140.0, -100.0));
    // Student's quantile with one degree of freedom, 12.706, times a standard error of 10.
    assert!((first.half.unwrap() - 127.062).abs() < 1e-3, "{first:?}");
    assert_eq!((found[0].points[1].seeds, found[0].points[1].half), (1, None));
    let panels = panels(&found, Axis::Size);
    assert_eq!((panels.len(), panels[0].lines.len()), (1, 4));
    assert_eq!(panels[0].reference, [[1000.0, -100.0], [4000.0, -100.0]]);
    assert!(text(&found, Axis::Size, "", &[]).contains("CA, default β"));
}

#[test]
fn claims_are_judged_by_the_runs() {
    let good = [
        known("hopper", (1000, 200), 1, [-130.0, -125.0, -120.0, -90.0]),
        known("hopper", (4000, 200), 1, [-110.0, -109.0, -108.0, -95.0]),
    ];
    let found = claims(&good, &curves(&good, Axis::Size), Axis::Size);
    for word in ["lower bounds", "DA1 ≤ DAinf", "Hopper", "tighten"] {
        assert_eq!(of(&found, word).0, Some(true), "{word}: {found:?}");
    }
    // A bound above the truth, DA1 above DAinf, neutral estimates below, a wider gap with more data.
    let bad = [
        known("hopper", (1000, 200), 1, [-105.0, -80.0, -120.0, -101.0]),
        known("hopper", (4000, 200), 1, [-140.0, -125.0, -120.0, -101.0]),
    ];
    let found = claims(&bad, &curves(&bad, Axis::Size), Axis::Size);
    for word in ["lower bounds", "DA1 ≤ DAinf", "Hopper", "tighten"] {
        assert_eq!(of(&found, word).0, Some(false), "{word}: {found:?}");
    }
    assert_eq!(of(&found, "DA1").1, "runs in which it is: 1 of 2");
}

#[test]
fn the_chart_of_long_horizons() {
    let far = [
        known("pendulum", (4000, 100), 1, [-130.0, -125.0, -120.0, -100.0]),
        known("pendulum", (4000, 400), 1, [-160.0, -255.0, -251.0, -100.0]),
    ];
    let found = claims(&far, &curves(&far, Axis::Horizon), Axis::Horizon);
    assert_eq!(of(&found, "out of the chart").0, Some(true));
    assert_eq!(of(&found, "loosen").0, Some(true));
    assert_eq!(of(&found, "Hopper"), (None, "no such runs".to_owned()));
    let near = &far[..1];
    let found = claims(near, &curves(near, Axis::Horizon), Axis::Horizon);
    assert_eq!(of(&found, "out of the chart").0, None);
    assert_eq!(of(&found, "loosen").0, None, "one point is no trend");
}
