//! Ctrl-C: says what was kept, and where, before the program ends.

use crate::commands::UNFINISHED;
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Exit code of a program that Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// The folder of `--out` that is worked in.
static PLACE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on Ctrl-C ends the program with a word on what was kept. Every file is written as a whole or not at all, so that
/// it may end anywhere.
pub fn listen() {
    // Where no handler can be set, the signal ends the program as ever.
    let _ = ctrlc::set_handler(|| {
        let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(stderr(), "\n{}", told(place.as_deref()));
        std::process::exit(INTERRUPTED);
    });
}

/// Work is kept in this folder, or no longer in any.
pub fn keeps(place: Option<&Path>) {
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place.map(Path::to_owned);
}

/// What a person should know who has interrupted work in this folder.
fn told(place: Option<&Path>) -> String {
    let Some(place) = place else {
        return "interrupted: nothing was kept (work in an --out folder is)".to_owned();
    };
    let unfinished = place.join(UNFINISHED);
    match saved(&unfinished) {
        Some(ago) => format!(
            "interrupted: what was done is kept in {}, saved {} s ago; the same command again goes on from there",
            unfinished.display(),
            ago.as_secs()
        ),
        None => format!(
            "interrupted: what was finished is kept in {}; the same command again does the rest",
            place.display()
        ),
    }
}

/// How long ago something was saved in a folder, if anything was.
fn saved(folder: &Path) -> Option<Duration> {
    let times =
        fs::read_dir(folder).ok()?.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok());
    Some(SystemTime::now().duration_since(times.max()?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display().to_string();
        assert!(told(None).contains("nothing was kept"));
        assert!(
            told(Some(folder.path())).contains(&format!("what was finished is kept in {here};"))
        );
        let unfinished = folder.path().join(UNFINISHED);
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join("model.safetensors"), "").unwrap();
        let words = told(Some(folder.path()));
        assert!(
            words.contains(&format!("kept in {}, saved 0 s ago", unfinished.display())),
            "{words}"
        );
    }
}
