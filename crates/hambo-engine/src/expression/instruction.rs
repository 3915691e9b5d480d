//! Instructions in single-assignment form.

/// One step of a program. Operands are indices of earlier instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// A finite number.
    Constant(f32),
    /// An entry of an input row.
    Input(Input, usize),
    /// A function of one value.
    Unary(Unary, usize),
    /// A function of two values.
    Binary(Binary, usize, usize),
    /// `(condition, x, y)`: x where the condition is not 0, else y.
    Select(usize, usize, usize),
}

/// Where an input value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// s
    State,
    /// a
    Action,
    /// n, the next state
    NextState,
}

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// −x
    Negate,
    /// 1 where x is 0, else 0
    Not,
    /// |x|
    Abs,
    /// √x
    Sqrt,
    /// eˣ
    Exp,
    /// ln x
    Log,
    /// sin x
    Sin,
    /// cos x
    Cos,
    /// tan x
    Tan,
    /// arcsin x
    Asin,
    /// arccos x
    Acos,
    /// arctan x
    Atan,
    /// tanh x
    Tanh,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// −1, 0 or 1 (NaN of NaN)
    Sign,
    /// ⌊x⌋
    Floor,
    /// x + 2πk in [−π, π)
    Wrap,
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// x + y
    Add,
    /// x − y
    Subtract,
    /// x · y
    Multiply,
    /// x / y
    Divide,
    /// xʸ
    Power,
    /// The angle of the point (y, x): `atan2(x, y)` with the ordinate first
    Atan2,
    /// The smaller; NaN if either is
    Minimum,
    /// The larger; NaN if either is
    Maximum,
    /// x < y
    Less,
    /// x ≤ y
    LessOrEqual,
    /// x = y
    Equal,
    /// x ≠ 0 and y ≠ 0
    And,
    /// x ≠ 0 or y ≠ 0
    Or,
}

impl Binary {
    fn commutes(self) -> bool {
        matches!(self, Binary::Add | Binary::Multiply | Binary::Equal | Binary::And | Binary::Or)
    }
}

impl Instruction {
    /// The instructions that this one reads.
    pub fn operands(&self) -> impl Iterator<Item = usize> + use<> {
        let operands = match *self {
            Instruction::Constant(_) | Instruction::Input(..) => [None; 3],
            Instruction::Unary(_, x) => [Some(x), None, None],
            Instruction::Binary(_, x, y) => [Some(x), Some(y), None],
            Instruction::Select(condition, x, y) => [Some(condition), Some(x), Some(y)],
        };
        operands.into_iter().flatten()
    }

    pub(super) fn renumbered(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Instruction::Constant(_) | Instruction::Input(..) => self,
            Instruction::Unary(op, x) => Instruction::Unary(op, number(x)),
            Instruction::Binary(op, x, y) => Instruction::Binary(op, number(x), number(y)),
            Instruction::Select(c, x, y) => Instruction::Select(number(c), number(x), number(y)),
        }
    }

    /// Equal exactly for instructions that compute the same: a key for hashing, which `f32` is not.
    pub(super) fn key(&self) -> [usize; 4] {
        match *self {
            Instruction::Constant(value) => [0, value.to_bits() as usize, 0, 0],
            Instruction::Input(input, index) => [1, input as usize, index, 0],
            Instruction::Unary(op, x) => [2, op as usize, x, 0],
            Instruction::Binary(op, x, y) if op.commutes() => [3, op as usize, x.min(y), x.max(y)],
            Instruction::Binary(op, x, y) => [3, op as usize, x, y],
            Instruction::Select(condition, x, y) => [4, condition, x, y],
        }
    }
}
