//! Maven, by the wrapper if the project has one.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Maven {
    program: &'static str,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["pom.xml"])?;
    let program = if directory.has("mvnw") { "./mvnw" } else { "mvn" };
    Some(Detected::new(Maven { program }, marker))
}

impl Tool for Maven {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let command = format!("{} --batch-mode test", self.program);
        let Some(filter) = filter else { return Ok(command) };
        let class = filter::class_of_file(filter, &filter::JVM);
        let test = match filter::class_and_method(filter) {
            Some((class, method)) if !filter.contains('/') => format!("{class}#{method}"),
            _ => class.unwrap_or(filter).to_owned(),
        };
        // Without the second option, a module without such a test fails the whole run.
        Ok(format!("{command} -Dtest={} -Dsurefire.failIfNoSpecifiedTests=false", quoted(&test)))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("maven", "release", "name the profile in `command`"));
        }
        let command = format!("{} --batch-mode package -DskipTests", self.program);
        Ok(match target {
            Some(target) => format!("{command} --projects {} --also-make", quoted(target)),
            None => command,
        })
    }

    fn test_reports(&self) -> &'static [&'static str] {
        &["**/target/surefire-reports/TEST-*.xml"]
    }
}
