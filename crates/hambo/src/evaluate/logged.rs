//! What the logged behavior earned, to hold a bound against.

use crate::Result;
use crate::data::Transitions;
use crate::stats::Mean;
use crate::task::Task;
use crate::task::earned::{Earned, LoggedRewards};
use serde::Serialize;

/// The mean return of the logged episodes over the horizon of the question, with its discount.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoggedReturn {
    /// The mean.
    pub value: f64,
    /// Its standard error; not a number with a single episode.
    pub std_error: f64,
    /// Episodes.
    pub episodes: usize,
    /// Those that were logged for fewer steps than the horizon and did not end for good: they count as far as they go.
    pub shorter: usize,
}

impl LoggedReturn {
    /// Of all episodes of the logs, by the reward of a task.
    pub fn of(task: &Task, data: &Transitions, horizon: usize, discount: f64) -> Result<Self> {
        let rewards = LoggedRewards::new(task, data, horizon, discount)?;
        let episodes: Vec<Earned> = data.episodes().map(|episode| rewards.of(episode)).collect();
        let Mean { value, std_error, .. } = Mean::of(episodes.iter().map(|e| e.value));
        let shorter = episodes.iter().filter(|e| e.steps() < horizon && !e.ended).count();
        Ok(LoggedReturn { value, std_error, episodes: episodes.len(), shorter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Columns;
    use hambo_engine::expression::{Program, Scope};

    /// Two episodes of three steps that pay their state, 1 to 6.
    fn log() -> Transitions {
        let rows = 6;
        Transitions::new(Columns {
            state_dim: 1,
            action_dim: 1,
            states: (0..rows).map(|i| i as f32 + 1.0).collect(),
            actions: vec![0.0; rows],
            rewards: vec![0.0; rows],
            next_states: (0..rows).map(|i| i as f32 + 2.0).collect(),
            terminals: vec![false; rows],
            timeouts: (0..rows).map(|i| i % 3 == 2).collect(),
            episode_starts: vec![0, 3],
            ..Default::default()
        })
        .unwrap()
    }

    #[test]
    fn episodes_earn_what_they_paid_within_the_horizon() {
        let task = Task::new("pays its state", [1, 1], "s[0]").unwrap();
        let earned =
            |horizon, discount| LoggedReturn::of(&task, &log(), horizon, discount).unwrap();
        let two = earned(2, 1.0); // 1 + 2 and 4 + 5
        assert_eq!((two.value, two.std_error, two.shorter), (6.0, 3.0, 0));
        let half = earned(3, 0.5); // 1 + 1 + 0.75 and 4 + 2.5 + 1.5
        assert_eq!((half.value, half.episodes, half.shorter), (5.375, 2, 0));
        let long = earned(10, 1.0); // 6 and 15, cut off by the log
        assert_eq!((long.value, long.shorter), (10.5, 2));
    }

    #[test]
    fn an_episode_that_ended_for_good_is_whole() {
        let task = Task::new("ends at 6", [1, 1], "s[0]").unwrap();
        let ends = Program::parse(&["(n[0] > 2.5) * (n[0] < 3.5)"], 1, 1, Scope::REWARD).unwrap();
        let task = Task { termination: Some(ends), ..task };
        let earned = LoggedReturn::of(&task, &log(), 10, 1.0).unwrap(); // 1 + 2, and 15
        assert_eq!((earned.value, earned.shorter), (9.0, 1));
    }
}
