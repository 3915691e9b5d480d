//! The parts of the page, from top to bottom: what a reader must decide first, why after that, how to repeat it last.

mod answer;
mod ranking;
mod theory;
mod trust;
mod why;

pub(super) use answer::{constraints, estimates, verdict, warnings};
pub(super) use ranking::{ranking, scores};
pub(super) use theory::theory;
pub(super) use trust::{curves, repeat, trust};
pub(super) use why::{distributions, help, pessimism, regions_in_words, trajectories};

use super::text::escape;
use crate::stats::normal_quantile;
use serde_json::Value;

/// Intervals on the axis are this many standard errors to both sides: 95 %.
fn two_sided() -> f64 {
    normal_quantile(0.975)
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// A place that the script fills, and the words below it.
fn plot(kind: &str, index: usize, caption: &str) -> String {
    format!(
        "<figure><div class=\"plot\" data-plot=\"{kind}\" data-index=\"{index}\"></div>\
         <figcaption>{caption}</figcaption></figure>\n"
    )
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn words(value: &Value) -> String {
    escape(value.as_str().unwrap_or("?"))
}

/// Name of an entry of the state, or of what a learned reward has paid.
fn state_name(result: &Value, dimension: usize) -> String {
    result["names"]["state"][dimension].as_str().unwrap_or("learned reward").to_owned()
}
