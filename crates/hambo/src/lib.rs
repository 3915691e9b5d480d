//! Conservative off-policy evaluation.
//!
//! From logged transitions and a policy, `hambo` computes a lower bound on the policy's return: it learns
//! a dynamics model that knows what it does not know, and lets an adversary steer the policy through the
//! worst future inside that uncertainty. The method is HAMBO (Rothfuss, Sukhija, Birchler et al., UAI 2023).

pub mod data;
pub mod error;
pub mod expression;
pub mod files;
pub mod rng;

pub use error::{Error, Result};
