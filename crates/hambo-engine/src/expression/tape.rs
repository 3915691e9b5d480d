//! Builds a tape that never holds the same instruction twice.

use std::collections::HashMap;

use super::instruction::{Binary, Input, Instruction, Unary};
use super::kernels;

/// Whole exponents up to this size become multiplications: faster than a power, and differentiable at
/// negative bases without a logarithm.
const LARGEST_UNROLLED_POWER: f32 = 16.0;

/// Writes instructions; what was written before is found again (value numbering), and what depends on
/// constants only is computed at once.
#[derive(Default)]
pub(super) struct Builder {
    instructions: Vec<Instruction>,
    known: HashMap<[usize; 4], usize>,
}

impl Builder {
    fn push(&mut self, instruction: Instruction) -> usize {
        *self.known.entry(instruction.key()).or_insert_with(|| {
            self.instructions.push(instruction);
            self.instructions.len() - 1
        })
    }

    fn constant_of(&self, index: usize) -> Option<f32> {
        match self.instructions[index] {
            Instruction::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// An instruction of another tape, whose operands are at `places` in this one.
    pub fn copy(&mut self, instruction: Instruction, places: &[usize]) -> usize {
        self.push(instruction.renumbered(|operand| places[operand]))
    }

    pub fn constant(&mut self, value: f32) -> usize {
        self.push(Instruction::Constant(value))
    }

    pub fn input(&mut self, input: Input, index: usize) -> usize {
        self.push(Instruction::Input(input, index))
    }

    pub fn unary(&mut self, op: Unary, x: usize) -> usize {
        // Folding runs the kernel itself on one row: a folded value is the one that would be computed.
        let mut folded = [f32::NAN];
        if let Some(value) = self.constant_of(x) {
            kernels::unary(op, &[value], &mut folded);
        }
        self.finite_or(folded[0], Instruction::Unary(op, x))
    }

    pub fn binary(&mut self, op: Binary, x: usize, y: usize) -> usize {
        let mut folded = [f32::NAN];
        if let (Some(left), Some(right)) = (self.constant_of(x), self.constant_of(y)) {
            kernels::binary(op, &[left], &[right], &mut folded);
        }
        self.finite_or(folded[0], Instruction::Binary(op, x, y))
    }

    /// 1/0 is left to be computed, so that constants are numbers that any target language can write.
    fn finite_or(&mut self, folded: f32, instruction: Instruction) -> usize {
        self.push(if folded.is_finite() { Instruction::Constant(folded) } else { instruction })
    }

    pub fn select(&mut self, condition: usize, x: usize, y: usize) -> usize {
        match self.constant_of(condition) {
            Some(value) => [x, y][usize::from(value == 0.0)],
            None => self.push(Instruction::Select(condition, x, y)),
        }
    }

    pub fn power(&mut self, x: usize, y: usize) -> usize {
        match self.constant_of(y) {
            Some(0.5) => self.unary(Unary::Sqrt, x),
            Some(n) if n.fract() == 0.0 && n.abs() <= LARGEST_UNROLLED_POWER => {
                let positive = self.whole_power(x, n.abs() as u32);
                if n >= 0.0 {
                    return positive;
                }
                let one = self.constant(1.0);
                self.binary(Binary::Divide, one, positive)
            }
            _ => self.binary(Binary::Power, x, y),
        }
    }

    /// xⁿ by repeated squaring.
    fn whole_power(&mut self, x: usize, n: u32) -> usize {
        match n {
            0 => self.constant(1.0),
            1 => x,
            _ => {
                let half = self.whole_power(x, n / 2);
                let even = self.binary(Binary::Multiply, half, half);
                if n.is_multiple_of(2) { even } else { self.binary(Binary::Multiply, even, x) }
            }
        }
    }

    /// The tape without what no output needs, and the outputs' places in it.
    pub fn finish(self, outputs: &[usize]) -> (Vec<Instruction>, Vec<usize>) {
        let mut needed = vec![false; self.instructions.len()];
        outputs.iter().for_each(|&output| needed[output] = true);
        for (i, instruction) in self.instructions.iter().enumerate().rev() {
            if needed[i] {
                instruction.operands().for_each(|operand| needed[operand] = true);
            }
        }
        let mut places = vec![0; self.instructions.len()];
        let mut kept = Vec::new();
        for (i, instruction) in self.instructions.iter().enumerate() {
            if needed[i] {
                places[i] = kept.len();
                kept.push(instruction.renumbered(|operand| places[operand]));
            }
        }
        (kept, outputs.iter().map(|&output| places[output]).collect())
    }
}

/// Per instruction, whether a derivative that is not always 0 leads from it to an input.
pub(super) fn active(instructions: &[Instruction]) -> Vec<bool> {
    let mut active: Vec<bool> = Vec::with_capacity(instructions.len());
    for instruction in instructions {
        active.push(match *instruction {
            Instruction::Constant(_) => false,
            Instruction::Input(..) => true,
            Instruction::Unary(Unary::Not | Unary::Sign | Unary::Floor, _) => false,
            Instruction::Unary(_, x) => active[x],
            Instruction::Binary(
                Binary::Less | Binary::LessOrEqual | Binary::Equal | Binary::And | Binary::Or,
                ..,
            ) => false,
            Instruction::Binary(_, x, y) | Instruction::Select(_, x, y) => active[x] || active[y],
        });
    }
    active
}
