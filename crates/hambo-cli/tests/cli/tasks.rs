//! Tasks of the user's own: rewards, terminations, initial states, constraints.

use super::*;
use serde_json::json;

/// Without an environment.
const OWN: &str = "evaluate --data data.hdf5 --policy builtin:waypoint --horizon 15 --model-config small.json \
                   --rollouts 200 --method dainf,ds";

fn with_task(place: &Place, task: &str, line: &str) -> String {
    place.write("task.toml", task);
    format!("{line} --task task.toml")
}

#[test]
fn without_environment_and_task_the_reward_is_learned() {
    let place = Place::with_data();
    let result = place.json(&format!("{OWN} --json"));
    assert_eq!(result["task"], "logged reward");
    assert_eq!(result["declared"]["reward"], "learned");
    assert_eq!(result["declared"]["termination"], json!({"kind": "none"}));
    assert_eq!(result["declared"]["initial"], "the first states of 40 logged episodes");
    assert_eq!(result["declared"]["action_low"], json!([null, null]), "no bounds");
    assert_eq!(result["model"]["layout"]["reward"], true);
    assert_eq!(result["tau"], Value::Null);
    assert_eq!(
        result["model"]["tau"].as_array().unwrap().len(),
        3,
        "two coordinates and the reward"
    );
    assert!(result["lower_bound"].is_f64());
    // With adversaries too: they have one more dimension to choose in.
    let line = OWN.replace("dainf,ds", "ca,mean").replace("--horizon 15", "--horizon 5");
    let ca = place.json(&format!("{line} --json"));
    assert_eq!(ca["confidence_set"]["reach"].as_array().unwrap().len(), 3);
    assert!(ca["lower_bound"].as_f64().unwrap() < ca["estimates"][1]["value"].as_f64().unwrap());
    let text = place.succeeds(OWN);
    assert!(
        text.contains("reward learned; termination none; initial states: the first states of 40"),
        "{text}"
    );
}

#[test]
fn a_task_file_says_what_flags_say_and_flags_come_first() {
    let place = Place::with_data();
    let task = "reward = \"-hypot(s[0] - 2, s[1])\"\ntermination = \"n[0] > 1.9\"\n\
                [actions]\nlow = -0.5\nhigh = [0.5, 0.5]\n[initial]\nkind = \"fixed\"\nstate = [-2.0, 0.0]\n";
    let from_file = place.json(&with_task(&place, task, &format!("{OWN} --json")));
    assert_eq!(from_file["task"], "task");
    assert_eq!(
        from_file["declared"]["termination"],
        json!({"kind": "expression", "rule": "n[0] > 1.9"})
    );
    assert_eq!(from_file["declared"]["action_high"], json!([0.5, 0.5]));
    let bare = "[actions]\nlow = -0.5\nhigh = 0.5\n[initial]\nkind = \"fixed\"\nstate = [-2, 0]\n";
    place.write("task.toml", bare);
    let mut flags = place.command(&format!("{OWN} --json --task task.toml"));
    flags.args(["--reward", "-hypot(s[0] - 2, s[1])", "--termination", "n[0] > 1.9"]);
    let from_flags = object(&Run::from(flags.output().unwrap()).stdout);
    assert_eq!(from_flags["estimates"], from_file["estimates"]);
    // The environment's own reward, termination and start, named in the file.
    let env = place.json(&with_task(
        &place,
        "name = \"mine\"\nenv = \"point-safety\"",
        &format!("{EVALUATE} --json").replace("--env point-safety", ""),
    ));
    assert_eq!(env["task"], "mine");
    assert_eq!(env["estimates"], place.json(&format!("{EVALUATE} --json"))["estimates"]);
    place.misuses(
        &format!("{EVALUATE} --task task.toml"),
        &["--env", "cannot be used with", "--task"],
    );
}

