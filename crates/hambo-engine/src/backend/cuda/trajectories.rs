//! Starts the kernels of `trajectories.cu`: steps of many trajectories, and back through them.

use crate::backend;
use crate::backend::cuda::{Argument, Cuda, DeviceMemory, Grid, launch};
use crate::backend::{Outcome, Power, Prediction, Shift, Step};

/// As in `shared.cu`; without addresses there are no limits.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    low: u64,
    high: u64,
    sums_from: u64,
}
// SAFETY: the same fields in the same order as in `shared.cu`.
unsafe impl Argument for Limits {}

/// As in `shared.cu`; without addresses there is no exit.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Exit {
    limits: Limits,
    remaining: u64,
    worst: f32,
    may_end: u32,
}
// SAFETY: as above.
unsafe impl Argument for Exit {}

/// As in `shared.cu`.
#[repr(C)]
pub(super) struct Trajectories {
    pub states: u64,
    pub next: u64,
    pub rewards: u64,
    pub returns: u64,
    pub status: u64,
}
// SAFETY: as above.
unsafe impl Argument for Trajectories {}

impl Limits {
    pub fn of(limits: &backend::Limits<'_, DeviceMemory>) -> Self {
        let (low, high) = (limits.low.address, limits.high.address);
        Limits { low, high, sums_from: limits.sums_from as u64 }
    }
}

impl Exit {
    pub fn of(exit: &backend::Exit<'_, DeviceMemory>) -> Self {
        Exit {
            limits: Limits::of(&exit.limits),
            remaining: exit.remaining.address,
            worst: exit.worst,
            may_end: u32::from(exit.may_end),
        }
    }
}

impl Cuda {
    pub fn standardize(
        &self,
        [states, actions]: [(&DeviceMemory, usize); 2],
        mean: &DeviceMemory,
        std: &DeviceMemory,
        out: &DeviceMemory,
    ) {
        let n = out.words();
        launch!(
            self,
            "standardize",
            Grid::over(n),
            (n / (states.1 + actions.1)) as u32,
            states.0.address,
            states.1 as u32,
            actions.0.address,
            actions.1 as u32,
            mean.address,
            std.address,
            out.address
        );
    }

    pub fn standardize_gradient(
        &self,
        d_inputs: &DeviceMemory,
        std: &DeviceMemory,
        d_states: (&DeviceMemory, usize),
        d_actions: (&DeviceMemory, usize),
    ) {
        let rows = d_states.0.words() / d_states.1;
        let n = rows * std.words();
        launch!(
            self,
            "standardize_gradient",
            Grid::over(n),
            rows as u32,
            (d_inputs.words() / n) as u32,
            d_inputs.address,
            std.address,
            d_states.0.address,
            d_states.1 as u32,
            d_actions.0.address,
            d_actions.1 as u32
        );
    }

    pub fn propagate(
        &self,
        prediction: &Prediction<'_, DeviceMemory>,
        step: &Step<'_, DeviceMemory, DeviceMemory>,
        states: &DeviceMemory,
        next: &DeviceMemory,
    ) {
        let Prediction { head, members, output, scale, offset, relative, ref limits } = *prediction;
        let (n, ds) = (states.words(), scale.words());
        let (mut noise, mut chosen, mut amount, mut squared) = (None, 0, 0, 0);
        let kind = match step {
            Step::Mean => 0u32,
            Step::Moments { noise: drawn } => {
                noise = Some(*drawn);
                1
            }
            Step::Chosen { members, noise: drawn } => {
                (noise, chosen) = (Some(*drawn), members.address);
                2
            }
            Step::Shifted(shift) => {
                (noise, amount, squared) =
                    (Some(shift.noise), shift.amount.address, power(shift.power));
                3
            }
            Step::Own { noise: drawn } => {
                noise = Some(*drawn);
                4
            }
        };
        launch!(
            self,
            "propagate",
            Grid::over(n),
            (n / ds) as u32,
            ds as u32,
            head.dims as u32,
            head.floor,
            members as u32,
            kind,
            output.address,
            scale.address,
            offset.address,
            u32::from(relative),
            states.address,
            next.address,
            noise.map_or(0, |noise| noise.address),
            noise.map_or(1, |noise| noise.words() as u32),
            chosen,
            amount,
            squared,
            limits.as_ref().map(Limits::of).unwrap_or_default()
        );
    }

    pub fn shift_gradient(
        &self,
        prediction: &Prediction<'_, DeviceMemory>,
        shift: &Shift<'_, DeviceMemory>,
        d_next: &DeviceMemory,
        d_output: &DeviceMemory,
        d_amount: &DeviceMemory,
    ) {
        let Prediction { head, members, output, scale, .. } = *prediction;
        let (n, ds) = (d_next.words(), scale.words());
        launch!(
            self,
            "shift_gradient",
            Grid::over(n),
            (n / ds) as u32,
            ds as u32,
            head.dims as u32,
            head.floor,
            members as u32,
            output.address,
            scale.address,
            d_next.address,
            shift.noise.address,
            shift.noise.words() as u32,
            shift.amount.address,
            power(shift.power),
            d_output.address,
            d_amount.address
        );
    }

