//! Reinforcement learning: replay of what was tried, Soft Actor-Critic, and clipped double DQN.

mod dqn;
mod replay;
mod sac;

pub use dqn::{Dqn, DqnUpdate};
pub use replay::{Batch, ReplayBuffer, Transition, Widths};
pub use sac::{Losses, Sac, SacUpdate};
