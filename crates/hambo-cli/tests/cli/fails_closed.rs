//! Where there is no answer, none is given: nothing here may say that a threshold is met.

use super::*;

/// The result of an evaluation whose threshold, however low, must not be met.
fn fails(place: &Place, line: &str) -> Value {
    let run = place.hambo(&format!("{line} --threshold=-1e30 --json"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "hambo {line}\n{}", run.stdout);
    let result = object(&run.stdout);
    assert_ne!(result["verdict"], "meets");
    result
}

#[test]
fn a_model_of_other_data_is_refused_by_every_method() {
    let place = Place::with_data();
    place.succeeds(&format!("{EVALUATE} --out run"));
    // As many rows of the same system, and not one of them the same.
    place.succeeds(&format!("{} --force", COLLECT.replace("--seed 1", "--seed 2")));
    for methods in ["ca", "da1", "dainf", "ds", "mean"] {
        let line =
            EVALUATE.replace("--model-config small.json", "--fitted run").replace(METHODS, methods);
        place.refuses(&line, &["the model was fitted on other data", "SHA-256", "fit a new one"]);
    }
    place.succeeds(&format!("{COLLECT} --force"));
    let line = EVALUATE.replace("--model-config small.json", "--fitted run");
    place.succeeds(&line);
    place.refuses(
        &format!("{line} --model gp"),
        &["run: the fitted model is of another kind than --model"],
    );
    // Another order of the same rows is other data: those held out are told by their numbers.
    place.refuses(&format!("{line} --subsample rows:599"), &["the model was fitted on other data"]);
}

#[test]
fn a_set_so_large_that_trajectories_leave_the_data_or_the_numbers_shows_nothing() {
    let place = Place::with_data();
    for beta in ["1e3", "1e6", "1e12", "1e30", "1e38"] {
        let line = EVALUATE.replace(METHODS, "ca");
        let result = fails(&place, &format!("{line} --beta {beta}"));
        let estimate = &result["estimates"][0];
        assert!(
            estimate["lower_bound"].is_null()
                || estimate["converged"] == false
                || estimate["left_rollouts"].as_u64() > Some(0),
            "{beta}: {estimate}"
        );
    }
}

#[test]
fn rewards_that_are_not_defined_everywhere_have_no_bound() {
    let place = Place::with_data();
    // The logs stay below y = 2, the policy is to go above 2.5.
    let line = EVALUATE
        .replace(METHODS, "ca,dainf,ds")
        .replace("builtin:waypoint", "builtin:waypoint,y=4");
    let undefined = ["log(2.5-s[1])", "sqrt(2.5-s[1])", "1/max(0,2.5-s[1])"];
    for reward in undefined {
        let result = fails(&place, &format!("{line} --reward {reward}"));
        for e in result["estimates"].as_array().unwrap() {
            assert!(e["value"].is_null() && e["lower_bound"].is_null(), "{reward}: {e}");
            assert!(e["diverged_rollouts"].as_u64() > Some(0), "{reward}: {e}");
        }
        let text = place
            .hambo(&format!("{line} --reward {reward} --threshold=-1e30 --force --out run"))
            .stdout;
        assert!(
            text.contains("-∞") && text.contains("left the finite numbers, so there is no bound"),
            "{text}"
        );
    }
}

/// The logs stay below y = 2, the policy is to go far above.
#[test]
fn rollouts_that_leave_the_range_of_the_logs_get_the_worst_reward() {
    let place = Place::with_data();
    let line = EVALUATE
        .replace(METHODS, "dainf,ds")
        .replace("builtin:waypoint", "builtin:waypoint,y=40")
        .replace("--horizon 15", "--horizon 60");
    let asked = |more: &str| place.json(&format!("{line} --json --reward=-1-s[1]^2/1e3 {more}"));
    let (logged, declared) = (asked(""), asked("--worst-reward -50"));
    assert_eq!(declared["declared"]["worst_reward"], -50.0);
    assert!(logged["declared"]["worst_reward"].as_f64() > Some(-1.1));
    for (method, place) in [("dainf", 0), ("ds", 1)] {
        let [usual, worse] = [&logged, &declared].map(|result| &result["estimates"][place]);
        let left = usual["left_rollouts"].as_u64().unwrap();
        assert!(left > 0 && usual["left_rollouts"] == worse["left_rollouts"], "{usual}");
        let [usual, worse] = [usual, worse].map(|estimate| estimate["value"].as_f64().unwrap());
        assert!(worse < usual - 40.0 && worse > -50.0 * 60.0, "{method}: {usual}, {worse}");
        let warning = format!("{method}: {left} of ");
        let warnings = logged["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|w| w.as_str().unwrap().starts_with(&warning)), "{warnings:?}");
    }
    // A file says the same, and what the log contradicts is not believed.
    place.write(
        "task.toml",
        "env = \"point-safety\"\nreward = \"-1-s[1]^2/1e3\"\nworst_reward = -50\n",
    );
    let by_file = line.replace("--env point-safety", "--task task.toml");
    assert_eq!(place.json(&format!("{by_file} --json"))["estimates"], declared["estimates"]);
    let text = asked("--worst-reward 5").to_string();
    assert!(text.contains("a worst reward of 5 was declared, but the log has one of -1"), "{text}");
    place.refuses(
        &format!("{line} --worst-reward NaN"),
        &["worst_reward = NaN: expected a finite number"],
    );
}

/// A name cannot write a verdict of its own into the log of a build.
#[test]
fn names_from_files_are_printed_on_one_line_without_commands_to_the_terminal() {
    let place = Place::with_data();
    let name = r#"name = "task\u001b[2J\nMEETS the threshold: bound 9""#;
    let constraint =
        r#"{ name = "c\u001b[31m\r\nMEETS", expression = "-abs(s[0])", threshold = 5 }"#;
    place.write(
        "task.toml",
        format!("{name}\nreward = \"-abs(s[1])\"\nconstraint = [{constraint}]\n"),
    );
    let line = EVALUATE.replace("--env point-safety", "--task task.toml").replace(METHODS, "dainf");
    let run = place.hambo(&line);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "{}", run.stdout);
    assert!(run.stdout.contains("task\u{fffd}[2J\u{fffd}MEETS"), "{}", run.stdout);
    assert!(!run.stdout.contains(['\u{1b}', '\r']), "{}", run.stdout);
    assert!(run.stdout.lines().all(|line| !line.starts_with("MEETS")), "{}", run.stdout);
    place.write("task.toml", "name = \"x\"\nreward = \"\u{1b}[2J\"\n");
    let run = place.hambo(&line);
    assert!(run.code == Some(2) && !run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

#[test]
fn sizes_that_no_machine_has_are_refused_before_anything_is_computed() {
    let place = Place::with_data();
    for horizon in ["18446744073709551615", "4294967296", "1000001"] {
        place.refuses(
            &EVALUATE.replace("--horizon 15", &format!("--horizon {horizon}")),
            &["horizon = ", "at most 1000000"],
        );
    }
    for (field, words) in [
        (r#""restarts": 18446744073709551615"#, "restarts = "),
        (r#""batch": 1000000, "restarts": 1000000"#, "network = 1000000 × "),
        (r#""batch": 1000000, "restarts": 1000, "hidden": []"#, "batch = "),
        (r#""iterations": 4294967297"#, "iterations = "),
        (r#""evaluation": 0"#, "evaluation = 0"),
        (r#""tolerance": -1"#, "tolerance = -1"),
        (r#""sac": {"learning": {"episodes": 18446744073709551615}}"#, "learning.episodes = "),
        (r#""dqn": {"learning": {"rounds": 18446744073709551615}}"#, "learning.rounds = "),
    ] {
        place.write("search.json", format!("{{{field}}}"));
        let line = EVALUATE.replace(METHODS, "ca");
        place.refuses(&format!("{line} --search-config search.json"), &[words]);
    }
}
