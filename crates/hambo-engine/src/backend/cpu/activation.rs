//! What a layer does to its sums, and the way back.

use crate::backend::shape::{Activation, LEAK};

/// Adds the biases to sums, and applies the activation.
#[inline(always)]
pub(super) fn activate<'a>(
    activation: Activation,
    sums: impl Iterator<Item = (&'a mut f32, &'a f32)>,
) {
    match activation {
        Activation::Linear => sums.for_each(|(v, b)| *v += b),
        Activation::Relu => sums.for_each(|(v, b)| *v = relu(*v + b)),
        Activation::Tanh => sums.for_each(|(v, b)| *v = (*v + b).tanh()),
        Activation::Elu => sums.for_each(|(v, b)| *v = elu(*v + b)),
        Activation::LeakyRelu => sums.for_each(|(v, b)| *v = leaky_relu(*v + b)),
        Activation::Softplus => sums.for_each(|(v, b)| *v = softplus(*v + b)),
    }
}

/// delta ← delta · activation'(sum), from the activation itself.
#[inline(always)]
pub(super) fn slope<'a>(
    activation: Activation,
    pairs: impl Iterator<Item = (&'a mut f32, &'a f32)>,
) {
    match activation {
        Activation::Linear => {}
        Activation::Relu => pairs.for_each(|(d, &y)| *d = if y > 0.0 { *d } else { 0.0 }),
        Activation::Tanh => pairs.for_each(|(d, &y)| *d *= 1.0 - y * y),
        Activation::Elu => pairs.for_each(|(d, &y)| *d *= if y < 0.0 { y + 1.0 } else { 1.0 }),
        Activation::LeakyRelu => pairs.for_each(|(d, &y)| *d *= if y < 0.0 { LEAK } else { 1.0 }),
        Activation::Softplus => pairs.for_each(|(d, &y)| *d *= -(-y).exp_m1()),
    }
}

/// max(x, 0), which keeps NaN: `f32::max` would make it a sound-looking 0.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn elu(x: f32) -> f32 {
    if x < 0.0 { x.exp_m1() } else { x }
}

#[inline(always)]
fn leaky_relu(x: f32) -> f32 {
    if x < 0.0 { LEAK * x } else { x }
}

#[inline(always)]
fn softplus(x: f32) -> f32 {
    relu(x) + (-x.abs()).exp().ln_1p()
}
