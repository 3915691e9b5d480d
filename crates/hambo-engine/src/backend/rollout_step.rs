//! What follows the networks in a step of many trajectories: noise, next states, rewards, returns.

use crate::backend::{Buffer, Counter, Device, Exit, Outcome, Power, Prediction, Shift, Step};
use crate::expression::Program;
use crate::rng::Stream;

/// A [`Step`] whose noise is still to be drawn.
#[derive(Debug)]
pub enum StepKind<'a> {
    /// [`Step::Mean`]
    Mean,
    /// [`Step::Moments`]
    Moments,
    /// [`Step::Chosen`], with the member of each row.
    Chosen(&'a Buffer<u32>),
    /// [`Step::Own`]
    Own,
    /// [`Step::Shifted`]
    Shifted {
        /// η, `[rows, state]`, and then β · τ · η.
        amount: &'a mut Buffer,
        /// β · τ, `[state]`.
        reach: &'a Buffer,
        /// What it is multiplied with.
        power: Power,
    },
}

/// One step of many trajectories after the networks have spoken.
#[derive(Debug)]
pub struct RolloutStep<'a> {
    /// What the networks said.
    pub prediction: Prediction<'a>,
    /// How the next state is drawn.
    pub kind: StepKind<'a>,
    /// Where the noise comes from, at `time`.
    pub noise_stream: Stream,
    /// Room for it, `[rows, state]` or fewer rows that repeat; what it holds afterwards is not defined.
    pub noise: &'a mut Buffer,
    /// What puts a next state in order, and room for its results.
    pub wrapped: Option<(&'a Program, &'a mut Buffer)>,
    /// r(s, a, s')
    pub reward: &'a Program,
    /// What ends an episode.
    pub termination: Option<&'a Program>,
    /// What becomes of trajectories that leave their limits.
    pub exit: Option<Exit<'a>>,
    /// γᵗ of every step.
    pub discounts: &'a Buffer,
    /// Steps taken; one more afterwards.
    pub time: &'a mut Counter,
    /// `[rows, state]`, and then those that follow.
    pub states: &'a mut Buffer,
    /// `[rows, action]`
    pub actions: &'a Buffer,
    /// Room for s'.
    pub next: &'a mut Buffer,
    /// `[rows]`, as [`Device::end_step`] leaves them.
    pub rewards: &'a mut Buffer,
    /// What `termination` says, `[rows]`.
    pub ended: &'a mut Buffer,
    /// As in [`Device::end_step`].
    pub returns: &'a mut Buffer,
    /// As there.
    pub status: &'a mut Buffer<u32>,
}

impl Device {
    /// s' ~ model, r(s, a, s'), and [`Device::end_step`]. A GPU does in one kernel what [`RolloutStep::in_turn`] does
    /// in ten: it is the time between small kernels that counts.
    pub fn rollout_step(&self, rollout_step: RolloutStep<'_>) {
        match self {
            Device::Cpu(_) => rollout_step.in_turn(self),
            Device::Cuda(_) if rollout_step.calls_a_function() => rollout_step.in_turn(self),
            Device::Cuda(gpu) => gpu.cuda.rollout_step(&rollout_step),
        }
    }
}

impl RolloutStep<'_> {
    /// Whether reward or termination is a function on the host.
    fn calls_a_function(&self) -> bool {
        self.reward.is_function() || self.termination.is_some_and(Program::is_function)
    }

    /// The same, one thing after the other.
    pub fn in_turn(self, device: &Device) {
        if !matches!(self.kind, StepKind::Mean) {
            device.normals(self.noise_stream, self.time, self.noise);
        }
        let noise = &*self.noise;
        let step = match self.kind {
            StepKind::Mean => Step::Mean,
            StepKind::Moments => Step::Moments { noise },
            StepKind::Chosen(members) => Step::Chosen { members, noise },
            StepKind::Own => Step::Own { noise },
            StepKind::Shifted { amount, reach, power } => {
                device.scale_columns(reach, amount);
                Step::Shifted(Shift { amount, power, noise })
            }
        };
        let (states, next) = (&*self.states, &mut *self.next);
        device.propagate(&self.prediction, &step, states, next);
        let nothing = device.zeros(0);
        if let Some((wrapped, room)) = self.wrapped {
            device.evaluate(wrapped, next, &nothing, &nothing, room);
            device.copy(room, next);
        }
        device.evaluate(self.reward, states, self.actions, next, self.rewards);
        let ended = self.termination.map(|termination| {
            device.evaluate(termination, states, self.actions, next, self.ended);
            &*self.ended
        });
        let outcome = Outcome { next, ended, exit: self.exit };
        let discount = (self.discounts, &*self.time);
        device.end_step(discount, &outcome, self.rewards, self.states, self.returns, self.status);
        device.advance(self.time);
    }
}
