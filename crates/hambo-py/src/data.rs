//! Data that Python holds.

use crate::errors::{Files, exception, guarded};
use hambo::data::{Columns, TableColumn};
use hambo_cli::embedded::read_options;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Logged transitions, for one evaluation.
#[pyclass(frozen, module = "hambo._hambo")]
pub struct Logs(Mutex<Option<hambo::Logs>>);

impl Logs {
    pub fn take(&self) -> PyResult<hambo::Logs> {
        let logs = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        logs.ok_or_else(|| exception("DataError", "these logs were used already"))
    }
}

/// States and actions, rewards, next states, and the flags.
#[derive(FromPyObject)]
struct Rows<'py>(
    PyReadonlyArray2<'py, f32>,
    PyReadonlyArray2<'py, f32>,
    PyReadonlyArray1<'py, f32>,
    Option<PyReadonlyArray2<'py, f32>>,
    PyReadonlyArray1<'py, bool>,
    Option<PyReadonlyArray1<'py, bool>>,
);

/// Settings of `--columns` and `--subsample`, and the seed.
type Options = (Vec<String>, Option<String>, u64);

/// A column of a frame.
#[derive(FromPyObject)]
enum Column<'py> {
    Numbers(PyReadonlyArray1<'py, f64>),
    Text(Vec<String>),
}

#[pymethods]
impl Logs {
    /// From arrays, one row a step; each is contiguous.
    #[staticmethod]
    fn rows(rows: Rows<'_>, options: Options) -> PyResult<Self> {
        let Rows(states, actions, rewards, next, terminals, timeouts) = rows;
        let flags = |flags: Option<PyReadonlyArray1<'_, bool>>| {
            flags.map_or(Ok(Vec::new()), |flags| Ok::<_, PyErr>(flags.as_slice()?.to_vec()))
        };
        let columns = Columns {
            state_dim: states.as_array().ncols(),
            action_dim: actions.as_array().ncols(),
            states: states.as_slice()?.to_vec(),
            actions: actions.as_slice()?.to_vec(),
            rewards: rewards.as_slice()?.to_vec(),
            next_states: next
                .map_or(Ok(Vec::new()), |next| Ok::<_, PyErr>(next.as_slice()?.to_vec()))?,
            terminals: flags(Some(terminals))?,
            timeouts: flags(timeouts)?,
            episode_starts: Vec::new(),
            ..Default::default()
        };
        read(options, |options| hambo::Logs::from_rows(columns, options))
    }

    /// From the columns of a frame.
    #[staticmethod]
    fn table(columns: Vec<(String, Column<'_>)>, options: Options) -> PyResult<Self> {
        let column = |(name, column)| {
            let column = match column {
                Column::Numbers(numbers) => TableColumn::Numbers(numbers.as_slice()?.to_vec()),
                Column::Text(texts) => TableColumn::Text(texts),
            };
            Ok::<_, PyErr>((name, column))
        };
        let columns: Vec<_> = columns.into_iter().map(column).collect::<PyResult<_>>()?;
        read(options, |options| hambo::Logs::from_table(&columns, options))
    }
}

fn read(
    (columns, subsample, seed): Options,
    logs: impl FnOnce(&hambo::data::ReadOptions) -> hambo::Result<hambo::Logs>,
) -> PyResult<Logs> {
    guarded(|| {
        let logs = read_options(&columns, subsample.as_deref(), seed).and_then(|o| logs(&o));
        let logs = logs.map_err(|error| Files::default().raise(error))?;
        Ok(Logs(Mutex::new(Some(logs))))
    })
}
