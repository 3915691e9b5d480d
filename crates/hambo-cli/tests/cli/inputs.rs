//! Data sets and networks as their own tools write them, through the command.

use super::*;

fn reference(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hambo/tests/reference");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn folders_are_data_sets_or_lists() {
    let place = Place::new();
    let folder = reference("formats/lerobot_v3");
    let run = place.hambo(&format!("inspect {folder} --json"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let told = object(&run.stdout);
    assert_eq!(
        (told["episodes"].as_u64(), told["format"].as_str()),
        (Some(7), Some("LeRobot data set"))
    );

    place.write("a.csv", "s0,a0,reward\n1,2,3\n");
    place.write("b.mcap", b"\x89MCAP0\r\n");
    let run = place.hambo("inspect .");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stdout.contains("a.csv") && run.stdout.contains("an MCAP recording"),
        "{}",
        run.stdout
    );
    let told = object(&place.hambo("inspect . --json").stdout);
    assert_eq!(told["folder"][0], serde_json::json!({"name": "a.csv", "what": "CSV"}));
    let run = place.hambo("evaluate --data . --policy builtin:proportional --horizon 5");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("it holds 1 .csv, 1 .mcap"), "{}", run.stderr);
}

#[test]
fn a_log_without_rewards_needs_them_said() {
    let place = Place::new();
    place.write("small.json", SMALL);
    let row = |i: usize| {
        let (e, t) = (i / 10, (i % 10) as f64);
        let s = [0.1 * t + 0.01 * e as f64, 0.3 - 0.05 * t];
        format!(
            "{e},{},{},{},{}\n",
            s[0],
            s[1],
            -0.5 * s[0],
            -0.5 * s[1] + 0.01 * ((i * 7) % 5) as f64
        )
    };
    let rows: String = (0..200).map(row).collect();
    place.write("log.csv", format!("episode,s0,s1,a0,a1\n{rows}"));
    let inspected = place.hambo("inspect log.csv");
    assert!(
        inspected.code == Some(0)
            && inspected.stdout.contains("return       unknown: there are no rewards in it"),
        "{}{}",
        inspected.stdout,
        inspected.stderr
    );
    let ask = "evaluate --data log.csv --policy builtin:proportional --horizon 5 --model-config small.json --rollouts 100 \
               --method ds --json";
    for (more, told) in [
        ("", "no column for the reward"),
        (" --reward r", "no rewards in the log: say what a step pays with --reward EXPR"),
    ] {
        let run = place.hambo(&format!("{ask}{more}"));
        assert_eq!(run.code, Some(2), "{}", run.stdout);
        assert!(run.stderr.contains(told), "{}", run.stderr);
    }
    let run = place.hambo(&format!("{ask} --reward s[0]"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn weights_need_what_is_between_them_said() {
    let place = Place::new();
    let file = reference("networks/td3_actor.pth");
    let run = place.hambo(&format!("inspect {file}"));
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("layers 3 → 8 → 8 → 2") && run.stderr.contains("--activation"),
        "{}",
        run.stderr
    );
    let run = place.hambo(&format!("inspect {file} --activation relu --squash tanh:2"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stdout.contains("3 → 8 → 8 → 2, relu") && run.stdout.contains("[-2.0, -2.0]"),
        "{}",
        run.stdout
    );
    let run = place.hambo(&format!("inspect {} --output second", reference("networks/two.onnx")));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}
