//! C and C++ with Meson.

use super::{Detected, Parallel, Refusal, Tool, no_option, with_target};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

struct Meson;

/// Meson refuses to set up a directory again.
const SETUP: &str = "{ test -f build/build.ninja || meson setup build; }";

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Meson, directory.first_file(&["meson.build"])?))
}

/// Returns the name of a test for a shell. Meson's test names are patterns (fnmatch).
fn name(filter: &str) -> String {
    let is_pattern = filter.contains('*');
    let literal: String = filter
        .chars()
        .flat_map(|c| match c {
            '[' | '?' if !is_pattern => vec!['[', c, ']'],
            c => vec![c],
        })
        .collect();
    quoted(&literal)
}

impl Tool for Meson {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let filter = filter.map(|filter| format!(" {}", name(filter))).unwrap_or_default();
        Ok(format!("{SETUP} && meson test -C build --print-errorlogs{filter}"))
    }

    fn build(&self, target: Option<&str>, release: bool, parallel: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option("meson", "release", "give the whole command as `command`"));
        }
        let compile = format!("meson compile -C build --jobs {}", parallel.word());
        Ok(format!("{SETUP} && {}", with_target(&compile, "", target)))
    }
}
