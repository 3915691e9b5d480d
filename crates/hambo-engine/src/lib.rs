//! What `hambo` computes with; it knows nothing of off-policy evaluation.
//!
//! Ensembles of small networks and the few kernels that they, their optimizers and their trajectories need, on CPU
//! and GPU alike ([`backend`], [`nn`]); updates of SAC and DQN ([`rl`]); rewards and controllers given as text
//! ([`expression`]); random streams that give the same numbers everywhere ([`rng`]).

// Each module imports only from those above it.
pub mod error;
pub mod files;
pub mod spelling;
pub mod rng;
pub mod expression;
pub mod backend;
pub mod nn;
pub mod rl;
pub mod selftest;

pub use error::{Error, Result};
