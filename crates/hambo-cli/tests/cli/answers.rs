//! What an answer says: three words, parts that add up, risks, notes by their rank.

use super::*;

/// CA and DS on data that support the bound or not, by their number.
fn line(options: &str) -> String {
    format!("{} {options}", EVALUATE.replace(METHODS, "ca,ds"))
}

#[test]
fn the_outcome_has_three_words_and_zero_is_for_what_is_shown_alone() {
    let place = Place::with_data();
    let accepting = "--method dainf,ds --accept extrapolation";
    let evaluate = EVALUATE.replace(&format!("--method {METHODS}"), "");
    for (options, code, verdict, outcome) in [
        (format!("{accepting} --threshold -1000"), 0, "meets", "MEETS"),
        (format!("{accepting} --threshold 0"), 1, "fails", "NOT SHOWN"),
        (
            "--method dainf --threshold -1000".to_owned(),
            1,
            "not enough evidence",
            "NOT ENOUGH EVIDENCE",
        ),
        (
            "--method dainf --threshold 0".to_owned(),
            1,
            "not enough evidence",
            "NOT ENOUGH EVIDENCE",
        ),
    ] {
        let run = place.hambo(&format!("{evaluate} {options} --json"));
        let result = object(&run.stdout);
        assert_eq!((run.code, &result["verdict"]), (Some(code), &verdict.into()), "{options}");
        assert_eq!(result["outcome"], outcome, "{options}");
        assert!(result["summary"].as_str().unwrap().starts_with(outcome), "{}", result["summary"]);
        assert!(result["level"].is_null(), "nothing supports the bound of DAinf");
        let text = place.hambo(&format!("{evaluate} {options}")).stdout;
        assert!(!text.contains("confidence 95"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colors in a pipe");
    }
    let none = place.json(&format!("{EVALUATE} --json"));
    assert!(none["outcome"].is_null() && none["vacuous"] == false);
}

#[test]
fn a_bound_that_says_nothing_is_called_vacuous() {
    let place = Place::with_data();
    // Every step pays the same, so that no return is above or below another.
    let result = place.json(&format!("{EVALUATE} --reward=-1 --json"));
    let first = &result["estimates"][0];
    assert_eq!((&first["lower_bound"], &first["floor"]), (&(-15.0).into(), &(-15.0).into()));
    assert_eq!(result["vacuous"], true);
    assert_eq!(
        result["summary"],
        "BOUND -15.00, vacuous: no better than the worst reward at every step, -15.00"
    );
}

#[test]
fn the_parts_add_up_to_the_bound() {
    let place = Place::with_data();
    for options in ["--json", "--beta 1 --json", "--method dainf --json"] {
        let result = place.json(&line(options).replace("--method ca,ds --method", "--method"));
        let steps = result["waterfall"].as_array().unwrap();
        let number = |value: &Value| value.as_f64().unwrap();
        let changes: f64 = steps.iter().filter_map(|step| step["change"].as_f64()).sum();
        let bound = number(&result["lower_bound"]);
        assert!((number(&steps[0]["level"]) + changes - bound).abs() < 1e-9, "{steps:?}");
        assert_eq!(number(&steps.last().unwrap()["level"]), bound);
        assert_eq!(steps[0]["name"], "neutral estimate", "{steps:?}");
    }
    let text = place.succeeds(&line("--beta 1"));
    let rows = text.lines().skip_while(|l| !l.starts_with("from estimate to bound")).skip(2);
    let rows: Vec<&str> = rows.take_while(|l| !l.is_empty()).collect();
    let last =
        |row: &str| row.split_whitespace().last().unwrap().replace('.', "").parse::<i64>().unwrap();
    let change = |row: &str| {
        row.split_whitespace().rev().nth(1).unwrap().replace(['.', '+'], "").parse::<i64>().unwrap()
    };
    assert_eq!(rows.len(), 5, "{text}");
    let sum = last(rows[0]) + rows[1..4].iter().map(|row| change(row)).sum::<i64>();
    assert_eq!(sum, last(rows[4]), "to the last digit that is printed:\n{text}");
}

#[test]
fn beside_the_bound_stand_the_logged_return_and_the_risks() {
    let place = Place::with_data();
    let result = place.json(&line("--beta 1 --threshold -60 --accept extrapolation --json"));
    let logged = &result["logged_return"];
    assert_eq!((&logged["episodes"], &logged["shorter"]), (&40.into(), &0.into()));
    let earned = place.json("return --env point-safety --policy builtin:waypoint --policy-noise 0.1 --horizon 15 --episodes 500 --json");
    let (logged, earned) = (logged["value"].as_f64().unwrap(), earned["value"].as_f64().unwrap());
    assert!((logged - earned).abs() < 6.0, "{logged} {earned}");
    assert_eq!(result["largest_threshold"], result["lower_bound"]);
    let first = &result["estimates"][0];
    let figure =
        |name: &str| ["low", "value", "high"].map(|end| first["risk"][name][end].as_f64().unwrap());
    for name in ["below_threshold", "cvar_5", "cvar_20"] {
        assert!(figure(name).is_sorted(), "{name}: {:?}", figure(name));
    }
    let value = first["value"].as_f64().unwrap();
    assert!(figure("cvar_5")[1] <= figure("cvar_20")[1] && figure("cvar_20")[1] <= value);
    assert!(result["estimates"][1]["risk"].is_null(), "a neutral estimate has no adversary");
    let longer = place.json(&line("--beta 1 --json").replace("--horizon 15", "--horizon 20"));
    assert_eq!(longer["logged_return"]["shorter"], 40);
    assert!(longer["largest_threshold"].is_null(), "nothing supports this bound");
    let text = place.succeeds(&line("--beta 1"));
    for part in
        ["risk under the adversary, in the model", "CVaR at 5 %", "the logged episodes earned"]
    {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn a_bound_may_be_on_the_worst_episodes() {
    let place = Place::with_data();
    let of = |options: &str| {
        place.json(&line(&format!("--beta 1 --truth-episodes 400 {options} --json")))
    };
    let (mean, worst, all) = (of(""), of("--risk 0.2"), of("--risk 0.9999"));
    let number = |result: &Value, pointer: &str| result.pointer(pointer).unwrap().as_f64().unwrap();
    assert!(mean["risk"].is_null() && worst["risk"] == 0.2);
    for pointer in ["/estimates/0/value", "/estimates/1/value", "/lower_bound", "/truth/value"] {
        let [mean, worst, all] = [&mean, &worst, &all].map(|result| number(result, pointer));
        // The world has no noise of its own.
        assert!(worst < mean || pointer == "/truth/value", "{pointer}: {worst} {mean}");
        assert!(worst <= mean, "{pointer}: {worst} {mean}");
        assert!((all / mean - 1.0).abs() < 0.01, "nearly all episodes: {pointer}: {all} {mean}");
    }
    // Without an adversary, CVaR by its definition.
    let text = place.succeeds(&line("--beta 0 --risk 0.2"));
    assert!(text.contains("the worst 20 % of episodes (CVaR)"), "{text}");
    let idle = place.json(&line("--beta 0 --risk 0.2 --json"));
    let by_definition = number(&idle, "/estimates/0/risk/cvar_20/value");
    assert!((number(&idle, "/estimates/0/value") / by_definition - 1.0).abs() < 0.02, "{idle}");
    for (options, words) in [
        ("--risk 0", "risk = 0: expected a share of episodes between 0 and 1"),
        ("--risk 1", "risk = 1: expected a share of episodes between 0 and 1"),
        ("--risk nan", "risk = NaN: expected a share of episodes between 0 and 1"),
        ("--risk 0.2 --method da1", "method = da1: expected ca or dainf where --risk is given"),
    ] {
        let line =
            line(options).replace("--method ca,ds --risk 0.2 --method", "--risk 0.2 --method");
        place.refuses(&line, &[words]);
    }
}

#[test]
fn notes_stand_in_the_order_of_their_rank() {
    let place = Place::with_data();
    let result = place.json(&format!(
        "{} --json",
        EVALUATE.replace(METHODS, "ca,dainf,ds").replace("waypoint ", "waypoint,y=0.5 ")
    ));
    let ranks: Vec<&str> = result["warning_ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| rank.as_str().unwrap())
        .collect();
    assert_eq!(ranks.len(), result["warnings"].as_array().unwrap().len());
    assert_eq!(ranks[0], "critical", "{result}");
    assert_eq!(ranks.last(), Some(&"information"));
    let order = ["critical", "caution", "information"];
    assert!(
        ranks.is_sorted_by_key(|rank| order.iter().position(|known| known == rank)),
        "{ranks:?}"
    );
    assert!(result["warnings"].as_array().unwrap().iter().all(Value::is_string));
}
