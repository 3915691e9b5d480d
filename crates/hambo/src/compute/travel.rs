//! What follows the networks in a step of many trajectories: noise, next states, rewards, books.

use super::{Buffer, Counter, Device, Gaussian, Power, Shift, Step};
use crate::expression::Program;
use crate::rng::Stream;

/// A [`Step`] whose noise is still to be drawn.
#[derive(Debug)]
pub enum Way<'a> {
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
pub struct Travel<'a> {
    /// What the networks' outputs mean.
    pub head: &'a Gaussian,
    /// Number of networks.
    pub members: usize,
    /// See [`Device::propagate`].
    pub outputs: &'a Buffer,
    /// How the next state is drawn.
    pub way: Way<'a>,
    /// Where the noise comes from, at `time`.
    pub luck: Stream,
    /// Room for it, `[rows, state]` or fewer rows that repeat; what it holds afterwards is not defined.
    pub noise: &'a mut Buffer,
    /// Scale and offset of the networks' outputs.
    pub units: &'a [Buffer; 2],
    /// Whether they are changes of the state.
    pub relative: bool,
    /// What puts a next state in order, and room for its results.
    pub settled: Option<(&'a Program, &'a mut Buffer)>,
    /// r(s, a, s')
    pub reward: &'a Program,
    /// What ends an episode.
    pub termination: Option<&'a Program>,
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
    /// `[rows]`
    pub rewards: &'a mut Buffer,
    /// What `termination` says, `[rows]`.
    pub ended: &'a mut Buffer,
    /// As in [`Device::account`].
    pub returns: &'a mut Buffer,
    /// As there.
    pub status: &'a mut Buffer<u32>,
}

impl Device {
    /// s' ~ model, r(s, a, s'), and the books of all trajectories. A GPU does in one kernel what [`Travel::in_turn`] does
    /// in ten: it is the time between small kernels that counts.
    pub fn travel(&self, travel: Travel<'_>) {
        match self {
            Device::Cpu(_) => travel.in_turn(self),
            Device::Cuda(gpu) => gpu.cuda.travel(&travel),
        }
    }
}

impl Travel<'_> {
    /// The same, one thing after the other.
    pub fn in_turn(self, device: &Device) {
        if !matches!(self.way, Way::Mean) {
            device.normals(self.luck, self.time, self.noise);
        }
        let (noise, [scale, offset]) = (&*self.noise, self.units);
        let step = match self.way {
            Way::Mean => Step::Mean,
            Way::Moments => Step::Moments { noise },
            Way::Chosen(members) => Step::Chosen { members, noise },
            Way::Own => Step::Own { noise },
            Way::Shifted { amount, reach, power } => {
                device.scale_columns(reach, amount);
                Step::Shifted(Shift { amount, power, noise })
            }
        };
        let (states, next, units) = (&*self.states, &mut *self.next, (scale, offset));
        device.propagate(self.head, self.members, &step, self.outputs, units, self.relative, states, next);
        let nothing = device.zeros(0);
        if let Some((settled, room)) = self.settled {
            device.evaluate(settled, next, &nothing, &nothing, room);
            device.copy(room, next);
        }
        device.evaluate(self.reward, states, self.actions, next, self.rewards);
        let ended = self.termination.map(|termination| {
            device.evaluate(termination, states, self.actions, next, self.ended);
            &*self.ended
        });
        let discount = (self.discounts, &*self.time);
        device.account(discount, self.rewards, ended, self.states, next, self.returns, self.status);
        device.advance(self.time);
    }
}
