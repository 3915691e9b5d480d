//! `hambo sweep`: the same plan on one worker, on shards, and on workers that are killed.

use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};

/// Eight jobs, each in a fraction of a second.
pub(super) const PLAN: &str = r#"
[settings]
horizon = 15
model_config = "small.json"
rollouts = 200
method = "dainf,ds"
save_every = 0

[[grid]]
env = "point-safety"
data = ["data.hdf5", ["data.hdf5", "other.hdf5"]]
policies = [
    "builtin:waypoint,y=1.6",
    "builtin:waypoint,y=2.0",
]
seeds = [1, 2]
"#;
pub(super) const JOBS: usize = 8;

pub(super) fn place() -> Place {
    let place = Place::with_data();
    place.succeeds(&COLLECT.replace("--seed 1", "--seed 2").replace("data.hdf5", "other.hdf5"));
    place.write("plan.toml", PLAN);
    place
}

/// Runs what must end well; returns what it said on standard error.
pub(super) fn works(place: &Place, line: &str) -> String {
    let run = place.hambo(line);
    assert_eq!(run.code, Some(0), "hambo {line}\n{}\n{}", run.stdout, run.stderr);
    run.stderr
}

pub(super) fn names(place: &Place, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All jobs of a folder are done, nobody has one, and the table is this one, bit for bit.
pub(super) fn same_tables(place: &Place, folder: &str, expected: &str) {
    works(place, &format!("sweep plan.toml --out {folder} --collect"));
    for file in ["table.csv", "table.parquet"] {
        let [there, here] =
            [expected, folder].map(|f| fs::read(place.path(&format!("{f}/{file}"))).unwrap());
        assert!(there == here, "{folder}/{file} differs");
    }
    assert_eq!(names(place, &format!("{folder}/done")).len(), JOBS);
    assert!(names(place, &format!("{folder}/leases")).is_empty());
}

fn table(place: &Place, folder: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(place.path(&format!("{folder}/table.csv"))).unwrap();
    let cells = |line: &str| -> Vec<String> {
        let mut inside = false;
        let cells = line.split(|c| {
            inside ^= c == '"';
            c == ',' && !inside
        });
        cells.map(|cell| cell.trim_matches('"').to_owned()).collect()
    };
    let head = cells(text.lines().next().unwrap());
    let row = |line: &str| head.iter().cloned().zip(cells(line)).collect();
    text.lines().skip(1).map(row).collect()
}

/// The first words of the lines that tell of a job that ended.
pub(super) fn ended(said: &str) -> Vec<String> {
    let ends = said.lines().filter(|line| line.contains(": BOUND "));
    let job =
        |line: &str| line.split_once(" s: ").unwrap().1.split(": BOUND").next().unwrap().to_owned();
    ends.map(job).collect()
}

pub(super) fn start(place: &Place, line: &str, log: &str) -> Child {
    let log = fs::File::options().create(true).append(true).open(place.path(log)).unwrap();
    place.command(line).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

#[test]
fn a_sweep_becomes_a_table_once_whoever_does_it() {
    let place = place();
    let before = place.hambo("sweep plan.toml --out whole --status");
    assert_eq!((before.code, before.stdout.as_str()), (Some(0), "8 jobs: 0 done, 8 waiting\n"));
    assert!(!place.path("whole").exists(), "looking makes nothing");
    let said = works(&place, "sweep plan.toml --out whole");
    assert_eq!(ended(&said).len(), JOBS);
    let rows = table(&place, "whole");
    assert_eq!(rows.len(), 2 * JOBS, "two methods a job");
    assert!(rows.iter().all(|row| row["state"] == "done" && row["horizon"] == "15"));
    let page = fs::read_to_string(place.path("whole/table.html")).unwrap();
    assert!(
        page.contains("<h2>data.hdf5 other.hdf5</h2>") && page.contains("mean bound"),
        "{page}"
    );
    let page = fs::read_to_string(place.path("whole/index.html")).unwrap();
    assert!(page.contains("8 jobs: 8 done") && !page.contains("reload"), "{page}");

    // A job is what the command says.
    let row = &rows[0];
    let line =
        EVALUATE.replace(METHODS, "dainf,ds").replace("builtin:waypoint", "builtin:waypoint,y=1.6");
    let alone = place.json(&format!("{line} --seed 1 --json"));
    assert_eq!(
        (row["data"].as_str(), row["policy"].as_str()),
        ("data.hdf5", "builtin:waypoint,y=1.6")
    );
    assert_eq!(row["lower_bound"].parse::<f64>().unwrap(), alone["lower_bound"].as_f64().unwrap());

    assert_eq!(works(&place, "sweep plan.toml --out whole"), "", "nothing is done again");
    for i in 1..=4 {
        works(&place, &format!("sweep plan.toml --out parts --shard {i}/4"));
        assert_eq!(names(&place, "parts/done").len(), 2 * i);
    }
    same_tables(&place, "parts", "whole");
    assert_eq!(
        works(&place, "sweep plan.toml --out parts --shard 9/9"),
        "",
        "an empty part is done"
    );

    let mut workers: Vec<Child> = (0..2)
        .map(|_| start(&place, "sweep plan.toml --out pair --threads 1", "pair.log"))
        .collect();
    assert!(workers.iter_mut().all(|worker| worker.wait().unwrap().success()));
    let mut jobs = ended(&fs::read_to_string(place.path("pair.log")).unwrap());
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), JOBS, "each is done by one of them");
    same_tables(&place, "pair", "whole");
}

