//! Text and progress for people, JSON for programs.

use crate::args::Evaluate;
use crate::color;
use crate::commands::Prepared;
use crate::found::{Found, Told};
use hambo::evaluate::Evaluator;
pub use hambo::report::{number, table};
use hambo::run::checkpoint::Checkpoints;
use serde_json::json;
use std::error::Error;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::OnceLock;

/// Writes to standard output; a reader that went away (`| head`) is no error, a full disk is.
pub fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
    {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(format!("cannot write to standard output: {e}").into()),
        Ok(()) => Ok(()),
    }
}

/// Writes the folder of `--out`, with the model's files.
pub fn keep<A: Told>(
    answer: A,
    evaluator: &Evaluator<'_>,
    prepared: &Prepared<'_>,
) -> hambo::Result<Found<A>> {
    let wanted = prepared.out.is_some() || prepared.is_embedded();
    let files =
        |evaluator: &Evaluator<'_>| evaluator.model().files(evaluator.device(), Path::new(""));
    let model = if wanted { files(evaluator)? } else { Vec::new() };
    let found = Found { answer, model };
    if let Some(folder) = &prepared.out {
        prepared.bars.begin("writing the report");
        prepared.bars.check()?;
        found.write(folder)?;
    }
    prepared.checkpoints.as_ref().map_or(Ok(()), Checkpoints::finish)?;
    Ok(found)
}

/// Prints an answer in the format that was asked for.
pub fn show(answer: &impl Told, arguments: &Evaluate) -> Result<(), Box<dyn Error>> {
    print(&match (arguments.json, arguments.markdown) {
        (true, _) => json!(answer).to_string(),
        (_, true) => answer.markdown().trim_end().to_owned(),
        _ => color::headline_in_color(&answer.to_string(), answer.verdict(), color::wanted()),
    })
}

/// The words after the command's name.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Remembers with which words the command was run; the first ones count.
pub fn set_command_line(words: &[OsString]) {
    let _ = WORDS.set(words.to_vec());
}

/// How this run is repeated.
pub fn command_line() -> String {
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_=.,:/+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = WORDS.get().into_iter().flatten().map(quoted);
    ["hambo".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
