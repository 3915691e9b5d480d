//! From layers to [`Mlp`]: a normalizer, hidden layers with one activation, and the output with its bounds.

use crate::policy::layers::{Linear, Output};
use crate::policy::mlp::Mlp;
use crate::policy::normalizer::Normalizer;
use crate::policy::readers::onnx::Stop;
use crate::policy::readers::onnx::affine::{Affine, Budget, Dense};
use crate::policy::readers::onnx::layers::{Kind, Layer, Layers, Row};
use hambo_engine::backend::Activation;

/// The network that these layers are, if our engine has one like it.
pub(super) fn network(layers: Layers, output: Row) -> Result<Mlp, Stop> {
    let Layers { layers, mut budget, .. } = layers;
    let mut chain = chain(layers, output.base)?;
    let mut last = output.affine;

    // How the output becomes an action, from the end.
    let clip = pop_clip(&mut chain, &mut last);
    let tanh = pop_tanh(&mut chain, &mut last);
    let (limit, [low, high]) = match (tanh, clip) {
        (None, None) => {
            let n = last.outputs();
            (None, [vec![f64::NEG_INFINITY; n], vec![f64::INFINITY; n]])
        }
        (None, Some(bounds)) => (None, bounds),
        (Some((limit, bounds)), None) => (Some(limit), bounds),
        (Some((limit, [low, high])), Some([lowest, highest])) => {
            // The limit after tanh must be one that tanh keeps by itself.
            let kept = |(a, b): (&f64, &f64)| *a >= *b - 1e-6 * b.abs();
            if !low.iter().zip(&lowest).all(kept) || !highest.iter().zip(&high).all(kept) {
                return Err(Stop::NotPlain("its output is clipped after tanh".to_owned()));
            }
            (Some(limit), [low, high])
        }
    };

    // The observation, from the start.
    let normalizer = normalizer(&mut chain, &mut last);

    let mut hidden = None;
    let mut linear = Vec::with_capacity(chain.len() + 1);
    for layer in chain {
        let kind = match layer.kind {
            Kind::Activation(activation) => activation,
            Kind::Clip(..) => {
                return Err(Stop::NotPlain("values between its layers are clipped".to_owned()));
            }
        };
        if hidden.is_some_and(|h| h != kind) {
            return Err(Stop::NotPlain("its hidden layers have different activations".to_owned()));
        }
        hidden = Some(kind);
        linear.push(layer_of(&layer.affine, &mut budget)?);
    }
    linear.push(layer_of(&last, &mut budget)?);
    let output = limit.map_or(Output::Clip, |limit| Output::Tanh { limit: limit as f32 });
    let bounds = [low, high].map(|bound| bound.into_iter().map(|x| x as f32).collect());
    Mlp::new(&linear, hidden.unwrap_or(Activation::Linear), normalizer, output, bounds)
        .map_err(Stop::Damaged)
}

/// The layers up to `base`, each of which must be made of the one before.
fn chain(layers: Vec<Layer>, base: usize) -> Result<Vec<Layer>, Stop> {
    let mut layers: Vec<Option<Layer>> = layers.into_iter().map(Some).collect();
    let (mut chain, mut at) = (Vec::new(), base);
    while at > 0 {
        // Each is made of an earlier one, so that this ends.
        let Some(layer) = layers.get_mut(at - 1).and_then(Option::take) else {
            return Err(Stop::NotPlain("its layers do not form a chain".to_owned()));
        };
        at = layer.from;
        chain.push(layer);
    }
    chain.reverse();
    Ok(chain)
}

/// Takes a limit off the end: s · clip(u, l, h) + o is a limit of s u + o. `last` becomes the map before it.
fn pop_clip(chain: &mut Vec<Layer>, last: &mut Affine) -> Option<[Vec<f64>; 2]> {
    let Some(Layer { kind: Kind::Clip(low, high), .. }) = chain.last() else { return None };
    let (scale, offset) = (&last.scale, &last.offset);
    if last.dense.is_some() || scale.contains(&0.0) {
        return None;
    }
    let (mut lowest, mut highest) = (Vec::new(), Vec::new());
    for c in 0..scale.len() {
        let (a, b) = (scale[c] * low[c] + offset[c], scale[c] * high[c] + offset[c]);
        lowest.push(a.min(b));
        highest.push(a.max(b));
    }
    let clip = chain.pop()?;
    *last = clip.affine.then_columns(scale, offset);
    Some([lowest, highest])
}