    pub fn end_step(
        &self,
        (discounts, step): (&DeviceMemory, &DeviceMemory),
        outcome: &Outcome<'_, DeviceMemory>,
        rewards: &DeviceMemory,
        states: &DeviceMemory,
        returns: &DeviceMemory,
        status: &DeviceMemory,
    ) {
        let Outcome { next, ended, ref exit } = *outcome;
        let rows = rewards.words();
        let trajectories = Trajectories {
            states: states.address,
            next: next.address,
            rewards: rewards.address,
            returns: returns.address,
            status: status.address,
        };
        launch!(
            self,
            "end_step",
            Grid::over(32 * rows),
            rows as u32,
            (states.words() / rows) as u32,
            discounts.address,
            step.address,
            ended.map_or(0, |e| e.address),
            trajectories,
            exit.as_ref().map(Exit::of).unwrap_or_default()
        );
    }

    pub fn still_running(&self, status: &DeviceMemory, values: &DeviceMemory) {
        let rows = status.words();
        let width = (values.words() / rows) as u32;
        launch!(
            self,
            "still_running",
            Grid::over(rows),
            rows as u32,
            width,
            values.address,
            status.address
        );
    }

    pub fn end_gradient(
        &self,
        groups: usize,
        [before, after]: [&DeviceMemory; 2],
        (weights, step): (&DeviceMemory, &DeviceMemory),
        rewards: &DeviceMemory,
        to_go: &DeviceMemory,
        d_end: &DeviceMemory,
    ) {
        launch!(
            self,
            "end_gradient",
            Grid::blocks(groups),
            (rewards.words() / groups) as u32,
            before.address,
            after.address,
            weights.address,
            step.address,
            rewards.address,
            to_go.address,
            d_end.address
        );
    }

    pub fn clamp(&self, low: &DeviceMemory, high: &DeviceMemory, values: &DeviceMemory) {
        let (n, width) = (values.words(), low.words() as u32);
        let (low, high) = (low.address, high.address);
        launch!(self, "clamp", Grid::over(n), n as u32, values.address, width, low, high);
    }

    pub fn clamp_gradient(
        &self,
        low: &DeviceMemory,
        high: &DeviceMemory,
        values: &DeviceMemory,
        d_values: &DeviceMemory,
    ) {
        let (n, width) = (values.words(), low.words() as u32);
        let (grid, low, high) = (Grid::over(n), low.address, high.address);
        launch!(
            self,
            "clamp_gradient",
            grid,
            n as u32,
            d_values.address,
            values.address,
            width,
            low,
            high
        );
    }

    pub fn normalize(
        &self,
        values: &DeviceMemory,
        (mean, std): (&DeviceMemory, &DeviceMemory),
        limit: f64,
        out: &DeviceMemory,
    ) {
        let (n, width) = (values.words(), (mean.bytes / 8) as u32);
        let (grid, mean, std) = (Grid::over(n), mean.address, std.address);
        launch!(
            self,
            "normalize",
            grid,
            n as u32,
            out.address,
            values.address,
            width,
            mean,
            std,
            limit
        );
    }

    pub fn normalize_gradient(
        &self,
        out: &DeviceMemory,
        std: &DeviceMemory,
        limit: f64,
        d_out: &DeviceMemory,
        d_values: &DeviceMemory,
    ) {
        let (n, width) = (out.words(), (std.bytes / 8) as u32);
        let (grid, d_values, limit) = (Grid::over(n), d_values.address, limit as f32);
        let (out, d_out, std) = (out.address, d_out.address, std.address);
        launch!(
            self,
            "normalize_gradient",
            grid,
            n as u32,
            d_values,
            out,
            d_out,
            width,
            std,
            limit
        );
    }

    pub fn squash_to_bounds(
        &self,
        low: &DeviceMemory,
        high: &DeviceMemory,
        limit: f32,
        values: &DeviceMemory,
    ) {
        let (n, width) = (values.words(), low.words() as u32);
        let (grid, low, high) = (Grid::over(n), low.address, high.address);
        launch!(self, "squash_to_bounds", grid, n as u32, values.address, width, low, high, limit);
    }

    pub fn squash_to_bounds_gradient(
        &self,
        low: &DeviceMemory,
        high: &DeviceMemory,
        limit: f32,
        values: &DeviceMemory,
        d_values: &DeviceMemory,
    ) {
        let (n, width) = (values.words(), low.words() as u32);
        let (low, high, kernel) = (low.address, high.address, "squash_to_bounds_gradient");
        let (values, d_values) = (values.address, d_values.address);
        launch!(self, kernel, Grid::over(n), n as u32, d_values, values, width, low, high, limit);
    }
}

pub(super) fn power(power: Power) -> u32 {
    u32::from(power == Power::Variance)
}
