//! Starts the kernels of `moving.cu`, `heads.cu`, `trajectories.cu` and `programs.cu`.

use super::{Argument, Cuda, Grid, Memory, launch, lock};
use crate::compute::{Gaussian, Power, Shift, Step};
use crate::expression::{Input, Instruction, Program};
use std::sync::Arc;

/// Most parts in which a sum is taken, and most members that have one.
pub(super) const MOST_PARTS: usize = 256;
pub(super) const MOST_MEMBERS: usize = 1024;
/// Longest tape that a thread has room for, as in `programs.cu`.
const LONGEST_TAPE: usize = 256;

#[repr(C)]
struct Rows {
    values: [u64; 3],
    widths: [u32; 3],
}
// SAFETY: the same fields in the same order as in `programs.cu`.
unsafe impl Argument for Rows {}

/// A program on the device.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Tape {
    instructions: u64,
    outputs: u64,
    length: u32,
    width: u32,
}
// SAFETY: as above.
unsafe impl Argument for Tape {}

/// The same with the memory that it lies in.
pub(super) struct KeptTape {
    tape: Tape,
    _instructions: Memory,
    _outputs: Memory,
}

impl Memory {
    /// Number of 32-bit words.
    pub(super) fn words(&self) -> usize {
        self.bytes / 4
    }
}

impl Cuda {
    /// counter ← counter + by, where 2³² − 1 counts back.
    pub fn count(&self, counter: &Memory, by: u32) {
        let one = Grid { blocks: [1, 1, 1], threads: 1, shared: 0 };
        launch!(self, "advance", one, counter.address, by);
    }

    pub fn fill_at(&self, values: &Memory, step: &Memory, out: &Memory) {
        let n = out.words();
        launch!(self, "fill_at", Grid::over(n), n as u32, out.address, values.address, step.address);
    }

    pub fn load_at(&self, parts: &Memory, step: &Memory, ahead: usize, out: &Memory) {
        let n = out.words();
        let (out, parts, step) = (out.address, parts.address, step.address);
        launch!(self, "load_at", Grid::over(n), n as u32, out, parts, step, ahead as u32);
    }

    pub fn store_at(&self, from: &Memory, step: &Memory, behind: usize, start: usize, parts: &Memory) {
        let n = from.words();
        let (from, step, parts) = (from.address, step.address, parts.address);
        launch!(self, "store_at", Grid::over(n), n as u32, from, step, behind as u32, start as u64, parts);
    }

    pub fn gather(&self, from: &Memory, width: usize, indices: &Memory, out: &Memory) {
        let n = out.words();
        let grid = Grid::over(n);
        launch!(self, "gather", grid, n as u32, out.address, from.address, width as u32, indices.address);
    }

    pub fn uniform_indices(&self, key: [u32; 2], step: &Memory, below: u32, out: &Memory) {
        let n = out.words();
        let grid = Grid::over(n.div_ceil(4));
        launch!(self, "uniform_indices", grid, n as u32, out.address, key[0], key[1], step.address, below);
    }

    pub fn normals(&self, key: [u32; 2], step: &Memory, out: &Memory) {
        let n = out.words();
        let grid = Grid::over(n.div_ceil(4));
        launch!(self, "normals", grid, n as u32, out.address, key[0], key[1], step.address);
    }

    pub fn add(&self, from: &Memory, to: &Memory) {
        let n = to.words();
        launch!(self, "add", Grid::over(n), n as u32, to.address, from.address);
    }

    pub fn scale_columns(&self, factors: &Memory, values: &Memory) {
        let n = values.words();
        let width = factors.words() as u32;
        launch!(self, "scale_columns", Grid::over(n), n as u32, values.address, width, factors.address);
    }

    pub fn gaussian_nll(
        &self,
        head: &Gaussian,
        members: usize,
        output: &Memory,
        targets: &Memory,
        d_output: Option<(&Memory, f32)>,
        losses: &Memory,
    ) {
        let rows = (targets.words() / head.dims) as u32;
        let (d_output, weight) = d_output.map_or((0, 0.0), |(d, weight)| (d.address, weight));
        let blocks = targets.words().div_ceil(256).min(MOST_PARTS) as u32;
        if members > MOST_MEMBERS {
            return self
                .fail(format!("{members} particles, and a GPU takes {MOST_MEMBERS}; use --device cpu"));
        }
        launch!(
            self,
            "gaussian_nll",
            Grid { blocks: [blocks, members as u32, 1], threads: 256, shared: 0 },
            rows,
            head.dims as u32,
            head.floor,
            output.address,
            targets.address,
            d_output,
            weight,
            losses.address,
            self.partials,
            self.tickets
        );
    }

