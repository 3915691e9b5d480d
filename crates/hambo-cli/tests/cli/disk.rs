//! Places that cannot be written to.

use super::*;
use std::fs::OpenOptions;

#[test]
fn an_out_that_cannot_be_a_folder_is_refused_before_the_work() {
    let place = Place::with_data();
    // A training that would take hours: the answer must come first.
    place.write("hours.json", r#"{"steps": 4000000000, "patience": 4000000000}"#);
    let line = EVALUATE.replace("small.json", "hours.json");
    let not_a_folder = "not a folder; name an existing folder or a new one";
    place.refuses(&format!("{line} --out small.json"), &["error: small.json: ", not_a_folder]);
    place.refuses(
        &format!("{line} --out small.json/run"),
        &["error: small.json/run: cannot make the folder: "],
    );
    if cfg!(target_os = "linux") {
        place.refuses(
            &format!("{line} --out /proc/run"),
            &["error: /proc/run: cannot make the folder: "],
        );
        place.refuses(
            &format!("{line} --out /proc"),
            &["error: /proc: cannot write into the folder: "],
        );
    }
}

#[test]
fn collect_refuses_what_is_no_file_to_write() {
    let place = Place::new();
    place.write("file", "");
    let to = |out: &str| COLLECT.replace("data.hdf5", out);
    place.refuses(
        &to("no/such/folder/a.hdf5"),
        &["error: no/such/folder/a.hdf5: cannot write: No such folder as no/such/folder: make it first"],
    );
    place.refuses(&to("file/a.hdf5"), &["error: file/a.hdf5: cannot write: Not a directory"]);
    place.refuses(
        &to("."),
        &["error: .: cannot write: not a regular file; name a file to create or replace"],
    );
    if cfg!(target_os = "linux") {
        place.refuses(&to("/proc/a.hdf5"), &["error: /proc/a.hdf5: cannot write: "]);
        place.refuses(&to("/dev/full"), &["error: /dev/full: cannot write: not a regular file"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_standard_output_and_error_are_no_panic() {
    let place = Place::with_data();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for line in [EVALUATE, &format!("{EVALUATE} --json"), "inspect data.hdf5"] {
        let run = Run::from(place.command(line).stdout(full()).output().unwrap());
        assert_eq!(run.code, Some(2));
        assert!(
            run.stderr.starts_with("error: cannot write to standard output: No space left"),
            "{}",
            run.stderr
        );
    }
    let status = place.command("inspect no.hdf5").stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// A disk of 64 KiB, in a name space of mounts of its own; skipped where that is not allowed.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_nothing_is_half_written() {
    let place = Place::with_data();
    std::fs::create_dir(place.path("disk")).unwrap();
    let mount = "mount -t tmpfs -o size=64k tmpfs disk";
    let isolated = |flags: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args(flags.split_whitespace()).args(["--mount", "sh", "-c", script]);
        command.current_dir(place.0.path()).env("HAMBO", env!("CARGO_BIN_EXE_hambo")).output()
    };
    let allowed = |flags: &&&str| isolated(flags, mount).is_ok_and(|o| o.status.success());
    let Some(flags) = ["", "--map-root-user"].iter().find(allowed) else {
        println!("skipped: this system does not let a test mount a small disk (unshare --mount)");
        return;
    };
    // Runs a command with `disk` as its disk; then lists the files on it.
    let run = |before: &str, line: &str| {
        let command = format!("{mount}; {before} \"$HAMBO\" {line} --quiet >/dev/null; code=$?");
        let script = format!("{command}; cd disk; find . -type f -exec wc -c {{}} +; exit $code");
        let run = Run::from(isolated(flags, &script).unwrap());
        println!("hambo {line}\n  {}", run.stderr);
        assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        run
    };
    let large = COLLECT.replace("600", "20000").replace("data.hdf5", "disk/a.hdf5 --force");
    for (before, left) in [("", ""), ("echo old > disk/a.hdf5;", "4 ./a.hdf5\n")] {
        let failed = run(before, &large);
        let words = "error: disk/a.hdf5: cannot write: No space left on device (os error 28)\n";
        assert_eq!((failed.stderr.as_str(), failed.stdout.as_str()), (words, left));
    }

    // Room for the probe and the smaller files, not for the report.
    let failed = run("", &format!("{EVALUATE} --out disk/new/run"));
    let words = "error: disk/new/run/report.html: cannot write: No space left on device";
    assert!(failed.stderr.starts_with(words), "{}", failed.stderr);
    let left: Vec<&str> =
        failed.stdout.lines().filter_map(|line| line.rsplit('/').next()).collect();
    let log =
        |name: &&str| *name == "log.csv" || name.starts_with("events.") || name.ends_with(" total");
    assert!(left.iter().all(log), "the log alone stays: {left:?}");

    // No room at all is known before the training.
    let failed = run(
        "head -c 70000 /dev/zero > disk/full 2>/dev/null;",
        &format!("{EVALUATE} --out disk/run"),
    );
    let words = "error: disk/run: cannot write into the folder: No space left on device";
    assert!(failed.stderr.starts_with(words), "{}", failed.stderr);
    assert_eq!(failed.stdout, "65536 ./full\n");
}
