//! What each instruction computes, and its derivative: loops over rows, one per operation, that vectorize.

use std::f32::consts::{PI, TAU};

use super::instruction::{Binary, Unary};

/// `out` = op(x), row by row.
pub(super) fn unary(op: Unary, x: &[f32], out: &mut [f32]) {
    #[inline(always)]
    fn each(x: &[f32], out: &mut [f32], f: impl Fn(f32) -> f32) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x));
    }
    match op {
        Unary::Negate => each(x, out, |x| -x),
        Unary::Not => each(x, out, |x| truth(x == 0.0)),
        Unary::Abs => each(x, out, f32::abs),
        Unary::Sqrt => each(x, out, f32::sqrt),
        Unary::Exp => each(x, out, f32::exp),
        Unary::Log => each(x, out, f32::ln),
        Unary::Sin => each(x, out, f32::sin),
        Unary::Cos => each(x, out, f32::cos),
        Unary::Tan => each(x, out, f32::tan),
        Unary::Asin => each(x, out, f32::asin),
        Unary::Acos => each(x, out, f32::acos),
        Unary::Atan => each(x, out, f32::atan),
        Unary::Tanh => each(x, out, f32::tanh),
        Unary::Sigmoid => each(x, out, |x| 1.0 / (1.0 + (-x).exp())),
        Unary::Sign => each(x, out, sign),
        Unary::Floor => each(x, out, f32::floor),
        Unary::Wrap => each(x, out, wrap),
    }
}

/// `out` = op(x, y), row by row.
pub(super) fn binary(op: Binary, x: &[f32], y: &[f32], out: &mut [f32]) {
    #[inline(always)]
    fn each(x: &[f32], y: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
        out.iter_mut().zip(x).zip(y).for_each(|((out, &x), &y)| *out = f(x, y));
    }
    match op {
        Binary::Add => each(x, y, out, |x, y| x + y),
        Binary::Subtract => each(x, y, out, |x, y| x - y),
        Binary::Multiply => each(x, y, out, |x, y| x * y),
        Binary::Divide => each(x, y, out, |x, y| x / y),
        Binary::Power => each(x, y, out, f32::powf),
        Binary::Atan2 => each(x, y, out, f32::atan2),
        Binary::Minimum => each(x, y, out, |x, y| if second_is_minimum(x, y) { y } else { x }),
        Binary::Maximum => each(x, y, out, |x, y| if second_is_maximum(x, y) { y } else { x }),
        Binary::Less => each(x, y, out, |x, y| truth(x < y)),
        Binary::LessOrEqual => each(x, y, out, |x, y| truth(x <= y)),
        Binary::Equal => each(x, y, out, |x, y| truth(x == y)),
        Binary::And => each(x, y, out, |x, y| truth((x != 0.0) & (y != 0.0))),
        Binary::Or => each(x, y, out, |x, y| truth((x != 0.0) | (y != 0.0))),
    }
}

/// `out` = x where the condition is not 0, else y.
pub(super) fn select(condition: &[f32], x: &[f32], y: &[f32], out: &mut [f32]) {
    for (((out, &c), &x), &y) in out.iter_mut().zip(condition).zip(x).zip(y) {
        *out = if c != 0.0 { x } else { y };
    }
}

/// Adds adjoint · d op(x) / dx to `to`; `value` is op(x).
pub(super) fn unary_gradient(op: Unary, x: &[f32], value: &[f32], adjoint: &[f32], to: &mut [f32]) {
    // Closures see (x, op(x)) and give the derivative in whichever of the two is cheaper.
    let operands = [x, value];
    match op {
        Unary::Negate => add(to, adjoint, operands, |_, _| -1.0),
        Unary::Abs => add(to, adjoint, operands, |x, _| sign(x)),
        Unary::Sqrt => add(to, adjoint, operands, |_, v| 0.5 / v),
        Unary::Exp => add(to, adjoint, operands, |_, v| v),
        Unary::Log => add(to, adjoint, operands, |x, _| 1.0 / x),
        Unary::Sin => add(to, adjoint, operands, |x, _| x.cos()),
        Unary::Cos => add(to, adjoint, operands, |x, _| -x.sin()),
        Unary::Tan => add(to, adjoint, operands, |_, v| 1.0 + v * v),
        Unary::Asin => add(to, adjoint, operands, |x, _| 1.0 / ((1.0 - x) * (1.0 + x)).sqrt()),
        Unary::Acos => add(to, adjoint, operands, |x, _| -1.0 / ((1.0 - x) * (1.0 + x)).sqrt()),
        Unary::Atan => add(to, adjoint, operands, |x, _| 1.0 / (1.0 + x * x)),
        Unary::Tanh => add(to, adjoint, operands, |_, v| (1.0 - v) * (1.0 + v)),
        Unary::Sigmoid => add(to, adjoint, operands, |_, v| v * (1.0 - v)),
        Unary::Wrap => add(to, adjoint, operands, |_, _| 1.0),
        Unary::Not | Unary::Sign | Unary::Floor => {}
    }
}

