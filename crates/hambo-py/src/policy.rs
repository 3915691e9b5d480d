//! Policies that Python holds: files, and functions on batches.

use crate::errors::{Files, exception};
use crate::watch::Shared;
use hambo::Policy;
use hambo::policy::{ActionFn, NormalizerFile};
use hambo_cli::embedded::Subject;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use std::sync::Arc;

/// A policy as the Python half hands it over.
#[derive(FromPyObject)]
pub enum Handed<'py> {
    /// A file that is gone after the call: its path, the policy's name, its normalizer (`none`: it has none).
    File(String, String, Option<String>),
    /// A function of a batch and the number of action dimensions, and its name.
    Function(String, Bound<'py, PyAny>),
}

impl Handed<'_> {
    pub fn subject(self, shared: &Shared, files: &Files) -> PyResult<Subject> {
        Ok(match self {
            Handed::File(path, name, normalizer) => {
                let normalizer = match normalizer.as_deref() {
                    None => NormalizerFile::Found,
                    Some("none") => NormalizerFile::Without,
                    Some(file) => NormalizerFile::At(file.into()),
                };
                let files = Files { policies: vec![(&path).into()], ..files.clone() };
                let policy =
                    Policy::read_with(&path, &normalizer).map_err(|error| files.raise(error))?;
                Subject::Ready(Box::new(policy.named(&name)))
            }
            Handed::Function(name, function) => {
                let called =
                    Arc::new(Called { function: function.unbind(), shared: shared.clone() });
                Subject::Function(Box::new(move |[states, actions]| {
                    let function = Sized { called: called.clone(), sizes: [states, actions] };
                    Policy::custom(&name, states, actions, function)
                }))
            }
        })
    }
}

/// A function of Python's.
struct Called {
    function: Py<PyAny>,
    shared: Shared,
}

/// With the sizes of states and actions.
struct Sized {
    called: Arc<Called>,
    sizes: [usize; 2],
}

impl ActionFn for Sized {
    fn act(&self, states: &[f32], actions: &mut [f32]) {
        let shared = &self.called.shared;
        shared.check();
        match Python::try_attach(|py| self.call(py, states, actions)) {
            Some(Ok(())) => {}
            Some(Err(problem)) => shared.fail(problem),
            None => shared.fail(exception("Error", "the interpreter has gone away")),
        }
    }
}

impl Sized {
    fn call(&self, py: Python<'_>, states: &[f32], actions: &mut [f32]) -> PyResult<()> {
        let [ds, da] = self.sizes;
        let batch = PyArray1::from_slice(py, states).reshape([states.len() / ds, ds])?;
        let found = self.called.function.bind(py).call1((batch, da))?;
        let found: PyReadonlyArray2<'_, f32> = found.extract()?;
        let found = found.as_slice()?;
        if found.len() != actions.len() {
            let problem = format!("{} actions for {} expected", found.len(), actions.len());
            return Err(exception("PolicyError", &problem));
        }
        actions.copy_from_slice(found);
        Ok(())
    }
}
