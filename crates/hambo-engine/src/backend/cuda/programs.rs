//! Starts the kernels of `programs.cu` that evaluate expressions.

use crate::backend::cuda::{Argument, Cuda, DeviceMemory, Grid, launch, lock};
use crate::expression::{Input, Instruction, LONGEST_TAPE, Program};
use std::sync::Arc;

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
pub(super) struct UploadedTape {
    tape: Tape,
    _instructions: DeviceMemory,
    _outputs: DeviceMemory,
}

impl Cuda {
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
                let instructions: Vec<u32> =
                    program.instructions().iter().flat_map(encode).collect();
                let outputs: Vec<u32> = program.outputs().iter().map(|&i| i as u32).collect();
                let (instructions, outputs) = (self.upload(&instructions), self.upload(&outputs));
                let tape = Tape {
                    instructions: instructions.address,
                    outputs: outputs.address,
                    length: length as u32,
                    width: program.outputs().len() as u32,
                };
                UploadedTape { tape, _instructions: instructions, _outputs: outputs }
            });
        Some(kept.tape)
    }

    pub fn evaluate(
        self: &Arc<Self>,
        program: &Program,
        states: &DeviceMemory,
        actions: &DeviceMemory,
        next: &DeviceMemory,
        out: &DeviceMemory,
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
        inputs: [&DeviceMemory; 3],
        d_out: &DeviceMemory,
        gradients: [&DeviceMemory; 3],
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

fn row_views(inputs: [&DeviceMemory; 3], rows: usize) -> Rows {
    Rows {
        values: inputs.map(|i| i.address),
        widths: inputs.map(|i| (i.words() / rows.max(1)) as u32),
    }
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
