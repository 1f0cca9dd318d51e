//! Placeholder until the decoder stands.
fn main() {}
