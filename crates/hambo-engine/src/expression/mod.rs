//! Rewards, terminations and controllers as text, compiled to a flat tape that runs and differentiates.
//!
//! | written | means |
//! |---|---|
//! | `s[i]`, `a[i]`, `n[i]` | entry i of the state, the action, the next state |
//! | `r` | the reward that the log pays for such a step, as the model has learned it |
//! | `1`, `0.5`, `1e-3`, `pi` | numbers |
//! | `x^y` | power; to the right first, and before a minus sign: `-2^2` is −4 |
//! | `-x`, `!x` | negation; 1 where x is 0, else 0 |
//! | `*` `/`, then `+` `-` | arithmetic |
//! | `<` `<=` `>` `>=` `==` `!=` | 1 where it holds, else 0; they do not chain |
//! | `&&`, then <code>\|\|</code> | 1 or 0; everything that is not 0 counts as true |
//! | `if(c, x, y)` | x where c is not 0, else y |
//! | `min`, `max`, `hypot` | of two or more; `hypot` is √(x² + y² + …) |
//! | `clamp(x, low, high)` | min(max(x, low), high) |
//! | `wrap(x)` | the angle x brought to [−π, π) |
//! | `abs sqrt exp log sin cos tan asin acos atan atan2 tanh sigmoid sign floor` | as usual; `sign(0)` is 0 |
//!
//! All numbers are `f32`. Arithmetic passes NaN on, `min` and `max` included, so that a state which left the
//! numbers cannot hide behind a clamp; a comparison with NaN is 0 (`!=`: 1), and NaN counts as true.
//!
//! ```
//! use hambo_engine::expression::{Program, Scope, Scratch};
//!
//! let reward = Program::parse(&["-(atan2(s[1], s[0])^2 + 0.1*s[2]^2)"], 3, 1, Scope::REWARD)?;
//! let states = [1.0, 0.0, 0.0, 1.0, 0.0, 2.0]; // two rows
//! let mut rewards = [0.0; 2];
//! reward.evaluate(2, &states, &[], &[], &mut rewards, &mut Scratch::default())?;
//! assert_eq!(rewards, [0.0, -0.4]);
//! # Ok::<(), hambo_engine::Error>(())
//! ```

mod functions;
mod host;
mod instruction;
mod kernels;
mod parse;
mod soft;
mod tape;
#[cfg(test)]
mod tests;

use crate::{Error, Result};
pub use host::{Function, RowFn};
pub use instruction::{Binary, Input, Instruction, Unary};

/// Rows that go through the tape together: enough to fill vector registers, few enough that the values of
/// a usual reward (20 instructions, 5 KiB) stay in the first-level cache.
const BLOCK: usize = 64;

/// Most instructions of a program on a GPU, as in `programs.cu`.
pub(crate) const LONGEST_TAPE: usize = 256;

/// What an expression may speak of, besides the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Whether `n[i]` is allowed.
    pub next_state: bool,
    /// Whether `a[i]` is allowed.
    pub action: bool,
    /// Whether `r` is allowed.
    pub reward: bool,
}

impl Scope {
    /// Rewards and terminations see the whole transition.
    pub const REWARD: Scope = Scope { next_state: true, action: true, reward: true };
    /// A controller sees the state only: it is what chooses the action.
    pub const CONTROLLER: Scope = Scope { next_state: false, action: false, reward: false };
}

/// One or more expressions compiled together, so that what they share is computed once.
#[derive(Clone, Debug)]
pub struct Program {
    texts: Vec<String>,
    state_dim: usize,
    action_dim: usize,
    instructions: Vec<Instruction>,
    outputs: Vec<usize>,
    /// Per instruction: whether a derivative can flow from it to an input.
    active: Vec<bool>,
    /// What is called in place of the tape.
    host: Option<host::OnHost>,
}

/// Working memory of [`Program::evaluate`] and [`Program::gradient`]. It grows to what the largest program
/// needs and is then reused: from there on neither allocates.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    values: Vec<f32>,
    adjoints: Vec<f32>,
}

impl Program {
    /// Compiles one expression per output.
    ///
    /// # Errors
    /// [`Error::Expression`] with the position of the first thing that cannot be read. Length and nesting
    /// are limited, so text from anywhere is safe to pass.
    pub fn parse(
        texts: &[&str],
        state_dim: usize,
        action_dim: usize,
        scope: Scope,
    ) -> Result<Program> {
        let mut builder = tape::Builder::default();
        let mut outputs = Vec::with_capacity(texts.len());
        for text in texts {
            outputs.push(parse::parse(text, state_dim, action_dim, scope, &mut builder)?);
        }
        let (instructions, outputs) = builder.finish(&outputs);
        let active = tape::active(&instructions);
        let texts = texts.iter().map(|text| text.to_string()).collect();
        // What was paid so far stands behind the entries of the state, and `r` is its change.
        let paid = |i: &Instruction| matches!(i, Instruction::Input(Input::NextState, index) if *index == state_dim);
        let state_dim = state_dim + usize::from(instructions.iter().any(paid));
        Ok(Program { texts, state_dim, action_dim, instructions, outputs, active, host: None })
    }

