//! Reinforcement learning: replay of what was tried, and Soft Actor-Critic.

mod replay;
mod sac;

pub use replay::{Replay, Widths};
pub use sac::{Batch, Losses, Sac, SacUpdate};
