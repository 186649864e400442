//! Bazel.

use super::{Detected, Parallel, Refusal, Tool};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Bazel;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let markers = ["MODULE.bazel", "WORKSPACE.bazel", "WORKSPACE"];
    Some(Detected::new(Bazel, directory.first_file(&markers)?))
}

impl Tool for Bazel {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // The output of failed tests goes to the log only on request.
        let command = "bazel test --test_output=errors";
        Ok(match filter {
            None => format!("{command} //..."),
            Some(label) if label.starts_with("//") || label.starts_with('@') || label.starts_with(':') => {
                format!("{command} {}", quoted(label))
            }
            Some(name) => format!("{command} --test_filter={} //...", quoted(name)),
        })
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let mode = if release { " --compilation_mode=opt" } else { "" };
        Ok(format!("bazel build{mode} {}", target.map_or_else(|| "//...".to_owned(), quoted)))
    }
}
