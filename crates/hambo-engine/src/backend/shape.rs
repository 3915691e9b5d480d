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
    /// x, and eˣ − 1 where x is negative
    Elu,
    /// x, and x / 100 where x is negative
    LeakyRelu,
    /// ln(1 + eˣ)
    Softplus,
}

impl Activation {
    /// As it is written in files.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Linear => "linear",
            Activation::Relu => "relu",
            Activation::Tanh => "tanh",
            Activation::Elu => "elu",
            Activation::LeakyRelu => "leakyrelu",
            Activation::Softplus => "softplus",
        }
    }
}

/// What is left of a negative sum by [`Activation::LeakyRelu`].
pub(crate) const LEAK: f32 = 0.01;

/// An ensemble of fully connected networks of one architecture.
///
/// The parameters of all members lie in one buffer `[members, stride]`; those of a member are, layer after
/// layer, the weights `[inputs, outputs]` row-major and then the biases `[outputs]`.
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

/// Where the parameters of one layer lie within those of its member.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// Width of what it reads.
    pub inputs: usize,
    /// Width of what it gives.
    pub outputs: usize,
    /// Offset of the weights; the biases follow them.
    pub offset: usize,
    /// What it does to its sums.
    pub activation: Activation,
}

impl Shape {
    /// Most layers that a network may have.
    pub const DEEPEST: usize = 16;
    /// Most parameters that an ensemble may have: with gradients and Adam's state, 16 GB.
    const LARGEST: usize = 1_000_000_000;

    /// A shape with linear outputs. Errors on a network that is empty, of zero width, or too large.
    pub fn new(members: usize, widths: Vec<usize>, hidden: Activation) -> Result<Self> {
        let refused = |expected: String| {
            Error::setting("network", format!("{members} × {widths:?}"), expected)
        };
        if members == 0 || widths.len() < 2 || widths.contains(&0) {
            return Err(refused(
                "at least one member and widths of at least 1 for input, hidden layers and output"
                    .to_owned(),
            ));
        }
        if widths.len() - 1 > Self::DEEPEST {
            return Err(refused(format!("at most {} layers", Self::DEEPEST)));
        }
        let parameters = widths
            .windows(2)
            .try_fold(0usize, |sum, w| w[0].checked_add(1)?.checked_mul(w[1])?.checked_add(sum));
        if parameters.and_then(|n| n.checked_mul(members)).is_none_or(|n| n > Self::LARGEST) {
            return Err(refused(format!("at most {} parameters in all members", Self::LARGEST)));
        }
        Ok(Shape { members, widths, hidden, output: Activation::Linear })
    }

    /// An error if a pass of this many rows through all members needs more memory than there can be.
    pub fn check_rows(&self, name: &'static str, rows: usize) -> Result<()> {
        let widths = self.widths.iter().fold(0usize, |sum, &width| sum.saturating_add(width));
        let most = Self::LARGEST / widths.saturating_mul(self.members).clamp(1, Self::LARGEST);
        match rows > most {
            true => Err(Error::setting(
                name,
                rows,
                format!("at most {most} rows in {} networks of {widths} units", self.members),
            )),
            false => Ok(()),
        }
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

    /// Distance from the parameters of one member to those of the next. A few zeros between them let every
    /// member start where vector loads can.
    pub fn stride(&self) -> usize {
        match self.members {
            1 => self.parameters(),
            _ => self.parameters().next_multiple_of(4),
        }
    }

    /// `[members, parameters]` → `[members, stride]`
    pub fn spread(&self, dense: &[f32]) -> Vec<f32> {
        let mut params = vec![0.0; self.members * self.stride()];
        for (to, from) in
            params.chunks_exact_mut(self.stride()).zip(dense.chunks_exact(self.parameters()))
        {
            to[..from.len()].copy_from_slice(from);
        }
        params
    }

    /// `[members, stride]` → `[members, parameters]`
    pub fn dense(&self, params: &[f32]) -> Vec<f32> {
        params
            .chunks_exact(self.stride())
            .flat_map(|member| &member[..self.parameters()])
            .copied()
            .collect()
    }

    /// The largest of all widths.
    pub(crate) fn widest(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(0)
    }

    /// All layers with their numbers, from the input to the output.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, Layer)> + '_ {
        (0..self.depth()).map(|l| (l, self.layer(l)))
    }

    /// Layer number `index`; 0 reads the input.
    pub fn layer(&self, index: usize) -> Layer {
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
