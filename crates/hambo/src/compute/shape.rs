//! The one family of networks that everything here is made of.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a layer does to its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// x
    Linear,
    /// max(x, 0)
    Relu,
    /// tanh x
    Tanh,
}

/// An ensemble of fully connected networks of one architecture.
///
/// The parameters of all members lie in one buffer `[members, parameters]`; those of a member are, layer
/// after layer, the weights `[inputs, outputs]` row-major and then the biases `[outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of networks, K.
    pub members: usize,
    /// Width of the input, of every hidden layer, of the output.
    pub widths: Vec<usize>,
    /// Activation of the hidden layers.
    pub hidden: Activation,
    /// Activation of the output.
    pub output: Activation,
}

/// Parameters that an ensemble may have: 4 GB, of which training keeps several copies.
const LARGEST: usize = 1_000_000_000;

/// Where the parameters of one layer lie within those of its member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    /// Offset of the weights; the biases follow them.
    pub offset: usize,
    pub activation: Activation,
}

impl Shape {
    /// A shape with linear outputs. Errors on an empty or zero-width network.
    pub fn new(members: usize, widths: Vec<usize>, hidden: Activation) -> Result<Self> {
        if members == 0 || widths.len() < 2 || widths.contains(&0) {
            return Err(Error::setting(
                "network",
                format!("{members} × {widths:?}"),
                "at least one member and widths of at least 1 for input, hidden layers and output",
            ));
        }
        let checked = widths.windows(2).try_fold(0usize, |sum, w| {
            w[0].checked_mul(w[1])?.checked_add(w[1])?.checked_add(sum) // as `parameters` adds them up
        });
        if checked.and_then(|n| n.checked_mul(members)).is_none_or(|n| n > LARGEST) {
            return Err(Error::setting(
                "network",
                format!("{members} × {widths:?}"),
                format!("at most {LARGEST} parameters in all members together"),
            ));
        }
        Ok(Shape { members, widths, hidden, output: Activation::Linear })
    }

    /// Width of the input.
    pub fn inputs(&self) -> usize {
        self.widths[0]
    }

    /// Width of the output.
    pub fn outputs(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }

    /// Number of layers with parameters.
    pub fn depth(&self) -> usize {
        self.widths.len() - 1
    }

    /// Number of parameters of one member.
    pub fn parameters(&self) -> usize {
        self.widths.windows(2).map(|w| w[0] * w[1] + w[1]).sum()
    }

    pub(crate) fn widest(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, Layer)> + '_ {
        (0..self.depth()).map(|l| (l, self.layer(l)))
    }

    pub(crate) fn layer(&self, index: usize) -> Layer {
        let offset = self.widths[..=index].windows(2).map(|w| w[0] * w[1] + w[1]).sum();
        let last = index + 1 == self.depth();
        Layer {
            inputs: self.widths[index],
            outputs: self.widths[index + 1],
            offset,
            activation: if last { self.output } else { self.hidden },
        }
    }
}
