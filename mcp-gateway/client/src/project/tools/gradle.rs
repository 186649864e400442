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

/// Returns the path of the project that contains a file, as the beginning of a task's path. The other projects
/// have no such test, and Gradle fails for each of them.
fn project_of(file: &str) -> String {
    let directory = file.trim_start_matches("./").split_once("/src/").map(|(directory, _)| directory);
    directory.map_or(String::new(), |directory| format!(":{}:", directory.replace('/', ":")))
}

impl Tool for Gradle {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let mut task = "test".to_owned();
        let filter = filter.map(|filter| match filter::class_and_method(filter) {
            Some((class, method)) if !filter.contains('/') => format!("{class}.{method}"),
            _ => {
                task = format!("{}test", project_of(filter));
                filter::class_of_file(filter, &filter::JVM).unwrap_or(filter).to_owned()
            }
        });
        Ok(with_filter(&format!("{} {task}", self.command()), "--tests ", filter.as_deref()))
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
