//! Scala with sbt.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Sbt;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Sbt, directory.first_file(&["build.sbt"])?))
}

impl Tool for Sbt {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // A suite is one word. ScalaTest's `-z` selects tests with names that contain the text.
        let task = match filter {
            None => "test".to_owned(),
            Some(filter) if filter.contains(char::is_whitespace) => {
                format!("testOnly * -- -z \"{}\"", filter.replace('"', "\\\""))
            }
            Some(suite) => format!("testOnly *{suite}"),
        };
        Ok(format!("sbt -batch {}", quoted(&task)))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("sbt", "release", "give the whole command as `command`"));
        }
        let task = target.map_or_else(|| "compile".to_owned(), |project| format!("{project}/compile"));
        Ok(format!("sbt -batch {}", quoted(&task)))
    }
}
