//! Why a bound is what it is, and how far it can be trusted.

pub mod regions;
pub mod reliability;
pub mod support;
pub mod trace;
