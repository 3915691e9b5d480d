//! Environments to learn from and to measure the truth in.

mod pendulum;
mod point;
mod simulate;

pub use simulate::{Behaviour, collect, simulate};

use crate::rng::Generator;
use crate::task::Task;
use crate::{Error, Result};

/// A simulated system.
pub trait Environment: Send {
    /// Starts an episode.
    fn reset(&mut self, generator: &mut Generator);
    /// Moves on by one step. The action is within the task's bounds.
    fn step(&mut self, action: &[f32]) -> Outcome;
    /// Writes what a policy sees.
    fn observe(&self, state: &mut [f32]);
}

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// r(s, a)
    pub reward: f64,
    /// Whether the new state ends the episode for good.
    pub terminal: bool,
}

/// The built-in environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvName {
    /// The paper's toy example: around a danger zone to a goal.
    PointSafety,
    /// A point in the plane that is to go to the origin.
    Point,
    /// Gymnasium's Pendulum-v1.
    Pendulum,
}

impl EnvName {
    /// All of them.
    pub const ALL: [EnvName; 3] = [EnvName::PointSafety, EnvName::Point, EnvName::Pendulum];

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            EnvName::PointSafety => "point-safety",
            EnvName::Point => "point",
            EnvName::Pendulum => "pendulum",
        }
    }

    /// A fresh instance.
    pub fn make(self) -> Box<dyn Environment> {
        match self {
            EnvName::PointSafety => Box::new(point::PointSafety::default()),
            EnvName::Point => Box::new(point::Point::default()),
            EnvName::Pendulum => Box::new(pendulum::Pendulum::default()),
        }
    }

    /// Its reward, bounds and initial states.
    pub fn task(self) -> Result<Task> {
        match self {
            EnvName::PointSafety => point::point_safety_task(),
            EnvName::Point => point::point_task(),
            EnvName::Pendulum => pendulum::task(),
        }
    }

    /// Steps after which an episode is cut when data are collected.
    pub fn time_limit(self) -> usize {
        match self {
            EnvName::PointSafety => 15,
            EnvName::Point => 50,
            EnvName::Pendulum => 200,
        }
    }
}

impl std::str::FromStr for EnvName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        EnvName::ALL.into_iter().find(|e| e.name() == text).ok_or_else(|| {
            let names = EnvName::ALL.map(EnvName::name).join(", ");
            Error::setting("env", text, format!("one of {names}"))
        })
    }
}
