//! Pages from results that are made up: what a run cannot be asked for, the page must still tell right.

use super::*;

fn estimate(method: &str, value: Value, bound: Value) -> Value {
    json!({"method": method, "value": value, "std_error": 0.5, "lower_bound": bound, "converged": null})
}

fn result(bound: Value) -> Value {
    json!({
        "policy": "builtin:waypoint", "task": "point-safety", "horizon": 15, "version": "0.1.0", "seed": 0,
        "data": {"transitions": 600, "episodes": 40, "sha256": "ab"}, "delta": 0.05, "delta_each": 0.05,
        "estimates": [estimate("ca", json!(-12.5), bound.clone()), estimate("ds", json!(-11.0), Value::Null)],
        "lower_bound": bound, "threshold": null, "verdict": null, "constraints": [], "warnings": [], "truth": null,
        "names": {"state": ["x", "y"], "action": ["u"]}, "explanation": null, "support": {"outside": [0.25, 0.75]},
    })
}

fn page(result: &Value) -> String {
    Page { result, why: None, curves: None, command: "hambo evaluate" }.html()
}

#[test]
fn the_line_for_a_log_says_what_was_decided() {
    let mut r = result(json!(-13.785));
    assert_eq!(headline(&r), "BOUND -13.79, confidence 95 %");
    r["threshold"] = json!(-20.0);
    r["verdict"] = json!("meets");
    assert_eq!(headline(&r), "MEETS the threshold: bound -13.79 against -20.00, confidence 95 %");
    r["threshold"] = json!(-10.0);
    r["verdict"] = json!("fails");
    assert_eq!(headline(&r), "FAILS the threshold: bound -13.79 against -10.00, confidence 95 %");
    r["threshold"] = json!(-20.0);
    r["delta_each"] = json!(0.025);
    r["constraints"] = json!([{"name": "speed", "expression": "-s[0]", "lower_bound": -3.0, "threshold": -1.0, "met": false}]);
    assert_eq!(headline(&r), "FAILS constraint speed: bound -3.00 against -1.00, confidence 97.5 %");
    assert!(page(&r).contains("<b class=\"bad\">FAILS</b>"));
    assert!(markdown(&r).contains("| speed | -3.00 | -1.00 | FAILS |"));
    r["estimates"] = json!([estimate("ds", json!(-11.0), Value::Null)]);
    assert!(headline(&r).starts_with("NO BOUND: ds is a neutral estimate, -11.00"));
}

#[test]
fn a_bound_of_minus_infinity_is_told_as_such() {
    let mut r = result(Value::Null);
    r["threshold"] = json!(-20.0);
    r["verdict"] = json!("fails");
    assert_eq!(headline(&r), "FAILS the threshold: bound -∞ against -20.00, confidence 95 %");
    let html = page(&r);
    assert!(html.contains("there is no finite bound") && html.contains("◄ -∞"));
    assert!(!html.contains("NaN"), "{html}");
    r["estimates"][0]["value"] = Value::Null;
    assert!(page(&r).contains("◄ -∞"));
    assert!(markdown(&r).contains("| ca | conservative | -∞ | 0.50 | -∞ |"));
}

#[test]
fn nothing_is_said_of_a_truth_that_is_not_known() {
    let mut r = result(json!(-13.0));
    assert!(!page(&r).contains("truth is known"));
    r["truth"] = json!({"value": -13.5, "std_error": 0.1, "episodes": 50});
    assert!(page(&r).contains("The bound is above it: it does not hold here."));
    r["truth"]["value"] = json!(-12.0);
    assert!(page(&r).contains("The bound holds."));
    assert!(markdown(&r).contains("True return: -12.00 ± 0.10, by simulation of 50 episodes."));
}

#[test]
fn names_are_text() {
    let mut r = result(json!(-13.0));
    let name = "</script><script>alert(1)</script>";
    for field in ["policy", "task"] {
        r[field] = json!(name);
    }
    r["warnings"] = json!([name]);
    r["names"]["state"][0] = json!(name);
    r["explanation"] = json!({"regions": [{
        "bounds": {"sides": [{"coordinate": 0, "low": null, "high": 1.0}, {"coordinate": 2, "low": 0.5, "high": null}]},
        "loss": 2.0, "share": 0.5, "visits": 0.1, "logged": 6, "least_known": [1, 4.0],
    }]});
    assert!(!page(&r).contains("<script>alert"));
    assert_eq!(page(&r).matches("</script>").count(), 3);
    assert!(!markdown(&r).contains("<script>"));
    let words = &sections::regions_in_words(&r)[0];
    assert!(
        words.starts_with(&format!("Log data where {name} is at most 1.00 and u is above 0.500. ")),
        "{words}"
    );
    assert!(
        words.contains("6 of the logged transitions (1 %) are; the model knows y least, 4.00 times"),
        "{words}"
    );
}

#[test]
fn a_ranking_names_the_best() {
    let policy = |name: &str, bound: f64, verdict: &str| {
        json!({"policy": name, "name": name, "lower_bound": bound, "verdict": verdict, "truth": {"value": bound + 1.0},
               "estimates": [estimate("ca", json!(bound + 0.5), json!(bound))]})
    };
    let mut r = json!({
        "task": "t", "delta": 0.06, "delta_each": 0.02, "threshold": -5.0, "verdict": "meets", "warnings": [],
        "policies": [policy("a<b>", -4.0, "meets"), policy("b", -6.0, "fails")],
        "scores": [{"method": "ca", "spearman": 1.0, "regret_at_1": 0.0, "violation_rate": 0.0, "gap": 1.0}],
    });
    r["summary"] = ranking_headline(&r).into();
    let expected =
        "MEETS: 1 of 2 policies reach -5.00; best bound: a<b>, -4.00, confidence 94 % for all together";
    assert_eq!(r["summary"], expected);
    let html = ranking_html(&r, "hambo rank");
    assert!(html.contains("a&lt;b&gt;") && !html.contains("a<b>"));
    assert!(html.contains("<td>ca</td><td>1.000</td><td>0.00</td><td>0 %</td><td>1.00</td>"));
    assert!(ranking_markdown(&r).contains("| 2 | b | -6.00 | -5.50 | -5.00 | fails |"));
}

#[test]
fn the_theory_says_what_it_needs() {
    let mut r = result(json!(-13.0));
    assert!(!page(&r).contains("What the theory says"));
    r["theory"] = json!({
        "all_data": false, "information_gain": 12.5, "information_rate": 800.0, "posterior_norm": 3.0, "norm_bound": null,
        "beta": null, "beta_literal": null, "metric_constant": 0.25, "deviation_constant": 0.5, "dynamics_constant": null,
        "lipschitz": null, "barred": null, "log10_gap_constant": null, "mean_deviation": 0.1, "log10_gap": null,
    });
    let html = page(&r);
    assert!(
        html.contains("<td>information gain</td><td>12.5</td>") && html.contains("<td>β_n(δ)</td><td>–</td>")
    );
    assert!(html.contains("no longer applies") && html.contains("needs B: --norm-bound"));
    r["theory"]["all_data"] = json!(true);
    r["theory"]["log10_gap"] = json!(7.25);
    let html = page(&r);
    assert!(html.contains("<td>worst-case gap</td><td>10<sup>7.2</sup></td>"));
    assert!(!html.contains("no longer applies"));
}
