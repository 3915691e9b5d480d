//! Data and model files that are not what they should be.

use super::*;

/// Fields of a good file of n rows of a point in the plane, episodes of 10; to be spoilt.
fn good(n: usize) -> Vec<(&'static str, Vec<usize>, Vec<f64>)> {
    let wave =
        |width: usize, phase: f64| (0..n * width).map(|i| (i as f64 * 0.7 + phase).sin()).collect();
    let ends = (1..=n).map(|i| f64::from(u8::from(i % 10 == 0))).collect();
    vec![
        ("observations", vec![n, 2], wave(2, 0.0)),
        ("actions", vec![n, 2], wave(2, 1.0)),
        ("rewards", vec![n], wave(1, 2.0)),
        ("next_observations", vec![n, 2], wave(2, 3.0)),
        ("terminals", vec![n], vec![0.0; n]),
        ("timeouts", vec![n], ends),
    ]
}

/// Refuses a spoilt file, by `evaluate` (with an `--out` that must not be made) and by `inspect`.
fn refuses_file(
    change: impl FnOnce(&mut Vec<(&'static str, Vec<usize>, Vec<f64>)>),
    n: usize,
    words: &[&str],
) {
    let (place, words) = refused_by_evaluate(change, n, words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    place.refuses("inspect data.hdf5", &words);
}

/// Refuses a spoilt file by `evaluate`, while `inspect` tells what is in it, and what is wrong.
fn reports_file(
    change: impl FnOnce(&mut Vec<(&'static str, Vec<usize>, Vec<f64>)>),
    n: usize,
    words: &[&str],
    column: Option<&str>,
) {
    let (place, _) = refused_by_evaluate(change, n, words);
    let text = place.succeeds("inspect data.hdf5");
    assert!(text.contains("problem: the data cannot be used: data.hdf5: "), "{text}");
    let found = place.json("inspect data.hdf5 --json");
    assert!(found["problem"].is_string());
    for c in found["columns"].as_array().unwrap() {
        let bad = column.is_some_and(|name| c["name"] == name);
        assert_eq!(c["not_finite"], u64::from(bad), "{c}");
    }
}

fn refused_by_evaluate(
    change: impl FnOnce(&mut Vec<(&'static str, Vec<usize>, Vec<f64>)>),
    n: usize,
    words: &[&str],
) -> (Place, Vec<String>) {
    let place = Place::new();
    place.write("small.json", SMALL);
    let mut fields = good(n);
    change(&mut fields);
    let fields: Vec<_> =
        fields.iter().map(|(name, shape, v)| (*name, &shape[..], v.clone())).collect();
    place.write_fields("data.hdf5", &fields);
    let words = [&["error: data.hdf5: "], words].concat();
    place.refuses(&format!("{EVALUATE} --out new/run"), &words);
    (place, words.into_iter().map(str::to_owned).collect())
}

#[test]
fn the_good_file_is_good() {
    let place = Place::new();
    place.write("small.json", SMALL);
    let fields = good(60);
    let fields: Vec<_> =
        fields.iter().map(|(name, shape, v)| (*name, &shape[..], v.clone())).collect();
    place.write_fields("data.hdf5", &fields);
    place.succeeds(EVALUATE);
}

#[test]
fn what_is_not_there_is_named() {
    let place = Place::with_data();
    let words = ["error: no.hdf5: cannot read: No such file or directory"];
    place.refuses(&format!("{} --out new/run", EVALUATE.replace("data.hdf5", "no.hdf5")), &words);
    place.refuses("inspect no.hdf5", &words);
    assert!(place.succeeds("inspect .").contains("no data set by itself"));
    let folder = EVALUATE.replace("data.hdf5", ".");
    place.refuses(
        &format!("{folder} --out new/run"),
        &["error: .: a folder, but no data set of Minari"],
    );
}

#[test]
fn missing_and_misspelt_fields_are_named() {
    // Without any the environment says the reward; a misspelt one is none that may be left out.
    refuses_file(|f| f[2].0 = "reward", 60, &["no field `rewards`, but `reward`: rename it"]);
    refuses_file(
        |f| f[0].0 = "observation",
        60,
        &["no field `observations`: did you mean `observation`?"],
    );
    refuses_file(|f| f[4].0 = "terminal", 60, &["no field `terminals`, but `terminal`: rename it"]);
    refuses_file(|f| f.clear(), 60, &["no field `observations`: it holds no data at all"]);
}

#[test]
fn wrong_shapes_are_named() {
    refuses_file(|f| f[1].1 = vec![120], 60, &["`actions` has shape [120]: expected [n, width]"]);
    refuses_file(
        |f| f[1] = ("actions", vec![59, 2], vec![0.5; 118]),
        60,
        &["`observations` has 60 rows, `actions` has 59"],
    );
    refuses_file(
        |f| f[3] = ("next_observations", vec![60, 3], vec![0.5; 180]),
        60,
        &["`observations` is 2 wide, `next_observations` is 3"],
    );
    refuses_file(
        |f| f[2] = ("rewards", vec![60, 2], vec![0.5; 120]),
        60,
        &["`rewards` has shape [60, 2]: expected [n] or [n, 1]"],
    );
    refuses_file(|f| f[4].2[7] = 0.5, 60, &["`terminals` is 0.5 in row 7: expected 0 or 1"]);
}

#[test]
fn what_is_not_finite_is_named_with_row_and_column() {
    let words = "is not a finite float32 number: remove or repair such rows";
    reports_file(
        |f| f[0].2[2 * 17 + 1] = f64::NAN,
        60,
        &["`observations` in row 17, column 1", words],
        Some("state 1"),
    );
    reports_file(
        |f| f[1].2[2 * 3] = f64::INFINITY,
        60,
        &["`actions` in row 3, column 0", words],
        Some("action 0"),
    );
    reports_file(
        |f| f[2].2[59] = f64::NEG_INFINITY,
        60,
        &["`rewards` in row 59, column 0", words],
        Some("reward"),
    );
    reports_file(
        |f| f[3].2[0] = 1e200,
        60,
        &["`next_observations` in row 0, column 0", words],
        None,
    );
    refuses_file(|f| f[5].2[5] = f64::NAN, 60, &["`timeouts` is NaN in row 5: expected 0 or 1"]);
}

#[test]
fn too_few_rows_are_refused() {
    reports_file(|_| (), 1, &["at least 2 are needed"], None);
    let place = Place::new();
    place.write("small.json", SMALL);
    let fields = good(2);
    let fields: Vec<_> =
        fields.iter().map(|(name, shape, v)| (*name, &shape[..], v.clone())).collect();
    place.write_fields("data.hdf5", &fields);
    place.refuses(
        &format!("{EVALUATE} --out run"),
        &["error: data.hdf5: 2 transitions are too few to hold some out for validation and calibration"],
    );
    // No row at all: h5py writes such a field chunked and unlimited.
    let file = H5File::create(place.path("data.hdf5")).unwrap();
    let empty = file.new_dataset::<f32>().shape([0, 2]).chunk(&[1, 2]).max_shape(&[None, Some(2)]);
    empty.create("observations").unwrap();
    file.close().unwrap();
    place.refuses(
        EVALUATE,
        &["error: data.hdf5: `observations` has shape [0, 2]: there is nothing in it"],
    );
}

#[test]
fn constant_columns_are_refused_unless_allowed() {
    let place = Place::new();
    place.write("small.json", SMALL);
    for (field, name) in [(0, "states"), (1, "actions")] {
        let mut fields = good(60);
        fields[field].2.iter_mut().skip(1).step_by(2).for_each(|v| *v = 0.25);
        let fields: Vec<_> =
            fields.iter().map(|(name, shape, v)| (*name, &shape[..], v.clone())).collect();
        place.write_fields("data.hdf5", &fields);
        let words = format!("error: data.hdf5: {name}: column 1 is 0.25 in every row");
        place.refuses(&format!("{EVALUATE} --out run"), &[&words, "--allow-constant"]);
        let result = place.json(&format!("{EVALUATE} --allow-constant --json"));
        assert!(result["lower_bound"].is_f64());
        let columns = place.json("inspect data.hdf5 --json")["columns"].clone();
        assert_eq!(columns[2 * field + 1]["constant"], true);
    }
}

#[test]
fn garbage_and_cut_files_are_refused() {
    let place = Place::with_data();
    let whole = std::fs::read(place.path("data.hdf5")).unwrap();
    let nothing = "no log that can be read, or a damaged one";
    for (content, words) in
        [(&b""[..], "an empty file"), (b"observations\n1\n2\n", nothing), (&[0x5a; 5000], nothing)]
    {
        place.write("bad.hdf5", content);
        place.refuses(
            &format!("{} --out run", EVALUATE.replace("data.hdf5", "bad.hdf5")),
            &["bad.hdf5: ", words],
        );
        place.refuses("inspect bad.hdf5", &["bad.hdf5: ", words]);
    }
    for part in 1..20 {
        place.write("bad.hdf5", &whole[..whole.len() * part / 20]);
        place.refuses(&EVALUATE.replace("data.hdf5", "bad.hdf5"), &["error: bad.hdf5: "]);
    }
}

/// A run whose model can be spoilt.
fn fitted() -> (Place, String) {
    let place = Place::with_data();
    place.succeeds(&format!("{EVALUATE} --out run"));
    let line = EVALUATE.replace("--model-config small.json", "--fitted run");
    place.succeeds(&line);
    (place, format!("{line} --out again"))
}

#[test]
fn spoilt_descriptions_of_models_are_refused() {
    let (place, line) = fitted();
    let text = std::fs::read_to_string(place.path("run/model.json")).unwrap();
    let whole: Value = serde_json::from_str(&text).unwrap();
    let weights = std::fs::read(place.path("run/model.safetensors")).unwrap();
    let changed = |pointer: &str, value: Value| {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        for digest in ["weights_sha256", "sha256"] {
            changed.as_object_mut().unwrap().remove(digest);
        }
        String::from_utf8(hambo::dynamics::seal(changed.to_string().as_bytes(), &weights)).unwrap()
    };
    let fit = "do not fit each other";
    for (content, words) in [
        (String::new(), "does not describe a fitted model: EOF"),
        ("garbage".to_owned(), "does not describe a fitted model: expected value"),
        (text[..text.len() / 2].to_owned(), "does not describe a fitted model: EOF"),
        ("{}".to_owned(), "does not describe a fitted model: missing field"),
        (changed("/schema", "hambo/bnn/9".into()), "schema is \"hambo/bnn/9\", this version reads"),
        (changed("/layout/observed", 7.into()), fit),
        (changed("/layout/observed", u64::MAX.into()), fit),
        (changed("/head/dims", u64::MAX.into()), fit),
        (changed("/tau", vec![1.0].into()), fit),
        (changed("/inputs/mean", vec![1.0; 9].into()), fit),
        (changed("/shape/widths", vec![4, 32, 32, 6].into()), fit),
        (changed("/shape/widths", vec![4u64, 1 << 40, 1 << 40, 4].into()), "network = "),
        (changed("/shape/members", 0.into()), "network = "),
        (changed("/shape/members", u64::MAX.into()), "network = "),
        (changed("/inputs/std/0", 0.0.into()), "deviations positive"),
        (changed("/targets/std/0", (-1.0).into()), "deviations positive"),
        (changed("/tau/0", (-1.0).into()), "finite and not negative"),
        (changed("/targets/mean/0", 1e39.into()), "number out of range"),
        (
            changed("/head/floor", (-1.0).into()),
            "head.floor = -1: expected a positive, finite number",
        ),
        (changed("/config/steps", 0.into()), "steps = 0"),
        (changed("/config/holdout", "x".into()), "invalid type"),
    ] {
        place.write("run/model.json", content);
        place.refuses(&line, &["error: run/model.json: ", words]);
    }
    std::fs::remove_file(place.path("run/model.json")).unwrap();
    place.refuses(&line, &["error: run/model.json: cannot read: No such file"]);
}

#[test]
fn spoilt_parameters_of_models_are_refused() {
    let (place, line) = fitted();
    let whole = std::fs::read(place.path("run/model.safetensors")).unwrap();
    let text = std::fs::read_to_string(place.path("run/model.json")).unwrap();
    let link = ",\n  \"weights_sha256\"";
    let description = text[..text.find(link).unwrap()].to_owned() + "}";
    let damaged = "not a safetensors file, or a damaged one";
    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut nan = whole.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    for (content, words) in [
        (&b""[..], damaged),
        (b"garbage", damaged),
        (&[0x5a; 4000], damaged),
        (&whole[..whole.len() / 2], damaged),
        (&whole[..whole.len() - 1], damaged),
        (&huge, damaged),
        (&nan, "params holds values that are not finite"),
    ] {
        place.write("run/model.safetensors", content);
        let other = "not the weights that model.json was written with";
        place.write("run/model.json", &text);
        place.refuses(&line, &["error: run/model.safetensors: ", other, "fit the model anew"]);
        // Where somebody sees to it that the digests are right, what is in it is looked at all the same.
        place.write("run/model.json", hambo::dynamics::seal(description.as_bytes(), content));
        place.refuses(&line, &["error: run/model.safetensors: ", words]);
    }
    // Of another model: a whole file that belongs to another description.
    place.write("other.json", SMALL.replace("32, 32", "16, 16"));
    place.succeeds(&format!("{} --out other", EVALUATE.replace("small.json", "other.json")));
    std::fs::copy(place.path("other/model.safetensors"), place.path("run/model.safetensors"))
        .unwrap();
    place.write("run/model.json", &text);
    place.refuses(&line, &["error: run/model.safetensors: ", "written with: SHA-256 "]);
    let weights = std::fs::read(place.path("run/model.safetensors")).unwrap();
    place.write("run/model.json", hambo::dynamics::seal(description.as_bytes(), &weights));
    place.refuses(
        &line,
        &["error: run/model.safetensors: params is F32 [5, ", "], expected F32 with rows of "],
    );
    std::fs::remove_file(place.path("run/model.safetensors")).unwrap();
    place.refuses(&line, &["error: run/model.safetensors: cannot read: No such file"]);
}

#[test]
fn a_model_of_another_task_is_refused() {
    let (place, line) = fitted();
    place.succeeds(
        "collect --env pendulum --policy builtin:swing-up --noise 1 --steps 400 --force --out data.hdf5",
    );
    let line = line.replace("point-safety", "pendulum").replace("waypoint", "swing-up");
    place.refuses(
        &line,
        &["the model has states of 2 and actions of 2 dimensions, task pendulum has 3 and 1"],
    );
    place.misuses(
        &format!("{EVALUATE} --fitted run"),
        &["'--model-config <FILE>' cannot be used with '--fitted"],
    );
}

#[test]
fn a_quote_that_is_never_closed_is_told_in_a_line() {
    let place = Place::new();
    let rows = "1,0.5,0.25,0.125\n".repeat(200_000);
    place.write("header.csv", format!("ep,s0,\"a0,reward\n{rows}"));
    place.write("row.csv", format!("ep,s0,a0,reward\n1,0.5,\"0.25,0.125\n{rows}"));
    for (name, words) in [("header.csv", "is a quote not closed?"), ("row.csv", "row.csv: ")] {
        place.refuses(&format!("inspect {name}"), &[words]);
        let run = place.hambo(&format!("inspect {name}"));
        assert!(run.stderr.len() < 400, "{} bytes", run.stderr.len());
    }
}

#[test]
fn minari_data_sets_have_names_and_are_whole() {
    let place = Place::new();
    let names = ["minari:../..", "minari:/etc", "minari:", "minari:a/../../b", "minari:./a"];
    for name in names {
        place.refuses(&format!("inspect {name}"), &[name, "not the name of a data set"]);
    }
    let reference = "../hambo/tests/reference/formats/minari/test/line-v0/data/main_data.hdf5";
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(reference);
    std::fs::create_dir_all(place.path("set/data")).unwrap();
    std::fs::copy(whole, place.path("set/data/main_data.hdf5")).unwrap();
    let found = place.json("inspect set --json");
    let (episodes, steps) = (found["episodes"].as_u64(), found["transitions"].as_u64());
    let (Some(episodes), Some(steps)) = (episodes, steps) else { panic!("{found}") };
    let declare = |episodes: u64, steps: u64| {
        let text = format!(r#"{{"total_episodes": {episodes}, "total_steps": {steps}, "x": []}}"#);
        place.write("set/data/metadata.json", text);
    };
    declare(episodes, steps);
    place.succeeds("inspect set");
    for (e, s, words) in [(episodes + 1, steps, "episodes"), (episodes, steps + 1, "steps")] {
        declare(e, s);
        place.refuses("inspect set", &["declares", words, "the data set is not whole"]);
    }
    place.write("set/data/metadata.json", "{");
    place.refuses("inspect set", &["metadata.json: not the metadata of a Minari data set"]);
}
