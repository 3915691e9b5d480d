//! Readers of policy files. The files may come from strangers: nothing in them is executed.

mod archive;
pub(super) mod d4rl;
mod numpy;
pub(super) mod onnx;
mod pickle;
pub(super) mod safetensors;
pub(super) mod sb3;
#[cfg(test)]
mod tests;
mod torch;

/// Why a file was refused, in words.
type Problem = String;
