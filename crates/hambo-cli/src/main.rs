//! The command `hambo`.
fn main() {}
