//! Zig, by the steps of build.zig.

use super::{Detected, Parallel, Refusal, Tool, no_option, with_filter};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Zig {
    /// build.zig declares the option `test-filter`, as `zig init` writes it.
    has_filter: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["build.zig"])?;
    let has_filter = directory.text(&marker).is_some_and(|text| text.contains("\"test-filter\""));
    Some(Detected::new(Zig { has_filter }, marker))
}

impl Tool for Zig {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        if filter.is_some() && !self.has_filter {
            let instead = "add an option `test-filter` to build.zig, or give the whole command as `command`";
            return Err(no_option("build.zig", "filter", instead));
        }
        Ok(with_filter("zig build test", "-Dtest-filter=", filter))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let step = target.map(|step| format!(" {}", quoted(step))).unwrap_or_default();
        Ok(format!("zig build{step}{}", if release { " -Doptimize=ReleaseSafe" } else { "" }))
    }
}