    pub fn moments(
        &self,
        head: &Gaussian,
        members: usize,
        output: &Memory,
        mean: &Memory,
        epistemic: &Memory,
        aleatoric: &Memory,
    ) {
        let n = mean.words();
        launch!(
            self,
            "moments",
            Grid::over(n),
            (n / head.dims) as u32,
            head.dims as u32,
            head.floor,
            members as u32,
            output.address,
            mean.address,
            epistemic.address,
            aleatoric.address
        );
    }

    pub fn standardize(
        &self,
        [states, actions]: [(&Memory, usize); 2],
        mean: &Memory,
        std: &Memory,
        out: &Memory,
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
        d_inputs: &Memory,
        std: &Memory,
        d_states: (&Memory, usize),
        d_actions: (&Memory, usize),
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

    #[allow(clippy::too_many_arguments)]
    pub fn propagate(
        &self,
        head: &Gaussian,
        members: usize,
        step: &Step<'_, Memory, Memory>,
        output: &Memory,
        (scale, offset): (&Memory, &Memory),
        relative: bool,
        states: &Memory,
        next: &Memory,
    ) {
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
                (noise, amount, squared) = (Some(shift.noise), shift.amount.address, power(shift.power));
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
            squared
        );
    }

    #[allow(clippy::too_many_arguments)]
    pub fn shift_gradient(
        &self,
        head: &Gaussian,
        members: usize,
        shift: &Shift<'_, Memory>,
        output: &Memory,
        scale: &Memory,
        d_next: &Memory,
        d_output: &Memory,
        d_amount: &Memory,
    ) {
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

    #[allow(clippy::too_many_arguments)]
    pub fn account(
        &self,
        (discounts, step): (&Memory, &Memory),
        rewards: &Memory,
        ended: Option<&Memory>,
        states: &Memory,
        next: &Memory,
        returns: &Memory,
        status: &Memory,
    ) {
        let rows = rewards.words();
        launch!(
            self,
            "account",
            Grid::over(32 * rows),
            rows as u32,
            (states.words() / rows) as u32,
            discounts.address,
            step.address,
            rewards.address,
            ended.map_or(0, |e| e.address),
            states.address,
            next.address,
            returns.address,
            status.address
        );
    }

    pub fn still_running(&self, status: &Memory, values: &Memory) {
        let rows = status.words();
        let width = (values.words() / rows) as u32;
        launch!(self, "still_running", Grid::over(rows), rows as u32, width, values.address, status.address);
    }

    pub fn clamp(&self, low: &Memory, high: &Memory, values: &Memory) {
        let (n, width) = (values.words(), low.words() as u32);
        let (low, high) = (low.address, high.address);
        launch!(self, "clamp", Grid::over(n), n as u32, values.address, width, low, high);
    }

    pub fn clamp_gradient(&self, low: &Memory, high: &Memory, values: &Memory, d_values: &Memory) {
        let (n, width) = (values.words(), low.words() as u32);
        let (grid, low, high) = (Grid::over(n), low.address, high.address);
        launch!(self, "clamp_gradient", grid, n as u32, d_values.address, values.address, width, low, high);
    }

    pub fn normalize(&self, values: &Memory, (mean, std): (&Memory, &Memory), limit: f64, out: &Memory) {
        let (n, width) = (values.words(), (mean.bytes / 8) as u32);
        let (grid, mean, std) = (Grid::over(n), mean.address, std.address);
        launch!(self, "normalize", grid, n as u32, out.address, values.address, width, mean, std, limit);
    }

    pub fn normalize_gradient(
        &self,
        out: &Memory,
        std: &Memory,
        limit: f64,
        d_out: &Memory,
        d_values: &Memory,
    ) {
        let (n, width) = (out.words(), (std.bytes / 8) as u32);
        let (grid, d_values, limit) = (Grid::over(n), d_values.address, limit as f32);
        let (out, d_out, std) = (out.address, d_out.address, std.address);
        launch!(self, "normalize_gradient", grid, n as u32, d_values, out, d_out, width, std, limit);
    }

    pub fn squash_to_bounds(&self, low: &Memory, high: &Memory, limit: f32, values: &Memory) {
        let (n, width) = (values.words(), low.words() as u32);
        let (grid, low, high) = (Grid::over(n), low.address, high.address);
        launch!(self, "squash_to_bounds", grid, n as u32, values.address, width, low, high, limit);
    }

    pub fn squash_to_bounds_gradient(
        &self,
        low: &Memory,
        high: &Memory,
        limit: f32,
        values: &Memory,
        d_values: &Memory,
    ) {
        let (n, width) = (values.words(), low.words() as u32);
        let (low, high, kernel) = (low.address, high.address, "squash_to_bounds_gradient");
        let (values, d_values) = (values.address, d_values.address);
        launch!(self, kernel, Grid::over(n), n as u32, d_values, values, width, low, high, limit);
    }

    /// The program as it lies on the device, where it stays.
    pub(super) fn tape(self: &Arc<Self>, program: &Program) -> Option<Tape> {
        let length = program.instructions().len();
        if length > LONGEST_TAPE {
            self.fail(format!(
                "\"{program}\" has {length} instructions, and a GPU takes {LONGEST_TAPE}; use --device cpu"
            ));
            return None;
        }
        let mut tapes = lock(&self.tapes);
        let kept = tapes
            .entry(format!("{:?} {:?}", program.instructions(), program.outputs()))
            .or_insert_with(|| {
                let instructions: Vec<u32> = program.instructions().iter().flat_map(encode).collect();
                let outputs: Vec<u32> = program.outputs().iter().map(|&i| i as u32).collect();
                let (instructions, outputs) = (self.upload(&instructions), self.upload(&outputs));
                let tape = Tape {
                    instructions: instructions.address,
                    outputs: outputs.address,
                    length: length as u32,
                    width: program.outputs().len() as u32,
                };
                KeptTape { tape, _instructions: instructions, _outputs: outputs }
            });
        Some(kept.tape)
    }

    pub fn evaluate(
        self: &Arc<Self>,
        program: &Program,
        states: &Memory,
        actions: &Memory,
        next: &Memory,
        out: &Memory,
    ) {
        let Some(tape) = self.tape(program) else { return };
        let rows = out.words() / program.outputs().len();
        launch!(
            self,
            "evaluate",
            Grid { threads: 64, blocks: [rows.div_ceil(64) as u32, 1, 1], shared: 0 },
            rows as u32,
            tape,
            row_views([states, actions, next], rows),
            out.address
        );
    }

    pub fn evaluate_gradient(
        self: &Arc<Self>,
        program: &Program,
        inputs: [&Memory; 3],
        d_out: &Memory,
        gradients: [&Memory; 3],
    ) {
        let Some(tape) = self.tape(program) else { return };
        let rows = d_out.words() / program.outputs().len();
        let [d_states, d_actions, d_next] = gradients.map(|g| g.address);
        launch!(
            self,
            "evaluate_gradient",
            Grid { threads: 64, blocks: [rows.div_ceil(64) as u32, 1, 1], shared: 0 },
            rows as u32,
            tape,
            row_views(inputs, rows),
            d_out.address,
            d_states,
            d_actions,
            d_next
        );
    }
}

pub(super) fn power(power: Power) -> u32 {
    u32::from(power == Power::Variance)
}

fn row_views(inputs: [&Memory; 3], rows: usize) -> Rows {
    Rows { values: inputs.map(|i| i.address), widths: inputs.map(|i| (i.words() / rows.max(1)) as u32) }
}

/// An instruction as `programs.cu` reads it; the enumerations there have the order of those here.
fn encode(instruction: &Instruction) -> [u32; 5] {
    match *instruction {
        Instruction::Constant(value) => [0, 0, value.to_bits(), 0, 0],
        Instruction::Input(input, index) => {
            let input = match input {
                Input::State => 0,
                Input::Action => 1,
                Input::NextState => 2,
            };
            [1, input, index as u32, 0, 0]
        }
        Instruction::Unary(op, x) => [2, op as u32, x as u32, 0, 0],
        Instruction::Binary(op, x, y) => [3, op as u32, x as u32, y as u32, 0],
        Instruction::Select(condition, x, y) => [4, 0, condition as u32, x as u32, y as u32],
    }
}