#[test]
fn initial_states_are_drawn_as_declared() {
    let place = Place::with_data();
    let run = |initial: &str| {
        let task = format!("reward = \"s[0]\"\n[initial]\n{initial}");
        let line = OWN.replace("--horizon 15", "--horizon 1");
        place.json(&with_task(&place, &task, &format!("{line} --json")))
    };
    // One step pays s₀: the estimate is the mean of the initial states.
    let value = |result: &Value| {
        (
            result["estimates"][1]["value"].as_f64().unwrap(),
            result["estimates"][1]["std_error"].as_f64().unwrap(),
        )
    };
    assert_eq!(value(&run("kind = \"fixed\"\nstate = [0.25, 1]")), (0.25, 0.0));
    // Nothing beyond what was logged counts, and x is between −2 and 2 there.
    assert!(value(&run("kind = \"fixed\"\nstate = [2.9, 0]")).0 < 2.5);
    let (mean, error) = value(&run("kind = \"box\"\nlow = [-0.5, 0]\nhigh = [1.5, 0]"));
    assert!(
        (mean - 0.5).abs() < 0.15 && (error - (1.0 / 3.0f64 / 200.0).sqrt()).abs() < 0.005,
        "{mean} {error}"
    );
    let (mean, error) = value(&run("kind = \"gaussian\"\nmean = -0.5\nstd = [0.4, 0.1]"));
    assert!(
        (mean + 0.5).abs() < 0.15 && (error - 0.4 / 200f64.sqrt()).abs() < 0.005,
        "{mean} {error}"
    );
    assert_eq!(value(&run("kind = \"episode-starts\"")), (-2.0, 0.0));
}

#[test]
fn constraints_have_bounds_of_their_own_and_share_delta() {
    let place = Place::with_data();
    let task = "env = \"point-safety\"\n\
                [[constraint]]\nname = \"time\"\nexpression = \"-1\"\nthreshold = -15.5\n\
                [[constraint]]\nname = \"right of the start\"\nexpression = \"min(s[0] + 3, 0)\"\n\
                [[constraint]]\nname = \"logged\"\nexpression = \"learned\"\n";
    let line = format!("{OWN} --delta 0.08 --accept extrapolation");
    let result = place.json(&with_task(&place, task, &format!("{line} --json")));
    assert_eq!((result["delta"].as_f64(), result["delta_each"].as_f64()), (Some(0.08), Some(0.02)));
    let constraints = result["constraints"].as_array().unwrap();
    let names: Vec<&str> = constraints.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["time", "right of the start", "logged"]);
    assert_eq!(
        (&constraints[0]["lower_bound"], &constraints[0]["met"]),
        (&(-15.0).into(), &true.into())
    );
    assert_eq!(
        (&constraints[1]["lower_bound"], &constraints[1]["met"]),
        (&0.0.into(), &Value::Null)
    );
    assert_eq!(result["verdict"], "meets");
    // A wider margin than the return alone would have: a quarter of δ each.
    let alone = place.json(&format!(
        "{} --delta 0.02 --accept extrapolation --json --reward r",
        with_task(&place, "env = \"point-safety\"", OWN)
    ));
    assert_eq!(constraints[2]["estimates"], alone["estimates"]);
    let text = place.succeeds(&with_task(&place, task, &line));
    for part in ["right of the start", "meets", "δ = 0.08 is shared by 4 bounds, 0.0200 for each"]
    {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    // One that is not met is not outweighed by the others.
    let strict = task.replace("-15.5", "-14.5");
    let run = place.hambo(&with_task(&place, &strict, &format!("{line} --threshold -1000")));
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stdout.contains("NOT SHOWN for constraint "), "{}", run.stdout);
    place.refuses(
        &with_task(&place, task, &line.replace("dainf,ds", "ds")),
        &["method = ds: expected a conservative method"],
    );
}

