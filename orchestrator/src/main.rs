//! allotd.
fn main() {}
