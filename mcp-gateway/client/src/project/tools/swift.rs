//! Swift packages.

use super::{Detected, Parallel, Refusal, Tool, with_filter, with_target};
use crate::project::directory::Directory;
use crate::project::filter;

struct Swift;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Swift, directory.first_file(&["Package.swift"])?))
}

impl Tool for Swift {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // `swift test --filter` matches a regular expression against `Module.Class/method`.
        let form = |filter: &str| match filter::from_objective_c(filter) {
            Some(path) => path.replacen('/', ".", 1),
            None => filter::pattern(filter::class_of_file(filter, &[".swift"]).unwrap_or(filter)),
        };
        Ok(with_filter("swift test", "--filter ", filter.map(form).as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = with_target("swift build", "--target ", target);
        Ok(if release { format!("{command} --configuration release") } else { command })
    }
}
