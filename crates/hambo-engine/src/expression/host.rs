//! Programs that are functions on the host, whatever the device: rewards and terminations that no expression can say.

use super::{Instruction, Program};
use std::sync::Arc;

/// A number for every transition of a batch. Closures implement it.
///
/// Batches are row-major: `states` and `next` are `[rows, state]`, `actions` is `[rows, action]`, `out` is `[rows]`.
pub trait RowFn: Send + Sync {
    /// Writes the number of every transition. One that is not written is no number.
    fn evaluate(&self, states: &[f32], actions: &[f32], next: &[f32], out: &mut [f32]);
}

impl<F: Fn(&[f32], &[f32], &[f32], &mut [f32]) + Send + Sync> RowFn for F {
    fn evaluate(&self, states: &[f32], actions: &[f32], next: &[f32], out: &mut [f32]) {
        self(states, actions, next, out);
    }
}

/// A function with its name.
#[derive(Clone)]
pub struct Function {
    /// For the report, and for what goes wrong.
    pub name: String,
    /// What it does.
    pub function: Arc<dyn RowFn>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "function {}", self.name)
    }
}

/// A function, and how many entries of a state it sees of those that are carried.
#[derive(Clone, Debug)]
pub(super) struct OnHost {
    function: Function,
    observed: usize,
}

impl OnHost {
    pub fn evaluate(&self, width: usize, [s, a, n]: [&[f32]; 3], out: &mut [f32]) {
        out.fill(f32::NAN);
        let seen = |rows: &[f32]| -> Vec<f32> {
            rows.chunks_exact(width).flat_map(|row| &row[..self.observed]).copied().collect()
        };
        match width == self.observed {
            true => self.function.function.evaluate(s, a, n, out),
            false => self.function.function.evaluate(&seen(s), a, &seen(n), out),
        }
    }
}

impl Program {
    /// A function of transitions with states and actions of these sizes, which has no gradient.
    pub fn of_function(function: Function, state_dim: usize, action_dim: usize) -> Program {
        Program {
            texts: vec![function.name.clone()],
            state_dim,
            action_dim,
            instructions: vec![Instruction::Constant(0.0)],
            outputs: vec![0],
            active: vec![false],
            host: Some(OnHost { function, observed: state_dim }),
        }
    }

    /// Whether it is a function on the host, and no tape.
    pub fn is_function(&self) -> bool {
        self.host.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Device;
    use crate::expression::Scratch;
    use std::sync::Mutex;

    /// s[0] + a[0] + 10 n[1] of every row, of states of two entries, and the rows of every call.
    fn sum(calls: &Arc<Mutex<Vec<usize>>>) -> Program {
        let calls = calls.clone();
        let function = move |s: &[f32], a: &[f32], n: &[f32], out: &mut [f32]| {
            calls.lock().unwrap().push(out.len());
            for (row, out) in out.iter_mut().enumerate() {
                *out = s[2 * row] + a[row] + 10.0 * n[2 * row + 1];
            }
        };
        Program::of_function(
            Function { name: "sum".to_owned(), function: Arc::new(function) },
            2,
            1,
        )
    }

    #[test]
    fn a_function_sees_its_entries_of_all_rows_at_once() {
        let (calls, device) = (Arc::default(), Device::cpu(Some(2)).unwrap());
        let program = sum(&calls).widened(3); // a third entry is carried along
        let rows = 5000;
        let states: Vec<f32> = (0..3 * rows).map(|i| i as f32).collect();
        let actions: Vec<f32> = vec![0.5; rows];
        let mut out = device.zeros(rows);
        let [s, a] = [device.upload(&states), device.upload(&actions)];
        device.evaluate(&program, &s, &a, &s, &mut out);
        let expected = |row: usize| (3 * row) as f32 + 0.5 + 10.0 * (3 * row + 1) as f32;
        let found = device.download(&out).unwrap();
        assert!(found.iter().enumerate().all(|(row, &value)| value == expected(row)));
        assert_eq!(*calls.lock().unwrap(), [rows]);
    }

    #[test]
    fn a_function_hangs_on_everything_and_has_no_gradient() {
        let program = sum(&Arc::default());
        assert!(program.is_function() && program.to_string() == "sum");
        assert!(program.uses_state() && program.uses_action() && program.uses_next_state());
        assert!(program.uses_entries_of_next_state(2) && !program.uses_reward(2));
        assert!(!program.has_gradient() && program.margins().is_none());
        assert!(program.softened(&[]).is_none());
        let mut out = [0.0];
        let scratch = &mut Scratch::default();
        assert!(program.evaluate(1, &[1.0], &[1.0], &[1.0], &mut out, scratch).is_err());
    }

    #[test]
    fn a_number_that_is_not_written_is_none() {
        let lazy = |_: &[f32], _: &[f32], _: &[f32], out: &mut [f32]| out[0] = 1.0;
        let lazy = Function { name: "lazy".to_owned(), function: Arc::new(lazy) };
        let mut out = [0.0; 2];
        let (s, scratch) = ([0.0; 2], &mut Scratch::default());
        Program::of_function(lazy, 1, 1).evaluate(2, &s, &s, &s, &mut out, scratch).unwrap();
        assert!(out[0] == 1.0 && out[1].is_nan());
    }
}
