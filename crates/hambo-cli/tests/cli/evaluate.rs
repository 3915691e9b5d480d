//! `hambo evaluate` on a problem that takes less than a second.

use super::*;

#[test]
fn the_object_has_every_field_that_programs_rely_on() {
    let place = Place::with_data();
    let result = place.json(&format!("{EVALUATE} --seed 3 --delta 0.1 --json"));
    assert_eq!(result["schema"], "hambo/1");
    assert_eq!(result["task"], "point-safety");
    assert_eq!(result["data"]["transitions"], 600);
    assert!(result["device"].as_str().unwrap().starts_with("cpu ("), "{}", result["device"]);
    let digest = result["data"]["sha256"].as_str().unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(result["policy"], "builtin:waypoint");
    assert_eq!((&result["delta"], &result["seed"]), (&0.1.into(), &3.into()));
    assert!(result["verdict"].is_null() && result["threshold"].is_null());
    assert!(result["warnings"].is_array() && result["seconds"].is_number());

    let estimates = result["estimates"].as_array().unwrap();
    let methods: Vec<&str> = estimates.iter().map(|e| e["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["dainf", "ds", "ts1", "tsinf", "mean"]);
    for e in estimates {
        assert!(e["value"].is_f64() && e["std_error"].is_f64(), "{e}");
        assert_eq!(e["diverged_rollouts"], 0);
        assert!(e["converged"].is_null() && e.get("converged").is_some());
        assert_eq!(
            e["lower_bound"].is_f64(),
            e["method"] == "dainf",
            "only a conservative method bounds"
        );
    }
    assert_eq!(result["lower_bound"], estimates[0]["lower_bound"]);
    assert!(estimates[0]["lower_bound"].as_f64() < estimates[0]["value"].as_f64());
    for particle in estimates[0]["particles"].as_array().unwrap() {
        assert!(estimates[0]["value"].as_f64() <= particle.as_f64());
    }
}

#[test]
fn the_same_seed_gives_the_same_object_whatever_the_threads() {
    let place = Place::with_data();
    let run = |options: &str| timeless(place.json(&format!("{EVALUATE} --json {options}")));
    let first = run("--seed 1 --threads 1");
    assert_eq!(first, run("--seed 1 --threads 1"));
    assert_eq!(first, run("--seed 1 --threads 2"));
    assert_eq!(first, run("--seed 1"));
    let other = run("--seed 2");
    assert_ne!(first["estimates"], other["estimates"]);
    assert_ne!(first["model"], other["model"]);
}

#[test]
fn the_same_seed_gives_the_same_object_on_pendulum() {
    let place = Place::new();
    place.write("small.json", SMALL);
    place.succeeds(
        "collect --env pendulum --policy builtin:swing-up --noise 0.5 1 --steps 5000 --out data.hdf5",
    );
    let line = EVALUATE.replace("point-safety", "pendulum").replace("waypoint", "swing-up");
    let line = line.replace(METHODS, "dainf,ts1");
    let run = |options: &str| timeless(place.json(&format!("{line} --json {options}")));
    assert_eq!(run("--threads 1"), run("--threads 2"));
}

#[test]
fn the_order_of_methods_is_kept_and_the_first_one_counts() {
    let place = Place::with_data();
    let result = place.json(&format!("{} --json", EVALUATE.replace(METHODS, "tsinf,dainf")));
    assert_eq!(result["estimates"][0]["method"], "tsinf");
    assert_eq!(result["estimates"][1]["method"], "dainf");
    assert!(result["lower_bound"].is_null(), "a neutral estimate bounds nothing");
}

#[test]
fn the_exit_code_tells_whether_the_threshold_is_met() {
    let place = Place::with_data();
    // Nothing in the data supports the bound of DAinf: only who accepts that gets an answer by it.
    let run = place.hambo(&format!("{EVALUATE} --threshold -1000"));
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("NOT ENOUGH EVIDENCE: bound "), "{}", run.stdout);
    let accepting = format!("{EVALUATE} --accept extrapolation");
    for (threshold, code, verdict) in [("-1000", 0, "meets"), ("0", 1, "fails")] {
        let run = place.hambo(&format!("{accepting} --threshold {threshold} --json"));
        assert_eq!((run.code, run.stderr.as_str()), (Some(code), ""));
        let result = object(&run.stdout);
        assert_eq!(result["verdict"], verdict);
        assert_eq!(result["threshold"].as_f64().unwrap(), threshold.parse::<f64>().unwrap());
        let run = place.hambo(&format!("{accepting} --threshold {threshold}"));
        assert_eq!((run.code, run.stderr.as_str()), (Some(code), ""));
        let words = if code == 0 { "MEETS the threshold: " } else { "NOT SHOWN: bound " };
        assert!(run.stdout.contains(words), "{}", run.stdout);
    }
    // The bound itself is the smallest number that fails by a hair and the largest that is met.
    let bound = place.json(&format!("{EVALUATE} --json"))["lower_bound"].as_f64().unwrap();
    assert_eq!(place.hambo(&format!("{accepting} --threshold {bound}")).code, Some(0));
    assert_eq!(place.hambo(&format!("{accepting} --threshold {}", bound.next_up())).code, Some(1));
}

#[test]
fn a_table_is_printed_for_people() {
    let place = Place::with_data();
    let text = place.succeeds(EVALUATE);
    for part in [
        "method",
        "lower bound",
        "dainf",
        "conservative",
        "tsinf",
        "neutral",
        "from 600 transitions",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn out_holds_the_result_and_a_model_that_gives_the_same_estimates() {
    let place = Place::with_data();
    let first = place.json(&format!("{EVALUATE} --out runs/1 --json"));
    let names = |folder: &str| {
        let entries = std::fs::read_dir(place.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with("events.out.tfevents."));
        names.sort();
        names
    };
    let expected =
        ["model.json", "model.safetensors", "report.html", "result.json", "run.toml", "summary.md"];
    assert_eq!(names("runs/1"), ["log.csv"].into_iter().chain(expected).collect::<Vec<_>>());
    assert_eq!(names("runs"), ["1"]);
    let text = std::fs::read_to_string(place.path("runs/1/result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), first);

    let fitted = EVALUATE.replace("--model-config small.json", "--fitted runs/1");
    let again = place.json(&format!("{fitted} --json --out runs/2"));
    assert_eq!(timeless(again), timeless(first.clone()), "bit for bit");
    assert_eq!(names("runs/2"), expected, "nothing was trained, so there is no log");
    for name in ["model.json", "model.safetensors"] {
        let read = |folder| std::fs::read(place.path(folder).join(name)).unwrap();
        assert!(read("runs/1") == read("runs/2"), "{name}");
    }

    // Over an earlier run: all are replaced.
    let other = place.json(&format!("{EVALUATE} --seed 9 --out runs/1 --force --json"));
    assert_ne!(other["estimates"], first["estimates"]);
    assert_eq!(names("runs/1").len(), 7);
    let seed_of_model = place.json(&format!("{fitted} --seed 9 --json"));
    assert_eq!(seed_of_model["estimates"], other["estimates"]);
}

#[cfg(unix)]
#[test]
fn files_can_be_read_by_whom_the_user_lets() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_data();
    place.succeeds(&format!("{EVALUATE} --out run"));
    let mode =
        |path: &str| std::fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    let usual = mode("small.json"); // as this process makes files
    for path in ["data.hdf5", "run/model.json", "run/model.safetensors", "run/result.json"] {
        assert_eq!(mode(path), usual, "{path}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::with_data();
    let mut child = place
        .command(&format!("{EVALUATE} --json"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn tables_and_several_files_are_data_too() {
    let place = Place::with_data();
    // The data of `data.hdf5` as two CSV files with names of their own.
    let mut texts = [String::new(), String::new()];
    for (i, text) in texts.iter_mut().enumerate() {
        text.push_str("run;px;py;u;v;gain\n");
        for t in 0..300 {
            let x = |phase: f64| ((t + 300 * i) as f64 * 0.7 + phase).sin();
            text.push_str(&format!(
                "{};{};{};{};{};{}\n",
                t / 10,
                x(0.0),
                x(0.5),
                x(1.0),
                x(1.5),
                x(2.0)
            ));
        }
        place.write(&format!("{i}.csv"), &*text);
    }
    let columns = "--columns state=px,py action=u,v reward=gain episode=run";
    let line = EVALUATE.replace("data.hdf5", &format!("0.csv 1.csv {columns}"));
    let result = place
        .json(&format!("{line} --method ds --json").replace(&format!("--method {METHODS} "), ""));
    assert_eq!(result["data"]["transitions"], 540);
    assert_eq!(result["data"]["episodes"], 60);
    assert_eq!(result["data"]["sha256"].as_str().unwrap().len(), 64);
    assert!(
        result["warnings"].to_string().contains("(in each of 2 files)"),
        "{}",
        result["warnings"]
    );
    let part = place.json(
        &format!("{line} --method ds --subsample 90 --json")
            .replace(&format!("--method {METHODS} "), ""),
    );
    assert_eq!((&part["data"]["transitions"], &part["data"]["episodes"]), (&90.into(), &10.into()));
}

/// A model of several folds answers the same when it is read again, and each of its episodes is replayed in the model that has
/// not seen it.
#[test]
fn a_fitted_model_of_several_folds_gives_the_same_bound() {
    let place = Place::with_data();
    place.write("folds.json", SMALL.replace(r#""folds": 1"#, r#""folds": 3"#));
    let line = EVALUATE
        .replace("--model-config small.json", "--model-config folds.json")
        .replace(METHODS, "ca,dainf,ds");
    let first = place.json(&format!("{line} --json --out run"));
    assert_eq!(first["model"]["fit"]["folds"], 3);
    let replay = &first["confidence_set"]["trajectory"];
    assert_eq!((&replay["episodes"], &replay["near"]), (&40.into(), &40.into()), "{replay}");
    let line = line.replace("--model-config folds.json", "--fitted run");
    let again = place.json(&format!("{line} --json"));
    for key in ["estimates", "confidence_set", "adversary", "lower_bound", "evidence"] {
        assert_eq!(first[key], again[key], "{key}");
    }
}
