//! Rust with Cargo.

use super::{Detected, Parallel, Refusal, Tool, with_filter, with_target};
use crate::project::directory::Directory;

struct Cargo;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Cargo, directory.first_file(&["Cargo.toml"])?))
}

impl Tool for Cargo {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        Ok(with_filter("cargo test", "", filter))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = with_target("cargo build", "--package ", target);
        Ok(if release { format!("{command} --release") } else { command })
    }
}