/// Walks to the right that end for good beyond 1, in D4RL's layout.
fn walks(place: &Place, length: usize, limits_as_terminals: bool) {
    let mut columns: [Vec<f64>; 6] = Default::default();
    for episode in 0..40 {
        let mut x = -1.0 + 0.01 * f64::from(episode);
        for t in 1..=length {
            let a = (f64::from(episode * 7 + t as i32 * 13) * 0.37).sin();
            let next = x + 0.1 + 0.05 * a;
            let over = if limits_as_terminals { t == length } else { next > 1.0 };
            for (column, value) in columns.iter_mut().zip([
                x,
                a,
                1.0 + a,
                next,
                f64::from(over),
                f64::from(t == length && !over),
            ]) {
                column.push(value);
            }
            if over {
                break;
            }
            x = next;
        }
    }
    let n = columns[0].len();
    let names =
        ["observations", "actions", "rewards", "next_observations", "terminals", "timeouts"];
    let shapes = [&[n, 1][..], &[n, 1], &[n], &[n, 1], &[n], &[n]];
    let fields: Vec<_> = names
        .iter()
        .zip(shapes)
        .zip(columns)
        .map(|((name, shape), values)| (*name, shape, values))
        .collect();
    place.write_fields("data.hdf5", &fields);
    place.write("small.json", SMALL);
    // a = 0 for every state
    let zeros = [0; 4];
    let tensor =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 1], &zeros).unwrap();
    let header = [("format", "hambo-policy/1"), ("activation", "relu"), ("squash", "none")];
    let header = header.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    safetensors::serialize_to_file(
        [("layers.0.weight", tensor)],
        Some(header),
        &place.path("zero.safetensors"),
    )
    .unwrap();
}

#[test]
fn termination_is_learned_from_flags_and_declared() {
    let place = Place::new();
    walks(&place, 60, false);
    let line = OWN.replace("builtin:waypoint", "zero.safetensors").replace("15", "60");
    let result = place.json(&format!("{line} --json"));
    let termination = &result["declared"]["termination"];
    assert_eq!(termination["kind"], "learned");
    assert_eq!((&termination["terminals"], &termination["explained"]), (&40.into(), &40.into()));
    let rule = termination["rule"].as_str().unwrap();
    let threshold: f64 = rule.strip_prefix("n[0] > ").unwrap().parse().unwrap();
    assert!(threshold <= 1.0 && threshold > 0.9, "{rule}");
    // 0.1 a step from −0.8 on average: 18 steps of reward 1, and none after the end.
    let value = result["estimates"][1]["value"].as_f64().unwrap();
    assert!((value - 18.0).abs() < 1.5, "{value}");
    let text = place.succeeds(&line);
    assert!(text.contains("termination learned: n[0] > 0.9"), "{text}");
    let endless = place.json(&format!("{line} --termination none --json"));
    assert_eq!(endless["declared"]["termination"], json!({"kind": "none"}));
    // They go on until they leave the logged range, from −1 to 1.15, by half; then they get the worst reward, 0.
    let endless_ds = &endless["estimates"][1];
    assert!((endless_ds["value"].as_f64().unwrap() - 30.0).abs() < 1.5, "{endless_ds}");
    assert_eq!(endless_ds["left_rollouts"], 200);
    assert!(
        endless["warnings"].to_string().contains("the policy leaves the data"),
        "{}",
        endless["warnings"]
    );
    assert!(endless["support"]["beyond_range"][0].as_f64().unwrap() > 0.3);
}

#[test]
fn time_limits_flagged_as_terminals_are_told() {
    let place = Place::new();
    walks(&place, 12, true);
    let line = OWN.replace("builtin:waypoint", "zero.safetensors");
    let result = place.json(&format!("{line} --json"));
    assert_eq!(result["declared"]["termination"], json!({"kind": "none"}));
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("all 40 episodes end in a terminal state after exactly 12 steps"),
        "{warnings}"
    );
    place.refuses(
        &format!("{line} --termination learned"),
        &["data.hdf5: termination cannot be learned", "--termination none"],
    );
}

#[test]
fn episodes_of_one_step_are_told() {
    let place = Place::new();
    walks(&place, 1, false);
    let line = OWN
        .replace("builtin:waypoint", "zero.safetensors")
        .replace("--method dainf,ds", "--method ca");
    let result = place.json(&format!("{line} --json"));
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("40 of 40 episodes have one step"), "{warnings}");
    assert!(
        warnings.contains("held-out episodes are too short to tell how near they are"),
        "{warnings}"
    );
}

