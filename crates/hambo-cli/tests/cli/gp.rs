//! `--model gp` and `reproduce`.

use super::Place;

const EVALUATE: &str = "evaluate --data data.hdf5 --env point-safety --policy builtin:waypoint --horizon 5 --model gp \
                        --rollouts 100 --gp-rows 60 --model-config gp.json";
const SETTINGS: &str = r#"{"starts": 1, "likelihood_rows": 60}"#;

fn place() -> Place {
    let place = Place::with_data();
    place.write("gp.json", SETTINGS);
    place
}

#[test]
fn a_gaussian_process_answers_and_says_what_the_theory_says() {
    let place = place();
    let result = place.json(&format!(
        "{EVALUATE} --beta theory --norm-bound 5 --lipschitz 60,2 --json --out run"
    ));
    let methods: Vec<&str> = result["estimates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["method"].as_str().unwrap())
        .collect();
    assert_eq!(methods, ["ca", "ds", "mean"], "what was not asked for is what a GP has");
    assert_eq!(result["model"]["kind"], "gp");
    assert_eq!(result["model"]["fit"]["rows"], 60);
    let theory = &result["theory"];
    assert_eq!(
        (theory["norm_bound"].as_f64(), theory["all_data"].as_bool()),
        (Some(5.0), Some(false))
    );
    assert!(theory["beta"].as_f64().unwrap() > 5.0);
    assert_eq!(theory["beta"], result["confidence_set"]["beta"]);
    for name in [
        "information_gain",
        "information_rate",
        "posterior_norm",
        "metric_constant",
        "deviation_constant",
        "dynamics_constant",
        "log10_gap_constant",
        "log10_gap",
        "beta_literal",
    ] {
        assert!(theory[name].as_f64().is_some(), "{name}: {theory}");
    }
    let page = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    for name in ["information gain", "γ_n", "β_n(δ)", "L_k", "L_f", "L_σ", "C_n", "worst-case gap"]
    {
        assert!(page.contains(&format!("<tr><td>{name}</td><td>")), "{name} is not in the page");
        assert!(
            !page.contains(&format!("<tr><td>{name}</td><td>–")),
            "{name} has no value in the page"
        );
    }
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("the exact theory of all data no longer applies"), "{warnings}");

    // The saved model gives the same answer.
    let line = EVALUATE.replace("--model-config gp.json", "--fitted run").replace("--model gp", "");
    let again = place.json(&format!("{line} --beta theory --norm-bound 5 --lipschitz 60,2 --json"));
    assert_eq!(result["estimates"], again["estimates"]);
    assert_eq!(result["theory"], again["theory"]);
}

/// SAC, alone and as a second opinion beside the pathwise search, on the posterior's confidence set.
#[test]
fn every_adversary_searches_a_gaussian_process() {
    let place = place();
    let line = EVALUATE.replace("--env", "--method ca,mean --search-config search.json --env");
    let lowest = |optimizers: &str| {
        place.write(
            "search.json",
            format!(
                r#"{{"optimisers": "{optimizers}", "hidden": [16], "restarts": 1, "batch": 8, "iterations": 20, "evaluation": 32,
                    "sac": {{"learning": {{"rounds": 2, "episodes": 20, "updates": 20}}}}}}"#
            ),
        );
        let result = place.json(&format!("{line} --beta 3 --json"));
        let adversary = &result["adversary"];
        let candidates = adversary["candidates"].as_array().unwrap().iter();
        let found: std::collections::BTreeSet<String> =
            candidates.map(|c| c["optimiser"].as_str().unwrap().to_owned()).collect();
        let [lowest, neutral] = ["lowest", "neutral"].map(|name| adversary[name].as_f64().unwrap());
        assert!(lowest <= neutral, "{optimizers}: {adversary}");
        assert_eq!(result["confidence_set"]["beta"], 3.0);
        (found.into_iter().collect::<Vec<_>>(), lowest)
    };
    let (found, pathwise) = lowest("pathwise");
    assert_eq!(found, ["pathwise"]);
    assert_eq!(lowest("sac").0, ["sac"]);
    let (found, both) = lowest("portfolio");
    assert_eq!(found, ["pathwise", "sac"]);
    assert!(both <= pathwise, "a second opinion never raises the lowest value: {both} {pathwise}");
}

#[test]
fn what_a_gaussian_process_cannot_do_is_refused_by_name() {
    let place = place();
    place.refuses(
        &format!("{EVALUATE} --method ca,dainf"),
        &["method = dainf", "ca, ds, mean", "no particles"],
    );
    place.refuses(&format!("{EVALUATE} --beta theory"), &["beta = theory", "--norm-bound"]);
    place.refuses(&format!("{EVALUATE} --beta theory --norm-bound -1"), &["norm-bound = -1"]);
    place.refuses(&format!("{EVALUATE} --lipschitz 1,-2"), &["lipschitz = -2"]);
    place.refuses(&EVALUATE.replace("--gp-rows 60", "--gp-rows 0"), &["subset = 0"]);
    place.write("gp.json", r#"{"memory_gib": 0.001}"#);
    place.refuses(
        &EVALUATE.replace("--gp-rows 60", ""),
        &["data.hdf5", "GiB", "--gp-rows", "--model bnn"],
    );
    place.write("gp.json", r#"{"kernel": "cubic"}"#);
    place.refuses(EVALUATE, &["gp.json", "cubic", "matern32"]);
    let bnn = super::EVALUATE.replace(super::METHODS, "ca");
    place.refuses(&format!("{bnn} --beta theory --norm-bound 1"), &["beta = theory", "--model gp"]);
}

#[test]
fn experiments_have_names() {
    let place = Place::new();
    let run = place.hambo("reproduce fig9 --out x");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("fig2"), "{}", run.stderr);
}
