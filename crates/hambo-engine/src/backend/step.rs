//! One step of many trajectories: how the next states are drawn, and what becomes of the trajectories.

use crate::backend::{Buffer, Counter, Device, Exit, Gaussian, Limits, check};
use serde::{Deserialize, Serialize};

/// How the next state is drawn from the members' predictions.
#[derive(Debug)]
pub enum Step<'a, F: ?Sized = Buffer, U: ?Sized = Buffer<u32>> {
    /// μ_Θ: the mean of all members, without noise.
    Mean,
    /// DS: N(μ_Θ, σ²_e + σ²_a).
    Moments {
        /// Standard normal numbers `[rows, state]`.
        noise: &'a F,
    },
    /// TS1: N(h_k, ν²_k) of the member chosen for each row.
    Chosen {
        /// Member of each row.
        members: &'a U,
        /// Standard normal numbers `[rows, state]`.
        noise: &'a F,
    },
    /// HAMBO-CA: the mean of all members, shifted by an adversary.
    Shifted(Shift<'a, F>),
    /// Each group of rows has its own member for the whole trajectory; all groups share the same noise.
    Own {
        /// Standard normal numbers `[rows / members, state]`.
        noise: &'a F,
    },
}

impl<'a> Step<'a> {
    fn map<F: ?Sized, U: ?Sized>(
        &self,
        place: impl Fn(&'a Buffer) -> &'a F,
        place_members: impl Fn(&'a Buffer<u32>) -> &'a U,
    ) -> Step<'a, F, U> {
        match self {
            Step::Mean => Step::Mean,
            Step::Moments { noise } => Step::Moments { noise: place(noise) },
            Step::Chosen { members, noise } => {
                Step::Chosen { members: place_members(members), noise: place(noise) }
            }
            Step::Shifted(shift) => Step::Shifted(shift.map(place)),
            Step::Own { noise } => Step::Own { noise: place(noise) },
        }
    }
}

/// A step that an adversary shifts within the confidence set, HAMBO-CA:
/// N(μ_Θ + amount · σ_e, σ²_a), or amount · σ²_e as the paper literally writes.
#[derive(Debug)]
pub struct Shift<'a, F: ?Sized = Buffer> {
    /// β · τ · η, `[rows, state]`.
    pub amount: &'a F,
    /// What it is multiplied with.
    pub power: Power,
    /// Standard normal numbers `[rows, state]`, or fewer rows that repeat.
    pub noise: &'a F,
}

impl<'a> Shift<'a> {
    pub(super) fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> Shift<'a, F> {
        Shift { amount: place(self.amount), power: self.power, noise: place(self.noise) }
    }
}

/// What an ensemble says of the next states, in standardized units, and what takes it back to theirs.
#[derive(Debug)]
pub struct Prediction<'a, F: ?Sized = Buffer> {
    /// What the networks' outputs mean.
    pub head: &'a Gaussian,
    /// Number of networks.
    pub members: usize,
    /// The networks' outputs `[members, rows, 2·dims]`; of each row's own network, `[rows, 2·dims]`, for [`Step::Own`].
    pub output: &'a F,
    /// Factor of a prediction, `[state]`.
    pub scale: &'a F,
    /// Added to it, `[state]`.
    pub offset: &'a F,
    /// Whether it is the change of the state rather than the next state.
    pub relative: bool,
    /// What next states keep to, if anything.
    pub limits: Option<Limits<'a, F>>,
}

impl<'a> Prediction<'a> {
    pub(super) fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> Prediction<'a, F> {
        let Prediction { head, members, output, scale, offset, relative, ref limits } = *self;
        let limits = limits.as_ref().map(|limits| limits.map(&place));
        let [output, scale, offset] = [output, scale, offset].map(place);
        Prediction { head, members, output, scale, offset, relative, limits }
    }
}

