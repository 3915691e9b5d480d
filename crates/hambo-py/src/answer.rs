//! Evaluations, rankings, and what they found.

use crate::data::Logs;
use crate::errors::{Files, guarded};
use crate::policy::Handed;
use crate::task::{Environments, Named};
use crate::watch::{Shared, Watch, watched};
use hambo::Device;
use hambo::task::{Initial, TaskFunctions};
use hambo_cli::embedded::{self, Environment, Found, Inputs, Learned, Simulation, Subject, Told};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// What was found about a policy, or about several.
#[pyclass(frozen, module = "hambo._hambo")]
pub struct Answer(Kind);

enum Kind {
    One(Box<Found<hambo::Answer>>),
    Several(Box<Found<hambo::Ranking>>),
    Learned(Box<Found<Learned>>),
}

impl Answer {
    fn told(&self) -> &dyn Forms {
        match &self.0 {
            Kind::One(found) => &**found,
            Kind::Several(found) => &**found,
            Kind::Learned(found) => &**found,
        }
    }
}

/// What is told, in every form.
trait Forms {
    fn json(&self) -> String;
    fn text(&self) -> String;
    fn html(&self) -> String;
    fn markdown(&self) -> String;
    fn save(&self, folder: &std::path::Path) -> hambo::Result<()>;
}

impl<A: Told> Forms for Found<A> {
    fn json(&self) -> String {
        serde_json::json!(self.answer).to_string()
    }

    fn text(&self) -> String {
        self.answer.to_string()
    }

    fn html(&self) -> String {
        self.answer.html()
    }

    fn markdown(&self) -> String {
        self.answer.markdown()
    }

    fn save(&self, folder: &std::path::Path) -> hambo::Result<()> {
        Found::save(self, folder)
    }
}

#[pymethods]
impl Answer {
    /// The object that the command prints with `--json`.
    fn json(&self) -> PyResult<String> {
        guarded(|| Ok(self.told().json()))
    }

    /// What the command prints.
    fn text(&self) -> PyResult<String> {
        guarded(|| Ok(self.told().text()))
    }

    /// The page.
    fn html(&self) -> PyResult<String> {
        guarded(|| Ok(self.told().html()))
    }

    /// The summary in Markdown.
    fn markdown(&self) -> PyResult<String> {
        guarded(|| Ok(self.told().markdown()))
    }

    /// Writes the folder of `--out`.
    fn save(&self, folder: PathBuf) -> PyResult<()> {
        guarded(|| self.told().save(&folder).map_err(|error| Files::default().raise(error)))
    }
}

/// What the Python half hands over.
#[derive(FromPyObject)]
pub struct Asked<'py> {
    flags: Vec<String>,
    logs: Option<Bound<'py, Logs>>,
    policies: Vec<Option<Handed<'py>>>,
    environment: Option<Spaces<'py>>,
    simulation: Option<Bound<'py, PyAny>>,
    reward: Option<Named<'py>>,
    termination: Option<Named<'py>>,
    progress: Option<Bound<'py, PyAny>>,
    command: String,
    program: PathBuf,
}

/// The name of an environment, smallest and largest actions, and states after resets.
#[derive(FromPyObject)]
struct Spaces<'py>(
    String,
    PyReadonlyArray1<'py, f32>,
    PyReadonlyArray1<'py, f32>,
    PyReadonlyArray2<'py, f32>,
);

impl<'py> Asked<'py> {
    /// Runs one of the functions on what was asked.
    fn run<T: Send + 'static>(
        self,
        py: Python<'py>,
        work: fn(&[String], Inputs) -> Result<T, embedded::Failure>,
    ) -> PyResult<T> {
        let (shared, files) = (Shared::default(), Files::of(&self.flags));
        let on_host = self.flags.iter().any(|flag| flag == "--device=cpu");
        let gpu = !on_host && Device::has_gpu();
        let environment = match self.environment {
            None => None,
            Some(Spaces(name, low, high, states)) => Some(Environment {
                name,
                actions: [low.as_slice()?.to_vec(), high.as_slice()?.to_vec()],
                initial: Initial::Drawn(states.as_slice()?.to_vec()),
            }),
        };
        let policies = self.policies.into_iter().map(|handed| {
            handed.map_or(Ok(Subject::Named), |handed| handed.subject(&shared, &files))
        });
        let simulation = self.simulation.map(|envs| {
            Environments::new(&envs, &shared).map(|envs| Box::new(envs) as Box<dyn Simulation>)
        });
        let function = |named: Option<Named<'_>>| named.map(|named| named.function(&shared));
        let inputs = Inputs {
            logs: self.logs.map(|logs| logs.get().take()).transpose()?,
            policies: policies.collect::<PyResult<_>>()?,
            environment,
            simulation: simulation.transpose()?,
            functions: TaskFunctions {
                reward: function(self.reward),
                termination: function(self.termination),
            },
            observer: Box::new(Watch::new(&shared, gpu)),
            command: self.command,
            program: self.program,
        };
        let flags = self.flags;
        watched(py, &shared, self.progress.as_ref(), &files, move || work(&flags, inputs))
    }
}

/// Evaluates one policy.
#[pyfunction]
pub fn evaluate(py: Python<'_>, asked: Asked<'_>) -> PyResult<Answer> {
    guarded(|| Ok(Answer(Kind::One(Box::new(asked.run(py, embedded::evaluate)?)))))
}

/// Ranks several policies.
#[pyfunction]
pub fn rank(py: Python<'_>, asked: Asked<'_>) -> PyResult<Answer> {
    guarded(|| Ok(Answer(Kind::Several(Box::new(asked.run(py, embedded::rank)?)))))
}

/// Learns a policy, and bounds it.
#[pyfunction]
pub fn learn(py: Python<'_>, asked: Asked<'_>) -> PyResult<Answer> {
    guarded(|| Ok(Answer(Kind::Learned(Box::new(asked.run(py, embedded::learn)?)))))
}

/// Learns a model; returns its files by their names.
#[pyfunction]
pub fn fit<'py>(
    py: Python<'py>,
    asked: Asked<'py>,
) -> PyResult<Vec<(PathBuf, Bound<'py, PyBytes>)>> {
    let files = guarded(|| asked.run(py, embedded::fit))?;
    Ok(files.into_iter().map(|(name, bytes)| (name, PyBytes::new(py, &bytes))).collect())
}

/// What is in files.
#[pyfunction]
pub fn inspect(py: Python<'_>, flags: Vec<String>, paths: Vec<PathBuf>) -> PyResult<String> {
    let files = Files { data: paths, ..Files::default() };
    watched(py, &Shared::default(), None, &files, move || embedded::inspect(&flags))
}
