//! `hambo validate`: a suite from its file to its table.

use super::*;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Eight runs on five data sets, in a few seconds.
const SUITE: &str = r#"
methods = ["ca", "dainf", "ds"]
truth = { episodes = 100, most = 300 }

[settings]
rollouts = 200

[settings.model]
folds = 1
activation = "relu"
hidden = [32, 32]
steps = 300
check_every = 100
patience = 300

[settings.search]
hidden = [16, 16]
restarts = 1
batch = 8
iterations = 6
evaluation = 20

[[environment]]
env = "point-safety"
policies = ["builtin:waypoint,y=1.6", "builtin:waypoint,y=2.0"]
horizons = [15]
n = [300, 600]
seeds = [3]

[[environment.data]]
name = "one"
behaviors = ["builtin:waypoint,y=1.6"]
noise = [0.1]

[[environment.data]]
name = "own"
behaviors = ["self"]
noise = [0.1, 0.2]
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("suite.toml", SUITE);
    place
}

/// Runs what must work; returns what it said on standard error.
fn works(place: &Place, line: &str) -> String {
    let run = place.hambo(line);
    assert_eq!(run.code, Some(0), "hambo {line}\n{}", run.stderr);
    run.stderr
}

/// The lines of a file of runs by the names of their cases, without their times.
fn runs(place: &Place, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(place.path(file)).unwrap();
    let mut found: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for run in &mut found {
        assert!(run["seconds"].as_f64().unwrap() > 0.0);
        (run["seconds"], run["fit_seconds"]) = (Value::Null, Value::Null);
    }
    found.sort_by_key(|run| run["case"].as_str().unwrap().to_owned());
    found
}

#[test]
fn a_suite_becomes_a_table_once() {
    let place = place();
    let told = works(&place, "validate suite.toml --out out");
    assert!(told.contains("[8/8] point-safety waypoint,y="), "{told}");
    let table: Value =
        serde_json::from_slice(&std::fs::read(place.path("out/table.json")).unwrap()).unwrap();
    assert_eq!((&table["done"], &table["asked"]), (&8.into(), &8.into()));
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16, "two conservative methods a run");
    for row in rows {
        let (truth, bound) = (row["truth"].as_f64().unwrap(), row["bound"].as_f64().unwrap());
        let gap = (truth - bound) / truth.abs();
        assert!((row["gap"].as_f64().unwrap() - gap).abs() < 1e-12);
        assert_eq!(row["violated"], bound > truth + 3.0 * row["truth_std_error"].as_f64().unwrap());
        assert_eq!(row["truth_resolved"], true, "the point's world is deterministic");
    }
    let groups = table["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 4, "two kinds of data, two sizes");
    assert!(groups.iter().all(|g| g["runs"] == 2 && g["violations"]["of"] == 2));
    assert_eq!(table["rankings"].as_array().unwrap().len(), 4);
    let markdown = std::fs::read_to_string(place.path("out/table.md")).unwrap();
    assert!(markdown.contains("## By evidence") && markdown.contains("## Every run"), "{markdown}");
    let page = std::fs::read_to_string(place.path("out/index.html")).unwrap();
    assert!(page.contains("<circle") && page.contains("Order of the policies"));

    let before = std::fs::read(place.path("out/runs.jsonl")).unwrap();
    assert_eq!(works(&place, "validate suite.toml --out out"), "", "nothing is left to do");
    assert!(std::fs::read(place.path("out/runs.jsonl")).unwrap() == before);
}

