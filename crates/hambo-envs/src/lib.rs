//! Environments to learn from and to measure the truth in: built-in ones ([`EnvName`]) and those of one's own
//! ([`Environment`]).
//!
//! ```
//! use hambo::policy::Policy;
//! use hambo::task::Task;
//! use hambo_engine::{backend::Device, rng::{Generator, Stream}};
//! use hambo_envs::*;
//!
//! /// A boat that is to stay at the origin, though a current drives it.
//! #[derive(Default)]
//! struct Boat {
//!     position: [f64; 2],
//! }
//!
//! impl Environment for Boat {
//!     fn reset(&mut self, generator: &mut Generator) {
//!         self.position = [generator.range(-1.0, 1.0), generator.range(-1.0, 1.0)];
//!     }
//!
//!     fn step(&mut self, action: &[f32]) -> Option<Outcome> {
//!         let reward = -self.position[0].hypot(self.position[1]);
//!         self.position[0] += f64::from(action[0]) + 0.1;
//!         self.position[1] += f64::from(action[1]);
//!         Some(Outcome { reward, terminal: false })
//!     }
//!
//!     fn observe(&self, state: &mut [f32]) {
//!         state.copy_from_slice(&self.position.map(|x| x as f32));
//!     }
//! }
//!
//! let task = Task::new("boat", [2, 2], "-hypot(s[0], s[1])")?.with_action_bounds(-0.5, 0.5);
//! let env = EnvSpec::new(task, 20, Boat::default);
//! let device = Device::cpu(None)?;
//! let policy = Policy::read("builtin:proportional")?;
//!
//! // Its true return, by simulation.
//! let episodes = Episodes { horizon: 20, count: 100, discount: 1.0, stream: Stream::new(0) };
//! let returns = simulate(&device, &env, &policy, &episodes, &())?;
//! assert!(returns.values.iter().all(|&value| value < 0.0));
//!
//! // Logged data, from the policy with noise on its actions.
//! let behavior = Behavior { policy, noise: 0.2 };
//! let collection = Collection { steps: 200, horizon: env.time_limit, stream: Stream::new(1) };
//! let data = collect(&device, &env, &[behavior], &collection, &())?;
//! assert_eq!((data.len(), data.episodes().len()), (200, 10));
//! # Ok::<(), hambo::Error>(())
//! ```

mod builtin;
mod collect;
mod environment;
mod mujoco;
mod outside;
mod pendulum;
mod point;
mod simulate;
#[cfg(test)]
mod tests;
pub mod train;

pub use builtin::EnvName;
pub use collect::{Behavior, Collection, collect, scatter};
pub use environment::{EnvSpec, Environment, Outcome};
pub use mujoco::Version;
pub use outside::{Simulation, Stepped, simulate_outside};
pub use simulate::{Episodes, Returns, simulate, simulate_from};
