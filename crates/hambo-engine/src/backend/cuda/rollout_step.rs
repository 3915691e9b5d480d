//! Starts the kernel that does what follows the networks in a step of many trajectories.

use crate::backend;
use crate::backend::cuda::programs::Tape;
use crate::backend::cuda::trajectories::{Exit, Limits, Trajectories, power};
use crate::backend::cuda::{Argument, Cuda, Grid, launch};
use crate::backend::{Buffer, Prediction, StepKind};
use std::sync::Arc;

/// Rows of a block, as in `programs.cu`.
const ROWS: usize = 8;

/// As in `programs.cu`.
#[repr(C)]
struct RolloutStep {
    output: u64,
    scale: u64,
    offset: u64,
    reach: u64,
    discounts: u64,
    actions: u64,
    chosen: u64,
    amount: u64,
    ended: u64,
    trajectories: Trajectories,
    next: u64,
    time: u64,
    ticket: u64,
    wrapped: Tape,
    reward: Tape,
    termination: Tape,
    limits: Limits,
    exit: Exit,
    rows: u32,
    ds: u32,
    da: u32,
    dims: u32,
    members: u32,
    step: u32,
    variance_itself: u32,
    relative: u32,
    noises: u32,
    key: [u32; 2],
    floor: f32,
}
// SAFETY: the same fields in the same order as in `programs.cu`.
unsafe impl Argument for RolloutStep {}

impl Cuda {
    pub fn rollout_step(self: &Arc<Self>, t: &backend::RolloutStep<'_>) {
        let (mut chosen, mut amount, mut reach, mut variance_itself) = (0, 0, 0, 0);
        let step = match &t.kind {
            StepKind::Mean => 0,
            StepKind::Moments => 1,
            StepKind::Chosen(members) => {
                chosen = members.gpu().address;
                2
            }
            StepKind::Shifted { amount: shifts, reach: factors, power: of } => {
                (amount, reach) = (shifts.gpu().address, factors.gpu().address);
                variance_itself = power(*of);
                3
            }
            StepKind::Own => 4,
        };
        let tape = |program: Option<&_>| program.map_or(Some(Tape::default()), |p| self.tape(p));
        let Some(wrapped) = tape(t.wrapped.as_ref().map(|(program, _)| *program)) else { return };
        let (Some(reward), Some(termination)) = (tape(Some(t.reward)), tape(t.termination)) else {
            return;
        };
        let rows = t.rewards.len();
        let Prediction { head, members, output, scale, offset, relative, ref limits } =
            t.prediction;
        let rollout_step = RolloutStep {
            output: output.gpu().address,
            scale: scale.gpu().address,
            offset: offset.gpu().address,
            reach,
            discounts: t.discounts.gpu().address,
            actions: t.actions.gpu().address,
            chosen,
            amount,
            ended: t.ended.gpu().address,
            trajectories: Trajectories {
                states: t.states.gpu().address,
                next: t.next.gpu().address,
                rewards: t.rewards.gpu().address,
                returns: t.returns.gpu().address,
                status: t.status.gpu().address,
            },
            next: t.next.gpu().address,
            time: t.time.0.gpu().address,
            ticket: self.tickets,
            wrapped,
            reward,
            termination,
            limits: limits
                .as_ref()
                .map(|limits| Limits::of(&limits.map(Buffer::gpu)))
                .unwrap_or_default(),
            exit: t.exit.as_ref().map(|exit| Exit::of(&exit.map(Buffer::gpu))).unwrap_or_default(),
            rows: rows as u32,
            ds: (t.states.len() / rows) as u32,
            da: (t.actions.len() / rows) as u32,
            dims: head.dims as u32,
            members: members as u32,
            step,
            variance_itself,
            relative: u32::from(relative),
            noises: t.noise.len() as u32,
            key: t.noise_stream.key(),
            floor: head.floor,
        };
        let grid = Grid {
            blocks: [rows.div_ceil(ROWS) as u32, 1, 1],
            threads: 32 * ROWS as u32,
            shared: 0,
        };
        launch!(self, "rollout_step", grid, rollout_step);
    }
}