/// Adds adjoint · ∂op(x, y) / ∂x to `to`.
pub(super) fn left_gradient(op: Binary, operands: [&[f32]; 2], adjoint: &[f32], to: &mut [f32]) {
    match op {
        Binary::Add | Binary::Subtract => add(to, adjoint, operands, |_, _| 1.0),
        Binary::Multiply => add(to, adjoint, operands, |_, y| y),
        Binary::Divide => add(to, adjoint, operands, |_, y| 1.0 / y),
        Binary::Power => add(to, adjoint, operands, |x, y| y * x.powf(y - 1.0)),
        Binary::Atan2 => add(to, adjoint, operands, |x, y| y / (x * x + y * y)),
        Binary::Minimum => add(to, adjoint, operands, |x, y| truth(!second_is_minimum(x, y))),
        Binary::Maximum => add(to, adjoint, operands, |x, y| truth(!second_is_maximum(x, y))),
        Binary::Less | Binary::LessOrEqual | Binary::Equal | Binary::And | Binary::Or => {}
    }
}

/// Adds adjoint · ∂op(x, y) / ∂y to `to`; `value` is op(x, y).
pub(super) fn right_gradient(
    op: Binary,
    operands: [&[f32]; 2],
    value: &[f32],
    adjoint: &[f32],
    to: &mut [f32],
) {
    let [x, y] = operands;
    match op {
        Binary::Add => add(to, adjoint, operands, |_, _| 1.0),
        Binary::Subtract => add(to, adjoint, operands, |_, _| -1.0),
        Binary::Multiply => add(to, adjoint, operands, |x, _| x),
        Binary::Divide => add(to, adjoint, [value, y], |v, y| -v / y),
        Binary::Power => add(to, adjoint, [value, x], |v, x| v * x.ln()),
        Binary::Atan2 => add(to, adjoint, operands, |x, y| -x / (x * x + y * y)),
        Binary::Minimum => add(to, adjoint, operands, |x, y| truth(second_is_minimum(x, y))),
        Binary::Maximum => add(to, adjoint, operands, |x, y| truth(second_is_maximum(x, y))),
        Binary::Less | Binary::LessOrEqual | Binary::Equal | Binary::And | Binary::Or => {}
    }
}

/// Adds the adjoint to `to` where the condition's truth is `taken`.
pub(super) fn select_gradient(condition: &[f32], taken: bool, adjoint: &[f32], to: &mut [f32]) {
    for ((to, &c), &g) in to.iter_mut().zip(condition).zip(adjoint) {
        *to += if (c != 0.0) == taken { g } else { 0.0 };
    }
}

/// `to` += adjoint · derivative, except that a derivative which is infinite or undefined counts as 0: the
/// subgradient at the tip of a cone such as `hypot`, and what keeps 0 · ∞ in a branch not taken from
/// becoming NaN.
#[inline(always)]
fn add(
    to: &mut [f32],
    adjoint: &[f32],
    operands: [&[f32]; 2],
    derivative: impl Fn(f32, f32) -> f32,
) {
    for (((to, &g), &p), &q) in to.iter_mut().zip(adjoint).zip(operands[0]).zip(operands[1]) {
        let d = derivative(p, q);
        *to += if d.is_finite() { g * d } else { 0.0 };
    }
}

#[inline(always)]
fn truth(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

/// Unlike `f32::signum`, 0 at 0.
#[inline(always)]
fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// Whether min(x, y) is y. At a tie it is x; NaN wins, unlike in `f32::min`.
#[inline(always)]
fn second_is_minimum(x: f32, y: f32) -> bool {
    (y < x) | y.is_nan()
}

#[inline(always)]
fn second_is_maximum(x: f32, y: f32) -> bool {
    (y > x) | y.is_nan()
}

/// x + 2πk in [−π, π). Rounding can leave the first estimate a hair outside; the last step brings it in.
/// Angles beyond 10⁶ have lost their digits in `f32` already, and come out as rough as they went in.
#[inline(always)]
fn wrap(x: f32) -> f32 {
    let near = x - TAU * ((x + PI) / TAU).floor();
    if near >= PI {
        near - TAU
    } else if near < -PI {
        near + TAU
    } else {
        near
    }
}
