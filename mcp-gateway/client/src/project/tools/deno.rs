//! Deno, by its own test runner or the task `test` of deno.json.

use super::{Detected, Parallel, Refusal, Tool, no_option, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Deno {
    /// Text of deno.json, which may have comments.
    configuration: String,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["deno.json", "deno.jsonc"])?;
    let configuration = directory.text(&marker).unwrap_or_default();
    Some(Detected::new(Deno { configuration }, marker))
}

impl Deno {
    fn has_task(&self, name: &str) -> bool {
        let parsed =
            jsonc_parser::parse_to_value(&self.configuration, &jsonc_parser::ParseOptions::default());
        let Ok(Some(jsonc_parser::JsonValue::Object(file))) = parsed else { return false };
        file.get_object("tasks").is_some_and(|tasks| tasks.get(name).is_some())
    }
}

impl Tool for Deno {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let command = if self.has_task("test") { "deno task test" } else { "deno test" };
        Ok(with_filter(command, "--filter ", filter.map(filter::spaced).as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("deno", "release", "give the task as `target`"));
        }
        match target {
            Some(task) => Ok(format!("deno task {}", quoted(task))),
            None if self.has_task("build") => Ok("deno task build".to_owned()),
            None => Err(Refusal::Goal("it has no task `build`".to_owned())),
        }
    }
}
