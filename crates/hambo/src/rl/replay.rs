//! What was tried, kept on the device to learn from.

use crate::compute::{Buffer, Counter, Device, Number};
use crate::rng::Stream;

/// Lengths of what goes into a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// What the actor sees.
    pub observation: usize,
    /// What the critics see besides observation and action; may be 0.
    pub context: usize,
    /// What the actor chooses.
    pub action: usize,
}

/// A minibatch of transitions on the device; actions are numbers, or the index of a choice.
#[derive(Debug)]
pub struct Batch<A = f32> {
    /// What was seen, `[rows, observation]`.
    pub observations: Buffer,
    /// What those who judge see besides, `[rows, context]`.
    pub contexts: Buffer,
    /// What was done, `[rows, action]`.
    pub actions: Buffer<A>,
    /// What it brought, `[rows]`.
    pub rewards: Buffer,
    /// 0 after a terminal state, else 1: a time limit is no end, `[rows]`.
    pub continues: Buffer,
    /// What was seen next, `[rows, observation]`.
    pub next_observations: Buffer,
    /// And besides, `[rows, context]`.
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
pub struct Replay<A = f32> {
    widths: Widths,
    observations: Buffer,
    contexts: Buffer,
    actions: Buffer<A>,
    rewards: Buffer,
    continues: Buffer,
    /// Row and next row of each transition.
    transitions: [Buffer<u32>; 2],
    // A minibatch's choice of transitions, and the rows it leads to.
    chosen: Buffer<u32>,
    here: Buffer<u32>,
    next: Buffer<u32>,
}

impl<A: Number> Replay<A> {
    /// Room for `capacity` rows, drawn `batch` at a time.
    pub fn new(device: &Device, widths: Widths, capacity: usize, batch: usize) -> Self {
        let columns = |width: usize| device.zeros(capacity * width);
        Replay {
            widths,
            observations: columns(widths.observation),
            contexts: columns(widths.context),
            actions: device.zeros(capacity * widths.action),
            rewards: columns(1),
            continues: columns(1),
            transitions: [device.zeros(0), device.zeros(0)],
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
        for (from, to, width) in columns {
            device.copy_part(from, 0, to, first * width, rows * width);
        }
        device.copy_part(actions, 0, &mut self.actions, first * w.action, rows * w.action);
    }

    /// Says of rows from `first` on whether anything follows them: 1, or 0 after a terminal state.
    pub fn mark(&mut self, device: &Device, first: usize, continues: &[f32]) {
        device.copy_part(&device.upload(continues), 0, &mut self.continues, first, continues.len());
    }

    /// Replaces the list of transitions, each a row and the one after it. The latter is not looked at where
    /// the former does not continue, but must be a row that was written.
    pub fn set_transitions(&mut self, device: &Device, rows: &[u32], next: &[u32]) {
        self.transitions = [device.upload(rows), device.upload(next)];
    }

    /// Number of transitions.
    pub fn len(&self) -> usize {
        self.transitions[0].len()
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
