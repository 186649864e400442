//! Deno, by its own test runner or the task `test` of deno.json.

use super::script::{self, Filtered};
use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
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
    /// Returns the command of a task. It is empty if it is not a plain text.
    fn task(&self, name: &str) -> Option<String> {
        let parsed =
            jsonc_parser::parse_to_value(&self.configuration, &jsonc_parser::ParseOptions::default());
        let Ok(Some(jsonc_parser::JsonValue::Object(file))) = parsed else { return None };
        let text = match file.get_object("tasks")?.get(name)? {
            jsonc_parser::JsonValue::String(text) => text.to_string(),
            jsonc_parser::JsonValue::Object(task) => {
                task.get_string("command").map(ToString::to_string).unwrap_or_default()
            }
            _ => String::new(),
        };
        Some(text)
    }
}

impl Tool for Deno {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let (command, script) = match self.task("test") {
            Some(script) => ("deno task test", script),
            None => ("deno test", "deno test".to_owned()),
        };
        let Some(filter) = filter else { return Ok(command.to_owned()) };
        match script::filtered(&script, filter, &|_| None) {
            Ok(Filtered::Appended(arguments)) => Ok(format!("{command} {arguments}")),
            Ok(Filtered::Rewritten(text)) => Ok(text),
            Err(reason) => {
                let instead = format!("{reason}; give the whole command as `command`");
                Err(no_option("the task `test`", "filter", &instead))
            }
        }
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("deno", "release", "give the task as `target`"));
        }
        match target {
            Some(task) => Ok(format!("deno task {}", quoted(task))),
            None if self.task("build").is_some() => Ok("deno task build".to_owned()),
            None => Err(Refusal::Goal("it has no task `build`".to_owned())),
        }
    }
}