    /// Whether `r` matters, for states of `state_dim` entries.
    pub fn uses_reward(&self, state_dim: usize) -> bool {
        self.state_dim > state_dim
    }

    /// The same program for rows of states that carry more entries than it speaks of.
    pub fn widened(&self, state_dim: usize) -> Program {
        Program { state_dim: self.state_dim.max(state_dim), ..self.clone() }
    }

    /// The expressions as they were written.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The tape: instruction i defines value i and reads only values before it.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Per output, the value of the tape that it is.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Whether any `s[i]` matters.
    pub fn uses_state(&self) -> bool {
        self.uses(Input::State)
    }

    /// Whether any `a[i]` matters.
    pub fn uses_action(&self) -> bool {
        self.uses(Input::Action)
    }

    /// Whether any `n[i]` matters.
    pub fn uses_next_state(&self) -> bool {
        self.uses(Input::NextState)
    }

    /// Whether any of them matters besides `r`, for states of `state_dim` entries.
    pub fn uses_entries_of_next_state(&self, state_dim: usize) -> bool {
        let of_next = |i: &Instruction| matches!(i, Instruction::Input(Input::NextState, index) if *index < state_dim);
        self.is_function() || self.instructions.iter().any(of_next)
    }

    fn uses(&self, wanted: Input) -> bool {
        let reads = |i: &Instruction| matches!(i, Instruction::Input(input, _) if *input == wanted);
        self.is_function() || self.instructions.iter().any(reads)
    }

    /// False if the gradient is zero everywhere, because all that the outputs take from the inputs goes
    /// through comparisons, `floor` or `sign`, or through a function.
    pub fn has_gradient(&self) -> bool {
        self.outputs.iter().any(|&output| self.active[output])
    }

    /// The outputs of every row: `out` is `[rows, outputs]`, `s` and `n` are `[rows, state]`, `a` is
    /// `[rows, action]`, all row-major. An input that the program does not use may be empty.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if a slice has another length; nothing is written then.
    pub fn evaluate(
        &self,
        rows: usize,
        s: &[f32],
        a: &[f32],
        n: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.check_inputs(rows, [s, a, n])?;
        check_length("the output", out.len(), rows, self.outputs.len())?;
        if let Some(host) = &self.host {
            host.evaluate(self.state_dim, [s, a, n], out);
            return Ok(());
        }
        self.prepare(rows, &mut scratch.values);
        for start in (0..rows).step_by(BLOCK) {
            let count = BLOCK.min(rows - start);
            self.forward(start, count, [s, a, n], &mut scratch.values);
            for (k, &output) in self.outputs.iter().enumerate() {
                let column =
                    out[start * self.outputs.len() + k..].iter_mut().step_by(self.outputs.len());
                column
                    .zip(lanes(&scratch.values, output, count))
                    .for_each(|(to, &value)| *to = value);
            }
        }
        Ok(())
    }

    /// Adds to `gradients` that of Σ `d_out` · output with respect to the inputs `[s, a, n]`.
    ///
    /// Shapes are those of [`evaluate`](Self::evaluate), with `d_out` `[rows, outputs]`; a gradient that is
    /// not wanted may be empty. At kinks the derivative is that of the branch whose value was taken (the
    /// first argument at a tie), at a jump it is 0, and where it is infinite or undefined (√ at 0) it
    /// counts as 0: what an `if` did not choose cannot spoil the gradient of what it chose.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if a slice has another length; nothing is written then.
    pub fn gradient(
        &self,
        rows: usize,
        inputs: [&[f32]; 3],
        d_out: &[f32],
        gradients: [&mut [f32]; 3],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let [d_s, d_a, d_n] = gradients;
        self.check_inputs(rows, inputs)?;
        check_length("the gradient of the output", d_out.len(), rows, self.outputs.len())?;
        let wanted = [
            ("the gradient of the state", &*d_s, self.state_dim),
            ("the gradient of the action", &*d_a, self.action_dim),
            ("the gradient of the next state", &*d_n, self.state_dim),
        ];
        for (name, slice, width) in wanted {
            if !slice.is_empty() {
                check_length(name, slice.len(), rows, width)?;
            }
        }
        let Scratch { values, adjoints } = scratch;
        self.prepare(rows, values);
        grow(adjoints, self.instructions.len() * BLOCK);
        for start in (0..rows).step_by(BLOCK) {
            let count = BLOCK.min(rows - start);
            self.forward(start, count, inputs, values);
            let used = adjoints.chunks_exact_mut(BLOCK).take(self.instructions.len());
            used.for_each(|lanes| lanes[..count].fill(0.0));
            for (k, &output) in self.outputs.iter().enumerate() {
                let column =
                    d_out[start * self.outputs.len() + k..].iter().step_by(self.outputs.len());
                lanes_mut(adjoints, output, count)
                    .iter_mut()
                    .zip(column)
                    .for_each(|(to, &d)| *to += d);
            }
            self.backward(count, values, adjoints);
            for (i, instruction) in self.instructions.iter().enumerate() {
                let Instruction::Input(input, index) = *instruction else { continue };
                let (gradient, width) = match input {
                    Input::State => (&mut *d_s, self.state_dim),
                    Input::Action => (&mut *d_a, self.action_dim),
                    Input::NextState => (&mut *d_n, self.state_dim),
                };
                if !gradient.is_empty() {
                    let column = gradient[start * width + index..].iter_mut().step_by(width);
                    column.zip(lanes(adjoints, i, count)).for_each(|(to, &d)| *to += d);
                }
            }
        }
        Ok(())
    }

