//! Properties of posteriors, gradients by finite differences, and data that are no good.

use super::*;
