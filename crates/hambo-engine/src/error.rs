//! The one error type of the library: every message names what is wrong, where, and what would be right.

use std::path::{Path, PathBuf};

/// The result of everything in this library that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as in "cannot …".
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read, but what is in it is not what it should be.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Which field, what is in it, what was expected.
        problem: String,
    },
    /// Logged transitions that cannot be used.
    #[error("data: {0}")]
    Data(String),
    /// A setting outside its allowed range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// The setting as the user writes it.
        name: &'static str,
        /// The value given.
        value: String,
        /// The allowed range and, where there is one, the remedy.
        expected: String,
    },
    /// Two things that do not fit each other, as a policy and a data set of other sizes.
    #[error("{0}")]
    Mismatch(String),
    /// An expression (reward, termination, controller) that cannot be read.
    #[error("{message} (at position {position} of \"{text}\")")]
    Expression {
        /// The whole expression.
        text: String,
        /// Byte offset of the problem.
        position: usize,
        /// What is wrong there.
        message: String,
    },
    /// A library loaded at run time that is missing, is not the one expected, or refuses.
    #[error("{0}")]
    Library(String),
    /// A GPU that is missing, full or broken.
    #[error("{0}")]
    Device(String),
    /// A computation that left the finite numbers where it must not.
    #[error("{0}")]
    Numeric(String),
}

impl Error {
    /// An I/O error of `action` ("read", "write", …) on `path`.
    pub fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Error::Io { path: path.to_owned(), action, source }
    }

    /// Content of `path` that is not as it should be.
    pub fn file(path: &Path, problem: impl Into<String>) -> Self {
        Error::File { path: path.to_owned(), problem: problem.into() }
    }

    /// An error unless this setting is a count from 1 to `most`.
    pub fn check_count(name: &'static str, value: usize, most: usize) -> Result<()> {
        match value {
            0 => Err(Error::setting(name, value, "at least 1")),
            _ if value > most => Err(Error::setting(name, value, format!("at most {most}"))),
            _ => Ok(()),
        }
    }

    /// A setting outside its range.
    pub fn setting(name: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Error::Setting { name, value: value.to_string(), expected: expected.into() }
    }
}