#[test]
fn failed_jobs_and_gates_are_told_and_tried_again_only_if_asked() {
    let place = place();
    let plan = PLAN.replace("rollouts = 200", "rollouts = 200\nsubsample = [\"2\", \"300\"]");
    place.write("plan.toml", plan.replace("seeds = [1, 2]", "seeds = [1]"));
    let run = place.hambo("sweep plan.toml --out out");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.starts_with("8 jobs: 4 done, 4 failed\n"), "{}", run.stdout);
    assert!(
        run.stdout.contains("builtin:waypoint,y=1.6 on data.hdf5, seed 1, subsample 2"),
        "{}",
        run.stdout
    );
    let rows = table(&place, "out");
    assert_eq!(rows.len(), 4 * 2 + 4);
    for row in &rows {
        assert_eq!(row["state"] == "failed", row["subsample"] == "2");
        assert_eq!(row["error"].is_empty(), row["subsample"] == "300");
    }
    let again = place.hambo("sweep plan.toml --out out");
    assert_eq!((again.code, again.stderr.as_str()), (Some(1), ""), "nothing is tried again");
    let retried = place.hambo("sweep plan.toml --out out --retry-failed");
    assert_eq!((retried.code, retried.stderr.matches(": failed: ").count()), (Some(1), 4));

    let plan = PLAN.replace(
        "rollouts = 200",
        "rollouts = 200\nthreshold = [-1000, 1000]\naccept = \"extrapolation\"",
    );
    place.write("plan.toml", plan.replace("seeds = [1, 2]", "seeds = [1]"));
    let run = place.hambo("sweep plan.toml --out out");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.starts_with("8 jobs: 8 done\n\ngate failed"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("NOT SHOWN: bound").count(), 4, "{}", run.stdout);
    assert_eq!(names(&place, "out/done").len(), 4 + 8, "jobs of another plan stay");
}

