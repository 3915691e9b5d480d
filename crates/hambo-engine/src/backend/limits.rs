//! How far trajectories may go, and what those that go further get.

use crate::backend::Buffer;

/// The range that predictions keep to, entry by entry. NaN stays NaN.
#[derive(Debug)]
pub struct Limits<'a, F: ?Sized = Buffer> {
    /// Smallest value of each entry, `[state]`; −∞ where there is no limit.
    pub low: &'a F,
    /// Largest value; +∞ where there is no limit.
    pub high: &'a F,
    /// The entries from this one on are sums over the steps so far: the limits are those of what a step adds.
    pub sums_from: usize,
}

/// What a trajectory gets that reaches its limits: a step's reward for this and every step that remains, the lower of
/// `worst` and of what the step at the limit pays.
#[derive(Debug)]
pub struct Exit<'a, F: ?Sized = Buffer> {
    /// Who reaches them, in an entry that is no sum, has left.
    pub limits: Limits<'a, F>,
    /// The worst reward of a step.
    pub worst: f32,
    /// γ + γ² + … over the steps that remain after each step.
    pub remaining: &'a F,
    /// Whether episodes can end early. Leaving may then mean the end: the steps that remain pay nothing above 0.
    pub may_end: bool,
}

impl<'a> Limits<'a> {
    pub(super) fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> Limits<'a, F> {
        Limits { low: place(self.low), high: place(self.high), sums_from: self.sums_from }
    }
}

impl<'a> Exit<'a> {
    pub(super) fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> Exit<'a, F> {
        Exit {
            limits: self.limits.map(&place),
            worst: self.worst,
            remaining: place(self.remaining),
            may_end: self.may_end,
        }
    }
}

impl Limits<'_, [f32]> {
    /// Entry `c` of a next state, kept within its limits.
    #[inline(always)]
    pub(super) fn keep(&self, c: usize, state: f32, next: f32) -> f32 {
        let from = if c < self.sums_from { 0.0 } else { state };
        let step = next - from;
        if step < self.low[c] {
            from + self.low[c]
        } else if step > self.high[c] {
            from + self.high[c]
        } else {
            next
        }
    }

    /// Whether a next state is at its limits, or is none.
    #[inline(always)]
    pub(super) fn reached(&self, next: &[f32]) -> bool {
        let inside = |c: usize| self.low[c] < next[c] && next[c] < self.high[c];
        !((0..self.sums_from).all(inside) && next.iter().all(|x| x.is_finite()))
    }
}

impl Exit<'_, [f32]> {
    /// What the step that left brings, with all that follows it.
    #[inline(always)]
    pub(super) fn reward(&self, paid: f32, remaining: f32) -> f32 {
        let rate = if paid.is_finite() && paid < self.worst { paid } else { self.worst };
        let after = if self.may_end && rate > 0.0 { 0.0 } else { rate };
        rate + remaining * after
    }
}
