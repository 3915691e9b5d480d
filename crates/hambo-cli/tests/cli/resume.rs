//! An evaluation that is killed goes on with the same command, and ends with the same bits as one that was not.

use super::*;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Every optimizer, in a few seconds.
const SEARCH: &str = r#"{"optimisers": "portfolio", "hidden": [32, 32], "iterations": 40, "batch": 16, "evaluation": 50,
    "tolerance": 0.0001,
    "sac": {"learning": {"rounds": 4, "episodes": 40, "updates": 100, "batch": 64, "hidden": [32, 32], "remembered_rounds": 2}},
    "dqn": {"learning": {"rounds": 4, "episodes": 40, "updates": 100, "batch": 64, "hidden": [32, 32], "remembered_rounds": 2},
            "exploration_rounds": 4}}"#;
const MODEL: &str = r#"{"folds": 2, "activation": "relu", "hidden": [64, 64], "steps": 600, "check_every": 20, "patience": 600}"#;

fn place() -> Place {
    let place = Place::with_data();
    place.write("search.json", SEARCH);
    place.write("model.json", MODEL);
    place
}

fn line() -> String {
    let line =
        EVALUATE.replace("small.json", "model.json").replace(METHODS, "ca,da1,dainf,ds,tsinf");
    format!("{line} --search-config search.json --save-every 0 --json")
}

/// Starts the command and kills it after a while, unless it was faster: whether it was killed.
pub(super) fn kill_after(place: &Place, line: &str, seconds: f64) -> bool {
    let mut child =
        place.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    true
}

#[test]
fn killed_at_any_moment_it_ends_with_the_same_bits() {
    let whole = ends_with_the_same_bits(&line(), 3);
    let candidates = whole["adversary"]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2 * 2 + 4, "both optimizers were at work: {candidates:?}");
}

/// Ctrl-C is answered with what was kept, and the same command goes on from there.
#[cfg(unix)]
#[test]
fn ctrl_c_says_what_was_kept() {
    let place = place();
    let interrupted = |options: &str, begun: &dyn Fn() -> bool| {
        let line = line().replace("--save-every 0", options);
        let mut command = place.command(&line);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !begun() {
            assert!(child.try_wait().unwrap().is_none(), "it was faster");
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        String::from_utf8(output.stderr).unwrap()
    };
    let begun = || place.path("run/unfinished/identity.json").exists();
    let words = interrupted("--save-every 0 --out run", &begun);
    assert!(
        words.contains("interrupted: what was done is kept in run/unfinished, saved"),
        "{words}"
    );
    assert!(words.contains("the same command again goes on from there"), "{words}");
    let start = Instant::now();
    let words = interrupted("", &|| start.elapsed() > Duration::from_millis(300));
    assert!(words.contains("interrupted: nothing was kept"), "{words}");
    let run = place.hambo(&format!("{} --out run", line()));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn rankings_and_curves_do_too() {
    let several = "rank --policies builtin:waypoint,y=1.1 builtin:waypoint,y=2.5";
    let rank = line().replace("evaluate", several).replace("--policy builtin:waypoint", "");
    ends_with_the_same_bits(&rank.replace("ca,da1,dainf,ds,tsinf", "ca,ds"), 1);
    ends_with_the_same_bits(
        &format!("{} --curves", line().replace("ca,da1,dainf,ds,tsinf", "ca,ds")),
        1,
    );
}

/// The result of the command, after as many attempts in which it was killed four times.
fn ends_with_the_same_bits(line: &str, attempts: usize) -> Value {
    let place = place();
    let start = Instant::now();
    let whole = timeless(place.json(&format!("{line} --out whole")));
    let seconds = start.elapsed().as_secs_f64();

    // Moments that differ from run to run, as interruptions do.
    let mut bits = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    let mut random = || {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(bits >> 8) / f64::from(1 << 24)
    };
    let (mut kills, mut taken_up) = (0, 0);
    for attempt in 0..attempts {
        let line = format!("{line} --force --out killed-{attempt}");
        for _ in 0..4 {
            kills += usize::from(kill_after(&place, &line, (0.1 + 0.6 * random()) * seconds));
            taken_up += usize::from(
                place.path(&format!("killed-{attempt}/unfinished/identity.json")).exists(),
            );
        }
        assert_eq!(timeless(place.json(&line)), whole);
        let folder = |name: &str| place.path(name);
        for file in ["model.json", "model.safetensors"] {
            let [there, here] =
                ["whole".to_owned(), format!("killed-{attempt}")].map(|f| folder(&f).join(file));
            assert!(
                std::fs::read(there).unwrap() == std::fs::read(here).unwrap(),
                "{file} differs"
            );
        }
        assert!(!folder(&format!("killed-{attempt}/unfinished")).exists(), "the work is done");
    }
    assert!(
        kills >= attempts && taken_up >= attempts,
        "killed {kills} times, taken up {taken_up} times: too fast to be tested"
    );
    whole
}

#[test]
fn unfinished_work_of_another_evaluation_is_named_and_left_alone() {
    let place = place();
    let line = format!("{} --out run", line());
    let mut seconds = 0.4;
    while !place.path("run/unfinished/training.safetensors").exists() {
        kill_after(&place, &line, seconds);
        seconds *= 1.5;
    }
    // A lock that nobody holds goes with the next command.
    let _ = std::fs::remove_file(place.path("run/.hambo.lock"));
    let unfinished = "run/unfinished: unfinished work of another evaluation: ";
    let remedy = "Run the same command as before to go on, name another folder, or delete this one to begin anew";
    for (from, to, words) in [
        ("--rollouts 200", "--rollouts 300", "rollouts was 200, now it is 300. "),
        ("--horizon 15", "--horizon 14", "horizon was 15, now it is 14. "),
        (
            "builtin:waypoint",
            "builtin:waypoint,y=1.1",
            "policy was builtin:waypoint, now it is builtin:waypoint,y=1.1. ",
        ),
        ("--json", "--json --seed 7", "seed was 0, now it is 7. "),
        ("--json", "--json --beta 1", "beta was trajectory, now it is 1. "),
        ("model.json", "small.json", "model was {"),
    ] {
        place.refuses(&line.replace(from, to), &[unfinished, words, remedy]);
    }
    place.succeeds(&COLLECT.replace("--seed 1", "--seed 2").replace("data.hdf5", "other.hdf5"));
    place.refuses(&line.replace("data.hdf5", "other.hdf5"), &[unfinished, "data was "]);
    // Damaged files.
    let training = place.path("run/unfinished/training.safetensors");
    let bytes = std::fs::read(&training).unwrap();
    std::fs::write(&training, &bytes[..bytes.len() / 2]).unwrap();
    place.refuses(
        &line,
        &[
            "training.safetensors: not a safetensors file, or a damaged one",
            "delete the folder to begin anew",
        ],
    );
    std::fs::write(&training, &bytes).unwrap();
    place.succeeds(&line);
    assert!(!place.path("run/unfinished").exists());
}
