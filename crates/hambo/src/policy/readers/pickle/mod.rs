//! A reader of Python pickles that executes nothing.
//!
//! A pickle is a program for a small stack machine. This one knows the opcodes that tensors, arrays and the records
//! around them are written with, and a fixed list of names; a name is never more than a label, and a call of it is kept
//! as a record of its arguments. Every other opcode or name is refused.
//!
//! All values lie in one list and refer to each other by their place in it, so neither depth nor cycles can exhaust the
//! stack, and each opcode adds at most one value: memory is bounded by the length of the pickle.

mod machine;
mod names;

use crate::policy::readers::Problem;
use machine::{Id, Machine, Node};
use names::KNOWN;

/// The values in a pickle.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle that begins `bytes`; also gives its length.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, usize), Problem> {
        let (nodes, root, length) = Machine::run(bytes)?;
        Ok((Pickle { nodes, root }, length))
    }

    /// All values, whatever they are part of.
    pub fn values(&self) -> impl Iterator<Item = View<'_, 'a>> {
        (0..self.nodes.len()).map(|id| View { pickle: self, id })
    }

    /// The outermost value.
    pub fn root(&self) -> View<'_, 'a> {
        View { pickle: self, id: self.root }
    }
}

/// A value in a pickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'p, 'a> {
    pickle: &'p Pickle<'a>,
    id: Id,
}

impl<'p, 'a> View<'p, 'a> {
    fn node(self) -> &'p Node<'a> {
        &self.pickle.nodes[self.id]
    }

    fn at(self, id: Id) -> Self {
        View { id, ..self }
    }

    pub fn int(self) -> Option<i64> {
        match *self.node() {
            Node::Int(value) => Some(value),
            _ => None,
        }
    }

    pub fn size(self) -> Option<usize> {
        self.int().and_then(|i| usize::try_from(i).ok())
    }

    pub fn boolean(self) -> Option<bool> {
        match *self.node() {
            Node::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn number(self) -> Option<f64> {
        match *self.node() {
            Node::Float(value) => Some(value),
            Node::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    pub fn text(self) -> Option<&'a str> {
        match *self.node() {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn bytes(self) -> Option<&'a [u8]> {
        match *self.node() {
            Node::Bytes(bytes) | Node::Long(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of a tuple or list.
    pub fn elements(self) -> Option<Vec<Self>> {
        match self.node() {
            Node::Sequence(items) => Some(items.iter().map(|&id| self.at(id)).collect()),
            _ => None,
        }
    }

    /// The first elements of a tuple or list that has at least so many.
    pub fn first<const N: usize>(self) -> Option<[Self; N]> {
        match self.node() {
            Node::Sequence(items) => items.first_chunk::<N>().map(|ids| ids.map(|id| self.at(id))),
            _ => None,
        }
    }

    /// The elements of a tuple of sizes, of the few dimensions that an array has.
    pub fn sizes(self) -> Option<Vec<usize>> {
        match self.node() {
            Node::Sequence(items) if items.len() <= 8 => {
                items.iter().map(|&id| self.at(id).size()).collect()
            }
            _ => None,
        }
    }

    /// The module and name of a global.
    pub fn global(self) -> Option<(&'static str, &'static str)> {
        match *self.node() {
            Node::Global(global) => Some(KNOWN[global]),
            _ => None,
        }
    }

    /// A call of a global: its name and arguments.
    pub fn call(self) -> Option<(&'static str, Self)> {
        match self.node() {
            Node::Object { global, arguments, .. } => Some((KNOWN[*global].1, self.at(*arguments))),
            _ => None,
        }
    }

    /// The state given to an object after it was made.
    pub fn state(self) -> Option<Self> {
        match self.node() {
            Node::Object { state, .. } => state.map(|id| self.at(id)),
            _ => None,
        }
    }

    pub fn persistent(self) -> Option<Self> {
        match self.node() {
            Node::Persistent(id) => Some(self.at(*id)),
            _ => None,
        }
    }

    /// The pairs of a dictionary, ordered or not.
    pub fn items(self) -> Option<Vec<(Self, Self)>> {
        match self.node() {
            Node::Dict(items) | Node::Object { items, .. } => {
                Some(items.iter().map(|&(k, v)| (self.at(k), self.at(v))).collect())
            }
            _ => None,
        }
    }

    /// The value of a key of a dictionary, the last one given.
    pub fn get(self, key: &str) -> Option<Self> {
        match self.node() {
            Node::Dict(items) | Node::Object { items, .. } => {
                let found = items.iter().rev().find(|&&(k, _)| self.at(k).text() == Some(key));
                found.map(|&(_, v)| self.at(v))
            }
            _ => None,
        }
    }
}
