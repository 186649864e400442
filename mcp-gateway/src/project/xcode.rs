//! Xcode projects: the container and its shared schemes. Schemes that only one user has are not on another machine.

use super::quote::quoted;
use std::fs;
use std::path::Path;

/// A workspace or project file and the schemes that are shared with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XcodeContainer {
    /// `App.xcworkspace` or `App.xcodeproj`.
    pub name: String,
    schemes: Vec<String>,
}

impl XcodeContainer {
    /// The container of a directory; a workspace before a project, the first by name.
    pub(super) fn find(directory: &Path) -> Option<Self> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .ok()?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".xcworkspace") || name.ends_with(".xcodeproj"))
            .collect();
        names.sort_by_key(|name| (name.ends_with(".xcodeproj"), name.clone()));
        let name = names.first()?.clone();
        let mut schemes: Vec<String> =
            names.iter().flat_map(|name| shared_schemes(&directory.join(name))).collect();
        schemes.sort();
        schemes.dedup();
        Some(Self { name, schemes })
    }

    /// `xcodebuild ACTION` with container and scheme.
    pub(super) fn command(&self, action: &str, scheme: Option<&str>) -> Result<String, String> {
        let scheme = match (scheme, self.schemes.as_slice()) {
            (Some(scheme), _) => scheme,
            (None, [only]) => only,
            (None, []) => return Err("it has no shared scheme, so one must be named".to_owned()),
            (None, several) => return Err(format!("it has several schemes: {}", several.join(", "))),
        };
        let kind = if self.name.ends_with(".xcworkspace") { "-workspace" } else { "-project" };
        Ok(format!("xcodebuild {action} {kind} {} -scheme {}", quoted(&self.name), quoted(scheme)))
    }
}

fn shared_schemes(container: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(container.join("xcshareddata/xcschemes")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".xcscheme").map(str::to_owned))
        .collect()
}
