//! Errors of the library as exceptions of `hambo`.

use hambo::Error;
use hambo_cli::embedded::Failure;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Which files were named as what, so that an error about a file is one about data, a policy or a task.
#[derive(Clone, Default)]
pub struct Files {
    pub data: Vec<PathBuf>,
    pub policies: Vec<PathBuf>,
    pub task: Option<PathBuf>,
}

impl Files {
    /// From the flags that name them.
    pub fn of(flags: &[String]) -> Self {
        let all = |name: &str| {
            let values = flags.iter().filter_map(|flag| flag.strip_prefix(name));
            values.map(PathBuf::from).collect::<Vec<_>>()
        };
        Files { data: all("--data="), policies: all("--policy="), task: all("--task=").pop() }
    }

    fn class_of(&self, path: &Path) -> &'static str {
        if self.data.iter().any(|data| path.starts_with(data)) {
            "DataError"
        } else if self.policies.iter().any(|policy| path.starts_with(policy)) {
            "PolicyError"
        } else if self.task.as_deref() == Some(path) {
            "TaskError"
        } else {
            "Error"
        }
    }

    fn class(&self, error: &Error) -> &'static str {
        match error {
            Error::Io { path, .. } | Error::File { path, .. } => self.class_of(path),
            Error::Data(_) => "DataError",
            Error::Setting { name, .. } if name.starts_with("policy") => "PolicyError",
            Error::Setting { name, .. } if TASK.contains(name) => "TaskError",
            Error::Setting { .. } => "SettingError",
            Error::Mismatch(text) if text.starts_with("policy") => "PolicyError",
            Error::Mismatch(text) if TASK.iter().any(|part| text.starts_with(part)) => "TaskError",
            Error::Mismatch(_) => "DataError",
            Error::Expression { .. } => "TaskError",
            Error::Library(_) | Error::Device(_) => "DeviceError",
            Error::Numeric(_) => "Error",
        }
    }

    /// The exception for an error.
    pub fn raise(&self, error: impl Into<Failure>) -> PyErr {
        match error.into() {
            Failure::Flags(text) => exception("SettingError", &text),
            Failure::Library(error) => exception(self.class(&error), &error.to_string()),
        }
    }
}

/// Settings that are a part of the task.
const TASK: [&str; 7] =
    ["env", "reward", "termination", "constraint", "actions.low", "actions.high", "initial states"];

/// An exception of this class of `hambo`.
pub fn exception(class: &str, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("hambo._errors")
            .and_then(|errors| errors.getattr(class)?.call1((message,)))
            .map(PyErr::from_value);
        made.unwrap_or_else(|problem| problem)
    })
}

/// A panic as an exception, with what it said.
pub fn from_panic(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_owned());
    exception("Error", &format!("a mistake in hambo, please report it: {text}"))
}

/// Does it; a panic is an exception.
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(from_panic(&*payload)))
}