/// Takes tanh off the end, and a limit ± before it: s · tanh u + o lies within o ± |s|. `last` becomes the map to u.
fn pop_tanh(chain: &mut Vec<Layer>, last: &mut Affine) -> Option<(f64, [Vec<f64>; 2])> {
    let Some(Layer { kind: Kind::Activation(Activation::Tanh), .. }) = chain.last() else {
        return None;
    };
    let (scale, offset) = (last.scale.clone(), last.offset.clone());
    if last.dense.is_some() || scale.contains(&0.0) {
        return None;
    }
    let bound = |sign: f64| {
        scale.iter().zip(&offset).map(|(s, o)| o + sign * s.abs()).collect::<Vec<f64>>()
    };
    let bounds = [bound(-1.0), bound(1.0)];
    let signs: Vec<f64> = scale.iter().map(|s| s.signum()).collect(); // tanh is odd
    *last = chain.pop()?.affine.then_columns(&signs, &vec![0.0; signs.len()]);
    let mut limit = f64::INFINITY;
    if let Some(Layer { kind: Kind::Clip(low, high), .. }) = chain.last() {
        // A limit of the same size for all, just before tanh and in its units.
        let plain = last.dense.is_none() && last.scale.iter().all(|s| s.abs() == 1.0);
        let same = high.first().copied().filter(|h| {
            high.iter().all(|x| x == h)
                && low.iter().all(|x| *x == -h)
                && last.offset.iter().all(|o| *o == 0.0)
        });
        if let (true, Some(size)) = (plain, same) {
            limit = size;
            let signs = last.scale.clone();
            *last = chain.pop()?.affine.then_columns(&signs, &vec![0.0; signs.len()]);
        }
    }
    Some((limit, bounds))
}

/// Takes (s − mean) / std, within ± a limit or without one, off the start.
fn normalizer(chain: &mut Vec<Layer>, last: &mut Affine) -> Option<Normalizer> {
    let limit = match chain.first() {
        Some(Layer { kind: Kind::Clip(low, high), affine, .. }) if affine.dense.is_none() => {
            let size = *high.first()?;
            (high.iter().all(|h| *h == size) && low.iter().all(|l| *l == -size)).then_some(size)
        }
        _ => None,
    };
    let first = match limit {
        Some(_) => chain.remove(0).affine,
        None => chain.first().map_or(&*last, |layer| &layer.affine).clone(),
    };
    let identity = Affine { dense: None, ..Affine::identity(first.inputs()) };
    let untouched = first.scale == identity.scale && first.offset == identity.offset;
    if limit.is_none() {
        if untouched || first.scale.iter().any(|s| *s <= 0.0 || !s.is_finite()) {
            return None; // what is left is folded into the first layer
        }
        let start = chain.first_mut().map_or(last, |layer| &mut layer.affine);
        (start.scale, start.offset) = (identity.scale, identity.offset);
    }
    let sound = first.scale.iter().all(|s| *s > 0.0 && s.is_finite());
    if !sound {
        // The limit cannot be kept: put it back, and the layer is refused with the reason.
        let size = limit.unwrap_or(f64::INFINITY);
        let n = first.inputs();
        chain.insert(
            0,
            Layer { from: 0, affine: first, kind: Kind::Clip(vec![-size; n], vec![size; n]) },
        );
        return None;
    }
    Some(Normalizer {
        mean: first.scale.iter().zip(&first.offset).map(|(s, o)| -o / s).collect(),
        var: first.scale.iter().map(|s| 1.0 / (s * s)).collect(),
        clip: limit.unwrap_or(f64::INFINITY),
        epsilon: 0.0,
    })
}

fn layer_of(affine: &Affine, budget: &mut Budget) -> Result<Linear, Stop> {
    let (inputs, outputs) = (affine.inputs(), affine.outputs());
    let Dense { weight, bias } = affine.folded(budget)?;
    let round = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect();
    Ok(Linear { inputs, outputs, weight: round(weight), bias: round(bias) })
}
