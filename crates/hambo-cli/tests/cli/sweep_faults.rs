//! `hambo sweep` where something goes wrong: workers that are killed or stopped, clocks that jump, disks that are full.

use super::sweep::{JOBS, PLAN, ended, names, place, same_tables, start, works};
use super::*;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

#[test]
fn killed_workers_lose_nothing_and_nothing_is_done_twice() {
    let place = place();
    // Long enough to be killed in the middle, wherever the test runs.
    place.write("small.json", SMALL.replace("\"steps\": 300", "\"steps\": 1000"));
    works(&place, "sweep plan.toml --out whole");
    let line = "sweep plan.toml --out killed --stale-after 0.5 --threads 1";
    let mut bits = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    let mut random = || {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(bits >> 8) / f64::from(1 << 24)
    };
    let mut workers = [0, 1].map(|_| start(&place, line, "killed.log"));
    let (mut kills, begin) = (0, Instant::now());
    while kills < 12 && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_secs_f64(0.05 + 0.4 * random()));
        let worker = &mut workers[usize::from(random() < 0.5)];
        kills += usize::from(worker.try_wait().unwrap().is_none());
        worker.kill().unwrap(); // SIGKILL
        worker.wait().unwrap();
        if names(&place, "killed/done").len() == JOBS {
            break;
        }
        *worker = start(&place, line, "killed.log");
    }
    assert!(kills >= 4, "killed {kills} times: too fast to be tested");
    for worker in &mut workers {
        let _ = worker.wait();
    }
    works(&place, line);
    same_tables(&place, "killed", "whole");
    let mut jobs = ended(&fs::read_to_string(place.path("killed.log")).unwrap());
    let told = jobs.len();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), told, "a job was done twice");
    println!("killed {kills} times");
}

/// The lease of a worker that is no more.
fn leave_lease(place: &Place, job: &str, time: u64) {
    fs::create_dir_all(place.path("out/leases")).unwrap();
    let said = format!(
        r#"{{"worker": "gone:1", "counter": 7, "time": {time}, "stale_after": 1.0, "doing": "training 1/2"}}"#
    );
    place.write(&format!("out/leases/{job}.0"), said);
}

#[test]
fn the_job_of_a_dead_worker_is_taken_up_whatever_the_clocks_say() {
    let place = place();
    works(&place, "sweep plan.toml --out whole");
    let jobs = names(&place, "whole/done");
    let jobs: Vec<&str> = jobs.iter().map(|name| name.strip_suffix(".json").unwrap()).collect();
    // One of a clock that is a century ahead, in the file's own time too; one of a clock that stands at 1970.
    leave_lease(&place, jobs[0], 5_000_000_000);
    leave_lease(&place, jobs[1], 0);
    let set = |job: &str, time: SystemTime| {
        let file = fs::File::options().write(true).open(place.path(&format!("out/leases/{job}.0")));
        file.unwrap().set_modified(time).unwrap();
    };
    set(jobs[0], SystemTime::now() + Duration::from_secs(3_000_000_000));
    set(jobs[1], SystemTime::UNIX_EPOCH);
    let status = place.json("sweep plan.toml --out out --status --json");
    assert_eq!((&status["waiting"], &status["done"]), (&6.into(), &0.into()));
    assert_eq!(
        (&status["running"][0]["job"], &status["stale"][0]["job"]),
        (&jobs[0].into(), &jobs[1].into())
    );
    let text = place.succeeds("sweep plan.toml --out out --status");
    assert!(
        text.contains("gone:1") && text.contains("stale") && text.contains("training 1/2"),
        "{text}"
    );
    // One of a worker that was killed after all was said.
    fs::create_dir_all(place.path("out/done")).unwrap();
    let record = |folder: &str| place.path(&format!("{folder}/done/{}.json", jobs[2]));
    fs::copy(record("whole"), record("out")).unwrap();
    leave_lease(&place, jobs[2], 0);
    let start = Instant::now();
    let said = works(&place, "sweep plan.toml --out out");
    assert!(start.elapsed() >= Duration::from_secs(1), "the time it declared had to pass");
    assert_eq!(said.matches("takes up what a worker left").count(), 2, "{said}");
    same_tables(&place, "out", "whole");
}

