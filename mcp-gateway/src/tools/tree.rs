//! Whether the files of a project are still as they were when a job in place was submitted: only then its answer is an
//! answer about them.

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

/// Files that are looked at to see whether something changed; a larger project counts as changed.
const FILES_MAX: usize = 100_000;
/// Directories that hold what tools make.
const MADE: [&str; 9] =
    [".git", "target", "node_modules", "build", ".build", "dist", "DerivedData", "__pycache__", ".gradle"];
/// Jobs whose files are remembered as they were: each costs up to a few megabytes.
const LISTINGS_MAX: usize = 16;
/// New files that git is asked about; more count as a change.
const COME_MAX: usize = 10_000;
/// New files that are named.
const NAMED_MAX: usize = 3;

/// How the files are beside those that a job was submitted with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Since {
    /// As they were; what came is ignored by git, so it is no part of what a job is about.
    Same,
    /// All that were there are as they were, and these came: the job's own, or somebody's. The first of them.
    Come(Vec<String>),
    /// Others.
    Changed,
}

/// What was there at a moment, by path.
#[derive(Debug)]
pub(crate) struct Listing(HashMap<u64, u64>);

/// What is there.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    entries: Vec<(PathBuf, u64)>,
}

impl Tree {
    /// Looks at the project around a directory; none where it is too large or can't be read.
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

    /// How these files are beside those.
    pub(super) fn since(&self, earlier: &Listing) -> Since {
        let mut come = Vec::new();
        for (path, stamp) in &self.entries {
            match earlier.0.get(&number(path)) {
                Some(known) if known != stamp => return Since::Changed,
                Some(_) => {}
                None => come.push(path.strip_prefix(&self.root).unwrap_or(path)),
            }
        }
        let stayed = self.entries.len() - come.len();
        if stayed < earlier.0.len() || come.len() > COME_MAX {
            return Since::Changed;
        }
        let ignored = if come.is_empty() { HashSet::new() } else { self.ignored(&come) };
        come.retain(|path| !ignored.contains(path.as_os_str().as_bytes()));
        // Of a new directory its name is enough.
        come.dedup_by(|path, before| path.starts_with(before));
        let names: Vec<String> = come.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        if names.is_empty() { Since::Same } else { Since::Come(names) }
    }

    /// Those of the paths that the project's own word keeps out of its repository.
    fn ignored(&self, paths: &[&Path]) -> HashSet<Vec<u8>> {
        let asked = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
        let place = Place { work_tree: Some(self.root.clone()), ..Place::default() };
        let answer = Git::find().and_then(|git| {
            git.run_as_user(&place).args(["check-ignore", "-z", "--stdin"]).input(asked).output_or_none()
        });
        // Without a repository nothing is ignored.
        let answer = answer.ok().flatten().unwrap_or_default();
        answer.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }
}

/// What tells one state of a file from another; of a directory it is only told that it is there.
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

/// The files with which jobs in place were submitted, for as many as are remembered.
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

    /// How the files are beside those that a job was submitted with at a moment (RFC 3339). What another gateway submitted is
    /// told by times.
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

/// Whether a file of the project has changed since a moment (RFC 3339). When that can't be told it counts as changed: a
/// second run costs time, an answer about older files costs trust.
async fn changed_since(directory: &Path, moment: Option<&str>) -> bool {
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
    use super::{Since, Tree, changed_at, has_newer};
    use std::fs;
    use std::path::Path;
    use std::process::Command;
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
    fn what_was_there_is_held_against_what_is_and_what_git_ignores_may_come() {
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
            let come = |names: &[&str]| Since::Come(names.iter().map(|name| (*name).to_owned()).collect());
            let both = come(&["new.log", "out"]);
            let sorted = |since: Since| match since {
                Since::Come(mut names) => {
                    names.sort();
                    Since::Come(names)
                }
                other => other,
            };
            assert_eq!(sorted(look().since(&listing)), if is_repository { Since::Same } else { both });
            listing = look().listing();
            fs::write(root.join("src/new"), "").unwrap();
            assert_eq!(look().since(&listing), come(&["src/new"]));
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
