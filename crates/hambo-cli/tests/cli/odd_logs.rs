//! Logs that say little, and policies that do odd things: an honest answer, or a clear refusal.

use super::*;

/// Models of all folds, in a fraction of a second.
const TINY: &str = r#"{"particles": 2, "activation": "relu", "hidden": [16], "steps": 200, "check_every": 100, "patience": 200}"#;
/// A short search.
const SHORT: &str =
    r#"{"hidden": [16], "restarts": 1, "batch": 16, "iterations": 20, "evaluation": 60}"#;
const ASK: &str = "evaluate --data log.csv --policy builtin:proportional --horizon 15 --model-config tiny.json \
                   --search-config short.json --rollouts 200 --method ca,ds --threshold=-1e30 --json";

/// A point in the plane that is pushed by its actions, the policy's with a waver, or far from them.
fn log(episodes: usize, length: usize, near: bool, reward: impl Fn(f64) -> f64) -> String {
    let mut text = String::from("s0,s1,a0,a1,reward,terminal,timeout,next_s0,next_s1\n");
    let waver = |i: usize| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0;
    for episode in 0..episodes {
        let mut s = [waver(episode), waver(3 * episode + 5)];
        for t in 0..length {
            let i = 31 * episode + 2 * t;
            let a = [0, 1].map(|d| match near {
                true => -0.5 * s[d] + 0.1 * waver(i + d),
                false => 0.8 + 0.1 * waver(i + d),
            });
            let next = [0, 1].map(|d| 0.9 * s[d] + 0.5 * a[d] + 0.02 * waver(7 * i + d));
            let [last, r] = [f64::from(u8::from(t + 1 == length)), reward(s[0])];
            let row = [s[0], s[1], a[0], a[1], r, 0.0, last, next[0], next[1]];
            text += &row.map(|x| format!("{x:.5}")).join(",").replace(".00000", "");
            text.push('\n');
            s = next;
        }
    }
    text
}

/// The answer about a log, with the exit code.
fn ask(log: &str, more: &str) -> (Option<i32>, Value) {
    let place = Place::new();
    place.write("tiny.json", TINY);
    place.write("short.json", SHORT);
    place.write("log.csv", log);
    let run = place.hambo(&format!("{ASK} {more}"));
    assert_eq!(run.stderr, "", "{}", run.stdout);
    (run.code, object(&run.stdout))
}

/// Whatever threshold: not shown, and the words say why.
fn shows_nothing(log: &str, more: &str, words: &str) {
    let (code, answer) = ask(log, more);
    let found = (code, answer["verdict"].as_str(), answer["evidence"].as_str());
    assert_eq!(found, (Some(1), Some("not enough evidence"), Some("unsupported")));
    assert_eq!(answer["level"], Value::Null);
    assert!(answer["warnings"].to_string().contains(words), "{}", answer["warnings"]);
}

fn cost(x: f64) -> f64 {
    -x.abs()
}

#[test]
fn one_episode_shows_nothing() {
    shows_nothing(&log(1, 200, true, cost), "", "no whole episodes were held out");
}

#[test]
fn episodes_of_one_step_show_nothing() {
    shows_nothing(&log(200, 1, true, cost), "", "the 200 held-out episodes are too short to tell");
}

#[test]
fn episodes_of_quite_another_policy_show_nothing() {
    shows_nothing(&log(40, 15, false, cost), "", "0 of 40 held-out episodes are near this policy");
}

#[test]
fn nine_episodes_are_too_few() {
    let (code, answer) = ask(&log(9, 15, true, cost), "");
    assert_eq!((code, &answer["verdict"]), (Some(1), &"not enough evidence".into()));
}

#[test]
fn a_policy_that_ends_every_episode_at_once_earns_one_reward() {
    let (code, answer) = ask(&log(40, 15, true, cost), "--termination n[0]>-100");
    assert_eq!((code, &answer["verdict"]), (Some(1), &"not enough evidence".into()));
    // No start is further away than 1.
    let bound = answer["lower_bound"].as_f64().unwrap();
    let estimate = answer["estimates"][1]["value"].as_f64().unwrap();
    assert!(bound < estimate && (-1.0..0.0).contains(&estimate), "{bound} {estimate}");
}

#[test]
fn a_reward_that_never_changes_is_told_and_bounded() {
    let (_, answer) = ask(&log(40, 15, true, |_| 1.0), "");
    assert!(answer["warnings"].to_string().contains("every logged reward is 1"));
    let bound = answer["lower_bound"].as_f64().unwrap();
    assert!((10.0..=15.0).contains(&bound), "{bound}");
}