#[test]
fn killed_at_any_moment_it_ends_with_the_same_bits() {
    let place = place();
    let start = Instant::now();
    works(&place, "validate suite.toml --out whole");
    let seconds = start.elapsed().as_secs_f64();
    let mut kills = 0;
    for share in [0.2, 0.35, 0.5, 0.65] {
        let mut child = place.command("validate suite.toml --out killed");
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs_f64(share * seconds));
        kills += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
    }
    assert!(kills > 0, "too fast to be tested");
    works(&place, "validate suite.toml --out killed");
    assert_eq!(runs(&place, "killed/runs.jsonl"), runs(&place, "whole/runs.jsonl"));
    let tables = ["whole", "killed"].map(|folder| {
        let bytes = std::fs::read(place.path(&format!("{folder}/table.json"))).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["rankings"].clone()
    });
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn shards_make_up_the_whole() {
    let place = place();
    works(&place, "validate suite.toml --out whole");
    for shard in ["1/2", "2/2"] {
        works(&place, &format!("validate suite.toml --out parts --shard {shard}"));
    }
    let told = works(&place, "validate suite.toml --out parts");
    assert!(!told.contains("[1/8]"), "nothing is done again: {told}");
    let parts = ["1", "2"].map(|i| runs(&place, &format!("parts/shard-{i}-of-2/runs.jsonl")));
    let mut parts = parts.concat();
    parts.sort_by_key(|run| run["case"].as_str().unwrap().to_owned());
    assert_eq!(parts, runs(&place, "whole/runs.jsonl"));
    let table = std::fs::read_to_string(place.path("parts/table.md")).unwrap();
    assert!(table.contains("8 of 8 runs of the suite suite"), "{table}");
}

#[test]
fn a_run_is_what_evaluate_says_of_the_collected_data() {
    let place = place();
    works(&place, "validate suite.toml --out out");
    place.write("small.json", SMALL);
    place.write(
        "search.json",
        r#"{"hidden": [16, 16], "restarts": 1, "batch": 8, "iterations": 6, "evaluation": 20}"#,
    );
    place.succeeds("collect --env point-safety --policy builtin:waypoint,y=2.0 --noise 0.1 0.2 --steps 600 --horizon 15 --seed 3 --out data.hdf5");
    let asked = "evaluate --data data.hdf5 --env point-safety --policy builtin:waypoint,y=2.0 --horizon 15 --seed 3 \
                 --model-config small.json --search-config search.json --rollouts 200 --method ca,dainf,ds --device cpu --json";
    let expected = place.json(asked);
    let found = runs(&place, "out/runs.jsonl");
    let run = found.iter().find(|run| {
        (&run["policy"], &run["data"], &run["n"])
            == (&"waypoint,y=2.0".into(), &"own".into(), &600.into())
    });
    let run = run.unwrap();
    for i in 0..3 {
        for key in ["method", "value", "lower_bound"] {
            assert_eq!(run["estimates"][i][key], expected["estimates"][i][key], "{key}");
        }
    }
    assert_eq!(run["evidence"], expected["evidence"]);
}

#[test]
fn a_run_that_fails_is_a_row_that_says_why() {
    let place = Place::new();
    place.write("suite.toml", SUITE.replace("n = [300, 600]", "n = [2, 300]"));
    let run = place.hambo("validate suite.toml --out out");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("## Runs without an answer"), "{}", run.stdout);
    let found = runs(&place, "out/runs.jsonl");
    assert_eq!(found.len(), 8);
    for run in found {
        assert_eq!(run["error"].is_string(), run["n"] == 2, "{run}");
    }
}

