//! A warm checkout. It is moved from its current tree to the requested one with the smallest
//! change. Files with unchanged content keep their modification time, so that builds stay
//! incremental. Ignored build products stay, other untracked files are removed.

use super::cleanup::CheckoutFiles;
use super::difference::{Difference, check_all_names};
use super::error::WorkspaceError;
use super::git_directory::{self, CheckoutFacts};
use super::names::Disk;
use super::no_follow;
use super::setup;
use buildpool_objects::cache::ObjectCache;
use buildpool_objects::directory::write_if_different;
use buildpool_objects::git::split_nul;
use buildpool_objects::{Git, GitError, Place, Stop, removal};
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectId};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A checkout of a project.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    /// Its own directory.
    pub(super) directory: PathBuf,
    /// The directory with the files, visible to the job.
    pub(super) root: PathBuf,
}

/// Recorded state of a checkout.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CheckoutState {
    /// The current tree. `None` while it is being changed.
    pub(super) tree: Option<ObjectId>,
    /// Paths that its git treats as left behind.
    pub(super) left_behind: Vec<String>,
    /// Checksum of the index in its `.git`.
    pub(super) visible_index: Option<Checksum>,
    /// Last use, in seconds since 1970.
    pub(super) used_at: u64,
}

impl Checkout {
    /// Creates the value for a checkout in this directory, with the files below `name`.
    pub(super) fn new(directory: PathBuf, name: &str) -> Self {
        Self { root: directory.join(name), directory }
    }

    /// Returns the build directory for Xcode.
    pub(super) fn derived_data(&self) -> PathBuf {
        self.directory.join("derived")
    }

    /// Returns the directory with hard links to the project's objects, for a job that cannot read
    /// these directly.
    pub(super) fn objects(&self) -> PathBuf {
        self.directory.join("objects")
    }

    /// Releases the checkout after an error, and returns the error.
    pub(super) fn release<T>(&self, error: WorkspaceError) -> Result<T, WorkspaceError> {
        remove(&self.directory.join("lease"))?;
        Err(error)
    }

    fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    pub(super) fn state(&self) -> CheckoutState {
        let text = fs::read(self.directory.join("state.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Returns the size of files and build products in bytes, as last measured. It is stored
    /// separately from the state, because a job may take the checkout during the measurement.
    pub(super) fn bytes(&self) -> u64 {
        let text = fs::read_to_string(self.directory.join("bytes")).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    pub(super) fn note_bytes(&self, bytes: u64) -> Result<(), WorkspaceError> {
        Ok(write_if_different(&self.directory.join("bytes"), bytes.to_string().as_bytes())?)
    }

    pub(super) fn note(&self, state: &CheckoutState) -> Result<(), WorkspaceError> {
        let text = serde_json::to_vec(state).expect("a state has string keys only");
        Ok(write_if_different(&self.directory.join("state.json"), &text)?)
    }

    /// Checks out a snapshot that is complete in the cache. A job reads its objects from `objects`.
    pub(super) fn move_to(
        &self,
        cache: &ObjectCache,
        manifest: &Manifest,
        objects: &Path,
        clean: bool,
        disk: Disk,
    ) -> Result<(), WorkspaceError> {
        let before = self.state();
        let is_warm = before.tree.is_some() && self.is_a_directory() && self.index().exists();
        let difference = match &before.tree {
            Some(tree) => Difference::between(cache, tree, &manifest.tree).ok(),
            None => None,
        };
        match &difference {
            Some(difference) => difference.check_names(cache, disk)?,
            None => check_all_names(cache, &manifest.tree, disk)?,
        }
        self.note(&CheckoutState { tree: None, ..before.clone() })?;
        if clean || !is_warm {
            self.remove_files()?;
            self.change(cache, manifest, disk)?;
        } else if !self.step(cache, manifest, difference.as_ref(), disk)? {
            match self.change(cache, manifest, disk) {
                // An unexpected file is in the way. Use the slow method, which starts with empty
                // directories.
                Err(WorkspaceError::Git(GitError::Failed { .. })) => {
                    self.remove_files()?;
                    self.change(cache, manifest, disk)?;
                }
                done => done?,
            }
        }
        let facts = CheckoutFacts {
            index: &self.index(),
            has_changed: before.tree.as_ref() != Some(&manifest.tree)
                || before.left_behind != manifest.left_behind,
            visible_index: before.visible_index.as_ref(),
            disk,
        };
        let visible_index = git_directory::write(&self.root, facts, cache, objects, manifest)?;
        let left_behind = manifest.left_behind.clone();
        self.note(&CheckoutState {
            tree: Some(manifest.tree.clone()),
            left_behind,
            visible_index,
            used_at: now(),
        })
    }

    /// Returns false for a link, which would lead to another place.
    fn is_a_directory(&self) -> bool {
        fs::symlink_metadata(&self.root).is_ok_and(|metadata| metadata.is_dir())
    }

    fn remove_files(&self) -> Result<(), WorkspaceError> {
        remove(&self.root)?;
        remove(&self.derived_data())?;
        remove(&self.index())?;
        remove(&self.directory.join(setup::RECORD))?;
        fs::create_dir_all(&self.root).map_err(WorkspaceError::io("creating", &self.root))
    }

    fn place(&self, cache: &ObjectCache) -> Place {
        Place { work_tree: Some(self.root.clone()), index: Some(self.index()), ..cache.place() }
    }

    /// The quick method: checks every file once, and changes only files that differ between the
    /// trees. Returns false if it does not apply: a job changed files of the tree, or other files
    /// are ignored than before.
    fn step(
        &self,
        cache: &ObjectCache,
        manifest: &Manifest,
        difference: Option<&Difference>,
        disk: Disk,
    ) -> Result<bool, WorkspaceError> {
        let Some(difference) = difference.filter(|difference| !difference.changes_ignore_rules()) else {
            return Ok(false);
        };
        if fs::read(self.excludes()).ok().as_deref() != Some(manifest.excludes.as_bytes()) {
            return Ok(false);
        }
        unlock(&self.index())?;
        let place = self.place(cache);
        let halt = cache.git().stop().part();
        let git = cache.git().clone().for_service(&halt);
        let work = cache.work_of(&manifest.tree);
        let excludes = self.excludes();
        let files = self.files(cache, &excludes, disk);
        let (unchanged, untracked_files, leftovers) = std::thread::scope(|scope| {
            let untracked_files = scope.spawn(|| self.untracked_files(&git, &place, work));
            let leftovers = scope.spawn(|| files.find_leftovers(&difference.before, &halt));
            let arguments = ["diff-files", "--quiet", "--no-ext-diff", "--ignore-submodules=all"];
            let unchanged = git.run(&place).args(arguments).for_bytes(work).output_or_none();
            (unchanged, untracked_files.join(), leftovers.join())
        });
        let (Ok(Some(_)), Ok(Ok(untracked_files)), Ok(Ok(leftovers))) =
            (unchanged, untracked_files, leftovers)
        else {
            return Ok(false);
        };
        if leftovers.may_hide_files() || files.has_files_with_wrong_mode(&leftovers)? {
            return Ok(false);
        }
        self.remove_all(&untracked_files)?;
        files.remove_leftovers(leftovers)?;
        if difference.is_empty() {
            return Ok(true);
        }
        let (before, after) = (difference.before.as_str(), difference.after.as_str());
        let git = cache.git();
        let call = match difference.changed_files() {
            // This is much faster than a merge of whole trees.
            Some(files) => {
                let names = ["--pathspec-from-file=-", "--pathspec-file-nul"];
                let arguments = ["--literal-pathspecs", "checkout", "--quiet", after];
                git.run(&place).args(arguments.iter().chain(&names)).input(files)
            }
            None => git.run(&place).args(["read-tree", "-m", "-u", "--no-recurse-submodules", before, after]),
        };
        match call.for_bytes(work).output() {
            Ok(_) => Ok(true),
            // An ignored file is at the path of a new file.
            Err(GitError::Failed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The slow method, which handles any state that a job left.
    fn change(&self, cache: &ObjectCache, manifest: &Manifest, disk: Disk) -> Result<(), WorkspaceError> {
        let place = self.place(cache);
        let work = cache.work_of(&manifest.tree);
        let excludes = self.excludes();
        let files = self.files(cache, &excludes, disk);
        unlock(&self.index())?;
        files.remove_pipes(Path::new(""))?;
        if self.index().exists() {
            self.set_modes(cache, disk)?;
            // Files that a job rewrote with the same content also keep their time.
            cache
                .git()
                .run(&place)
                .args(["update-index", "-q", "--refresh"])
                .for_bytes(work)
                .output_or_none()?;
        }
        let tree = manifest.tree.as_str();
        cache
            .git()
            .run(&place)
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", tree])
            .for_bytes(work)
            .output()?;
        write_if_different(&excludes, manifest.excludes.as_bytes())?;
        // First, because it opens directories that git could not read, and removes ignore files
        // that hide others.
        let leftovers = files.find_leftovers(&manifest.tree, &Stop::default())?;
        self.remove_all(&self.untracked_files(cache.git(), &place, work)?)?;
        files.remove_leftovers(leftovers)
    }

    fn files<'a>(&'a self, cache: &'a ObjectCache, excludes: &'a Path, disk: Disk) -> CheckoutFiles<'a> {
        CheckoutFiles { git: cache.git(), place: self.place(cache), root: &self.root, excludes, disk }
    }

    /// Sets all files to the permissions that git gives them, and removes files of other users. The
    /// files that git detects as changed are not sufficient: a git that compares whole seconds
    /// misses changes of a quick job.
    fn set_modes(&self, cache: &ObjectCache, disk: Disk) -> Result<(), WorkspaceError> {
        let all = cache.git().run(&self.place(cache)).args(["ls-files", "-z"]).output()?;
        let root =
            no_follow::directory(&self.root, false).map_err(WorkspaceError::io("opening", &self.root))?;
        for path in split_nul(&all).map(|path| Path::new(OsStr::from_bytes(path))) {
            no_follow::set_mode(&root, &self.root, path, disk)
                .map_err(WorkspaceError::io("opening", self.root.join(path)))?;
        }
        Ok(())
    }

    /// Returns the path of the ignore patterns that are not in the tree.
    fn excludes(&self) -> PathBuf {
        self.directory.join("excludes")
    }

    /// Returns the untracked files that are not ignored, as git lists them.
    fn untracked_files(&self, git: &Git, place: &Place, work: u64) -> Result<Vec<u8>, GitError> {
        let excludes = self.excludes();
        let arguments = ["ls-files", "-o", "-z", "--exclude-standard", "-X"].map(OsStr::new);
        let arguments = arguments.iter().copied().chain([excludes.as_os_str()]);
        git.run(place).args(arguments).for_bytes(work).output()
    }

    fn remove_all(&self, listed: &[u8]) -> Result<(), WorkspaceError> {
        for path in split_nul(listed) {
            let path = self.root.join(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)));
            remove(&path)?;
            // Remove directories that contained only such files. The first non-empty directory ends
            // the loop.
            let mut parent = path.parent();
            while let Some(directory) = parent.filter(|directory| *directory != self.root) {
                if fs::remove_dir(directory).is_err() {
                    break;
                }
                parent = directory.parent();
            }
        }
        Ok(())
    }
}

/// Creates hard links below `to` for all files below `from`. Only the content of the links is
/// readable.
pub(super) fn link_all(from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    use std::os::unix::fs::PermissionsExt;
    remove(to)?;
    for entry in walkdir::WalkDir::new(from).follow_links(false) {
        let Ok(entry) = entry else { continue };
        let Ok(below) = entry.path().strip_prefix(from) else { continue };
        let target = to.join(below);
        let (mode, made) = if entry.file_type().is_dir() {
            (0o755, fs::create_dir_all(&target))
        } else {
            (0o444, fs::hard_link(entry.path(), &target))
        };
        match made {
            // An unfinished file of git, which has been removed in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            made => made.map_err(WorkspaceError::io("linking", &target))?,
        }
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))
            .map_err(WorkspaceError::io("linking", &target))?;
    }
    Ok(())
}

/// Removes the lock of an index, which a killed git left.
pub(super) fn unlock(index: &Path) -> Result<(), WorkspaceError> {
    let mut name = index.as_os_str().to_owned();
    name.push(".lock");
    remove(Path::new(&name))
}

/// Removes a file, a link or a directory tree. A missing path is not an error.
pub(super) fn remove(path: &Path) -> Result<(), WorkspaceError> {
    removal::remove(path).map_err(WorkspaceError::io("removing", path))
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
