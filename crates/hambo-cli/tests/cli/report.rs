//! What `--out` holds, the gate, rankings and curves.

use super::*;

/// Between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from:?}")) + from.len();
    &text[start..start + text[start..].find(to).unwrap()]
}

#[test]
fn the_report_needs_nothing_else_and_says_what_the_result_says() {
    let place = Place::with_data();
    let line = EVALUATE.replace(METHODS, "ca,ds");
    let run = place.hambo(&format!("{line} --threshold 0 --out run --json"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let result = object(&run.stdout);
    let html = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert_eq!(
        between(&html, "<h1 id=\"headline\">", "</h1>"),
        result["summary"].as_str().unwrap()
    );
    assert!(result["summary"].as_str().unwrap().starts_with("NOT ENOUGH EVIDENCE: bound "));
    let data = between(&html, "id=\"data\">", "</script>");
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["result"], result, "to the last digit");
    assert!(!html.contains("src=") && !html.contains("@import"), "nothing is fetched");
    assert!(html.len() < 5_000_000);
    for part in [
        "What could go wrong",
        "Where the pessimism comes from",
        "What data would help",
        "How to repeat this",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    assert!(html.contains("hambo evaluate --data data.hdf5"), "the command is there");
    assert!(
        html.contains("The same 200 trajectories") && html.contains("20 of them are drawn"),
        "thinned, and said so"
    );

    let summary = std::fs::read_to_string(place.path("run/summary.md")).unwrap();
    assert!(
        summary.starts_with(&format!("## {}\n", result["summary"].as_str().unwrap())),
        "{summary}"
    );
    let again = place.hambo(&format!("{line} --threshold 0 --markdown"));
    assert_eq!(again.code, Some(1));
    assert!(again.stdout.starts_with(summary.lines().next().unwrap()), "{}", again.stdout);
}

#[test]
fn losses_of_the_steps_add_up_to_the_whole() {
    let place = Place::with_data();
    let line = EVALUATE.replace(METHODS, "ca,ds").replace("waypoint ", "waypoint,y=1.1 ");
    let result = place.json(&format!("{line} --out run --json --beta 2"));
    let explanation = &result["explanation"];
    let number = |value: &Value| value.as_f64().unwrap();
    let spans = explanation["spans"].as_array().unwrap();
    let sum: f64 = spans.iter().map(|s| number(&s["loss"])).sum();
    assert!((sum - number(&explanation["loss"])).abs() < 1e-6, "{explanation}");
    assert!(number(&explanation["loss"]) > 0.0);
    assert_eq!((spans.len(), &spans[14]["to"]), (15, &15.into()));
    // The trajectories are those of the bound: 200 of 200.
    let (followed, estimate) =
        (number(&explanation["hallucinated"]), number(&result["estimates"][0]["value"]));
    assert!((followed - estimate).abs() < 1e-4 * estimate.abs(), "{followed} {estimate}");
    let worst = explanation["worst"].as_array().unwrap();
    assert!(worst.windows(2).all(|w| number(&w[0]["value"]) <= number(&w[1]["value"])));
}

#[test]
fn the_explanation_follows_particles_too() {
    let place = Place::with_data();
    let result = place.json(&format!("{EVALUATE} --out run --json"));
    assert_eq!(result["explanation"]["method"], "dainf");
    let values =
        ["hallucinated", "neutral"].map(|name| result["explanation"][name].as_f64().unwrap());
    let estimate = result["estimates"][0]["value"].as_f64().unwrap();
    assert!((values[0] - estimate).abs() < 1e-4 * estimate.abs(), "{values:?} {estimate}");
    let neutral =
        place.json(&format!("{} --out run --force --json", EVALUATE.replace(METHODS, "ds")));
    assert!(neutral["explanation"].is_null());
    let html = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(
        html.contains("NO BOUND: ds is a neutral estimate")
            && !html.contains("What could go wrong")
    );
}

#[test]
fn logs_are_written_while_the_work_goes_on() {
    let place = Place::with_data();
    place.succeeds(&format!("{} --out run", EVALUATE.replace(METHODS, "ca")));
    let log = std::fs::read_to_string(place.path("run/log.csv")).unwrap();
    assert!(log.starts_with("seconds,stage,step,figure,value\n"));
    for part in [",training,100,held-out NLL,", ",adversary (pathwise),5,lowest,"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    let events =
        place.listing().into_iter().find(|(path, _)| path.to_string_lossy().contains("tfevents"));
    let (_, events) = events.unwrap();
    assert!(events.windows(13).any(|w| w == b"brain.Event:2"));
    assert!(events.windows(21).any(|w| w == b"training/held-out NLL"));
}

#[test]
fn policies_are_ranked_by_bounds_that_hold_together() {
    let place = Place::with_data();
    let policies = "--policies builtin:waypoint,y=1.1 builtin:waypoint builtin:waypoint,y=2.5";
    let options = "--method ca,ds --delta 0.06";
    let rest = EVALUATE.replace("evaluate ", "").replace("--policy builtin:waypoint ", "");
    let rest = rest.replace(&format!("--method {METHODS}"), options);
    let result = place.json(&format!("rank {policies} {rest} --truth-episodes 2 --out run --json"));
    assert!((result["delta_each"].as_f64().unwrap() - 0.02).abs() < 1e-12);
    let ranked = result["policies"].as_array().unwrap();
    let bound = |p: &Value| p["lower_bound"].as_f64().unwrap();
    assert!(ranked.windows(2).all(|w| bound(&w[0]) >= bound(&w[1])));
    assert_eq!(ranked[0]["policy"], "builtin:waypoint");
    for policy in ranked {
        let name = policy["policy"].as_str().unwrap();
        let alone = format!("evaluate --policy {name} {rest} --json").replace("0.06", "0.02");
        let alone = alone.replace("--model-config small.json", "--fitted run");
        assert_eq!(place.json(&alone)["estimates"], policy["estimates"], "{name}");
    }
    let scores = result["scores"].as_array().unwrap();
    assert_eq!(scores.len(), 2);
    assert_eq!((&scores[0]["method"], &scores[0]["regret_at_1"]), (&"ca".into(), &0.0.into()));
    assert!(scores[0]["spearman"].as_f64().unwrap() > 0.4);

    let line = format!("rank {policies} {rest}");
    let text = place.succeeds(&line);
    assert!(
        text.trim_end()
            .lines()
            .last()
            .unwrap()
            .starts_with("RANKED 3 policies: best bound: builtin:waypoint, "),
        "{text}"
    );
    let run = place.hambo(&format!("{line} --threshold 0"));
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains(": 0 of 3 policies reach 0.00; "), "{}", run.stdout);
    let markdown = place.succeeds(&format!("{line} --markdown"));
    assert!(markdown.contains("| 1 | builtin:waypoint | "), "{markdown}");
    place.refuses(
        &format!("{line} --curves"),
        &["error: curves = true: expected", "hambo evaluate --curves"],
    );
    place.refuses(
        &EVALUATE.replace("builtin:waypoint", "builtin:waypoint builtin:waypoint"),
        &["error: policy = builtin:waypoint builtin:waypoint: expected one policy", "hambo rank"],
    );
}

#[test]
fn curves_go_through_the_point_that_was_asked_for() {
    let place = Place::with_data();
    let result = place.json(&format!("{} --curves --json", EVALUATE.replace(METHODS, "ca,ds")));
    let bound = &result["lower_bound"];
    for (name, at) in [("horizon", 15.0), ("data", 600.0)] {
        let points = result["curves"][name].as_array().unwrap();
        assert!(points.len() > 2);
        assert!(
            points.iter().any(|p| p["at"] == at && p["lower_bound"] == *bound),
            "{name}: {points:?}"
        );
        assert!(points.windows(2).all(|w| w[0]["at"].as_f64() < w[1]["at"].as_f64()));
    }
    let beta = result["curves"]["beta"].as_array().unwrap();
    assert!(
        beta.windows(2).all(|w| w[0]["lower_bound"].as_f64() >= w[1]["lower_bound"].as_f64()),
        "{beta:?}"
    );
}

#[test]
fn a_truth_needs_a_simulator() {
    let place = Place::with_data();
    let without = EVALUATE.replace("--env point-safety ", "");
    place.refuses(
        &format!("{without} --truth-episodes 10"),
        &["error: truth-episodes = 10: expected", "--env"],
    );
    place.refuses(
        &format!("{EVALUATE} --truth-episodes 1"),
        &["error: truth-episodes = 1: expected 2 to"],
    );
    let result = place.json(&format!("{EVALUATE} --truth-episodes 3 --json"));
    assert_eq!(result["truth"]["episodes"], 3);
}
