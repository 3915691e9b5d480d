//! What helps people at a terminal: stages, `--config`, `--force`, names of environments, `doctor`, completions, the manual.

use super::*;

#[test]
fn elsewhere_than_in_a_terminal_every_stage_is_a_line() {
    let place = Place::with_data();
    let line = format!("{} --out run", EVALUATE.replace(METHODS, "ca,ds"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hambo"));
    command.args(line.split_whitespace()).current_dir(place.path(""));
    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let stages: Vec<&str> =
        run.stderr.lines().filter_map(|l| l.split_once(" s  ")).map(|(_, s)| s).collect();
    assert_eq!(stages.len(), run.stderr.lines().count(), "{}", run.stderr);
    for stage in [
        "reading the logs",
        "training",
        "what the logs cover",
        "adversary (pathwise)",
        "rollouts (ca)",
        "explanation",
        "writing the report",
    ] {
        assert!(stages.contains(&stage), "no {stage} in\n{}", run.stderr);
    }
    assert!(!run.stdout.contains(" s  training"), "{}", run.stdout);
    assert_eq!(place.hambo(&format!("{line} --force")).stderr, "", "--quiet says nothing");
}

#[test]
fn a_finished_folder_is_not_replaced_unasked() {
    let place = Place::with_data();
    let line = format!("{EVALUATE} --out run");
    place.succeeds(&line);
    place.refuses(&line, &["error: run: it holds a finished result (result.json)", "--force"]);
    place.refuses(&line.replace("evaluate ", "rank "), &["finished result"]);
    let before = std::fs::read(place.path("run/result.json")).unwrap();
    place.succeeds(&format!("{line} --seed 1 --force"));
    assert!(before != std::fs::read(place.path("run/result.json")).unwrap());
    // What is unfinished is no result.
    std::fs::remove_file(place.path("run/result.json")).unwrap();
    place.succeeds(&line);
}

#[test]
fn a_run_that_goes_on_says_from_where() {
    let place = Place::with_data();
    let line = format!("{EVALUATE} --save-every 0 --out run");
    // Nothing can be published where a folder lies in the way, so that all work stays unfinished.
    std::fs::create_dir_all(place.path("run/report.html")).unwrap();
    place.refuses_once(&line, "report.html");
    std::fs::remove_dir(place.path("run/report.html")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hambo"));
    command.args(line.split_whitespace()).current_dir(place.path(""));
    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("going on with what is kept in run/unfinished\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn every_run_leaves_a_file_that_repeats_it() {
    let place = Place::with_data();
    let first = place.hambo(&format!("{EVALUATE} --threshold -1000 --seed 3 --out run --json"));
    let text = std::fs::read_to_string(place.path("run/run.toml")).unwrap();
    assert!(
        text.contains("command = \"evaluate\"\n") && text.contains("threshold = -1000\n"),
        "{text}"
    );
    let again = place.hambo("--config run/run.toml --out again");
    assert_eq!((first.code, again.code), (Some(1), Some(1)), "{}", again.stderr);
    assert_eq!(timeless(object(&first.stdout)), timeless(object(&again.stdout)));
    let other = place.hambo("evaluate --config run/run.toml --seed 4 --out other");
    let other = object(&other.stdout);
    assert_eq!((&other["seed"], &other["threshold"]), (&4.into(), &(-1000.0).into()));
    place.refuses("--config run/run.toml", &["run: it holds a finished result"]);
}

#[test]
fn a_file_of_options_that_cannot_be_read_says_why() {
    let place = Place::with_data();
    place.refuses("--config no.toml", &["error: ", "no.toml"]);
    for (text, words) in [
        ("horizon = ", "not TOML"),
        ("horizon = 5", "no `command`"),
        ("command = \"evaluat\"", "no such command"),
        ("command = \"evaluate\"\nhorizn = 5", "did you mean `horizon`?"),
        ("command = \"evaluate\"\nhorizon = { a = 1 }", "`horizon`: expected a text, a number"),
    ] {
        place.write("run.toml", text);
        place.refuses("--config run.toml", &["error: run.toml: ", words]);
    }
    place.write("run.toml", "command = \"rank\"");
    place.refuses(
        "evaluate --config run.toml",
        &["it is for `hambo rank`, not for `hambo evaluate`"],
    );
}

#[test]
fn environments_have_the_names_of_gymnasium_too() {
    let place = Place::new();
    let of = |env: &str| {
        format!("return --env {env} --policy builtin:swing-up --horizon 20 --episodes 10 --json")
    };
    assert_eq!(place.json(&of("Pendulum-v1")), place.json(&of("pendulum")));
    for (env, near) in
        [("pendulm", "pendulum"), ("Pendulum-v0", "pendulum"), ("HalfCheeta-v5", "halfcheetah-v5")]
    {
        place.refuses(
            &of(env),
            &[
                &format!("error: env = {env}: expected one of point-safety"),
                &format!("did you mean {near}?"),
            ],
        );
    }
    let run = place.hambo(&of("Ant-v5"));
    assert!(run.code == Some(2) && !run.stderr.contains("did you mean"), "{}", run.stderr);
}

#[test]
fn the_doctor_looks_at_everything_and_exits_with_what_it_found() {
    let place = Place::new();
    let run = |set: &[(&str, &str)]| {
        let mut command = place.command("doctor");
        command.envs(set.iter().copied());
        Run::from(command.output().unwrap())
    };
    let healthy = run(&[]);
    for what in ["processor", "threads", "driver", "GPU", "NVRTC", "cache", "MuJoCo"] {
        assert!(healthy.stdout.contains(what), "no {what} in\n{}", healthy.stdout);
    }
    let broken = healthy.stdout.contains("BROKEN");
    assert_eq!(healthy.code, Some(i32::from(broken)), "{}", healthy.stdout);
    let ill = run(&[("MUJOCO_LIB", "/nowhere/libmujoco.so")]);
    assert_eq!(ill.code, Some(1), "{}", ill.stdout);
    assert!(
        ill.stdout.contains("BROKEN  MuJoCo") && ill.stdout.contains("scripts/get-mujoco"),
        "{}",
        ill.stdout
    );
    assert!(place.listing().is_empty(), "it leaves nothing behind");
}

#[test]
fn shells_and_man_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.succeeds(&format!("completions {shell}"));
        for word in ["evaluate", "threshold", "doctor"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    place.misuses("completions tcsh", &["invalid value 'tcsh'"]);
    let page = place.succeeds("man");
    assert!(page.contains(".TH hambo 1") && page.contains("evaluate"), "{page}");
    assert!(place.succeeds("man evaluate").contains("threshold"));
    place.refuses("man evaluat", &["error: command = evaluat: expected a command of hambo"]);
}
