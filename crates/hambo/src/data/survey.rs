//! What is in a data set, even in one that nothing can be learned from: only what cannot be read is refused.

use super::log::{Format, Log};
use super::read::read_logs;
use super::{ReadOptions, Transitions};
use crate::Result;
use serde::Serialize;
use std::path::Path;

/// What is in a data set.
#[derive(Clone, Debug)]
pub struct Survey {
    /// How the (first) file is laid out.
    pub format: Format,
    /// Number of transitions.
    pub transitions: usize,
    /// Length of a state.
    pub state_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    /// Number of episodes.
    pub episodes: usize,
    /// Their lengths.
    pub lengths: Range,
    /// Their sums of rewards.
    pub returns: Range,
    /// Episodes of a single transition.
    pub single_step_episodes: usize,
    /// Transitions after which nothing can follow.
    pub terminals: usize,
    /// Transitions after which the log was cut.
    pub timeouts: usize,
    /// States, actions, rewards.
    pub columns: Vec<ColumnSurvey>,
    /// Remarks in plain words.
    pub notes: Vec<String>,
    /// The transitions, or why they cannot be used.
    pub usable: std::result::Result<Transitions, String>,
}

/// Mean and extremes; NaN if there are no values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Range {
    fn of(values: &[f64]) -> Self {
        let (min, max) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
        match values.is_empty() {
            true => Range { mean: f64::NAN, min: f64::NAN, max: f64::NAN },
            false => Range { mean: values.iter().sum::<f64>() / values.len() as f64, min, max },
        }
    }
}

/// One column of states, actions or rewards; all figures are of its finite values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnSurvey {
    /// `state 0`, `action 0`, `reward`.
    pub name: String,
    /// Mean and extremes.
    #[serde(flatten)]
    pub range: Range,
    /// Standard deviation.
    pub std: f64,
    /// Whether all values are the same.
    pub constant: bool,
    /// Values that are NaN or infinite.
    pub not_finite: usize,
}

impl ColumnSurvey {
    fn of(name: &str, values: &[f32], width: usize, c: usize) -> Self {
        let column = || values.iter().skip(c).step_by(width);
        let finite: Vec<f64> = column().filter(|v| v.is_finite()).map(|&v| f64::from(v)).collect();
        let range = Range::of(&finite);
        let variance =
            finite.iter().map(|v| (v - range.mean).powi(2)).sum::<f64>() / finite.len() as f64;
        ColumnSurvey {
            name: if name == "reward" { name.to_owned() } else { format!("{name} {c}") },
            range,
            std: variance.sqrt(),
            constant: range.min == range.max,
            not_finite: column().count() - finite.len(),
        }
    }
}

/// Describes one data set, named as for [`Logs::read_with`](super::Logs::read_with).
pub fn survey<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Survey> {
    let options = ReadOptions { keep_not_finite: true, ..options.clone() };
    let (path, Log { format, columns, mut notes, rows, finite }) = read_logs(paths, &options)?;
    let (n, ds, da) = (columns.rewards.len(), columns.state_dim, columns.action_dim);
    let starts = &columns.episode_starts;
    let ends = starts.iter().skip(1).copied().chain([n]);
    let episodes: Vec<_> = starts.iter().zip(ends).map(|(&start, end)| start..end).collect();
    // Last rows are no transitions, but steps of their episodes.
    let last = columns.last_rows.finite([ds, da]);
    let last_of = |e: &std::ops::Range<usize>| last.following(e.end - 1);
    let steps = |e: &std::ops::Range<usize>| e.len() + usize::from(last_of(e).is_some());
    let lengths: Vec<f64> = episodes.iter().map(|e| steps(e) as f64).collect();
    let sum = |e: &std::ops::Range<usize>| {
        let rewards = columns.rewards[e.clone()].iter().chain(last_of(e).map(|i| &last.rewards[i]));
        rewards.map(|&r| f64::from(r)).sum()
    };
    let mut returns: Vec<f64> = episodes.iter().map(sum).filter(|r: &f64| r.is_finite()).collect();
    if columns.without_rewards {
        returns.clear();
    }
    let count = |flags: &[bool]| flags.iter().filter(|&&f| f).count();
    let ended_last = count(&last.terminals);
    let rewards = [&columns.rewards[..], &last.rewards].concat();
    let surveyed =
        [("state", &columns.states, ds), ("action", &columns.actions, da), ("reward", &rewards, 1)]
            .into_iter()
            .filter(|(name, ..)| *name != "reward" || !columns.without_rewards)
            .flat_map(|(name, values, width)| {
                (0..width).map(move |c| ColumnSurvey::of(name, values, width, c))
            })
            .collect();
    let terminals = count(&columns.terminals) + ended_last;
    if let [first, others @ ..] = &episodes[..]
        && terminals == episodes.len()
        && steps(first) > 1
        && !others.is_empty()
        && others.iter().all(|e| steps(e) == steps(first))
    {
        notes.push(format!(
            "all {terminals} episodes end in a terminal state after exactly {} steps: an evaluation takes this to be a time \
             limit unless a termination is given; flag time limits as timeouts",
            steps(first)
        ));
    }
    Ok(Survey {
        format,
        transitions: n,
        state_dim: ds,
        action_dim: da,
        episodes: episodes.len(),
        lengths: Range::of(&lengths),
        returns: Range::of(&returns),
        single_step_episodes: episodes.iter().filter(|e| steps(e) == 1).count(),
        terminals,
        // A transition before a last row is marked as cut.
        timeouts: count(&columns.timeouts) - ended_last,
        columns: surveyed,
        usable: usable(Log { format, columns, notes: Vec::new(), rows, finite }, path),
        notes,
    })
}

fn usable(log: Log, path: &Path) -> std::result::Result<Transitions, String> {
    log.check(path).map(|logs| logs.transitions).map_err(|e| e.to_string())
}
