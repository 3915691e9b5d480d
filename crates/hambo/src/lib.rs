//! Conservative off-policy evaluation.
//!
//! From logged transitions and a policy, `hambo` computes a lower bound on the policy's return: it learns
//! a dynamics model that knows what it does not know, and lets an adversary steer the policy through the
//! worst future inside that uncertainty. The method is HAMBO (Rothfuss, Sukhija, Birchler, Kassraie, Krause, UAI 2023).
//!
//! [`Logs`], a [`Task`] and an [`EvaluationConfig`] make an [`Evaluator`]; that and a [`Policy`] give an [`Answer`],
//! which [`report`] writes for people:
//!
//! ```no_run
//! use hambo::{EvaluationConfig, Evaluator, Logs, Policy, Task};
//!
//! let logs = Logs::read("log.csv")?;
//! let task = Task::new("stay near 0", [4, 1], "-(s[0]^2 + 0.1*a[0]^2)")?;
//! let evaluator = Evaluator::fit(logs, task, EvaluationConfig { horizon: 100, ..Default::default() })?;
//! let answer = evaluator.evaluate(&Policy::read("agent.zip")?)?;
//! println!("{answer}");
//! # Ok::<(), hambo::Error>(())
//! ```

// The method's story, from the logs to the report. No two files import each other.
pub mod stats;
pub mod run;
pub mod data;
pub mod task;
pub mod policy;
pub mod dynamics;
pub mod confidence;
pub mod rollout;
pub mod adversary;
pub mod explain;
pub mod evaluate;
pub mod learn;
pub mod report;
#[cfg(test)]
mod testing;

pub use data::{Logs, Transitions};
pub use evaluate::{EvaluationConfig, Evaluator, Method};
pub use hambo_engine::backend::Device;
pub use hambo_engine::{Error, Result};
pub use policy::Policy;
pub use report::{Answer, Ranking};
pub use task::{Task, TaskSpec};

/// The README's example is compiled by the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
