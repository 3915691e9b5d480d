//! Conservative off-policy evaluation.
//!
//! From logged transitions and a policy, `hambo` computes a lower bound on the policy's return: it learns
//! a dynamics model that knows what it does not know, and lets an adversary steer the policy through the
//! worst future inside that uncertainty. The method is HAMBO (Rothfuss, Sukhija, Birchler et al., UAI 2023).

// Each module imports only from those above it.
pub mod error;
pub mod rng;
pub mod stats;
pub mod files;
pub mod logs;
pub mod checkpoint;
pub mod progress;
pub mod expression;
pub mod compute;
pub mod nn;
pub mod rl;
pub mod data;
pub mod task;
pub mod policy;
pub mod dynamics;
pub mod selftest;
pub mod theory;
pub mod hallucination;
pub mod rollout;
pub mod support;
pub mod adversary;
pub mod estimate;
pub mod regions;
pub mod trace;
pub mod reliability;
mod warnings;
pub mod evaluate;
pub mod curves;
pub mod envs;
pub mod rank;
pub mod report;
pub mod train;
pub mod reproduce;

pub use error::{Error, Result};