/// Where a step took every trajectory, and what that means.
#[derive(Debug)]
pub struct Outcome<'a, F: ?Sized = Buffer> {
    /// s', `[rows, state]`.
    pub next: &'a F,
    /// Not 0 where the episode ends there, `[rows]`.
    pub ended: Option<&'a F>,
    /// What becomes of trajectories that leave their limits; none: they have no limits.
    pub exit: Option<Exit<'a, F>>,
}

impl<'a> Outcome<'a> {
    fn map<F: ?Sized>(&self, place: impl Fn(&'a Buffer) -> &'a F) -> Outcome<'a, F> {
        Outcome {
            next: place(self.next),
            ended: self.ended.map(&place),
            exit: self.exit.as_ref().map(|exit| exit.map(&place)),
        }
    }
}

/// The width of the confidence set as a function of the epistemic variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// σ_e
    Deviation,
    /// σ²_e
    Variance,
}

impl Power {
    /// The width, and its derivative by the variance.
    #[inline(always)]
    pub(super) fn reach(self, variance: f32) -> (f32, f32) {
        match self {
            Power::Deviation => {
                let std = variance.sqrt();
                (std, if std > 0.0 { 0.5 / std } else { 0.0 })
            }
            Power::Variance => (variance, 1.0),
        }
    }
}

/// What became of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Still going.
    Running = 0,
    /// Reached a terminal state: no rewards follow.
    Ended = 1,
    /// Left the finite numbers: its return is −∞.
    Diverged = 2,
    /// Left its limits: the steps that remained got the worst reward.
    Left = 3,
}

impl Device {
    /// next ← \[states +\] offset + scale · (a prediction drawn as `step` says), row by row, within its limits.
    pub fn propagate(
        &self,
        prediction: &Prediction<'_>,
        step: &Step<'_>,
        states: &Buffer,
        next: &mut Buffer,
    ) {
        let rows = states.len() / prediction.scale.len();
        let groups = if matches!(step, Step::Own { .. }) { 1 } else { prediction.members };
        check("outputs", prediction.output.len(), groups * rows * 2 * prediction.head.dims);
        match self {
            Device::Cpu(cpu) => {
                let (prediction, step) =
                    (prediction.map(Buffer::cpu), step.map(Buffer::cpu, Buffer::cpu));
                cpu.pool.propagate(&prediction, &step, states.cpu(), next.cpu_mut());
            }
            Device::Cuda(gpu) => {
                let (prediction, step) =
                    (prediction.map(Buffer::gpu), step.map(Buffer::gpu, Buffer::gpu));
                gpu.cuda.propagate(&prediction, &step, states.gpu(), next.gpu());
            }
        }
    }

    /// Ends a step of every trajectory that still runs: returns ← returns + discounts\[step\] · reward, states ← next,
    /// and the trajectory's [`Status`].
    ///
    /// A trajectory whose next state is at its limits or not finite ends there. Its reward becomes what this and all steps
    /// that remain bring, see [`Exit`]. One whose reward, end or return is not finite has a return of −∞, and so has one
    /// without limits whose next state is not finite: nothing is known of what follows, so nothing may count in its favor.
    pub fn end_step(
        &self,
        (discounts, step): (&Buffer, &Counter),
        outcome: &Outcome<'_>,
        rewards: &mut Buffer,
        states: &mut Buffer,
        returns: &mut Buffer,
        status: &mut Buffer<u32>,
    ) {
        match self {
            Device::Cpu(cpu) => cpu.pool.end_step(
                (discounts.cpu(), step.0.cpu()[0] as usize),
                &outcome.map(Buffer::cpu),
                rewards.cpu_mut(),
                states.cpu_mut(),
                returns.cpu_mut(),
                status.cpu_mut(),
            ),
            Device::Cuda(gpu) => gpu.cuda.end_step(
                (discounts.gpu(), step.0.gpu()),
                &outcome.map(Buffer::gpu),
                rewards.gpu(),
                states.gpu(),
                returns.gpu(),
                status.gpu(),
            ),
        }
    }
}
