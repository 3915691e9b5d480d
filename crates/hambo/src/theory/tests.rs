//! Formulas by hand, and Theorem 3.5 on dynamics whose norm is known.

use super::*;
