//! Elixir with Mix.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Mix;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Mix, directory.first_file(&["mix.exs"])?))
}

impl Tool for Mix {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // ExUnit selects by file and line, or by the tag `test`. The value of the tag is the test's
        // name with the prefix "test ".
        Ok(match filter {
            None => "mix test".to_owned(),
            // A path may have a line: `test/a_test.exs:7`.
            Some(path) if path.contains(".exs") => format!("mix test {}", quoted(path)),
            Some(name) => {
                let name = name.strip_prefix("test ").unwrap_or(name);
                format!("mix test --only {}", quoted(&format!("test:test {name}")))
            }
        })
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if target.is_some() {
            return Err(no_option("mix", "target", "give the whole command as `command`"));
        }
        Ok(if release { "MIX_ENV=prod mix compile" } else { "mix compile" }.to_owned())
    }
}
