//! Compares a project's files with those at the submission of a job in place. An equal call may use
//! that job's answer only if they are unchanged.

use super::source::project_of;
use buildpool_objects::{Git, Place};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use walkdir::{DirEntry, WalkDir};

/// Limit on compared files. A larger project counts as changed.
const FILES_MAX: usize = 100_000;
/// Directories with output of tools.
const MADE: [&str; 9] =
    [".git", "target", "node_modules", "build", ".build", "dist", "DerivedData", "__pycache__", ".gradle"];
/// Limit on jobs with a stored listing. Each listing takes up to a few megabytes.
const LISTINGS_MAX: usize = 16;
/// Limit on new files that are checked with git. More count as a change.
const NEW_PATHS_MAX: usize = 10_000;
/// Limit on new files that a note lists.
const NAMED_MAX: usize = 3;

/// Difference between the current files and those at the submission of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Since {
    /// No difference. New files that git ignores do not count.
    Same,
    /// No file changed, but these are new: output of the job or other files. Contains the first of
    /// them.
    NewFiles(Vec<String>),
    /// Files have changed.
    Changed,
}

/// The files at a moment, by path.
#[derive(Debug)]
pub(crate) struct Listing(HashMap<u64, u64>);

/// The current files.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    entries: Vec<(PathBuf, u64)>,
}

impl Tree {
    /// Reads the project of a directory. Returns `None` if it is too large or can't be read.
    pub(super) async fn around(directory: &Path) -> Option<Arc<Self>> {
        let directory = directory.to_owned();
        tokio::task::spawn_blocking(move || Self::look(project_of(&directory), &directory))
            .await
            .ok()?
            .map(Arc::new)
    }

    fn look(root: PathBuf, directory: &Path) -> Option<Self> {
        let mut entries = Vec::new();
        for entry in WalkDir::new(&root).into_iter().filter_entry(|entry| !is_made(entry, directory)) {
            let entry = entry.ok()?;
            if entries.len() >= FILES_MAX {
                return None;
            }
            let stamp = stamp(&entry.metadata().ok()?);
            entries.push((entry.into_path(), stamp));
        }
        Some(Self { root, entries })
    }

    pub(super) fn listing(&self) -> Listing {
        Listing(self.entries.iter().map(|(path, stamp)| (number(path), *stamp)).collect())
    }

    /// Compares the files with an earlier listing.
    pub(super) fn since(&self, earlier: &Listing) -> Since {
        let mut new_paths = Vec::new();
        for (path, stamp) in &self.entries {
            match earlier.0.get(&number(path)) {
                Some(known) if known != stamp => return Since::Changed,
                Some(_) => {}
                None => new_paths.push(path.strip_prefix(&self.root).unwrap_or(path)),
            }
        }
        let stayed = self.entries.len() - new_paths.len();
        if stayed < earlier.0.len() || new_paths.len() > NEW_PATHS_MAX {
            return Since::Changed;
        }
        let ignored = if new_paths.is_empty() { HashSet::new() } else { self.ignored(&new_paths) };
        new_paths.retain(|path| !ignored.contains(path.as_os_str().as_bytes()));
        // For a new directory, its own name suffices.
        new_paths.dedup_by(|path, before| path.starts_with(before));
        let names: Vec<String> =
            new_paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        if names.is_empty() { Since::Same } else { Since::NewFiles(names) }
    }

    /// Returns the paths that git ignores in this project.
    fn ignored(&self, paths: &[&Path]) -> HashSet<Vec<u8>> {
        let asked = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
        let place = Place { work_tree: Some(self.root.clone()), ..Place::default() };
        let answer = Git::find().and_then(|git| {
            git.run_as_user(&place).args(["check-ignore", "-z", "--stdin"]).input(asked).output_or_none()
        });
        // Without a repository, no path is ignored.
        let answer = answer.ok().flatten().unwrap_or_default();
        answer.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }
}

