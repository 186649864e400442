//! The files that a job sees: those on disk where the pool is on this machine, a snapshot of them elsewhere.

use super::ToolError;
use crate::client::Client;
use crate::snapshot;
use buildpool_protocol::report::SnapshotInfo;
use buildpool_protocol::spec::{OWN_VARIABLES, Source};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use walkdir::{DirEntry, WalkDir};

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
    let (root, directory) = (project_of(directory), directory.to_owned());
    tokio::task::spawn_blocking(move || has_newer(&root, &directory, moment.into())).await.unwrap_or(true)
}

/// A directory's own times tell what went from it and what came into it, whatever times that has itself.
fn has_newer(root: &Path, directory: &Path, moment: SystemTime) -> bool {
    let entries = WalkDir::new(root).follow_links(false).into_iter();
    for (index, entry) in entries.filter_entry(|entry| !is_made(entry, directory)).enumerate() {
        let Ok(entry) = entry else { return true };
        if index >= FILES_MAX {
            return true;
        }
        if entry.metadata().ok().and_then(|metadata| changed_at(&metadata)).is_none_or(|at| at >= moment) {
            return true;
        }
    }
    false
}

/// Whether it is a directory of what tools make: by its name, unless the command runs in it.
fn is_made(entry: &DirEntry, directory: &Path) -> bool {
    entry.depth() > 0
        && entry.file_type().is_dir()
        && entry.file_name().to_str().is_some_and(|name| MADE.contains(&name))
        && !directory.starts_with(entry.path())
}

/// When content, name or rights changed last: a file that was moved here keeps the time of its content.
fn changed_at(metadata: &Metadata) -> Option<SystemTime> {
    let secs = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    let nanos = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?);
    let changed = SystemTime::UNIX_EPOCH.checked_add(secs)?.checked_add(nanos)?;
    Some(changed.max(metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{changed_at, environment, has_newer};
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    /// A moment after all that was done so far and before all that comes.
    fn now(directory: &Path) -> SystemTime {
        let probe = directory.join("target");
        let touched = || {
            fs::create_dir_all(&probe).unwrap();
            fs::write(probe.join("probe"), "").unwrap();
            changed_at(&fs::metadata(probe.join("probe")).unwrap()).unwrap()
        };
        let before = touched();
        // The times of files come in steps.
        loop {
            let moment = touched();
            if moment > before {
                return moment;
            }
        }
    }

    /// Whether a change of the project that was made with `before` is seen when `change` is made.
    fn is_seen(before: &[&str], at: &str, change: impl Fn(&Path)) -> bool {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("build");
        for path in before {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(place.path().join("older"), "").unwrap();
        let directory = root.join(at);
        let moment = now(&root);
        assert!(!has_newer(&root, &directory, moment), "nothing has changed yet");
        change(&root);
        has_newer(&root, &directory, moment)
    }

    #[test]
    fn each_change_of_the_files_is_seen_and_what_tools_make_is_not() {
        let write = |path: &'static str| move |root: &Path| fs::write(root.join(path), "new").unwrap();
        let files = ["src/a.rs", "dist", "out/build/b", "node_modules/x", "target/debug/a"];
        assert!(is_seen(&files, "", write("src/a.rs")), "in a project that is called build itself");
        assert!(is_seen(&files, "", write("src/b.rs")), "a new one");
        assert!(is_seen(&files, "", |root| fs::remove_file(root.join("src/a.rs")).unwrap()), "gone");
        assert!(is_seen(&files, "", |root| fs::remove_dir_all(root.join("src")).unwrap()), "all gone");
        let moved =
            |root: &Path| fs::rename(root.parent().unwrap().join("older"), root.join("src/a.rs")).unwrap();
        assert!(is_seen(&files, "", moved), "an older file in its place");
        assert!(is_seen(&files, "", write("dist")), "a file that is called as such a directory");
        assert!(is_seen(&files, "out/build", write("out/build/b")), "where the command runs");
        assert!(!is_seen(&files, "", write("target/debug/a")));
        assert!(!is_seen(&files, "", write("node_modules/y")));
        assert!(!is_seen(&files, "", write("out/build/b")));
    }

    #[test]
    fn the_pools_own_variables_stay_at_home() {
        let added = BTreeMap::from([("PATH".to_owned(), "/x".to_owned())]);
        let variables = environment(Path::new("/p"), &added);
        assert_eq!(variables["PATH"], "/x");
        assert!(!variables.keys().any(|name| name.starts_with("BUILDPOOL_")));
    }
}
