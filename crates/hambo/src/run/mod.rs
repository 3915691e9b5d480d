//! What surrounds long work: who watches it, where it is kept in case that it is interrupted, what is written down.

mod arrays;
pub mod checkpoint;
pub mod log;
mod observer;

pub use observer::{Observer, Run};
