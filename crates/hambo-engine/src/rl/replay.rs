//! The replay buffer: transitions on the device to learn from.

use crate::backend::{Buffer, Counter, Device, Number};
use crate::rng::Stream;

/// Lengths of what goes into a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Entries of an observation, which the actor sees.
    pub observation: usize,
    /// Entries that the critics see besides observation and action; may be 0.
    pub context: usize,
    /// Entries of an action.
    pub action: usize,
}

/// A minibatch of transitions on the device; actions are numbers, or the index of a choice.
#[derive(Debug)]
pub struct Batch<A = f32> {
    /// `[rows, observation]`
    pub observations: Buffer,
    /// What the critics see besides the observation, `[rows, context]`.
    pub contexts: Buffer,
    /// `[rows, action]`
    pub actions: Buffer<A>,
    /// `[rows]`
    pub rewards: Buffer,
    /// 0 after a terminal state, else 1: a time limit is no end, `[rows]`.
    pub continues: Buffer,
    /// Observations of the next step, `[rows, observation]`.
    pub next_observations: Buffer,
    /// Contexts of the next step, `[rows, context]`.
    pub next_contexts: Buffer,
}

impl<A: Number> Batch<A> {
    pub(super) fn new(device: &Device, widths: Widths, rows: usize) -> Self {
        let columns = |width: usize| device.zeros(rows * width);
        Batch {
            observations: columns(widths.observation),
            contexts: columns(widths.context),
            actions: device.zeros(rows * widths.action),
            rewards: columns(1),
            continues: columns(1),
            next_observations: columns(widths.observation),
            next_contexts: columns(widths.context),
        }
    }
}

/// Rows (observation, context, action, reward, continues), and which pairs of them are transitions.
///
/// An observation is stored once: a transition is the number of its row and of the row after it, so that
/// trajectories may lie in any order, end early, and be overwritten by newer ones.
#[derive(Debug)]
pub struct ReplayBuffer<A = f32> {
    widths: Widths,
    observations: Buffer,
    contexts: Buffer,
    actions: Buffer<A>,
    rewards: Buffer,
    continues: Buffer,
    /// Row and next row of each transition.
    transitions: [Buffer<u32>; 2],
    /// How many of these are drawn from, the first ones.
    len: usize,
    // A minibatch's choice of transitions, and the rows it leads to.
    chosen: Buffer<u32>,
    here: Buffer<u32>,
    next: Buffer<u32>,
}

impl<A: Number> ReplayBuffer<A> {
    /// Room for `capacity` rows, drawn `batch` at a time.
    pub fn new(device: &Device, widths: Widths, capacity: usize, batch: usize) -> Self {
        let columns = |width: usize| device.zeros(capacity * width);
        ReplayBuffer {
            widths,
            observations: columns(widths.observation),
            contexts: columns(widths.context),
            actions: device.zeros(capacity * widths.action),
            rewards: columns(1),
            continues: columns(1),
            transitions: [device.zeros(0), device.zeros(0)],
            len: 0,
            chosen: device.zeros(batch),
            here: device.zeros(batch),
            next: device.zeros(batch),
        }
    }

    /// Writes consecutive rows from row `first` on, as many as there are `rewards`.
    pub fn store(
        &mut self,
        device: &Device,
        first: usize,
        [observations, contexts, rewards]: [&Buffer; 3],
        actions: &Buffer<A>,
    ) {
        let (rows, w) = (rewards.len(), self.widths);
        let columns = [
            (observations, &mut self.observations, w.observation),
            (contexts, &mut self.contexts, w.context),
            (rewards, &mut self.rewards, 1),
        ];
        for (from, to, width) in columns.into_iter().filter(|(_, _, width)| *width > 0) {
            device.copy_part(from, 0, to, first * width, rows * width);
        }
        device.copy_part(actions, 0, &mut self.actions, first * w.action, rows * w.action);
    }

    /// The same for the rows of the step before `time`: each step has as many, and those of step 0 begin at `first`.
    pub fn store_at(
        &mut self,
        device: &Device,
        first: usize,
        time: &Counter,
        [observations, contexts, rewards]: [&Buffer; 3],
        actions: &Buffer<A>,
    ) {
        let w = self.widths;
        device.store_at(observations, time, 1, first * w.observation, &mut self.observations);
        if w.context > 0 {
            device.store_at(contexts, time, 1, first * w.context, &mut self.contexts);
        }
        device.store_at(rewards, time, 1, first, &mut self.rewards);
        device.store_at(actions, time, 1, first * w.action, &mut self.actions);
    }

