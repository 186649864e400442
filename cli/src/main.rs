//! The one binary: arguments in, the parts wired, exit codes out.
fn main() {}
