//! Learned models of the dynamics that know what they do not know.

pub mod bnn;
pub mod calibration;
mod layout;
mod model_files;

pub use bnn::{Bnn, BnnConfig, FitReport, Prediction, Target};
pub use layout::{Angle, Layout};
