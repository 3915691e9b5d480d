//! HalfCheetah: two legs that are to run forward.

use crate::mujoco::library::Simulation;
use crate::mujoco::{LazyModel, advance, control_cost};
use crate::{Environment, Outcome};
use hambo::Result;
use hambo::task::{Initial, Task};
use hambo_engine::expression::{Program, Scope};
use hambo_engine::rng::Generator;

const POSITIONS: usize = 9;
const STATE: usize = 2 * POSITIONS - 1;
const ACTION: usize = 6;
/// Steps of the simulator that an action lasts, and their length in seconds.
const FRAMES: usize = 5;
const FRAME: f64 = 0.01;
const RESET_NOISE: f64 = 0.1;

/// Positions: x, height, tilt, and three joints of each leg; velocities alike. x is not observed.
pub(crate) struct HalfCheetah {
    pub(super) simulation: Simulation,
}

impl HalfCheetah {
    pub fn new() -> Result<Self> {
        static MODEL: LazyModel = LazyModel::new(include_str!("half_cheetah.xml"));
        Ok(HalfCheetah { simulation: Simulation::new(MODEL.get()?)? })
    }

    /// In f64, as gymnasium has it.
    pub(super) fn observation(&self) -> impl Iterator<Item = f64> {
        self.simulation.positions()[1..].iter().chain(self.simulation.velocities()).copied()
    }
}

impl Environment for HalfCheetah {
    fn reset(&mut self, generator: &mut Generator) {
        self.simulation.reset(|positions, velocities| {
            positions.iter_mut().for_each(|x| *x += generator.range(-RESET_NOISE, RESET_NOISE));
            velocities.iter_mut().for_each(|v| *v += RESET_NOISE * generator.normal());
        });
    }

    fn step(&mut self, action: &[f32]) -> Option<Outcome> {
        let forward = advance(&mut self.simulation, action, FRAMES, FRAME)?;
        Some(Outcome { reward: forward - control_cost(0.1, action), terminal: false })
    }

    fn observe(&self, state: &mut [f32]) {
        state.iter_mut().zip(self.observation()).for_each(|(s, x)| *s = x as f32);
    }
}

/// What is seen: height, tilt and six joints, then the velocities of x, height, tilt and joints. The reward needs x,
/// which is not seen: it has to be learned from logged rewards. Nothing ends an episode.
pub(crate) fn task() -> Result<Task> {
    // Uniform positions; normal velocities, each of two uniform numbers (Box–Muller).
    let seen = POSITIONS - 1;
    let velocity = |i: usize| {
        let (u, v) = (seen + i, seen + POSITIONS + i);
        format!("{RESET_NOISE} * sqrt(-2 * log(s[{u}])) * cos(2 * pi * s[{v}])")
    };
    let state: Vec<String> =
        (0..seen).map(|i| format!("s[{i}]")).chain((0..POSITIONS).map(velocity)).collect();
    let state: Vec<&str> = state.iter().map(String::as_str).collect();
    let noise = RESET_NOISE as f32;
    let initial = Initial::Box {
        low: [vec![-noise; seen], vec![0.0; 2 * POSITIONS]].concat(),
        high: [vec![noise; seen], vec![1.0; 2 * POSITIONS]].concat(),
        map: Some(Program::parse(&state, seen + 2 * POSITIONS, 1, Scope::CONTROLLER)?),
    };
    crate::mujoco::task("halfcheetah", [STATE, ACTION], None, initial)
}