    /// Says of rows from `first` on whether anything follows them: 1, or 0 after a terminal state.
    pub fn mark(&mut self, device: &Device, first: usize, continues: &[f32]) {
        device.copy_part(&device.upload(continues), 0, &mut self.continues, first, continues.len());
    }

    /// Replaces the list of transitions, each a row and the one after it. The latter is not looked at where
    /// the former does not continue, but must be a row that was written.
    pub fn set_transitions(&mut self, device: &Device, rows: &[u32], next: &[u32]) {
        self.transitions = [device.upload(rows), device.upload(next)];
        self.len = rows.len();
    }

    /// Number of transitions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was stored, with the numbers of a row; actions apart.
    #[allow(clippy::type_complexity)]
    pub fn columns(
        &mut self,
    ) -> ([(&'static str, usize, &mut Buffer); 4], (usize, &mut Buffer<A>)) {
        let w = self.widths;
        let numbers = [
            ("observations", w.observation, &mut self.observations),
            ("contexts", w.context, &mut self.contexts),
            ("rewards", 1, &mut self.rewards),
            ("continues", 1, &mut self.continues),
        ];
        (numbers, (w.action, &mut self.actions))
    }

    /// The stored rewards, row by row.
    pub fn rewards(&self) -> &Buffer {
        &self.rewards
    }

    /// Draws a minibatch of transitions, with replacement.
    pub fn draw(&mut self, device: &Device, stream: Stream, step: &Counter, batch: &mut Batch<A>) {
        device.uniform_indices(stream, step, self.len(), &mut self.chosen);
        device.gather(&self.transitions[0], 1, &self.chosen, &mut self.here);
        device.gather(&self.transitions[1], 1, &self.chosen, &mut self.next);
        let (w, here, next) = (self.widths, &self.here, &self.next);
        device.gather(&self.observations, w.observation, here, &mut batch.observations);
        device.gather(&self.actions, w.action, here, &mut batch.actions);
        device.gather(&self.rewards, 1, here, &mut batch.rewards);
        device.gather(&self.continues, 1, here, &mut batch.continues);
        device.gather(&self.observations, w.observation, next, &mut batch.next_observations);
        if w.context > 0 {
            device.gather(&self.contexts, w.context, here, &mut batch.contexts);
            device.gather(&self.contexts, w.context, next, &mut batch.next_contexts);
        }
    }
}

/// One transition of an environment, on the host.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'a> {
    /// The observation in which the agent acted.
    pub observation: &'a [f32],
    /// The action it took.
    pub action: &'a [f32],
    /// The reward it got.
    pub reward: f32,
    /// Whether anything can follow: not after a terminal state.
    pub continues: bool,
    /// The observation that followed.
    pub next_observation: &'a [f32],
}

impl ReplayBuffer {
    /// Room for `capacity` single transitions without contexts, for [`ReplayBuffer::put`].
    pub fn of_transitions(device: &Device, widths: Widths, capacity: u32, batch: usize) -> Self {
        // Transition i has rows 2 i and 2 i + 1 to itself.
        let mut replay = ReplayBuffer::new(device, widths, 2 * capacity as usize, batch);
        replay.transitions =
            [0, 1].map(|next| device.adopt((0..capacity).map(|i| 2 * i + next).collect()));
        replay
    }

    /// Writes transition number `number` of all, in place of the oldest where there is no more room.
    pub fn put(&mut self, device: &Device, number: usize, transition: &Transition<'_>) {
        let capacity = self.transitions[0].len();
        let row = number % capacity * 2;
        self.len = capacity.min(number + 1);
        let Transition { observation, action, reward, continues, next_observation } = *transition;
        let w = self.widths;
        let write = |from: &[f32], to: &mut Buffer, start: usize| {
            device.copy_part(&device.upload(from), 0, to, start, from.len());
        };
        write(observation, &mut self.observations, row * w.observation);
        write(next_observation, &mut self.observations, (row + 1) * w.observation);
        write(action, &mut self.actions, row * w.action);
        write(&[reward], &mut self.rewards, row);
        write(&[f32::from(u8::from(continues))], &mut self.continues, row);
    }
}