#[test]
fn bad_suites_are_refused_before_anything_runs() {
    let place = place();
    for (from, to, words) in [
        (
            "[settings]\n",
            "[settings]\nrollout = 3\n",
            &["suite.toml", "line 6", "unknown field `rollout`"][..],
        ),
        ("methods = [\"ca\"", "methods = [\"cb\"", &["suite.toml: methods: ", "cb"]),
        ("[\"ca\", \"dainf\", \"ds\"]", "[\"ds\"]", &["suite.toml: methods: ", "conservative"]),
        ("\"point-safety\"", "\"moon\"", &["suite.toml: environment[0].env: ", "moon"]),
        (
            "\"builtin:waypoint,y=2.0\"",
            "\"gone.zip\"",
            &["suite.toml: environment[0].policies: ", "gone.zip"],
        ),
        ("y=2.0\"]", "y=1.6\"]", &["suite.toml: environment[0].policies: ", "distinct"]),
        ("episodes = 100", "episodes = 0", &["suite.toml: truth: ", "episodes"]),
        ("most = 300", "most = 3", &["suite.toml: truth.most: ", "3"]),
        (
            "horizons = [15]",
            "horizons = []",
            &["suite.toml: environment[0].horizons: ", "at least one"],
        ),
        ("horizons = [15]", "horizons = [0]", &["suite.toml: environment[0]", "horizon"]),
        ("n = [300, 600]", "n = [1]", &["suite.toml: environment[0].n: ", "2"]),
        ("noise = [0.1]", "noise = [-0.1]", &["suite.toml: environment[0].data[0].noise: "]),
        (
            "behaviors = [\"self\"]",
            "behaviors = []",
            &["suite.toml: environment[0].data[1].behaviors: "],
        ),
        ("name = \"own\"", "name = \"one\"", &["suite.toml: environment[0].data: ", "distinct"]),
        ("steps = 300", "steps = -3", &["suite.toml: settings.model: "]),
        ("steps = 300", "stepz = 300", &["suite.toml: settings.model: ", "stepz"]),
        ("iterations = 6", "iterations = 0", &["suite.toml: settings.search: ", "iterations"]),
        (
            "[settings]\n",
            "[settings]\neffort = \"some\"\n",
            &["suite.toml: settings.effort: ", "quick"],
        ),
        (
            "[[environment]]",
            "[[variant]]\nname = \"x\"\nbeta = \"-1\"\n[[environment]]",
            &["suite.toml: variant[0].beta: "],
        ),
        (
            "env = \"point-safety\"",
            "task = \"gone.toml\"",
            &["suite.toml: environment[0].task: ", "gone.toml"],
        ),
    ] {
        let text = SUITE.replacen(from, to, 1);
        assert_ne!(text, SUITE, "{from}");
        place.write("suite.toml", text);
        place.refuses("validate suite.toml --out out", words);
    }
    place.write("suite.toml", "methods = [\"ca\"]");
    place.refuses("validate suite.toml --out out", &["suite.toml: environment: ", "at least one"]);
    place.write("suite.toml", SUITE);
    place.refuses("validate suite.toml --out out --shard 1/9", &["shard = 1/9", "6"]);
    place.refuses("validate quik --out out", &["quik", "quick, full"]);
    for shard in ["0/2", "3/2", "2", "a/b"] {
        place.misuses(&format!("validate suite.toml --out out --shard {shard}"), &["expected I/N"]);
    }
}

#[test]
fn runs_of_another_build_are_not_mixed_in() {
    let place = place();
    works(&place, "validate suite.toml --out out");
    let path = place.path("out/runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let build =
        serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap()["build"].clone();
    std::fs::write(&path, text.replacen(build.as_str().unwrap(), "000000000000", 1)).unwrap();
    place.refuses("validate suite.toml --out out", &["runs of build 000000000000", "--out"]);
}

#[test]
fn logs_and_truths_of_an_own_simulator() {
    let place = Place::with_data();
    place.write("own.toml", "name = \"mine\"\nenv = \"point-safety\"\n");
    let head = &SUITE[..SUITE.find("[[environment]]").unwrap()];
    let own = r#"
[[environment]]
task = "own.toml"
policies = ["builtin:waypoint"]
horizons = [15]
n = [300]
seeds = [1]

[[environment.data]]
name = "logged"
files = ["data.hdf5"]
"#;
    let truth = "\n[[environment.truth]]\npolicy = \"builtin:waypoint\"\nhorizon = 15\nvalue = -30.0\nstd_error = 0.1\nepisodes = 50\n";
    place.write("suite.toml", format!("{head}{own}"));
    place.refuses(
        "validate suite.toml --out out",
        &["environment[0].truth: ", "waypoint within 15 steps"],
    );
    place.write("suite.toml", format!("{head}{own}{truth}"));
    works(&place, "validate suite.toml --out out");
    let table: Value =
        serde_json::from_slice(&std::fs::read(place.path("out/table.json")).unwrap()).unwrap();
    let row = &table["rows"][0];
    assert_eq!(
        (&row["truth"], &row["truth_episodes"], &row["env"]),
        (&(-30.0).into(), &50.into(), &"mine".into())
    );
}