#[test]
fn a_changed_input_is_another_job() {
    let place = place();
    works(&place, "sweep plan.toml --out out");
    let other = COLLECT.replace("--seed 1", "--seed 3").replace("data.hdf5", "other.hdf5");
    place.succeeds(&format!("{other} --force"));
    assert_eq!(
        ended(&works(&place, "sweep plan.toml --out out")).len(),
        4,
        "of the second data set"
    );
    place.write("small.json", SMALL.replace("300", "200"));
    assert_eq!(ended(&works(&place, "sweep plan.toml --out out")).len(), JOBS);
    // What is written out, but not other, is no other job; nor is another place of the plan.
    place.write(
        "plan.toml",
        PLAN.replace("horizon = 15", "horizon = 15\ndelta = 0.05\nsave-every = 9"),
    );
    assert_eq!(works(&place, "sweep plan.toml --out out"), "");
    let inside = place.path("");
    let outside = Place::new();
    let line = format!(
        "sweep {} --out {}",
        inside.join("plan.toml").display(),
        inside.join("out").display()
    );
    assert_eq!(works(&outside, &line), "");
}

#[test]
fn plans_with_mistakes_are_refused_before_anything_runs() {
    let place = place();
    for (from, to, words) in [
        ("rollouts = 200", "rolouts = 200", &["line 5: rolouts: ", "`rollouts`"][..]),
        ("rollouts = 200", "rollouts = \"many\"", &["line 5: ", "many"]),
        ("rollouts = 200", "rollouts = 3", &["line 5: rollouts = 3: expected"]),
        ("rollouts = 200", "rollouts = []", &["line 5: rollouts: expected at least one value"]),
        ("rollouts = 200", "rollouts = [200, 200]", &["line 5: rollouts: 200 is there twice"]),
        (
            "rollouts = 200",
            "rollouts = { a = 1 }",
            &["line 5: rollouts: expected a text or a number"],
        ),
        ("rollouts = 200", "seed = 3", &["line 5: seed: not a setting"]),
        ("rollouts = 200", "curves = \"yes\"", &["line 5: curves: expected true or false"]),
        ("rollouts = 200", "beta = \"large\"", &["line 5: beta = large: expected"]),
        ("horizon = 15", "", &["line 9: expected `horizon` among the settings"]),
        ("horizon = 15", "horizon = 0", &["line 3: horizon = 0: expected"]),
        ("\"dainf,ds\"", "\"dainf,dx\"", &["line 6: ", "dx"]),
        ("\"small.json\"", "\"gone.json\"", &["line 4: model-config: ", "gone.json: cannot read"]),
        ("[[grid]]", "[[grids]]", &["line 9: unknown field `grids`"]),
        ("env = ", "envs = ", &["line 10: unknown field `envs`"]),
        ("\"point-safety\"", "\"moon\"", &["line 10: env: ", "moon"]),
        ("env = \"point-safety\"", "task = \"gone.toml\"", &["line 10: task: ", "gone.toml"]),
        ("[\"data.hdf5\", [", "[\"gone.hdf5\", [", &["line 11: data: ", "gone.hdf5"]),
        ("[\"data.hdf5\", [", "[\"small.json\", [", &["line 11: data: ", "small.json"]),
        (
            "[\"data.hdf5\", [\"data.hdf5\", \"other.hdf5\"]]",
            "[]",
            &["line 11: data: expected at least one"],
        ),
        ("\"builtin:waypoint,y=2.0\"", "\"gone.zip\"", &["line 14: policies: ", "gone.zip"]),
        ("\"builtin:waypoint,y=2.0\"", "\"small.json\"", &["line 14: policies: ", "small.json"]),
        ("\"builtin:waypoint,y=2.0\"", "\"builtin:swing-up\"", &["line 14: policies: "]),
        (
            "\"builtin:waypoint,y=2.0\"",
            "\"builtin:waypoint,y=1.6\"",
            &["line 14: ", "is there twice"],
        ),
        ("seeds = [1, 2]", "seeds = []", &["line 16: seeds: expected at least one"]),
        ("seeds = [1, 2]", "seeds = [1, -2]", &["line 16: "]),
        ("seeds = [1, 2]", "seeds = \"all\"", &["line 16: invalid type"]),
        ("seeds = [1, 2]", "seeds = [1, 2", &["line 1"]),
    ] {
        assert!(PLAN.contains(from), "{from}");
        place.write("wrong.toml", PLAN.replace(from, to));
        place.refuses("sweep wrong.toml --out out", &[&["error: wrong.toml: "], words].concat());
    }
    place.refuses("sweep gone.toml --out out", &["error: gone.toml: cannot read: "]);
    place.refuses("sweep plan.toml --out out --stale-after 0", &["stale-after = 0: expected"]);
    place.misuses("sweep plan.toml --out out --shard 3/2", &["--shard", "I/N"]);
}

