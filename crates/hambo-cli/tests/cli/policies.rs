//! Policies that sample, noise on top, and what `inspect` says about policies.

use super::*;

/// a = −s/2 with a deviation of 0.1, as a `hambo-policy/1` file.
fn gaussian() -> Vec<u8> {
    let header = r#"{"__metadata__":{"format":"hambo-policy/1","activation":"relu","squash":"none"},
        "layers.0.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
        "layers.0.bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},
        "std":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}"#;
    let numbers = [-0.5f32, 0.0, 0.0, -0.5, 0.0, 0.0, 0.1, 0.1];
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

#[test]
fn sampling_changes_what_is_measured_and_estimated() {
    let place = Place::with_data();
    place.write("p.safetensors", gaussian());
    let line = "return --env point --policy p.safetensors --horizon 20 --episodes 200 --json";
    let [mean, sampled, noisy] = ["", " --stochastic", " --policy-noise 0.1"]
        .map(|more| place.json(&format!("{line}{more}")));
    assert_eq!((&mean["stochastic"], &sampled["stochastic"]), (&false.into(), &true.into()));
    assert_eq!(noisy["policy_noise"], 0.1);
    assert_ne!(mean["value"], sampled["value"]);
    // The same deviation by either way, from different random numbers.
    let number = |found: &Value, name: &str| found[name].as_f64().unwrap();
    let error = number(&sampled, "std_error").hypot(number(&noisy, "std_error"));
    assert!((number(&sampled, "value") - number(&noisy, "value")).abs() < 4.0 * error);
    assert_eq!(sampled, place.json(&format!("{line} --stochastic --threads 1")));

    let evaluate = EVALUATE.replace("builtin:waypoint", "p.safetensors");
    let value = |more: &str| {
        place.json(&format!("{evaluate} --json{more}"))["estimates"][0]["value"].clone()
    };
    assert_ne!(value(""), value(" --stochastic"));
    assert_eq!(value(" --stochastic"), value(" --stochastic"));
    let ca =
        format!("{} --json --stochastic --policy-noise 0.05", evaluate.replace(METHODS, "ca,mean"));
    assert!(place.json(&ca)["lower_bound"].is_f64(), "an adversary against a random policy");

    place.succeeds(
        "collect --env point --policy p.safetensors --stochastic --steps 100 --out s.hdf5",
    );
    let columns = |file: &str| place.json(&format!("inspect {file} --json"))["columns"].clone();
    place.succeeds("collect --env point --policy p.safetensors --steps 100 --out m.hdf5");
    assert_ne!(columns("s.hdf5"), columns("m.hdf5"));
}

#[test]
fn what_cannot_sample_is_named() {
    let place = Place::with_data();
    let words = ["error: policy builtin:waypoint is deterministic", "--policy-noise"];
    place.refuses(&format!("{EVALUATE} --stochastic"), &words);
    place.refuses(
        "return --env point-safety --policy builtin:waypoint --stochastic --horizon 5 --episodes 5",
        &words,
    );
    place.refuses(
        "collect --env point-safety --policy builtin:waypoint --stochastic --steps 50 --out x.hdf5",
        &words,
    );
    place.refuses(
        &format!("{EVALUATE} --policy-noise -1"),
        &["error: policy-noise = -1: expected 0 or a positive"],
    );
}

#[test]
fn inspect_tells_what_a_policy_is() {
    let place = Place::with_data();
    place.write("p.safetensors", gaussian());
    let found = place.json("inspect p.safetensors --json");
    let policy = &found["policy"];
    assert_eq!(
        (&policy["kind"], &policy["layers"]),
        (&"network".into(), &serde_json::json!([2, 2]))
    );
    assert_eq!(
        (&policy["stochastic"], policy["sha256"].as_str().unwrap().len()),
        (&true.into(), 64)
    );
    let text = place.succeeds("inspect p.safetensors");
    for part in [
        "p.safetensors: network, states of 2",
        "2 → 2, relu, 6 parameters",
        "Gaussian with fixed deviations",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let text = place.succeeds("inspect builtin:swing-up");
    assert!(
        text.contains("controller, states of 3") && text.contains("it is deterministic"),
        "{text}"
    );
    place.write("bad.onnx", "no graph");
    place.refuses("inspect bad.onnx", &["error: bad.onnx: not an ONNX file, or a damaged one"]);
}

#[test]
fn inspect_tells_how_much_of_a_policy_the_data_cover() {
    let place = Place::with_data();
    let of = |policy: &str| {
        place.json(&format!("inspect data.hdf5 --policy {policy} --json"))["coverage"].clone()
    };
    let (own, other) = (of("builtin:waypoint"), of("builtin:waypoint,y=-1.6"));
    let covered = |found: &Value| found["of"]["covered"].as_f64().unwrap();
    assert!(covered(&own) > 0.85 && covered(&other) < 0.7, "{own} {other}");
    let text = place.succeeds("inspect data.hdf5 --policy builtin:waypoint");
    assert!(
        text.contains("builtin:waypoint in 600 logged states") && text.contains("covered "),
        "{text}"
    );
    place.refuses(
        "inspect data.hdf5 --policy builtin:swing-up",
        &["error: policy builtin:swing-up takes states of 3"],
    );
    place.refuses("inspect builtin:waypoint --policy builtin:waypoint", &["holds no data"]);
}