#[test]
fn a_stopped_worker_keeps_its_job_and_a_begun_job_goes_on() {
    let place = place();
    // Long enough to be stopped in the middle.
    place.write(
        "small.json",
        SMALL.replace("\"steps\": 300", "\"steps\": 4000").replace(": 100,", ": 50,"),
    );
    let plan = PLAN.replace("seeds = [1, 2]", "seeds = [1]").replace("[\"data.hdf5\", [", "[[");
    place.write("plan.toml", plan.replace("    \"builtin:waypoint,y=2.0\",\n", ""));
    works(&place, "sweep plan.toml --out whole");
    let job = names(&place, "whole/done").remove(0).replace(".json", "");
    let line = "sweep plan.toml --out out --stale-after 0.5";
    let mut first = start(&place, line, "first.log");
    let begun = place.path(&format!("out/jobs/{job}/unfinished/training.safetensors"));
    while !begun.exists() {
        assert!(first.try_wait().unwrap().is_none(), "too fast to be tested");
        std::thread::sleep(Duration::from_millis(2));
    }
    let signal = |name: &str, process: u32| {
        assert!(
            Command::new("kill").args([name, &process.to_string()]).status().unwrap().success()
        );
    };
    signal("-STOP", first.id());
    let mut second = start(&place, line, "second.log");
    std::thread::sleep(Duration::from_secs(2));
    assert!(second.try_wait().unwrap().is_none(), "it waits for the one that was stopped");
    assert_eq!(fs::read_to_string(place.path("second.log")).unwrap(), "");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    let said = fs::read_to_string(place.path("second.log")).unwrap();
    assert!(said.contains("takes up what a worker left"), "{said}");
    let log = fs::read_to_string(place.path(&format!("out/jobs/{job}/log.csv"))).unwrap();
    let whole = fs::read_to_string(place.path(&format!("whole/jobs/{job}/log.csv"))).unwrap();
    assert_eq!(log.lines().count(), whole.lines().count(), "it went on where the first was");
    for file in ["table.csv", "table.parquet"] {
        let read = |folder: &str| fs::read(place.path(&format!("{folder}/{file}"))).unwrap();
        assert!(read("out") == read("whole"), "{file} differs");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused() {
    let place = place();
    place.refuses("sweep plan.toml --out small.json", &["error: small.json: not a folder"]);
    if cfg!(target_os = "linux") {
        place.refuses(
            "sweep plan.toml --out /proc/out",
            &["error: /proc/out/done: cannot make the folder: "],
        );
    }
}

/// A disk that is too small for the first job, then larger; skipped where a test may not mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stops_the_worker_and_loses_no_job() {
    let place = place();
    works(&place, "sweep plan.toml --out whole");
    fs::create_dir(place.path("disk")).unwrap();
    let script = "mount -t tmpfs -o size=160k tmpfs disk || exit 77
        \"$HAMBO\" sweep plan.toml --out disk/out > told 2>&1; echo $? > codes
        ls disk/out/failed > failed; ls disk/out/leases > leases
        mount -o remount,size=64m disk || exit 77
        \"$HAMBO\" sweep plan.toml --out disk/out >> told 2>&1; echo $? >> codes
        cp -r disk/out copy";
    let isolated = |flags: &str| {
        let mut command = Command::new("unshare");
        command.args(flags.split_whitespace()).args(["--mount", "sh", "-c", script]);
        command.current_dir(place.0.path()).env("HAMBO", env!("CARGO_BIN_EXE_hambo")).output()
    };
    let done = |flags: &&str| isolated(flags).is_ok_and(|o| o.status.success());
    if !["", "--map-root-user"].iter().any(done) {
        println!("skipped: this system does not let a test mount a small disk (unshare --mount)");
        return;
    }
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let told = read("told");
    assert_eq!(read("codes"), "2\n0\n", "{told}");
    assert!(
        told.contains("error: disk/out/") && told.contains("No space left on device"),
        "{told}"
    );
    assert_eq!(
        (read("failed").as_str(), read("leases").as_str()),
        ("", ""),
        "it is no fault of a job"
    );
    same_tables(&place, "copy", "whole");
}

#[test]
fn a_folder_that_is_gone_for_a_moment_stops_nobody() {
    let place = place();
    works(&place, "sweep plan.toml --out whole");
    let mut worker = start(&place, "sweep plan.toml --out out", "log");
    while !place.path("out/done").exists() || names(&place, "out/done").is_empty() {
        std::thread::sleep(Duration::from_millis(2));
    }
    fs::rename(place.path("out/leases"), place.path("away")).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(worker.try_wait().unwrap().is_none(), "it is patient, or too fast to be tested");
    fs::rename(place.path("away"), place.path("out/leases")).unwrap();
    assert!(worker.wait().unwrap().success());
    let said = fs::read_to_string(place.path("log")).unwrap();
    assert!(said.contains("; tries again in 1 s"), "{said}");
    same_tables(&place, "out", "whole");
}
