//! The files that a job sees: those on disk where the pool is on this machine, a snapshot of them elsewhere.

use super::ToolError;
use crate::client::Client;
use crate::snapshot;
use buildpool_protocol::report::SnapshotInfo;
use buildpool_protocol::spec::{OWN_VARIABLES, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use walkdir::WalkDir;

/// Files that are looked at to see whether something changed; a larger project counts as changed.
const FILES_MAX: usize = 100_000;
/// Directories that hold what tools make.
const MADE: [&str; 9] =
    [".git", "target", "node_modules", "build", ".build", "dist", "DerivedData", "__pycache__", ".gradle"];

/// What a job runs on.
pub(super) struct JobSource {
    pub(super) source: Source,
    /// What its history belongs to.
    pub(super) project: String,
    pub(super) in_place: bool,
    pub(super) info: Option<SnapshotInfo>,
}

/// For a command in this directory.
pub(super) async fn of(client: &Client, directory: &Path) -> Result<JobSource, ToolError> {
    if client.pool().local {
        return Ok(JobSource {
            source: Source::InPlace { directory: directory.to_string_lossy().into_owned() },
            project: project_of(directory).to_string_lossy().into_owned(),
            in_place: true,
            info: None,
        });
    }
    let options = snapshot::Options::new(directory);
    let snapshot = snapshot::take_and_deliver(client, options)
        .await
        .map_err(|error| ToolError::Snapshot(crate::client::chain(&error)))?;
    Ok(JobSource {
        source: snapshot.source(),
        project: snapshot.manifest.project.clone(),
        in_place: false,
        info: Some(snapshot.info()),
    })
}

/// The root of the repository around a directory, else the directory.
fn project_of(directory: &Path) -> PathBuf {
    let root = directory.ancestors().find(|place| place.join(".git").exists());
    root.unwrap_or(directory).to_owned()
}

/// What a job in place starts with: ours, less what is the pool's, and what the caller adds.
pub(super) fn environment(directory: &Path, added: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ours = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !name.starts_with(OWN_VARIABLES));
    let mut variables: BTreeMap<String, String> = ours.collect();
    variables.insert("PWD".to_owned(), directory.to_string_lossy().into_owned());
    variables.extend(added.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// Whether a file of the project has changed since a moment (RFC 3339). When that can't be told it counts as changed: a
/// second run costs time, an answer about older files costs trust.
pub(super) async fn changed_since(directory: &Path, moment: Option<&str>) -> bool {
    let Some(moment) = moment.and_then(|text| text.parse::<jiff::Timestamp>().ok()) else { return true };
    let root = project_of(directory);
    tokio::task::spawn_blocking(move || has_newer(&root, moment.into())).await.unwrap_or(true)
}

fn has_newer(root: &Path, moment: SystemTime) -> bool {
    let mut seen = 0;
    let entries = WalkDir::new(root).follow_links(false).into_iter();
    for entry in
        entries.filter_entry(|entry| !entry.file_name().to_str().is_some_and(|name| MADE.contains(&name)))
    {
        seen += 1;
        let Ok(entry) = entry else { return true };
        if seen > FILES_MAX {
            return true;
        }
        if entry.file_type().is_dir() {
            continue;
        }
        let modified = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
        if modified.is_none_or(|modified| modified >= moment) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{environment, has_newer};
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_newer_file_is_seen_and_what_tools_make_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - Duration::from_secs(3_600);
        let write = |path: &str, time: SystemTime| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        let moment = old + Duration::from_secs(60);
        write("src/a.rs", old);
        write("target/debug/a", SystemTime::now());
        assert!(!has_newer(directory.path(), moment));
        write("src/b.rs", moment);
        assert!(has_newer(directory.path(), moment));
    }

    #[test]
    fn the_pools_own_variables_stay_at_home() {
        let added = BTreeMap::from([("PATH".to_owned(), "/x".to_owned())]);
        let variables = environment(Path::new("/p"), &added);
        assert_eq!(variables["PATH"], "/x");
        assert!(!variables.keys().any(|name| name.starts_with("BUILDPOOL_")));
    }
}
