//! Environments to learn from and to measure the truth in.

mod mujoco;
mod pendulum;
mod point;
mod simulate;

pub use mujoco::Version;
pub use simulate::{Behaviour, Returns, Truth, collect, scatter, simulate, simulate_from};

use crate::rng::Generator;
use crate::task::Task;
use crate::{Error, Result};

/// A simulated system.
pub trait Environment: Send {
    /// Starts an episode.
    fn reset(&mut self, generator: &mut Generator);
    /// Moves on by one step. The action is within the task's bounds. None where the simulator broke down: there is no
    /// new state, and the episode is over.
    fn step(&mut self, action: &[f32]) -> Option<Outcome>;
    /// Writes what a policy sees.
    fn observe(&self, state: &mut [f32]);
    /// Puts the system into the state that a policy sees as this; false where that does not say all of it.
    fn place(&mut self, _state: &[f32]) -> bool {
        false
    }
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
    /// Gymnasium's Hopper, on MuJoCo.
    Hopper(Version),
    /// Gymnasium's HalfCheetah, on MuJoCo.
    HalfCheetah(Version),
}

impl EnvName {
    /// All of them; those on MuJoCo first in the version that goes without saying.
    pub const ALL: [EnvName; 7] = [
        EnvName::PointSafety,
        EnvName::Point,
        EnvName::Pendulum,
        EnvName::Hopper(Version::V4),
        EnvName::HalfCheetah(Version::V4),
        EnvName::Hopper(Version::V5),
        EnvName::HalfCheetah(Version::V5),
    ];

    /// Names of the entries of its states and actions; empty where they have none that are shorter than their numbers.
    pub fn entries(self) -> [&'static [&'static str]; 2] {
        match self {
            EnvName::PointSafety | EnvName::Point => [&["x", "y"], &["step in x", "step in y"]],
            EnvName::Pendulum => [&["cos θ", "sin θ", "speed (rad/s)"], &["torque (N m)"]],
            EnvName::Hopper(_) | EnvName::HalfCheetah(_) => [&[], &[]],
        }
    }

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            EnvName::PointSafety => "point-safety",
            EnvName::Point => "point",
            EnvName::Pendulum => "pendulum",
            EnvName::Hopper(Version::V4) => "hopper",
            EnvName::Hopper(Version::V5) => "hopper-v5",
            EnvName::HalfCheetah(Version::V4) => "halfcheetah",
            EnvName::HalfCheetah(Version::V5) => "halfcheetah-v5",
        }
    }

    /// A fresh instance. An error where it needs a library that is not there.
    pub fn make(self) -> Result<Box<dyn Environment>> {
        Ok(match self {
            EnvName::PointSafety => Box::new(point::PointSafety::default()),
            EnvName::Point => Box::new(point::Point::default()),
            EnvName::Pendulum => Box::new(pendulum::Pendulum::default()),
            EnvName::Hopper(version) => Box::new(mujoco::Hopper::new(version)?),
            EnvName::HalfCheetah(_) => Box::new(mujoco::HalfCheetah::new()?),
        })
    }

    /// Its reward, bounds and initial states.
    pub fn task(self) -> Result<Task> {
        match self {
            EnvName::PointSafety => point::point_safety_task(),
            EnvName::Point => point::point_task(),
            EnvName::Pendulum => pendulum::task(),
            EnvName::Hopper(_) => mujoco::hopper_task(),
            EnvName::HalfCheetah(_) => mujoco::half_cheetah_task(),
        }
    }

    /// Steps after which an episode is cut when data are collected.
    pub fn time_limit(self) -> usize {
        match self {
            EnvName::PointSafety => 15,
            EnvName::Point => 50,
            EnvName::Pendulum => 200,
            EnvName::Hopper(_) | EnvName::HalfCheetah(_) => 1000,
        }
    }
}

impl std::str::FromStr for EnvName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Versions 2, 3 and 4 pay and end alike.
        let name = ["-v2", "-v3", "-v4"].iter().find_map(|v| text.strip_suffix(v)).unwrap_or(text);
        let early =
            |e: EnvName| matches!(e, EnvName::Hopper(Version::V4) | EnvName::HalfCheetah(Version::V4));
        let found = EnvName::ALL.into_iter().find(|&e| e.name() == name && (name == text || early(e)));
        found.ok_or_else(|| {
            let names = EnvName::ALL.map(EnvName::name).join(", ");
            Error::setting("env", text, format!("one of {names}"))
        })
    }
}
