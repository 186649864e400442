//! Go modules.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Go;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    Some(Detected::new(Go, directory.first_file(&["go.mod", "go.work"])?))
}

/// Returns true for packages by directory: `.`, `./a`, `./...`, `../a`.
fn is_package(filter: &str) -> bool {
    filter == "." || filter.starts_with("./") || filter.starts_with("../") || filter.ends_with("/...")
}

impl Tool for Go {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // Only the records name the package of each test and each result.
        let command = "go test -json";
        let Some(filter) = filter else { return Ok(format!("{command} ./...")) };
        if let (Some(file), _) = filter::file_and_name(filter, &[".go"]) {
            let directory = file.rsplit_once('/').map_or(".", |(directory, _)| directory);
            let package =
                if directory.starts_with('.') { directory.to_owned() } else { format!("./{directory}") };
            let instead = format!("it selects by name: give a test, or the package {package} of the file");
            return Err(no_option("go test", "filter", &instead));
        }
        if is_package(filter) {
            return Ok(format!("{command} {}", quoted(filter)));
        }
        Ok(format!("{command} ./... -run {}", quoted(&filter::pattern(filter))))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = if release { "go build -trimpath -ldflags '-s -w'" } else { "go build" };
        Ok(format!("{command} {}", target.map_or_else(|| "./...".to_owned(), quoted)))
    }
}
