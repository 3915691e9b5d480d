//! What is asked: reward, termination, initial states, action bounds.

mod declaration;
mod file;
mod termination;

pub use declaration::{Asked, Constraint, ConstraintText, Declaration, Declared, Termination};
pub use termination::LearnedTermination;

use crate::data::Transitions;
use crate::expression::{Program, Scratch};
use crate::rng::Stream;
use crate::{Error, Result};

/// A decision problem without its dynamics: those are learned.
#[derive(Clone, Debug)]
pub struct Task {
    /// Name for the report.
    pub name: String,
    /// Length of a state.
    pub state_dim: usize,
    /// Length of an action.
    pub action_dim: usize,
    /// Smallest allowed action; policies are limited to the bounds as the system would limit them.
    pub action_low: Vec<f32>,
    /// Largest allowed action.
    pub action_high: Vec<f32>,
    /// r(s, a), or r(s, a, s').
    pub reward: Program,
    /// Not 0 where s' ends the episode for good; none: episodes end by the horizon alone.
    pub termination: Option<Program>,
    /// p₀.
    pub initial: Initial,
}

/// The distribution of initial states, p₀.
#[derive(Clone, Debug)]
pub enum Initial {
    /// Always the same state.
    Fixed(Vec<f32>),
    /// Uniform in a box; `map` takes the drawn point to a state (an angle to its cosine and sine, say).
    Box {
        /// Lower corner.
        low: Vec<f32>,
        /// Upper corner.
        high: Vec<f32>,
        /// From the point, as `s`, to the state.
        map: Option<Program>,
    },
    /// Independent normal numbers.
    Gaussian {
        /// Mean of each entry.
        mean: Vec<f32>,
        /// Deviation of each entry.
        std: Vec<f32>,
    },
    /// The logged episode starts, drawn with replacement.
    EpisodeStarts,
}

impl Initial {
    /// n states `[n, state]`; `data` is asked for its episode starts.
    pub fn sample(&self, n: usize, data: &Transitions, stream: Stream) -> Result<Vec<f32>> {
        let mut generator = stream.generator();
        match self {
            Initial::Fixed(state) => Ok(state.repeat(n)),
            Initial::Box { low, high, map } => {
                let mut points = Vec::with_capacity(n * low.len());
                for _ in 0..n {
                    points.extend(
                        low.iter().zip(high).map(|(&l, &h)| generator.range(l.into(), h.into()) as f32),
                    );
                }
                let Some(map) = map else { return Ok(points) };
                let mut states = vec![0.0; n * map.outputs().len()];
                map.evaluate(n, &points, &[], &[], &mut states, &mut Scratch::default())?;
                Ok(states)
            }
            Initial::Gaussian { mean, std } => {
                let mut draw =
                    |(&m, &s): (&f32, &f32)| (f64::from(m) + f64::from(s) * generator.normal()) as f32;
                Ok((0..n).flat_map(|_| mean.iter().zip(std).map(&mut draw).collect::<Vec<_>>()).collect())
            }
            Initial::EpisodeStarts => {
                let starts: Vec<usize> = data.episodes().map(|e| e.start).collect();
                Ok((0..n).flat_map(|_| data.state(starts[generator.below(starts.len())])).copied().collect())
            }
        }
    }
}

impl Task {
    /// What the task pays for each logged transition, and whether it ends there; an error where it pays no number.
    pub fn logged(&self, data: &Transitions) -> Result<(Vec<f32>, Vec<bool>)> {
        let (n, ds) = (data.len(), data.state_dim());
        // What was paid stands behind the state, see `Program::parse`.
        let carry = |states: &[f32], paid: &dyn Fn(usize) -> f32| -> Vec<f32> {
            let rows = states.chunks_exact(ds).enumerate();
            rows.flat_map(|(row, s)| s.iter().copied().chain([paid(row)])).collect()
        };
        let s = carry(data.states(), &|_| 0.0);
        let next = carry(data.next_states(), &|row| data.rewards()[row]);
        let evaluate = |program: &Program| {
            let mut values = vec![0.0; n];
            let program = program.widened(ds + 1);
            program.evaluate(n, &s, data.actions(), &next, &mut values, &mut Scratch::default())?;
            match values.iter().position(|x| !x.is_finite()) {
                None => Ok(values),
                Some(row) => Err(Error::Data(format!(
                    "`{program}` is {} in row {row} (s = {:?}, a = {:?}): expected a finite number",
                    values[row],
                    data.state(row),
                    data.action(row)
                ))),
            }
        };
        let rewards = evaluate(&self.reward)?;
        let ended = self.termination.as_ref().map_or_else(|| Ok(vec![0.0; n]), evaluate)?;
        Ok((rewards, ended.into_iter().map(|x| x != 0.0).collect()))
    }

    /// Whether the model has to predict the reward.
    pub fn learns_reward(&self) -> bool {
        let programs = [Some(&self.reward), self.termination.as_ref()];
        programs.into_iter().flatten().any(|program| program.uses_reward(self.state_dim))
    }

    /// An error that says which sizes differ, if the data do not belong to this task.
    pub fn check_data(&self, data: &Transitions) -> Result<()> {
        if (data.state_dim(), data.action_dim()) != (self.state_dim, self.action_dim) {
            return Err(Error::Mismatch(format!(
                "task {} has states of {} and actions of {} dimensions, the data {} and {}",
                self.name,
                self.state_dim,
                self.action_dim,
                data.state_dim(),
                data.action_dim()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A task for states of two entries and actions of one.
    pub fn task(reward: &str, termination: Option<Program>) -> Task {
        Task {
            name: "test".to_owned(),
            state_dim: 2,
            action_dim: 1,
            action_low: vec![-1.0],
            action_high: vec![1.0],
            reward: Program::parse(&[reward], 2, 1, crate::expression::Scope::REWARD).unwrap(),
            termination,
            initial: Initial::EpisodeStarts,
        }
    }
}
