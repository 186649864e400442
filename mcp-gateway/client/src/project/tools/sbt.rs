//! Scala with sbt.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Sbt;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Sbt, directory.first_file(&["build.sbt"])?))
}

/// Returns the suite that a filter names: a file or a class.
fn suite(filter: &str) -> Option<&str> {
    let is_class = |name: &&str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        last.starts_with(char::is_uppercase)
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '*'))
    };
    filter::class_of_file(filter, &[".scala"]).or_else(|| Some(filter).filter(is_class))
}

impl Tool for Sbt {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let task = match filter.map(|filter| (filter, suite(filter))) {
            None => "test".to_owned(),
            Some((_, Some(suite))) => format!("testOnly *{suite}"),
            // ScalaTest's `-z` selects tests with names that contain the text.
            Some((name, None)) => format!("testOnly * -- -z \"{}\"", name.replace('"', "\\\"")),
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