/// Returns a hash of a file's metadata, which changes with the file. For a directory, the hash
/// depends only on its mode.
fn stamp(metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    metadata.mode().hash(&mut hasher);
    if !metadata.is_dir() {
        let content = (metadata.len(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
        (content, metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    }
    hasher.finish()
}

fn number(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Listings at the submission of jobs in place, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<VecDeque<(String, Arc<Listing>)>>);

impl Listings {
    pub(crate) fn add(&self, job: &str, listing: Listing) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= LISTINGS_MAX {
            all.pop_front();
        }
        all.push_back((job.to_owned(), Arc::new(listing)));
    }

    fn of(&self, job: &str) -> Option<Arc<Listing>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(known, _)| known == job).map(|(_, listing)| listing.clone())
    }

    /// Compares the files with those at the submission of a job at `moment` (RFC 3339). For a job
    /// of another gateway, it compares file times.
    pub(super) async fn since(
        &self,
        job: &str,
        tree: Option<Arc<Tree>>,
        directory: &Path,
        moment: Option<&str>,
    ) -> Since {
        if let (Some(tree), Some(earlier)) = (tree, self.of(job)) {
            let compared = tokio::task::spawn_blocking(move || tree.since(&earlier)).await;
            return compared.unwrap_or(Since::Changed);
        }
        if changed_since(directory, moment).await { Since::Changed } else { Since::Same }
    }
}

/// Returns true if a file of the project has changed since a moment (RFC 3339), or if that is
/// unknown. A second run only costs time, but an answer about older files would be wrong.
async fn changed_since(directory: &Path, moment: Option<&str>) -> bool {
    let Some(moment) = moment.and_then(|text| text.parse::<jiff::Timestamp>().ok()) else { return true };
    let (root, directory) = (project_of(directory), directory.to_owned());
    tokio::task::spawn_blocking(move || has_newer(&root, &directory, moment.into())).await.unwrap_or(true)
}

/// Returns true if an entry is newer than the moment. A directory's own times cover files that were
/// removed from it or moved into it.
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

/// Returns true if the entry is a directory with output of tools, by its name, and the command does
/// not run in it.
fn is_made(entry: &DirEntry, directory: &Path) -> bool {
    entry.depth() > 0
        && entry.file_type().is_dir()
        && entry.file_name().to_str().is_some_and(|name| MADE.contains(&name))
        && !directory.starts_with(entry.path())
}

/// Returns the time of the last change of content, name or permissions. A moved file keeps the time
/// of its content.
fn changed_at(metadata: &Metadata) -> Option<SystemTime> {
    let secs = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    let nanos = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?);
    let changed = SystemTime::UNIX_EPOCH.checked_add(secs)?.checked_add(nanos)?;
    Some(changed.max(metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Since, Tree, changed_at, has_newer};
    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::time::SystemTime;

    /// Returns a moment after all earlier changes and before all later ones.
    fn now(directory: &Path) -> SystemTime {
        let probe = directory.join("target");
        let touched = || {
            fs::create_dir_all(&probe).unwrap();
            fs::write(probe.join("probe"), "").unwrap();
            changed_at(&fs::metadata(probe.join("probe")).unwrap()).unwrap()
        };
        let before = touched();
        // File times have a limited resolution.
        loop {
            let moment = touched();
            if moment > before {
                return moment;
            }
        }
    }

    /// Returns true if `change` is detected in a project with the files `before`.
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
    fn new_files_that_git_ignores_are_no_change() {
        for is_repository in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().canonicalize().unwrap();
            if is_repository {
                assert!(Command::new("git").args(["init", "-q"]).arg(&root).status().unwrap().success());
            }
            fs::write(root.join(".gitignore"), "*.log\nout/\n").unwrap();
            fs::create_dir(root.join("src")).unwrap();
            fs::write(root.join("src/a"), "").unwrap();
            fs::write(root.join("old.log"), "").unwrap();
            let look = || Tree::look(root.clone(), &root).unwrap();
            let mut listing = look().listing();
            assert_eq!(look().since(&listing), Since::Same);
            fs::create_dir_all(root.join("out/deep")).unwrap();
            fs::write(root.join("out/deep/b"), "").unwrap();
            fs::write(root.join("new.log"), "").unwrap();
            fs::create_dir(root.join("target")).unwrap();
            let new_files =
                |names: &[&str]| Since::NewFiles(names.iter().map(|name| (*name).to_owned()).collect());
            let both = new_files(&["new.log", "out"]);
            let sorted = |since: Since| match since {
                Since::NewFiles(mut names) => {
                    names.sort();
                    Since::NewFiles(names)
                }
                other => other,
            };
            assert_eq!(sorted(look().since(&listing)), if is_repository { Since::Same } else { both });
            listing = look().listing();
            fs::write(root.join("src/new"), "").unwrap();
            assert_eq!(look().since(&listing), new_files(&["src/new"]));
            for path in ["src/a", "old.log", "src"] {
                let listing = look().listing();
                let path = root.join(path);
                if path.is_dir() {
                    fs::remove_dir_all(path).unwrap()
                } else {
                    fs::write(path, "changed").unwrap()
                }
                assert_eq!(look().since(&listing), Since::Changed);
            }
        }
    }
}
