//! What logged episodes earned within a horizon.

use super::Task;
use crate::Result;
use crate::data::{LastRows, Transitions};
use std::ops::Range;

/// The rewards and ends of a log, as a task says them, for a horizon and a discount.
pub(crate) struct LoggedRewards<'a> {
    rewards: Vec<f32>,
    ends: Vec<bool>,
    last: &'a LastRows,
    last_rewards: Vec<f32>,
    last_ends: Vec<bool>,
    horizon: usize,
    discount: f64,
}

/// An episode as far as the horizon, or to where it ended.
pub(crate) struct Earned {
    /// Its transitions.
    pub rows: Range<usize>,
    /// One more step, of which the next state was not logged: its place among the last rows.
    pub one_more: Option<usize>,
    /// Whether it ended for good.
    pub ended: bool,
    /// Discounted sum of its rewards.
    pub value: f64,
}

impl Earned {
    /// Steps that it lasted.
    pub fn steps(&self) -> usize {
        self.rows.len() + usize::from(self.one_more.is_some())
    }
}

impl<'a> LoggedRewards<'a> {
    pub fn new(task: &Task, data: &'a Transitions, horizon: usize, discount: f64) -> Result<Self> {
        let (rewards, ends) = task.logged(data)?;
        let (last_rewards, last_ends) = task.logged_last(data)?;
        let last = data.last_rows();
        Ok(LoggedRewards { rewards, ends, last, last_rewards, last_ends, horizon, discount })
    }

    /// Of an episode, by its rows.
    pub fn of(&self, episode: Range<usize>) -> Earned {
        let rows = episode.start..episode.end.min(episode.start + self.horizon);
        let end = rows.clone().find(|&row| self.ends[row]);
        let rows = rows.start..end.map_or(rows.end, |end| end + 1);
        let one_more = self.last.following(rows.end - 1);
        let one_more = one_more.filter(|_| rows.len() < self.horizon && end.is_none());
        let ended = end.is_some() || one_more.is_some_and(|i| self.last_ends[i]);
        let paid = rows.clone().map(|row| self.rewards[row]);
        let paid = paid.chain(one_more.map(|i| self.last_rewards[i]));
        let discounted = |(t, r): (usize, f32)| self.discount.powi(t as i32) * f64::from(r);
        Earned { one_more, ended, value: paid.enumerate().map(discounted).sum(), rows }
    }
}
