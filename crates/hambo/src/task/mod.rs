//! What a policy is judged by: rewards, terminations and built-in controllers, written as expressions.

pub mod expression;
