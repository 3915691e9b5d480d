//! Functions that an expression may call, by name.

use super::instruction::Unary;
use crate::spelling::edit_distance;

#[derive(Clone, Copy)]
pub(super) enum Function {
    Unary(Unary),
    Atan2,
    Minimum,
    Maximum,
    Hypot,
    Clamp,
    If,
}

pub(super) const FUNCTIONS: [(&str, Function); 21] = [
    ("abs", Function::Unary(Unary::Abs)),
    ("sqrt", Function::Unary(Unary::Sqrt)),
    ("exp", Function::Unary(Unary::Exp)),
    ("log", Function::Unary(Unary::Log)),
    ("sin", Function::Unary(Unary::Sin)),
    ("cos", Function::Unary(Unary::Cos)),
    ("tan", Function::Unary(Unary::Tan)),
    ("asin", Function::Unary(Unary::Asin)),
    ("acos", Function::Unary(Unary::Acos)),
    ("atan", Function::Unary(Unary::Atan)),
    ("tanh", Function::Unary(Unary::Tanh)),
    ("sigmoid", Function::Unary(Unary::Sigmoid)),
    ("sign", Function::Unary(Unary::Sign)),
    ("floor", Function::Unary(Unary::Floor)),
    ("wrap", Function::Unary(Unary::Wrap)),
    ("atan2", Function::Atan2),
    ("min", Function::Minimum),
    ("max", Function::Maximum),
    ("hypot", Function::Hypot),
    ("clamp", Function::Clamp),
    ("if", Function::If),
];

/// The one that a misspelled name may mean.
pub(super) fn nearest_function(name: &str) -> &'static str {
    FUNCTIONS
        .iter()
        .map(|&(known, _)| known)
        .min_by_key(|known| edit_distance(name, known))
        .unwrap_or("if")
}
