//! The random numbers behind the actions of a stochastic policy.

use hambo_engine::backend::{Buffer, Counter, Device};
use hambo_engine::rng::Stream;

/// The random numbers behind a policy's actions in one step of a batch; empty for a deterministic policy.
#[derive(Debug)]
pub struct ActionNoise {
    groups: usize,
    /// The numbers of one group.
    drawn: Buffer,
    /// ε of the policy's own distribution, `[rows, action]`.
    pub(super) sample: Buffer,
    /// Standard normal numbers of the noise on top, `[rows, action]`, and its standard deviation, `[action]`.
    pub(super) extra: (Buffer, Buffer),
}

impl ActionNoise {
    /// Room for `rows` rows of `actions` numbers, in `groups` equal groups that share their numbers. `sampling`: for
    /// the policy's own distribution; `extra`: standard deviation of the noise on top.
    pub(super) fn new(
        device: &Device,
        [rows, groups, actions]: [usize; 3],
        sampling: bool,
        extra: f32,
    ) -> Self {
        let room = |wanted: bool| device.zeros(if wanted { rows * actions } else { 0 });
        let noisy = extra > 0.0;
        let std = device.adopt(vec![extra; if noisy { actions } else { 0 }]);
        let drawn = if sampling || noisy { rows / groups * actions } else { 0 };
        ActionNoise {
            groups,
            drawn: device.zeros(drawn),
            sample: room(sampling),
            extra: (room(noisy), std),
        }
    }

    /// Draws the numbers of one step; they depend on (stream, time) alone.
    pub fn draw(&mut self, device: &Device, stream: Stream, time: &Counter) {
        let n = self.drawn.len();
        for (numbers, name) in [(&mut self.sample, "sample"), (&mut self.extra.0, "noise")] {
            if !numbers.is_empty() {
                device.normals(stream.child(name), time, &mut self.drawn);
                (0..self.groups).for_each(|g| device.copy_part(&self.drawn, 0, numbers, g * n, n));
            }
        }
    }
}
