//! The learning curve: one point a checkpoint.

use crate::policy::Policy;
use serde::Serialize;

/// Where the learning stood at a checkpoint; all of it is of the model, nothing of a simulator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Gradient steps made.
    pub step: usize,
    /// Mean return of the policy without its noise in the model, from the task's initial states over its horizon.
    pub value: f64,
    /// The same under the adversary as it stood.
    pub worst: f64,
    /// What the adversary takes: value less worst.
    pub gain: f64,
    /// Share of these rollouts, those under the adversary, that left the range of the logs.
    pub left: f64,
    /// The same of the short rollouts since the last checkpoint that were learned from.
    pub left_learning: f64,
    /// Sum of the policy's critics' mean squared errors in the last update.
    pub critic_loss: f64,
    /// −mean ln π in the last update.
    pub entropy: f64,
    /// α, the weight of the entropy.
    pub temperature: f64,
}

/// Columns of the curve's file.
const COLUMNS: [&str; CurvePoint::WIDTH] = [
    "step",
    "value",
    "worst",
    "gain",
    "left",
    "left_learning",
    "critic_loss",
    "entropy",
    "temperature",
];

impl CurvePoint {
    pub(super) const WIDTH: usize = 9;

    /// As it is kept, in the order of the columns.
    pub(super) fn numbers(&self) -> [f64; CurvePoint::WIDTH] {
        let CurvePoint { step, value, worst, gain, left, left_learning, .. } = *self;
        let CurvePoint { critic_loss, entropy, temperature, .. } = *self;
        let step = step as f64;
        [step, value, worst, gain, left, left_learning, critic_loss, entropy, temperature]
    }

    pub(super) fn of(numbers: &[f64]) -> Option<Self> {
        let numbers: [f64; CurvePoint::WIDTH] = numbers.try_into().ok()?;
        let [step, value, worst, gain, left, left_learning, critic_loss, entropy, temperature] =
            numbers;
        let step = step as usize;
        let of_sac = (critic_loss, entropy, temperature);
        let (critic_loss, entropy, temperature) = of_sac;
        Some(CurvePoint {
            step,
            value,
            worst,
            gain,
            left,
            left_learning,
            critic_loss,
            entropy,
            temperature,
        })
    }

    /// All but the step, by name, for a log.
    pub(super) fn figures(&self) -> Vec<(&'static str, f64)> {
        COLUMNS[1..].iter().copied().zip(self.numbers().into_iter().skip(1)).collect()
    }
}

/// A policy on the way, and where the learning stood.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its measures.
    pub point: CurvePoint,
    /// The policy, `step-N`.
    pub policy: Policy,
}

/// The curve as CSV, with a header.
pub fn csv<'a>(points: impl IntoIterator<Item = &'a CurvePoint>) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for point in points {
        let numbers = point.numbers().map(|x| x.to_string());
        text += &(numbers.join(",") + "\n");
    }
    text
}
