//! What came out of a job.

use crate::validate::Number;
use hambo::Answer;
use serde::{Deserialize, Serialize};

/// A job that ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the job.
    pub job: String,
    pub version: String,
    /// The program: the first digits of its SHA-256.
    pub build: String,
    /// Kind of the device it ran on.
    pub device: String,
    pub worker: String,
    /// From the last time it was taken up.
    pub seconds: f64,
    /// Why there is no answer, if there is none.
    pub error: Option<String>,
    /// The verdict in one line.
    pub summary: String,
    pub verdict: Option<String>,
    /// The level that is claimed for the first method's bound; none where it is called an extrapolation.
    pub level: Option<f64>,
    pub transitions: Option<usize>,
    pub episodes: Option<usize>,
    pub estimates: Vec<Number>,
}

impl Record {
    /// The same with what was found.
    pub fn found(self, answer: &Answer) -> Self {
        Record {
            summary: answer.summary.clone(),
            verdict: answer.verdict.map(|verdict| verdict.name().to_owned()),
            level: answer.level,
            transitions: Some(answer.setup.data.transitions),
            episodes: Some(answer.setup.data.episodes),
            estimates: answer.estimates.iter().map(Number::from).collect(),
            ..self
        }
    }

    /// Whether it has an answer, and the answer meets what was asked.
    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.verdict.as_ref().is_none_or(|verdict| verdict == "meets")
    }

    /// The bound of the method asked for first; −∞ where there is none.
    pub fn bound(&self) -> f64 {
        let first = self.estimates.first();
        first.and_then(|first| first.lower_bound).unwrap_or(f64::NEG_INFINITY)
    }

    /// What is to be said of it if it is not good.
    pub fn trouble(&self) -> &str {
        self.error.as_deref().unwrap_or(&self.summary)
    }
}
