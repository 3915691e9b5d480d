//! Rewards, terminations and environments that Python holds.

use crate::errors::exception;
use crate::watch::Shared;
use hambo::task::{Function, RowFn};
use hambo_cli::embedded::{Simulation, Stepped};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A function of states, actions and next states, and its name.
#[derive(FromPyObject)]
pub struct Named<'py>(String, Bound<'py, PyAny>);

impl Named<'_> {
    pub fn function(self, shared: &Shared) -> Function {
        let function = Arc::new(Rows(Held { object: self.1.unbind(), shared: shared.clone() }));
        Function { name: self.0, function }
    }
}

/// What Python holds, called from the thread that works.
struct Held {
    object: Py<PyAny>,
    shared: Shared,
}

impl Held {
    /// Calls it with Python's lock; an exception ends the work.
    fn with<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> T {
        self.shared.check();
        match Python::try_attach(|py| call(self.object.bind(py))) {
            Some(Ok(found)) => found,
            Some(Err(problem)) => self.shared.fail(problem),
            None => self.shared.fail(exception("Error", "the interpreter has gone away")),
        }
    }
}

fn rows_of<'py>(
    py: Python<'py>,
    values: &[f32],
    rows: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    PyArray1::from_slice(py, values).reshape([rows, values.len() / rows])
}

/// A function of transitions.
struct Rows(Held);

impl RowFn for Rows {
    fn evaluate(&self, states: &[f32], actions: &[f32], next: &[f32], out: &mut [f32]) {
        let rows = out.len();
        if rows == 0 {
            return;
        }
        self.0.with(|function| {
            let py = function.py();
            let [states, actions, next] =
                [rows_of(py, states, rows)?, rows_of(py, actions, rows)?, rows_of(py, next, rows)?];
            let found = function.call1((states, actions, next))?;
            let found: PyReadonlyArray1<'_, f32> = found.extract()?;
            fitting("numbers", found.as_slice()?, rows).map(|found| out.copy_from_slice(found))
        });
    }
}

fn fitting<'a, T>(what: &str, found: &'a [T], expected: usize) -> PyResult<&'a [T]> {
    match found.len() == expected {
        true => Ok(found),
        false => {
            let problem = format!("{} {what} for {expected} expected", found.len());
            Err(exception("TaskError", &problem))
        }
    }
}

/// An environment of gymnasium's, or several copies of one.
pub struct Environments {
    held: Held,
    width: usize,
}

impl Environments {
    pub fn new(object: &Bound<'_, PyAny>, shared: &Shared) -> PyResult<Self> {
        let width = object.getattr("width")?.extract()?;
        let held = Held { object: object.clone().unbind(), shared: shared.clone() };
        Ok(Environments { held, width })
    }
}

impl Simulation for Environments {
    fn width(&self) -> usize {
        self.width
    }

    fn start(&self, episodes: Range<usize>) -> Vec<f32> {
        self.held.with(|envs| {
            let states = envs.call_method1("start", (episodes.start, episodes.len()))?;
            let states: PyReadonlyArray2<'_, f32> = states.extract()?;
            Ok(states.as_slice()?.to_vec())
        })
    }

    fn step(&self, actions: &[f32]) -> Stepped {
        type Found<'py> =
            (PyReadonlyArray2<'py, f32>, PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, bool>);
        self.held.with(|envs| {
            let actions = PyArray1::from_slice(envs.py(), actions);
            let (states, rewards, over): Found<'_> =
                envs.call_method1("step", (actions,))?.extract()?;
            Ok(Stepped {
                states: states.as_slice()?.to_vec(),
                rewards: rewards.as_slice()?.to_vec(),
                over: over.as_slice()?.to_vec(),
            })
        })
    }
}
