//! The whole way from logged transitions to a bound.

mod bounds;
mod budget;
mod starts;
mod config;
mod curves;
mod effort;
mod estimate;
mod evaluation;
mod evaluator;
mod logged;
mod noticed;
mod notes;
mod problem;
mod rank;
mod risk;
mod truth;
mod warning;

pub use bounds::Why;
pub use budget::{Budget, MONTE_CARLO_SHARE, STARTS_SHARE};
pub use config::EvaluationConfig;
pub use curves::{Curves, Point};
pub use effort::Effort;
pub use estimate::{Estimate, Method, QUANTILE_ABOVE, adversarial, dainf, mean_return, neutral};
pub use evaluation::{ConstraintBound, Evaluation};
pub use evaluator::{Evaluator, EvaluatorBuilder};
pub use logged::LoggedReturn;
pub use notes::{Rank, by_rank};
pub use problem::Problem;
pub use rank::{Ranked, Score, scores, spearman};
pub use risk::{Interval, Risk};
pub use truth::Truth;
pub use warning::Warning;
