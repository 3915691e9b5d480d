//! TOML files that people write, with errors that name the line.

use hambo::{Error, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Bytes of such a file at the most.
const LARGEST: u64 = 1 << 22;

/// The text of a file; `what` it is to be is for messages.
pub fn text(path: &Path, what: &str) -> Result<String> {
    let size = std::fs::metadata(path).map_err(|e| Error::io(path, "read", e))?.len();
    if size > LARGEST {
        let problem = format!("{size} bytes: expected a {what} of at most {LARGEST}");
        return Err(Error::file(path, problem));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
    String::from_utf8(bytes).map_err(|_| Error::file(path, "not a text file (UTF-8) in TOML"))
}

/// What the text says, or the line and the problem.
pub fn parse<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    toml::from_str(text).map_err(|e: toml::de::Error| {
        let start = e.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(text, start), e.message().replace('\n', " "))
    })
}

/// The line of a byte, from 1.
pub fn line(text: &str, byte: usize) -> usize {
    text.get(..byte).unwrap_or(text).matches('\n').count() + 1
}
