//! Damaged files of our own: an error that names the file and says what to do, or the same answer; never another number.

use super::*;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Bytes of which one bit is flipped are this far apart.
const STRIDE: usize = 97;
/// Bytes of a page that a disk lost.
const PAGE: usize = 512;

/// The file with one bit flipped, in many places, and with one page of zeros.
fn damaged(whole: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let flipped = (0..whole.len()).step_by(STRIDE).enumerate().map(|(i, byte)| {
        let mut bytes = whole.to_vec();
        bytes[byte] ^= 1 << (i % 8);
        (format!("bit {} of byte {byte}", i % 8), bytes)
    });
    let zeroed = (0..whole.len()).step_by(PAGE).map(|page| {
        let mut bytes = whole.to_vec();
        let end = whole.len().min(page + PAGE);
        bytes[page..end].fill(0);
        (format!("the page at {page}"), bytes)
    });
    flipped.chain(zeroed)
}

#[test]
fn damage_to_a_fitted_model_is_seen() {
    let place = Place::with_data();
    place.write("tiny.json", r#"{"folds": 1, "activation": "relu", "particles": 2, "hidden": [6], "steps": 20, "check_every": 10}"#);
    let line = EVALUATE
        .replace("small.json", "tiny.json")
        .replace(METHODS, "dainf")
        .replace("15", "3")
        .replace("200", "100");
    place.succeeds(&format!("{line} --out run"));
    let line = format!("{} --json", line.replace("--model-config tiny.json", "--fitted run"));
    let answer = timeless(place.json(&line));
    for name in ["run/model.json", "run/model.safetensors"] {
        let whole = std::fs::read(place.path(name)).unwrap();
        let mut seen = 0;
        for (what, bytes) in damaged(&whole) {
            place.write(name, &bytes);
            let run = place.hambo(&line);
            let words = [format!("error: {name}: "), "anew".to_owned()];
            assert_eq!(run.code, Some(2), "{what} of {name}: {}", run.stdout);
            assert!(words.iter().all(|word| run.stderr.contains(word)), "{what}: {}", run.stderr);
            seen += 1;
        }
        assert!(seen > 5, "{seen}");
        place.write(name, &whole);
    }
    assert_eq!(timeless(place.json(&line)), answer);
}

#[test]
fn damage_to_unfinished_work_is_seen() {
    let place = Place::with_data();
    place.write("tiny.json", r#"{"folds": 1, "activation": "relu", "particles": 2, "hidden": [6], "steps": 60, "check_every": 10}"#);
    place
        .write("search.json", r#"{"hidden": [4], "iterations": 10, "batch": 8, "evaluation": 20}"#);
    let line =
        EVALUATE.replace("small.json", "tiny.json").replace(METHODS, "ca").replace("15", "3");
    let line = format!("{line} --search-config search.json --json");
    let answer = place.json(&line);
    // Nothing can be published where a folder lies in the way, so that all work stays unfinished.
    let line = format!("{line} --save-every 0 --force --out run");
    std::fs::create_dir_all(place.path("run/report.html")).unwrap();
    place.refuses_once(&line, "report.html");
    std::fs::remove_dir(place.path("run/report.html")).unwrap();
    let unfinished = place.path("run/unfinished");
    let files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(&unfinished)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    assert!(files.len() >= 2, "{files:?}");
    for (path, whole) in &files {
        let every = damaged(whole).count().div_ceil(25);
        for (what, bytes) in damaged(whole).step_by(every) {
            std::fs::write(path, &bytes).unwrap();
            let run = place.hambo(&line);
            let what = format!("{what} of {}", path.display());
            match run.code {
                Some(2) => {
                    let remedy = "delete the folder to begin anew, or name another one";
                    assert!(run.stderr.contains(remedy), "{what}: {}", run.stderr);
                    assert!(!run.stderr.contains("same command"), "{what}: {}", run.stderr);
                }
                _ => {
                    let result = object(&run.stdout);
                    assert_eq!(result["estimates"], answer["estimates"], "{what}");
                }
            }
            std::fs::create_dir_all(&unfinished).unwrap();
            files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        }
    }
    assert_eq!(place.json(&line)["estimates"], answer["estimates"]);
    assert!(!unfinished.exists());
}

#[test]
fn a_disk_that_fails_in_the_midst_of_the_curves_is_an_error() {
    let place = Place::with_data();
    place.write("tiny.json", r#"{"folds": 1, "activation": "relu", "particles": 2, "hidden": [6], "steps": 20, "check_every": 10}"#);
    place.write("search.json", r#"{"hidden": [4], "iterations": 4, "batch": 8, "evaluation": 20}"#);
    let line =
        EVALUATE.replace("small.json", "tiny.json").replace(METHODS, "ca,ds").replace("15", "3");
    let line = format!("{line} --search-config search.json --save-every 0 --curves --json --out");
    let answer = place.json(&format!("{line} whole"));
    assert_eq!(answer["curves"]["data"].as_array().unwrap().len(), 4, "{answer}");
    // A folder is in the way of what is kept of the smallest model's search.
    let episodes = 600 / 15 / 8;
    let blocked = format!("run/unfinished/episodes-{episodes}-0-search-ca.safetensors");
    std::fs::create_dir_all(place.path(&blocked)).unwrap();
    place.refuses_once(&format!("{line} run --force"), "episodes-");
    assert!(!place.path("run/result.json").exists());
    std::fs::remove_dir(place.path(&blocked)).unwrap();
    assert_eq!(place.json(&format!("{line} run"))["curves"], answer["curves"]);
}

/// A process that is killed when dropped, also by a test that fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_second_process_in_a_folder_says_who_is_there_and_harms_nobody() {
    let place = Place::with_data();
    place.write("hours.json", r#"{"steps": 4000000000, "patience": 4000000000}"#);
    let long = format!("{} --out run", EVALUATE.replace("small.json", "hours.json"));
    let mut first =
        Killed(place.command(&long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let lock = place.path("run/.hambo.lock");
    let id = format!("{}\n", first.0.id());
    let start = Instant::now();
    while std::fs::read_to_string(&lock).ok().as_ref() != Some(&id) {
        assert!(start.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    let words = format!("error: run: process {} is at work in this folder: ", first.0.id());
    let second = format!("{EVALUATE} --out run");
    let run = place.hambo(&second);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    assert!(run.stderr.starts_with(&words), "{}", run.stderr);
    assert!(first.0.try_wait().unwrap().is_none(), "the first is still at work");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), id);
    drop(first);
    // What it left is no hindrance.
    assert!(lock.exists());
    let _ = std::fs::remove_dir_all(place.path("run/unfinished"));
    place.succeeds(&second);
    assert!(!lock.exists());
}

#[test]
fn interrupted_writes_leave_nothing_in_the_end() {
    let place = Place::with_data();
    std::fs::create_dir(place.path("run")).unwrap();
    let left = [".result.json.99-0.tmp", ".model.json.99-1.tmp", ".model.safetensors.7-2.tmp"];
    left.iter().for_each(|name| place.write(&format!("run/{name}"), "half"));
    place.write("run/notes.tmp", "somebody's");
    place.succeeds(&format!("{EVALUATE} --out run"));
    let found = std::fs::read_dir(place.path("run")).unwrap();
    let names: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let temporary: Vec<&String> = names.iter().filter(|name| name.ends_with(".tmp")).collect();
    assert_eq!(temporary, ["notes.tmp"]);
}

#[test]
fn a_log_that_is_given_twice_counts_once() {
    let place = Place::with_data();
    let once = place.json(&format!("{EVALUATE} --json"));
    let twice =
        place.json(&format!("{} --json", EVALUATE.replace("data.hdf5", "data.hdf5 data.hdf5")));
    assert_eq!(once["estimates"], twice["estimates"]);
    let warnings = twice["warnings"].to_string();
    assert!(warnings.contains("episodes are copies of earlier ones"), "{warnings}");
    let inspected = place.succeeds("inspect data.hdf5 data.hdf5");
    assert!(inspected.contains("episodes are copies of earlier ones"), "{inspected}");
}
