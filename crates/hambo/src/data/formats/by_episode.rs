//! Logs that come episode by episode, each with as many states as actions or one more.

use crate::data::Columns;
use crate::data::log::{Format, Log};

/// One episode of a file.
#[derive(Default)]
pub(crate) struct Episode {
    /// s, `[n, state]` or with the last next state `[n + 1, state]`.
    pub(crate) states: Vec<f32>,
    /// a, `[n, action]`.
    pub(crate) actions: Vec<f32>,
    /// r, `[n]`.
    pub(crate) rewards: Vec<f32>,
    /// Whether no reward can follow, `[n]`; none where the file does not say.
    pub(crate) terminals: Option<Vec<bool>>,
    /// Whether a time limit ended it, `[n]`.
    pub(crate) timeouts: Option<Vec<bool>>,
}

/// The episodes so far.
#[derive(Default)]
pub(crate) struct ByEpisode {
    columns: Columns,
    has_terminals: bool,
    /// Whether the file has no rewards: those of its episodes are 0.
    pub(crate) has_no_rewards: bool,
    /// Whether the last next states are there, once an episode has come.
    with_last: Option<bool>,
}

impl ByEpisode {
    /// None so far, of a file with or without rewards.
    pub(crate) fn new(has_no_rewards: bool) -> Self {
        ByEpisode { has_no_rewards, ..ByEpisode::default() }
    }

    /// Appends an episode, whose states and actions have these sizes; the error is a sentence about it.
    pub(crate) fn push(
        &mut self,
        [state_dim, action_dim]: [usize; 2],
        episode: Episode,
    ) -> Result<(), String> {
        let Episode { states, actions, rewards, terminals, timeouts } = episode;
        let (rows, n) = (states.len() / state_dim.max(1), actions.len() / action_dim.max(1));
        if state_dim == 0 || action_dim == 0 || n == 0 {
            return Err(format!(
                "{n} steps, states of {state_dim} and actions of {action_dim} numbers"
            ));
        }
        let all = &mut self.columns;
        if all.episode_starts.is_empty() {
            (all.state_dim, all.action_dim) = (state_dim, action_dim);
        }
        if [all.state_dim, all.action_dim] != [state_dim, action_dim] {
            return Err(format!(
                "states of {state_dim} and actions of {action_dim} numbers, where those before have {} and {}",
                all.state_dim, all.action_dim
            ));
        }
        let with_last = rows == n + 1;
        if rows != n && !with_last {
            return Err(format!("{rows} states and {n} actions: expected as many, or one more"));
        }
        if rewards.len() != n {
            return Err(format!("{} rewards and {n} actions", rewards.len()));
        }
        self.has_terminals |= terminals.is_some();
        let flags = |flags: Option<Vec<bool>>| flags.unwrap_or_else(|| vec![false; n]);
        let (terminals, mut timeouts) = (flags(terminals), flags(timeouts));
        if [terminals.len(), timeouts.len()] != [n, n] {
            return Err(format!("{} flags and {n} actions", terminals.len()));
        }
        if let Some(step) = (0..n - 1).find(|&i| terminals[i] || timeouts[i]) {
            return Err(format!("it is over after step {step}, but has {n} steps"));
        }
        if *self.with_last.get_or_insert(with_last) != with_last {
            return Err(format!(
                "{rows} states and {n} actions, where it is otherwise in those before"
            ));
        }
        timeouts[n - 1] = !terminals[n - 1]; // the log ends here, even where no flag says why
        all.episode_starts.push(all.rewards.len());
        all.states.extend_from_slice(&states[..n * state_dim]);
        if with_last {
            all.next_states.extend_from_slice(&states[state_dim..]);
        }
        all.actions.extend(actions);
        all.rewards.extend(rewards);
        all.terminals.extend(terminals);
        all.timeouts.extend(timeouts);
        Ok(())
    }

    /// All episodes as a log; states without a next one are the last of theirs.
    pub(crate) fn finish(self, format: Format, mut notes: Vec<String>) -> Log {
        if !self.has_terminals {
            notes.push(
                "no flags of terminal states: no transition is taken to end its episode for good"
                    .into(),
            );
        }
        let mut columns = Columns { without_rewards: self.has_no_rewards, ..self.columns };
        if self.with_last == Some(true) {
            let rows = columns.rewards.len();
            return Log { format, columns, notes, rows, finite: false };
        }
        columns.episode_starts.clear();
        Log::of_rows(format, columns, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(states: usize, actions: usize) -> Episode {
        Episode {
            states: (0..states).map(|i| i as f32).collect(),
            actions: vec![1.0; actions],
            rewards: vec![0.5; actions],
            ..Episode::default()
        }
    }

    #[test]
    fn one_state_more_than_actions_makes_every_step_a_transition() {
        let mut all = ByEpisode::default();
        all.push([1, 1], episode(4, 3)).unwrap();
        all.push([1, 1], Episode { terminals: Some(vec![false, true]), ..episode(3, 2) }).unwrap();
        let log = all.finish(Format::Demos, Vec::new());
        assert_eq!(log.columns.states, [0.0, 1.0, 2.0, 0.0, 1.0]);
        assert_eq!(log.columns.next_states, [1.0, 2.0, 3.0, 1.0, 2.0]);
        assert_eq!(log.columns.episode_starts, [0, 3]);
        assert_eq!(log.columns.timeouts, [false, false, true, false, false]);
        assert!(log.columns.terminals[4] && log.notes.is_empty());
    }

    #[test]
    fn as_many_states_as_actions_leave_the_last_rows_without_next_state() {
        let mut all = ByEpisode::default();
        all.push([1, 1], episode(3, 3)).unwrap();
        all.push([1, 1], episode(2, 2)).unwrap();
        let log = all.finish(Format::Demos, Vec::new());
        assert_eq!((log.columns.states, log.rows), (vec![0.0, 1.0, 0.0], 5));
        assert_eq!(log.columns.last_rows.len(), 2);
        assert!(log.notes[0].starts_with("no flags of terminal states"));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mut all = ByEpisode::default();
        let told = all.push([1, 1], episode(5, 3)).unwrap_err();
        assert_eq!(told, "5 states and 3 actions: expected as many, or one more");
        let early = Episode { terminals: Some(vec![true, false, false]), ..episode(3, 3) };
        assert_eq!(
            all.push([1, 1], early).unwrap_err(),
            "it is over after step 0, but has 3 steps"
        );
        all.push([1, 1], episode(4, 3)).unwrap();
        assert!(all.push([1, 1], episode(3, 3)).unwrap_err().contains("otherwise"));
        assert!(all.push([2, 1], episode(8, 3)).unwrap_err().contains("those before have 1 and 1"));
    }
}