    /// Makes room for the values and writes the constants, which are the same for every block.
    fn prepare(&self, rows: usize, values: &mut Vec<f32>) {
        grow(values, self.instructions.len() * BLOCK);
        for (i, instruction) in self.instructions.iter().enumerate() {
            if let Instruction::Constant(constant) = *instruction {
                lanes_mut(values, i, BLOCK.min(rows)).fill(constant);
            }
        }
    }

    /// Every instruction's value for `count` rows from `start`.
    fn forward(&self, start: usize, count: usize, inputs: [&[f32]; 3], values: &mut [f32]) {
        for (i, instruction) in self.instructions.iter().enumerate() {
            let (before, rest) = values.split_at_mut(i * BLOCK);
            let out = &mut rest[..count];
            let value = |operand| lanes(before, operand, count);
            match *instruction {
                Instruction::Constant(_) => {}
                Instruction::Input(input, index) => {
                    let (rows, width) = match input {
                        Input::State => (inputs[0], self.state_dim),
                        Input::Action => (inputs[1], self.action_dim),
                        Input::NextState => (inputs[2], self.state_dim),
                    };
                    let column = rows[start * width + index..].iter().step_by(width);
                    out.iter_mut().zip(column).for_each(|(to, &x)| *to = x);
                }
                Instruction::Unary(op, x) => kernels::unary(op, value(x), out),
                Instruction::Binary(op, x, y) => kernels::binary(op, value(x), value(y), out),
                Instruction::Select(condition, x, y) => {
                    kernels::select(value(condition), value(x), value(y), out);
                }
            }
        }
    }

    /// From the adjoints of the outputs to those of everything before them.
    fn backward(&self, count: usize, values: &[f32], adjoints: &mut [f32]) {
        for (i, instruction) in self.instructions.iter().enumerate().rev() {
            if !self.active[i] {
                continue;
            }
            let (before, rest) = adjoints.split_at_mut(i * BLOCK);
            let adjoint = &rest[..count];
            let value = |operand| lanes(values, operand, count);
            match *instruction {
                Instruction::Constant(_) | Instruction::Input(..) => {}
                Instruction::Unary(op, x) => {
                    let to = lanes_mut(before, x, count);
                    kernels::unary_gradient(op, value(x), value(i), adjoint, to);
                }
                Instruction::Binary(op, x, y) => {
                    let operands = [value(x), value(y)];
                    if self.active[x] {
                        let to = lanes_mut(before, x, count);
                        kernels::left_gradient(op, operands, adjoint, to);
                    }
                    if self.active[y] {
                        let to = lanes_mut(before, y, count);
                        kernels::right_gradient(op, operands, value(i), adjoint, to);
                    }
                }
                Instruction::Select(condition, x, y) => {
                    kernels::select_gradient(
                        value(condition),
                        true,
                        adjoint,
                        lanes_mut(before, x, count),
                    );
                    kernels::select_gradient(
                        value(condition),
                        false,
                        adjoint,
                        lanes_mut(before, y, count),
                    );
                }
            }
        }
    }

    fn check_inputs(&self, rows: usize, [s, a, n]: [&[f32]; 3]) -> Result<()> {
        let inputs = [
            ("the state", s, self.state_dim, Input::State),
            ("the action", a, self.action_dim, Input::Action),
            ("the next state", n, self.state_dim, Input::NextState),
        ];
        for (name, slice, width, input) in inputs {
            if !slice.is_empty() || self.uses(input) {
                check_length(name, slice.len(), rows, width)?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Program {
    /// The expressions as they were written, separated by `; `.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.texts.join("; "))
    }
}

fn lanes(values: &[f32], index: usize, count: usize) -> &[f32] {
    &values[index * BLOCK..][..count]
}

fn lanes_mut(values: &mut [f32], index: usize, count: usize) -> &mut [f32] {
    &mut values[index * BLOCK..][..count]
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}

fn check_length(name: &str, len: usize, rows: usize, width: usize) -> Result<()> {
    if rows.checked_mul(width) == Some(len) {
        return Ok(());
    }
    Err(Error::Mismatch(format!("{name} holds {len} values, expected {rows} rows of {width}")))
}
