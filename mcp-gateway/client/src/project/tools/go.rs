//! Go modules.

use super::{Detected, Parallel, Refusal, Tool, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Go;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Go, directory.first_file(&["go.mod", "go.work"])?))
}

impl Tool for Go {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // Only the records name the package of each test and each result.
        Ok(with_filter("go test -json ./...", "-run ", filter.map(filter::pattern).as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = if release { "go build -trimpath -ldflags '-s -w'" } else { "go build" };
        Ok(format!("{command} {}", target.map_or_else(|| "./...".to_owned(), quoted)))
    }
}