/// A line of shell with `hambo` in its path, as the recipes of docs/scaling.md are meant.
fn shell(place: &Place, script: &str, variables: &[(&str, String)]) {
    let folder = Path::new(env!("CARGO_BIN_EXE_hambo")).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(place.0.path()).env("PATH", path);
    let run = Run::from(command.envs(variables.iter().cloned()).output().unwrap());
    assert_eq!(run.code, Some(0), "{script}\n{}\n{}", run.stdout, run.stderr);
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

#[test]
fn recipes_of_the_documents_give_the_same_table() {
    let place = place();
    works(&place, "sweep plan.toml --out whole");
    let text = document("scaling.md");
    let mut scripts: Vec<(String, Vec<(&str, String)>)> = Vec::new();
    for recipe in text.split("<!-- recipe: ").skip(1) {
        let (name, rest) = recipe.split_once(" -->").unwrap();
        let script = rest.split("```").nth(1).unwrap().strip_prefix("sh\n").unwrap();
        let has = |tool| Command::new(tool).arg("--version").output().is_ok();
        match name {
            "parallel" if !has("parallel") => println!("skipped: GNU parallel is not installed"),
            _ => scripts.push((script.to_owned(), Vec::new())),
        }
    }
    assert!(scripts.len() >= 2);
    for (script, variables) in &scripts {
        shell(&place, script, variables);
        same_tables(&place, "results", "whole");
        fs::remove_dir_all(place.path("results")).unwrap();
    }
    for i in 1..=8 {
        let variables =
            [("SLURM_ARRAY_TASK_ID", format!("{i}")), ("SLURM_ARRAY_TASK_COUNT", "8".to_owned())];
        shell(&place, &document("scaling/array.sbatch"), &variables);
    }
    same_tables(&place, "results", "whole");
    fs::remove_dir_all(place.path("results")).unwrap();
    let manifest = document("scaling/job.yaml");
    let line = manifest.lines().find_map(|line| line.trim().strip_prefix("- hambo ")).unwrap();
    assert!(
        manifest.contains("command: [\"sh\", \"-c\"]") && manifest.contains("completions: 8\n")
    );
    let line = line.replace("/plan/", "").replace("/results", "results").replace("cuda", "cpu");
    for i in 0..8 {
        shell(&place, &format!("hambo {line}"), &[("JOB_COMPLETION_INDEX", format!("{i}"))]);
    }
    same_tables(&place, "results", "whole");
}

#[test]
fn jobs_that_differ_in_their_policies_share_a_model() {
    let place = place();
    works(&place, "sweep plan.toml --out out");
    assert_eq!(names(&place, "out/fits").len(), 4, "two data sets, two seeds");
    for job in names(&place, "out/jobs") {
        assert!(!place.path(&format!("out/jobs/{job}/model.safetensors")).exists());
    }
    // Without the models the rest of the jobs is the same, bit for bit.
    fs::remove_dir_all(place.path("out/fits")).unwrap();
    let last = names(&place, "out/done").remove(0);
    let record = |place: &Place| -> Value {
        let bytes = fs::read(place.path(&format!("out/done/{last}"))).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let before = record(&place);
    fs::remove_file(place.path(&format!("out/done/{last}"))).unwrap();
    works(&place, "sweep plan.toml --out out");
    assert_eq!(before["estimates"], record(&place)["estimates"]);
    assert_eq!(names(&place, "out/fits").len(), 1);
}