#[test]
fn mistakes_in_a_task_file_are_named() {
    let place = Place::with_data();
    for (task, words) in [
        ("rewrd = \"1\"", "unknown key `rewrd`: did you mean `reward`?"),
        (
            "[initial]\nkind = \"box\"\nlo = 1",
            "unknown key `initial.lo`: did you mean `initial.low`?",
        ),
        (
            "[[constraint]]\nname = \"a\"\nexpresion = \"1\"",
            "unknown key `constraint 1: expresion`",
        ),
        ("reward = ", "line 1: "),
        ("x", "line 1: "),
        ("reward = 3", "reward = 3: expected text in quotes"),
        ("reward = \"\"", "expected text in quotes"),
        (
            "reward = \"s[0] + q\"",
            "reward: unknown name `q`: expected s[i], a[i], n[i], r, pi or a function (at position 7 of",
        ),
        (
            "reward = \"s[2]\"",
            "reward: `s[2]`: the state has 2 entries, s[0] to s[1] (at position 2",
        ),
        ("reward = \"a[0] + \"", "reward: "),
        ("termination = \"n[5] > 1\"", "termination: `n[5]`: the next state has 2 entries"),
        ("angles = [2]", "angles = 2: expected entries of the state, which are 0 to 1"),
        ("angles = [-1]", "angles = [-1]: expected a list of entries"),
        ("angles = 1", "angles = 1: expected a list of entries"),
        ("actions = 1", "actions = 1: expected a table, [actions]"),
        ("[actions]\nlow = nan", "actions.low = nan: expected a finite number"),
        ("[actions]\nlow = [1, 2, 3]", "actions.low = [1.0, 2.0, 3.0]: expected 2 numbers"),
        ("[actions]\nlow = 1\nhigh = -1", "actions.high = -1: expected at least actions.low"),
        (
            "[initial]\nkind = \"fixed\"\nstate = [inf, 0]",
            "initial.state = [inf, 0]: expected a finite number",
        ),
        (
            "[initial]\nkind = \"fixed\"\nstate = [1, 2, 3]",
            "initial.state = [1.0, 2.0, 3.0]: expected 2 numbers",
        ),
        ("[initial]\nkind = \"fixed\"", "no `initial.state`"),
        ("[initial]\nstate = [1, 2]", "no `initial.kind`"),
        ("[initial]\nkind = \"cube\"", "expected episode-starts, fixed, box or gaussian"),
        (
            "[initial]\nkind = \"fixed\"\nstate = 0\nstd = 1",
            "initial.std does not belong to the kind \"fixed\"",
        ),
        (
            "[initial]\nkind = \"box\"\nlow = 1\nhigh = 0",
            "initial.low = 1 is above initial.high = 0",
        ),
        (
            "[initial]\nkind = \"gaussian\"\nmean = 0\nstd = -1",
            "expected deviations that are not negative",
        ),
        ("[[constraint]]\nname = \"a\"", "no `expression` in constraint 1: expected text"),
        ("[[constraint]]\nname = \"a\"\nexpression = \"s[9]\"", "constraint \"a\": "),
        (
            "[[constraint]]\nname = \"a\"\nexpression = \"1\"\nthreshold = nan",
            "threshold = nan: expected a finite number",
        ),
        ("constraint = 3", "constraint = 3: expected tables, [[constraint]]"),
        ("env = \"hoper\"", "env = hoper: expected one of"),
    ] {
        place.write("bad.toml", task);
        place.refuses(&format!("{OWN} --task bad.toml --out run"), &["error: ", words]);
    }
    place.refuses(&format!("{OWN} --task no.toml"), &["no.toml: cannot read: No such file"]);
    place.write("bad.toml", [0xff, 0xfe]);
    place.refuses(&format!("{OWN} --task bad.toml"), &["bad.toml: not a text file"]);
    place.refuses(&format!("{OWN} --reward log(0-1)"), &["data.hdf5: `log(0-1)` is NaN in row 0"]);
    place.refuses(
        &format!("{OWN} --termination learned"),
        &["data.hdf5: termination = learned: no transition"],
    );
}

