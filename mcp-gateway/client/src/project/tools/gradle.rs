//! Gradle, by the wrapper if the project has one.

use super::{Detected, Parallel, Refusal, Tool, no_option, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Gradle {
    program: &'static str,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let markers = ["settings.gradle.kts", "settings.gradle", "build.gradle.kts", "build.gradle"];
    let marker = directory.first_file(&markers)?;
    let program = if directory.has("gradlew") { "./gradlew" } else { "gradle" };
    Some(Detected::new(Gradle { program }, marker))
}

impl Gradle {
    /// Returns the program without its daemon. A daemon would end with the job, and with it the
    /// builds of other jobs that use it.
    fn command(&self) -> String {
        format!("{} --no-daemon", self.program)
    }
}

impl Tool for Gradle {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let form = |filter: &str| match filter::class_and_method(filter) {
            Some((class, method)) => format!("{class}.{method}"),
            None => filter.to_owned(),
        };
        let filter = filter.map(form);
        Ok(with_filter(&format!("{} test", self.command()), "--tests ", filter.as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("gradle", "release", "give the task as `target`, e.g. assembleRelease"));
        }
        Ok(format!("{} {}", self.command(), target.map_or_else(|| "assemble".to_owned(), quoted)))
    }

    fn test_reports(&self) -> &'static [&'static str] {
        &["**/build/test-results/**/TEST-*.xml"]
    }
}
