//! What is known of the values of a graph: each is a constant or an affine map of a layer, where a layer is the input or
//! a non-linear operation on an affine map of an earlier layer.

use crate::policy::readers::onnx::Stop;
use crate::policy::readers::onnx::affine::{Affine, Budget};
use crate::policy::readers::onnx::graph::Tensor;
use hambo_engine::backend::Activation;
use std::rc::Rc;

/// A non-linear operation and the affine map of an earlier layer that it is applied to.
#[derive(Debug)]
pub(super) struct Layer {
    pub from: usize,
    pub affine: Affine,
    pub kind: Kind,
}

/// The non-linear operation of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Activation(Activation),
    /// Clipped to \[low, high\], column by column.
    Clip(Vec<f64>, Vec<f64>),
}

/// An affine map of layer `base`, where 0 is the input and 1, 2, … are [`Layers::layers`].
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub base: usize,
    pub affine: Affine,
    /// 1 for `[columns]`, 2 for `[batch, columns]`.
    pub rank: usize,
}

/// What is known of a value of the graph.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Constant(Rc<Tensor>),
    Row(Rc<Row>),
}

/// The layers found so far on the way from the input to the output.
pub(super) struct Layers {
    pub layers: Vec<Layer>,
    pub budget: Budget,
    /// Whether the input holds exactly one row.
    pub single: bool,
}

impl Value {
    pub fn constant(tensor: Tensor) -> Self {
        Value::Constant(Rc::new(tensor))
    }

    pub fn row(base: usize, affine: Affine, rank: usize) -> Self {
        Value::Row(Rc::new(Row { base, affine, rank }))
    }
}

impl Layers {
    /// A new layer, and the map that is just it.
    pub fn add(&mut self, row: &Row, kind: Kind) -> Result<Value, Stop> {
        if let Some(merged) = self.merged_limits(row, &kind) {
            let Layer { from, affine, .. } = &self.layers[row.base - 1];
            let before =
                Row { base: *from, affine: affine.copy(&mut self.budget)?, rank: row.rank };
            return self.add(&before, merged);
        }
        let affine = row.affine.copy(&mut self.budget)?;
        let same = Affine::identity(affine.outputs()).copy(&mut self.budget)?;
        self.layers.push(Layer { from: row.base, affine, kind });
        Ok(Value::row(self.layers.len(), same, row.rank))
    }

    /// A limit of a limit is one limit: exporters write a lower and an upper one after another.
    fn merged_limits(&self, row: &Row, kind: &Kind) -> Option<Kind> {
        let before = self.layers.get(row.base.checked_sub(1)?)?;
        let (Kind::Clip(first_low, first_high), Kind::Clip(low, high)) = (&before.kind, kind)
        else {
            return None;
        };
        let untouched = row.affine.dense.is_none()
            && row.affine.scale.iter().all(|s| *s == 1.0)
            && row.affine.offset.iter().all(|o| *o == 0.0);
        let limited = |values: &[f64]| {
            let limits = low.iter().zip(high);
            values
                .iter()
                .zip(limits)
                .map(|(v, (low, high))| v.max(*low).min(*high))
                .collect::<Vec<f64>>()
        };
        untouched.then(|| Kind::Clip(limited(first_low), limited(first_high)))
    }
}
