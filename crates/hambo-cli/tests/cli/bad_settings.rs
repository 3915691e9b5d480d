//! Settings that cannot be meant.

use super::*;

#[test]
fn numbers_out_of_range_are_refused() {
    let place = Place::with_data();
    let with = |name: &str, value: &str| {
        let usual = EVALUATE
            .replace("--horizon 15", "--horizon=15")
            .replace("--rollouts 200", "--rollouts=200");
        let without: Vec<&str> = usual
            .split_whitespace()
            .filter(|word| !word.starts_with(&format!("--{name}=")))
            .collect();
        format!("{} --{name} {value} --out run", without.join(" "))
    };
    place.refuses(&with("horizon", "0"), &["horizon = 0: expected at least 1 step"]);
    for value in ["0", "1", "-1", "1.5", "nan", "inf"] {
        let printed: f64 = value.parse().unwrap();
        let words =
            format!("delta = {printed}: expected a probability between 0 and 1, both excluded");
        place.refuses(&with("delta", value), &[&words]);
    }
    for value in ["0", "2", "-0.5", "nan"] {
        let printed: f64 = value.parse().unwrap();
        place.refuses(
            &with("discount", value),
            &[&format!("discount = {printed}: expected a number in (0, 1]")],
        );
    }
    place.refuses(&with("rollouts", "5"), &["rollouts = 5: expected at least 100"]);
    place
        .refuses(&with("rollouts", "999999999999"), &["rollouts = 999999999999: expected at most"]);
    for value in ["0", "100000"] {
        place.refuses(&with("threads", value), &[&format!("threads = {value}: expected 1 to")]);
    }
    for value in ["nan", "inf"] {
        place.refuses(&with("threshold", value), &["threshold = ", "expected a finite number"]);
    }
    for (name, value) in [("horizon", "-3"), ("rollouts", "1e4"), ("seed", "-1"), ("delta", "five")]
    {
        place.misuses(&with(name, value), &[&format!("invalid value '{value}' for '--{name}")]);
    }
    assert!(!place.path("run").exists());
}

#[test]
fn a_threshold_needs_a_bound() {
    let place = Place::with_data();
    place.refuses(
        &format!("{} --threshold -50", EVALUATE.replace(METHODS, "ds,dainf")),
        &["method = ds: expected a conservative method (", "first where a threshold is given"],
    );
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let place = Place::with_data();
    for (list, name) in
        [("dainff", "dainff"), ("DAinf", "DAinf"), ("ds,", ""), ("ds,worst", "worst")]
    {
        let line = EVALUATE.replace(METHODS, list);
        place.refuses(
            &line,
            &[
                &format!("method = {name}: expected all, or some of "),
                "dainf, ds, ts1, tsinf, mean",
            ],
        );
    }
    for env in ["hoper", "Pendulums", "point_safety"] {
        let words = format!("env = {env}: expected one of point-safety, point, pendulum");
        for line in [EVALUATE, COLLECT] {
            place.refuses(&line.replace("--env point-safety", &format!("--env {env}")), &[&words]);
        }
    }
    for (policy, words) in [
        (
            "builtin:waypoints",
            "no built-in policy \"waypoints\" (did you mean builtin:waypoint?); there are waypoint (gains y=1.6,speed=0.5)",
        ),
        ("builtin:", "no built-in policy \"\"; there are waypoint"),
        ("builtin:waypoint,x=1", "waypoint has no gain \"x\"; there are waypoint (gains y=1.6"),
        ("builtin:waypoint,y", "\"y\" is not gain=value"),
        ("builtin:waypoint,y=", "y = \"\": expected a finite number"),
        ("builtin:waypoint,y=inf", "y = \"inf\": expected a finite number"),
        (
            "agent.bin",
            "policy \"agent.bin\": not a kind of policy that can be read; expected builtin:NAME",
        ),
    ] {
        for line in [EVALUATE, COLLECT] {
            place.refuses(&line.replace("builtin:waypoint", policy), &[words]);
        }
    }
    place.misuses(&format!("{EVALUATE} --device tpu"), &["invalid value 'tpu'", "auto, cpu"]);
    place.misuses(&format!("{EVALUATE} --model linear"), &["invalid value 'linear'", "bnn"]);
}

