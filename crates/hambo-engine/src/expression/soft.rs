//! Conditions with a gradient. `x < y` holds or does not; softened it is the probability that it holds if logistic
//! noise is added to both sides, so that it can be seen which way a condition would turn.

use super::instruction::{Binary, Instruction, Unary};
use super::tape::{self, Builder};
use super::{LONGEST_TAPE, Program};

/// The soft truth of a value and that of its contrary, as places in the tape. The contrary is not 1 − p: of a p
/// near 1 that would leave nothing in `f32`.
type Truth = [usize; 2];

impl Program {
    /// y − x of every `x < y` and `x <= y`, in the order of the tape: how far each is from turning. None where there is
    /// no such comparison.
    pub fn margins(&self) -> Option<Program> {
        let mut builder = Builder::default();
        let (mut places, mut margins) = (Vec::new(), Vec::new());
        for instruction in &self.instructions {
            places.push(builder.copy(*instruction, &places));
            if let Some((x, y)) = comparison(instruction) {
                margins.push(builder.binary(Binary::Subtract, places[y], places[x]));
            }
        }
        (!margins.is_empty()).then(|| self.rebuilt(builder, &margins))
    }

    /// The same condition as a number between 0 and 1 that has a gradient: `x < y` is sigmoid((y − x) / w) with a width w
    /// for each of the [margins](Self::margins), `&&` a product, `||` p + q − p q, `!` 1 − p. A comparison whose width is
    /// not positive, and everything else that is no comparison of order, stays as it is. None where no gradient comes of
    /// it, or a tape that is too long for a GPU.
    pub fn softened(&self, widths: &[f32]) -> Option<Program> {
        let mut builder = Builder::default();
        let (mut places, mut truths) = (Vec::new(), Vec::new());
        let mut widths = widths.iter();
        for instruction in &self.instructions {
            places.push(builder.copy(*instruction, &places));
            let width = comparison(instruction).and_then(|_| widths.next()).copied();
            truths.push(truth(&mut builder, instruction, width, &places, &truths));
        }
        let &[output] = self.outputs.as_slice() else { return None };
        let soft = self.rebuilt(builder, &[truths[output]?[0]]);
        (soft.has_gradient() && soft.instructions.len() <= LONGEST_TAPE).then_some(soft)
    }

    fn rebuilt(&self, builder: Builder, outputs: &[usize]) -> Program {
        let (instructions, outputs) = builder.finish(outputs);
        let active = tape::active(&instructions);
        Program { instructions, outputs, active, ..self.clone() }
    }
}

/// The sides of a comparison of order.
fn comparison(instruction: &Instruction) -> Option<(usize, usize)> {
    match *instruction {
        Instruction::Binary(Binary::Less | Binary::LessOrEqual, x, y) => Some((x, y)),
        _ => None,
    }
}

/// The soft truth of the instruction that was copied last, if it is a condition.
fn truth(
    b: &mut Builder,
    instruction: &Instruction,
    width: Option<f32>,
    places: &[usize],
    truths: &[Option<Truth>],
) -> Option<Truth> {
    let place = *places.last()?;
    match *instruction {
        // Below 0 it could cancel in a sum.
        Instruction::Constant(c) if c >= 0.0 => {
            let truth = f32::from(u8::from(c != 0.0));
            Some([truth, 1.0 - truth].map(|t| b.constant(t)))
        }
        Instruction::Binary(Binary::Less | Binary::LessOrEqual, x, y) => {
            let Some(slope) = width.map(|w| 1.0 / w).filter(|s| s.is_finite() && *s > 0.0) else {
                return Some(hard(b, place));
            };
            let slope = b.constant(slope);
            Some([(y, x), (x, y)].map(|(from, to)| {
                let margin = b.binary(Binary::Subtract, places[from], places[to]);
                let scaled = b.binary(Binary::Multiply, margin, slope);
                b.unary(Unary::Sigmoid, scaled)
            }))
        }
        Instruction::Binary(Binary::Equal, ..) => Some(hard(b, place)),
        Instruction::Unary(Unary::Not, x) => {
            let [holds, fails] = truths[x].unwrap_or_else(|| hard(b, places[x]));
            Some([fails, holds])
        }
        Instruction::Binary(op @ (Binary::And | Binary::Or), x, y) => {
            let [p, q] = [x, y].map(|i| truths[i].unwrap_or_else(|| hard(b, places[i])));
            Some(if op == Binary::And { both(b, p, q) } else { either(b, p, q) })
        }
        // Conditions are sometimes written as arithmetic of ones and zeros.
        Instruction::Binary(Binary::Multiply | Binary::Minimum, x, y) => {
            Some(both(b, truths[x]?, truths[y]?))
        }
        Instruction::Binary(Binary::Add | Binary::Maximum, x, y) => {
            Some(either(b, truths[x]?, truths[y]?))
        }
        Instruction::Select(condition, x, y) => {
            let c = truths[condition].unwrap_or_else(|| hard(b, places[condition]));
            let (x, y) = (truths[x]?, truths[y]?);
            Some([0, 1].map(|k| {
                let [chosen, other] = [(c[0], x[k]), (c[1], y[k])]
                    .map(|(weight, value)| b.binary(Binary::Multiply, weight, value));
                b.binary(Binary::Add, chosen, other)
            }))
        }
        _ => None,
    }
}

/// 1 and 0 as the value says, without a gradient.
fn hard(b: &mut Builder, value: usize) -> Truth {
    let fails = b.unary(Unary::Not, value);
    [b.unary(Unary::Not, fails), fails]
}

fn both(b: &mut Builder, p: Truth, q: Truth) -> Truth {
    [b.binary(Binary::Multiply, p[0], q[0]), any(b, p[1], q[1])]
}

fn either(b: &mut Builder, p: Truth, q: Truth) -> Truth {
    [any(b, p[0], q[0]), b.binary(Binary::Multiply, p[1], q[1])]
}

/// p + q − p q = 1 − (1 − p)(1 − q), with all digits of small p and q.
fn any(b: &mut Builder, p: usize, q: usize) -> usize {
    let (sum, product) = (b.binary(Binary::Add, p, q), b.binary(Binary::Multiply, p, q));
    b.binary(Binary::Subtract, sum, product)
}
