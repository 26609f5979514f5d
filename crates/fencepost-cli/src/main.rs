//! The command `fencepost`.
fn main() {}
