//! The environments that come with this crate.

use crate::mujoco::{self, Version};
use crate::{EnvSpec, Environment, pendulum, point};
use hambo::task::Task;
use hambo::{Error, Result};
use hambo_engine::spelling::edit_distance;

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
    /// All of them; those on MuJoCo first in the version that their plain name stands for.
    pub const ALL: [EnvName; 7] = [
        EnvName::PointSafety,
        EnvName::Point,
        EnvName::Pendulum,
        EnvName::Hopper(Version::V4),
        EnvName::HalfCheetah(Version::V4),
        EnvName::Hopper(Version::V5),
        EnvName::HalfCheetah(Version::V5),
    ];

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

    /// The environment: its task, its usual time limit, and how instances of it are made.
    pub fn spec(self) -> Result<EnvSpec> {
        let time_limit = match self {
            EnvName::PointSafety => 15,
            EnvName::Point => 50,
            EnvName::Pendulum => 200,
            EnvName::Hopper(_) | EnvName::HalfCheetah(_) => 1000,
        };
        let make = Box::new(move || self.make());
        Ok(EnvSpec { name: self.name().to_owned(), task: self.task()?, time_limit, make })
    }

    fn make(self) -> Result<Box<dyn Environment>> {
        Ok(match self {
            EnvName::PointSafety => Box::new(point::PointSafety::default()),
            EnvName::Point => Box::new(point::Point::default()),
            EnvName::Pendulum => Box::new(pendulum::Pendulum::default()),
            EnvName::Hopper(version) => Box::new(mujoco::Hopper::new(version)?),
            EnvName::HalfCheetah(_) => Box::new(mujoco::HalfCheetah::new()?),
        })
    }
}

/// Letters by which a name may differ from the one that was meant.
const MISSPELLED: usize = 3;

impl std::str::FromStr for EnvName {
    type Err = Error;

    /// A name, or that of Gymnasium, such as `Pendulum-v1` or `Hopper-v5`.
    fn from_str(asked: &str) -> Result<Self> {
        let lower = asked.to_lowercase();
        let text = if lower == "pendulum-v1" { EnvName::Pendulum.name() } else { &lower };
        // Versions 2, 3 and 4 have the same rewards and ends.
        let name = ["-v2", "-v3", "-v4"].iter().find_map(|v| text.strip_suffix(v)).unwrap_or(text);
        let early = |e: EnvName| {
            matches!(e, EnvName::Hopper(Version::V4) | EnvName::HalfCheetah(Version::V4))
        };
        let found =
            EnvName::ALL.into_iter().find(|&e| e.name() == name && (name == text || early(e)));
        found.ok_or_else(|| {
            let names = EnvName::ALL.map(EnvName::name);
            let near = names.iter().min_by_key(|known| edit_distance(&lower, known));
            let near = near.filter(|known| edit_distance(&lower, known) <= MISSPELLED);
            let hint = near.map_or(
                "; for any other leave --env out: the reward is learned from the logs, or given by --reward or --task".to_owned(),
                |near| format!(": did you mean {near}?"),
            );
            Error::setting("env", asked, format!("one of {}{hint}", names.join(", ")))
        })
    }
}
