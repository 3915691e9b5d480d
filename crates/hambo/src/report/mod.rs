//! The answer as a type, and as people read it: a page, Markdown, a terminal.
//!
//! [`Answer`] and [`Ranking`] hold everything that is told; their JSON is what the command prints with `--json`. All
//! else is written from them, so that a number is the same wherever it is read.

mod answer;
mod beside;
mod html;
mod markdown;
mod ranking;
mod setup;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod verdict;
mod waterfall;

pub use answer::{Answer, Explanation};
pub use html::{html, ranking_html};
pub use markdown::{markdown, ranking_markdown};
pub use ranking::{RankedPolicy, Ranking, warnings_of_several};
pub use setup::{DataSummary, EntryNames, ModelSummary, RunSettings, SCHEMA, Setup};
pub use terminal::{ranking_terminal, table, terminal};
pub use text::{number, printable};
pub use verdict::Verdict;
pub use waterfall::Step;