#[test]
fn policies_and_data_of_other_sizes_are_refused() {
    let place = Place::with_data();
    let words = "policy builtin:swing-up takes states of 3 and gives actions of 1 dimensions, \
                 task point-safety has 2 and 2";
    for line in [EVALUATE, &format!("{COLLECT} --force")] {
        place.refuses(&line.replace("builtin:waypoint", "builtin:swing-up"), &[words]);
    }
    let pendulum = EVALUATE
        .replace("builtin:waypoint", "builtin:swing-up")
        .replace("point-safety", "pendulum");
    let words =
        "data.hdf5: task pendulum has states of 3 and actions of 1 dimensions, the data 2 and 2";
    place.refuses(&format!("{pendulum} --out run"), &[words]);
    place.refuses(
        "return --env pendulum --policy builtin:waypoint --horizon 5 --episodes 5",
        &["takes states of 2", "task pendulum has 3 and 1"],
    );
}

#[test]
fn settings_of_the_model_are_checked() {
    let place = Place::with_data();
    for (content, words) in [
        ("", "not settings of a model in JSON"),
        ("steps = 300", "not settings of a model in JSON"),
        ("[1, 2]", "not settings of a model in JSON"),
        ("\u{0}\u{1}", "not settings of a model in JSON"),
        (r#"{"hiden": [32]}"#, "unknown field `hiden`, expected one of `particles`, `hidden`"),
        (r#"{"kernel": {"rbf": {"length_scale": 1, "scale": 2}}}"#, "unknown field `scale`"),
        (
            r#"{"kernel": "cubic"}"#,
            "unknown variant `cubic`, expected one of `rbf`, `median`, `none`",
        ),
        (r#"{"steps": "many"}"#, "invalid type: string \"many\""),
        (r#"{"steps": 1, "steps": 2}"#, "duplicate field `steps`"),
        (r#"{"steps": 0}"#, "steps = 0: expected a positive, finite number"),
        (r#"{"particles": 0}"#, "particles = 0: expected a positive, finite number"),
        (r#"{"batch": 0}"#, "batch = 0: expected a positive, finite number"),
        (r#"{"batch": 10000000000}"#, "batch = 10000000000: expected at most"),
        (r#"{"hidden": [32, 0]}"#, "hidden = [32, 0]: expected widths of at least 1"),
        (r#"{"learning_rate": -0.1}"#, "learning_rate = -0.1"),
        (r#"{"std_floor": 0}"#, "std_floor = 0: expected a positive, finite number"),
        (r#"{"holdout": 0.9}"#, "holdout = 0.9: expected a number in (0, 0.4]"),
        (r#"{"prior_temperature": -1}"#, "prior_temperature = -1: expected 0 or a positive number"),
        (r#"{"kernel": {"rbf": {"length_scale": 0}}}"#, "kernel.length_scale = 0"),
        (r#"{"particles": 18446744073709551615}"#, "particles = 18446744073709551615: expected"),
        (r#"{"particles": 100000}"#, "particles = 100000: expected at most 1024"),
        (r#"{"particles": 1000, "hidden": [4000, 4000]}"#, "network = 1000 × "),
        (r#"{"hidden": [18446744073709551615, 18446744073709551615]}"#, "network = 5 × "),
        (r#"{"hidden": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}"#, "at most 16 layers"),
        (r#"{"hidden": [10000, 1], "batch": 1000000}"#, "batch = 1000000: expected at most"),
    ] {
        place.write("bad.json", content);
        place.refuses(
            &format!("{} --out run", EVALUATE.replace("small.json", "bad.json")),
            &["error: bad.json: ", words],
        );
    }
    place.refuses(
        &EVALUATE.replace("small.json", "no.json"),
        &["no.json: cannot read: No such file"],
    );
    place.refuses(&EVALUATE.replace("small.json", "."), &["error: .: cannot read: Is a directory"]);
    place.write("wild.json", r#"{"hidden": [8], "steps": 200, "learning_rate": 1e30}"#);
    place.refuses(
        &format!("{} --out run", EVALUATE.replace("small.json", "wild.json")),
        &["training diverged", "lower the learning rate"],
    );
}

#[test]
fn settings_of_gaussian_processes_and_searches_are_checked() {
    let place = Place::with_data();
    for (content, words) in [
        (r#"{"starts": 18446744073709551615}"#, "starts = 18446744073709551615: expected at most"),
        (r#"{"likelihood_rows": 18446744073709551615}"#, "likelihood_rows = 1844"),
        (r#"{"memory_gib": -1}"#, "memory_gib = -1"),
        (r#"{"subset": 0}"#, "subset = 0"),
    ] {
        place.write("bad.json", content);
        let line = EVALUATE.replace("small.json", "bad.json").replace(METHODS, "ca");
        place.refuses(&format!("{line} --model gp"), &["error: bad.json: ", words]);
    }
    let learning = |field: &str| format!(r#"{{"sac": {{"learning": {{{field}}}}}}}"#);
    for (content, words) in [
        (r#"{"hidden": [4000000000, 4000000000]}"#.to_owned(), "network = 2 × "),
        (r#"{"hidden": [100000], "batch": 1000000}"#.to_owned(), "batch = 1000000: expected"),
        (r#"{"sac": {"temperature": 0}}"#.to_owned(), "sac.temperature = 0"),
        (r#"{"sac": {"temperature_rate": -1}}"#.to_owned(), "sac.temperature_rate = -1"),
        (r#"{"dqn": {"patience": 18446744073709551615}}"#.to_owned(), "dqn.patience = "),
        (learning(r#""learning_rate": 0"#), "learning.learning_rate = 0"),
        (learning(r#""hidden": [0]"#), "network = 2 × [1, 0, 1]"),
        (learning(r#""hidden": [100000], "batch": 1000000"#), "learning.batch = 1000000"),
    ] {
        place.write("bad.json", content);
        let line = EVALUATE.replace(METHODS, "ca");
        place.refuses(&format!("{line} --search-config bad.json"), &["error: bad.json: ", words]);
    }
    let many = r#"{"episodes": 1000000, "remembered_rounds": 1000000}"#;
    place.write("bad.json", format!(r#"{{"optimisers": "sac", "sac": {{"learning": {many}}}}}"#));
    let line = EVALUATE.replace(METHODS, "ca");
    place.refuses(&format!("{line} --search-config bad.json"), &["remembered_rounds = 1000000"]);
}

#[test]
fn collect_and_return_check_their_numbers() {
    let place = Place::new();
    for steps in ["0", "1", "10000000000000"] {
        place
            .refuses(&COLLECT.replace("600", steps), &[&format!("steps = {steps}: expected 2 to")]);
    }
    let largest = u64::MAX;
    place.succeeds(&format!("{} --horizon {largest}", COLLECT.replace("data.hdf5", "long.hdf5")));
    for noise in ["-1", "nan", "inf"] {
        place.refuses(
            &COLLECT.replace("0.1", noise),
            &["noise = ", "expected 0 or a positive standard deviation"],
        );
    }
    let line = "return --env point --policy builtin:proportional --horizon 5 --episodes 5";
    place.refuses(
        &line.replace("horizon 5", "horizon 0"),
        &["horizon = 0: expected at least 1 step"],
    );
    for episodes in ["0", "1", "1000000000000"] {
        let line = line.replace("episodes 5", &format!("episodes {episodes}"));
        place.refuses(&line, &[&format!("episodes = {episodes}: expected at least 2")]);
    }
    for discount in ["0", "2", "-1", "nan"] {
        place.refuses(
            &format!("{line} --discount {discount}"),
            &["discount = ", "expected a number in (0, 1]"],
        );
    }
}

#[test]
fn train_checks_its_numbers_before_it_makes_a_folder() {
    let place = Place::new();
    let line = "train --env pendulum --steps 100 --out run";
    place.refuses(&line.replace("100", "0"), &["steps = 0: expected 1 to"]);
    place.refuses(&line.replace("pendulum", "cartpole"), &["env = cartpole", "hopper-v5"]);
    for (setting, words) in [
        ("--hidden 0", "network = 2 × [1, 0, 1]: expected at least one member"),
        ("--batch 0", "batch = 0: expected at least 1"),
        ("--learning-rate -1", "learning_rate = -1: expected a positive, finite number"),
        ("--discount 1.5", "discount = 1.5: expected a number in (0, 1]"),
        ("--learning-starts 0", "learning_starts = 0: expected at least 1"),
        ("--update-every 0", "update_every = 0: expected at least 1"),
        ("--evaluate-every 0", "evaluate_every = 0: expected at least 1"),
        ("--evaluation-episodes 1", "evaluation_episodes = 1: expected at least 2"),
        ("--evaluation-episodes 18446744073709551615", "expected at most 1000000"),
        ("--batch 18446744073709551615", "batch = 18446744073709551615: expected at most"),
        ("--hidden 18446744073709551615", "network = 2 × "),
    ] {
        place.refuses(&format!("{line} {setting}"), &[words]);
    }
}
