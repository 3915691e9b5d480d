//! Last rows of episodes in logs without next states.

/// Rows whose next state was never logged: no transitions, but what they paid and whether they ended their episode is known.
/// There is at most one for each episode, which it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastRows {
    /// The last transition of the episode, in ascending order.
    pub after: Vec<usize>,
    /// s, `[rows, state_dim]`.
    pub states: Vec<f32>,
    /// a, `[rows, action_dim]`.
    pub actions: Vec<f32>,
    /// r, `[rows]`.
    pub rewards: Vec<f32>,
    /// Whether the episode ended for good with it, `[rows]`.
    pub terminals: Vec<bool>,
}

impl LastRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Whether there is none: all next states were logged.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The one that follows a transition.
    pub fn following(&self, transition: usize) -> Option<usize> {
        self.after.binary_search(&transition).ok()
    }

    /// State, action and reward of one of them, for states and actions of these lengths.
    pub(super) fn row(&self, [ds, da]: [usize; 2], i: usize) -> (&[f32], &[f32], f32) {
        (&self.states[i * ds..][..ds], &self.actions[i * da..][..da], self.rewards[i])
    }

    /// Those whose transition has a new number.
    pub(super) fn renumbered(
        &self,
        dims: [usize; 2],
        number: impl Fn(usize) -> Option<usize>,
    ) -> LastRows {
        let mut new = LastRows::default();
        for (i, &after) in self.after.iter().enumerate() {
            let Some(after) = number(after) else { continue };
            let (state, action, reward) = self.row(dims, i);
            new.after.push(after);
            new.states.extend_from_slice(state);
            new.actions.extend_from_slice(action);
            new.rewards.push(reward);
            new.terminals.push(self.terminals[i]);
        }
        new
    }

    /// Those that are all numbers: where nothing was done after the last state, logs are filled up with NaN.
    pub(super) fn finite(&self, dims: [usize; 2]) -> LastRows {
        let is_finite = |i: usize| {
            let (state, action, reward) = self.row(dims, i);
            reward.is_finite() && state.iter().chain(action).all(|x| x.is_finite())
        };
        let rows = (0..self.len()).filter(|&i| is_finite(i)).map(|i| self.after[i]);
        let rows: Vec<usize> = rows.collect();
        self.renumbered(dims, |after| rows.binary_search(&after).is_ok().then_some(after))
    }

    /// Appends those of another log, whose transitions follow `n` others.
    pub(super) fn append(&mut self, other: LastRows, n: usize) {
        self.after.extend(other.after.iter().map(|after| n + after));
        self.states.extend(other.states);
        self.actions.extend(other.actions);
        self.rewards.extend(other.rewards);
        self.terminals.extend(other.terminals);
    }
}
