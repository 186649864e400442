//! Xcode projects and workspaces, with their shared schemes. A user's own scheme does not exist on
//! other machines.

use super::{Detected, Parallel, Refusal, Tool};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

/// A workspace or project and its shared schemes.
struct Xcode {
    /// `App.xcworkspace` or `App.xcodeproj`.
    container: String,
    schemes: Vec<String>,
}

/// Returns the container of a directory: a workspace before a project, the first by name.
pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let mut containers = directory.ending_in(&[".xcworkspace", ".xcodeproj"]);
    containers.sort_by_key(|name| (name.ends_with(".xcodeproj"), *name));
    let container = (*containers.first()?).to_owned();
    let mut schemes: Vec<String> = containers
        .iter()
        .flat_map(|name| directory.entries_of(&format!("{name}/xcshareddata/xcschemes")))
        .filter_map(|name| name.strip_suffix(".xcscheme").map(str::to_owned))
        .collect();
    schemes.sort();
    schemes.dedup();
    let marker = container.clone();
    Some(Detected::new(Xcode { container, schemes }, marker))
}

impl Xcode {
    /// Returns `xcodebuild ACTION` with container and scheme.
    fn command(&self, action: &str, scheme: Option<&str>) -> Result<String, Refusal> {
        let scheme = match (scheme, self.schemes.as_slice()) {
            (Some(scheme), _) => scheme,
            (None, [only]) => only,
            (None, []) => {
                return Err(Refusal::Goal("it has no shared scheme, so a scheme must be named".to_owned()));
            }
            (None, several) => {
                return Err(Refusal::Goal(format!("it has several schemes: {}", several.join(", "))));
            }
        };
        let kind = if self.container.ends_with(".xcworkspace") { "-workspace" } else { "-project" };
        Ok(format!("xcodebuild {action} {kind} {} -scheme {}", quoted(&self.container), quoted(scheme)))
    }
}

/// Returns `Target/Class` for a file of tests. A target's files are in the directory of its name.
fn of_file(filter: &str) -> Option<String> {
    let class = filter::class_of_file(filter, &[".swift", ".m"])?;
    let (directory, _) = filter.trim_start_matches("./").rsplit_once('/')?;
    let mut folders = directory.split('/');
    let target = folders.clone().find(|folder| folder.ends_with("Tests")).or_else(|| folders.next())?;
    Some(format!("{target}/{class}"))
}

impl Tool for Xcode {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        let command = self.command("test", None)?;
        let form = |filter: &str| {
            filter::from_objective_c(filter).or_else(|| of_file(filter)).unwrap_or_else(|| filter.to_owned())
        };
        Ok(super::with_filter(&command, "-only-testing:", filter.map(form).as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let command = self.command("build", target)?;
        Ok(if release { format!("{command} -configuration Release") } else { command })
    }
}
