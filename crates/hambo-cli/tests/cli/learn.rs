//! `hambo learn`: a policy, its files, its bound, the gate; and what it refuses.

use super::resume::kill_after;
use super::*;
use std::time::Instant;

/// A learning of a second or two, which need not be good.
const LEARN: &str = r#"{"updates": 20, "starts": 50, "hidden": [16, 16], "batch": 32, "checkpoints": 3, "measured": 50}"#;
const SEARCH: &str =
    r#"{"hidden": [16, 16], "iterations": 10, "restarts": 1, "batch": 16, "evaluation": 50}"#;
const LINE: &str = "learn --data data.hdf5 --env point-safety --horizon 15 --model-config small.json \
                    --learn-config learn.json --search-config search.json --rollouts 200 --steps 120";

fn place() -> Place {
    let place = Place::with_data();
    place.write("learn.json", LEARN);
    place.write("search.json", SEARCH);
    place
}

#[test]
fn a_policy_is_learned_bounded_and_judged() {
    let place = place();
    for adversary in ["ca", "da1"] {
        let line = format!("{LINE} --adversary {adversary} --out {adversary} --truth-episodes 20");
        let found = place.json(&format!("{line} --json"));
        let steps = |list: &Value| -> Vec<u64> {
            list.as_array().unwrap().iter().map(|point| point["step"].as_u64().unwrap()).collect()
        };
        assert_eq!(steps(&found["learned"]["curve"]), [40, 80, 120]);
        assert_eq!(found["learned"]["config"]["adversary"], adversary);
        let bounds = found["learned"]["bounds"].as_array().unwrap();
        assert_eq!(bounds.len(), 2, "the two best in the model");
        let taken = found["lower_bound"].as_f64().unwrap();
        assert!(bounds.iter().any(|b| b["lower_bound"].as_f64() == Some(taken)), "{bounds:?}");
        assert_eq!(found["delta_each"].as_f64().unwrap(), 0.025, "δ is shared by both");
        assert!(found["truth"]["value"].is_f64() && found["evidence"].is_string(), "{found}");
        assert_ne!(found["evidence"], "supported", "the policy has seen every episode");
        let warnings = found["warnings"].to_string();
        assert!(warnings.contains("the policy was learned from these logs"), "{warnings}");
        for file in ["result.json", "report.html", "summary.md", "curve.csv", "policy.onnx"] {
            assert!(place.path(adversary).join(file).exists(), "{file}");
        }
        for step in [40, 80, 120] {
            let name = format!("{adversary}/checkpoints/step-{step}.safetensors");
            assert!(place.path(&name).exists(), "{name}");
        }
        // Both files are policies like any other, and the same one.
        let value = |file: &str| {
            let line = format!("return --env point-safety --policy {adversary}/{file}");
            place.json(&format!("{line} --horizon 15 --episodes 50 --json"))["value"].as_f64()
        };
        let [own, onnx] = ["policy.safetensors", "policy.onnx"].map(|f| value(f).unwrap());
        assert!((own - onnx).abs() < 1e-4 * own.abs(), "{own} and {onnx}");
    }
    // The same model again, and a threshold that no policy can meet.
    let again = format!("{LINE} --adversary ca --fitted ca --out again --threshold 1e9");
    let again = again.replace("--model-config small.json", "");
    let run = place.hambo(&again);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("under the adversary"), "{}", run.stdout);
}

#[test]
fn killed_at_any_moment_it_learns_the_same_policy() {
    let place = place();
    let line = format!("{LINE} --save-every 0 --json --adversary");
    for adversary in ["ca", "da1"] {
        let start = Instant::now();
        let same = |mut found: Value| {
            found["policy"] = Value::Null; // its path
            timeless(found)
        };
        let whole = same(place.json(&format!("{line} {adversary} --out whole-{adversary}")));
        let seconds = start.elapsed().as_secs_f64();
        let killed = format!("{line} {adversary} --force --out killed-{adversary}");
        let kills = [0.3, 0.5, 0.4].map(|share| kill_after(&place, &killed, share * seconds));
        assert!(kills.contains(&true), "too fast to be tested");
        assert_eq!(same(place.json(&killed)), whole);
        for file in
            ["policy.safetensors", "policy.onnx", "curve.csv", "checkpoints/step-80.safetensors"]
        {
            let [there, here] = ["whole", "killed"]
                .map(|f| std::fs::read(place.path(&format!("{f}-{adversary}/{file}"))).unwrap());
            assert!(there == here, "{file} differs");
        }
    }
}

#[test]
fn what_it_cannot_do_is_refused_with_a_way_out() {
    let place = place();
    let refused = |line: &str, part: &str| {
        let run = place.hambo(line);
        assert!(run.code == Some(2) && run.stderr.contains(part), "{line}: {}", run.stderr);
    };
    let line = format!("{LINE} --out out");
    refused(&format!("{line} --adversary dainf"), "possible values: ca, da1");
    refused(&line, "--adversary");
    refused(&format!("{LINE} --adversary ca"), "--out");
    let line = format!("{line} --adversary ca");
    refused(&format!("{line} --policy builtin:waypoint"), "the policy is learned");
    refused(&format!("{line} --curves"), "hambo evaluate");
    refused(&line.replace("--steps 120", "--steps 0"), "steps");
    place.write("bad.json", r#"{"rollout_step": 3}"#);
    refused(&line.replace("learn.json", "bad.json"), "rollout_step");
    let without_env = line.replace("--env point-safety", "");
    refused(&without_env, "has no bounds");
    refused(&without_env.replace("--horizon 15", ""), "without --env there is no time limit");
    refused(&format!("{without_env} --reward 0"), "bounds");
    place.succeeds(
        "collect --env point-safety --policy builtin:waypoint --noise 0.1 --steps 15 --out one.hdf5",
    );
    refused(&line.replace("data.hdf5", "one.hdf5"), "one episode");
    refused(&format!("{line} --reward 0"), "there is nothing to learn");
    assert!(!place.path("out").exists(), "nothing was written");
}
