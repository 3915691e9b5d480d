//! Hopper: one leg that is to hop forward and not to fall.

use crate::mujoco::library::Simulation;
use crate::mujoco::{LazyModel, Version, advance, control_cost};
use crate::{Environment, Outcome};
use hambo::Result;
use hambo::task::{Initial, Task};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Generator;

const STATE: usize = 11;
const ACTION: usize = 3;
/// Steps of the simulator that an action lasts, and their length in seconds.
const FRAMES: usize = 4;
const FRAME: f64 = 0.002;
const RESET_NOISE: f64 = 5e-3;
const FASTEST: f64 = 10.0;
const LOWEST: f64 = 0.7;
const MOST_TILTED: f64 = 0.2;
const LARGEST: f64 = 100.0;

/// Positions: x, height, tilt, thigh, leg, foot; velocities alike. x is not observed.
pub(crate) struct Hopper {
    pub(super) simulation: Simulation,
    version: Version,
}

impl Hopper {
    pub fn new(version: Version) -> Result<Self> {
        static MODEL: LazyModel = LazyModel::new(include_str!("hopper.xml"));
        Ok(Hopper { simulation: Simulation::new(MODEL.get()?)?, version })
    }

    fn healthy(&self) -> bool {
        let (positions, velocities) = (self.simulation.positions(), self.simulation.velocities());
        let within = |x: &f64| -LARGEST < *x && *x < LARGEST;
        positions[2..].iter().chain(velocities).all(within)
            && positions[1] > LOWEST
            && -MOST_TILTED < positions[2]
            && positions[2] < MOST_TILTED
    }

    /// In f64, as gymnasium has it.
    pub(super) fn observation(&self) -> impl Iterator<Item = f64> {
        let velocities = self.simulation.velocities().iter().map(|v| v.clamp(-FASTEST, FASTEST));
        self.simulation.positions()[1..].iter().copied().chain(velocities)
    }
}

impl Environment for Hopper {
    fn reset(&mut self, generator: &mut Generator) {
        self.simulation.reset(|positions, velocities| {
            for x in positions.iter_mut().chain(velocities) {
                *x += generator.range(-RESET_NOISE, RESET_NOISE);
            }
        });
    }

    fn step(&mut self, action: &[f32]) -> Option<Outcome> {
        let forward = advance(&mut self.simulation, action, FRAMES, FRAME)?;
        let healthy = self.healthy();
        let alive = if healthy || self.version == Version::V4 { 1.0 } else { 0.0 };
        Some(Outcome { reward: forward + alive - control_cost(1e-3, action), terminal: !healthy })
    }

    fn observe(&self, state: &mut [f32]) {
        state.iter_mut().zip(self.observation()).for_each(|(s, x)| *s = x as f32);
    }
}

/// What is seen: height, tilt and three joints, then the velocities of x, height, tilt and joints, limited to ±10.
/// The reward needs x, which is not seen: it has to be learned from logged rewards. The end is known.
pub(crate) fn task() -> Result<Task> {
    let rest_of_state = (1..STATE).map(|i| format!("abs(n[{i}])")).collect::<Vec<_>>().join(", ");
    let fallen = format!(
        "n[0] <= {LOWEST} || abs(n[1]) >= {MOST_TILTED} || max({rest_of_state}) >= {LARGEST}"
    );
    let rest = [1.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let noise = RESET_NOISE as f32;
    let termination = Program::parse(&[&fallen], STATE, ACTION, Scope::REWARD)?;
    let (low, high) = (rest.map(|x| x - noise).to_vec(), rest.map(|x| x + noise).to_vec());
    crate::mujoco::task(
        "hopper",
        [STATE, ACTION],
        Some(termination),
        Initial::Box { low, high, map: None },
    )
}