#[test]
fn angles_are_embedded_and_a_fitted_model_knows_what_it_predicts() {
    let place = Place::with_data();
    let result = place.json(&format!("{OWN} --angles 1 --out run --json"));
    assert_eq!(result["model"]["layout"]["angles"][0]["index"], 1);
    assert_eq!(result["declared"]["angles"], json!([1]));
    let fitted = OWN.replace("--model-config small.json", "--fitted run");
    assert_eq!(
        place.json(&format!("{fitted} --angles 1 --json"))["estimates"],
        result["estimates"],
        "bit for bit"
    );
    place.refuses(&fitted, &["run: this model was fitted for other angles"]);
    place.succeeds(&format!("{EVALUATE} --out known"));
    place.refuses(
        &OWN.replace("--model-config small.json", "--fitted known"),
        &["known: this model was fitted for other angles, or without the reward"],
    );
}

/// Swing-ups of a real rotary pendulum; the policy is `docs/examples/clone_policy.py` on the first twelve.
#[test]
fn a_policy_cloned_from_real_logs_is_bounded_below_what_was_logged() {
    let Some(folder) = assets() else { return };
    let entries = std::fs::read_dir(folder.join("real")).unwrap();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("qq-"));
    logs.sort();
    let (logs, held_out) = logs.split_at(12);
    let place = Place::new();
    place.write("small.json", r#"{"hidden": [32, 32], "steps": 1500, "check_every": 100}"#);
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/qube.safetensors");
    let line =
        "evaluate --horizon 100 --model-config small.json --rollouts 200 --method ca,ds --json";
    let mut command = place.command(&format!("{line} --policy {policy} --data"));
    let run = Run::from(command.args(logs).output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let result = object(&run.stdout);
    assert_eq!(result["declared"]["reward"], "learned");
    assert_eq!(result["confidence_set"]["rule"], "trajectory");

    let logged = held_out.iter().map(|path| {
        let data = hambo::data::Logs::read(path).unwrap().transitions;
        data.rewards()[..100].iter().map(|&r| f64::from(r)).sum::<f64>()
    });
    let mean = logged.sum::<f64>() / held_out.len() as f64;
    let bound = result["lower_bound"].as_f64().unwrap();
    assert!(bound.is_finite() && bound < mean, "{bound} and {mean}");
}

/// A CSV file without next states: what its last rows paid and that they ended their episodes is counted; what ends an
/// episode has to be told, since the states that did were not logged.
#[test]
fn last_rows_of_episodes_count_where_next_states_were_not_logged() {
    let place = Place::new();
    let mut log = String::from("s0,s1,a0,a1,reward,terminal,timeout\n");
    for episode in 0..12 {
        let length = 5 + episode % 4;
        for t in 0..length {
            let (last, falls) = (t + 1 == length, episode % 3 == 0);
            let reward = if last && falls { -50.0 } else { 1.0 };
            let x = 0.1 * t as f64 + 0.01 * episode as f64;
            let flags = [last && falls, last && !falls].map(u8::from);
            log += &format!(
                "{x},{},{},0.1,{reward},{},{}\n",
                -x,
                0.05 * episode as f64,
                flags[0],
                flags[1]
            );
        }
    }
    place.write("falls.csv", &log);
    let found = place.json("inspect falls.csv --json");
    assert_eq!((&found["terminals"], &found["timeouts"]), (&4.into(), &8.into()), "{found}");
    // 12 episodes of 6.5 steps on average, 4 of which end at −50.
    let mean = found["episode_return"]["mean"].as_f64().unwrap();
    assert!((mean - (6.5 - 4.0 * 51.0 / 12.0)).abs() < 1e-9, "{mean}");
    let command = "evaluate --data falls.csv --policy builtin:proportional --horizon 5";
    let words = [
        "termination cannot be learned: 4 episodes end in a terminal state that was not logged",
        "--termination",
    ];
    place.refuses(command, &words);
}
