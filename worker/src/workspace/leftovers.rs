//! What a job left that git does not list among untracked files: repositories inside of the files, pipes and sockets, empty
//! directories, and permissions. A repository above all must not stay: its configuration would run commands in the next
//! job's `git status`. Only directories of the tree are walked; what is ignored stays as it is, so nothing below is looked at.

use super::checkout::remove;
use super::error::WorkspaceError;
use super::names::Disk;
use buildpool_objects::git::split_nul;
use buildpool_objects::{Git, GitError, Place, Stop};
use buildpool_protocol::limits::SNAPSHOT_DEPTH_MAX;
use buildpool_protocol::transfer::ObjectId;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files that one command names at most.
const NAMED_FILES_MAX: usize = 500;

/// Files that git opens wherever they lie.
const GIT_READS: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".mailmap"];
/// Directories, one in another, in which git may look for such files: as deep as a path can be.
const DEPTH_MAX: usize = 2048;

/// The files of a checkout, and how git sees them.
pub(super) struct Files<'a> {
    pub(super) git: &'a Git,
    /// For commands on these files.
    pub(super) place: Place,
    pub(super) root: &'a Path,
    /// Ignore patterns that are not in the tree.
    pub(super) excludes: &'a Path,
    pub(super) disk: Disk,
}

/// What was found. Paths are relative to the root.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// To be removed with all that is in them.
    certain: Vec<PathBuf>,
    /// Directories that are not the tree's, and what is neither file nor link nor directory; none of them ignored.
    doubtful: Vec<PathBuf>,
    /// Directories of submodules that are not there.
    missing: Vec<PathBuf>,
    /// Whether directories had other permissions than git gives, or ignore files that are not the tree's, so that what is in them may not
    /// have been seen.
    hid_something: bool,
    /// Files with other permissions than git gives or of other users, ignored ones among them.
    odd_files: Vec<PathBuf>,
}

/// The directories of a tree.
struct Directories {
    of_files: HashSet<PathBuf>,
    /// Those that stand for a submodule, which is not in the tree.
    of_submodules: BTreeSet<PathBuf>,
}

impl Files<'_> {
    /// Looks for them in the directories of this tree, gives these the permissions that they should have, and removes ignore files from
    /// them that are not the tree's.
    ///
    /// A pipe in place of a file that git reads is removed, and `halt` is stopped: a git that runs beside
    /// this look may wait for a writer.
    pub(super) fn look(&self, tree: &ObjectId, halt: &Stop) -> Result<Leftovers, WorkspaceError> {
        let directories = self.directories(tree)?;
        let mut found = Leftovers::default();
        let mut ignore_files = Vec::new();
        found.hid_something |= self.set_mode(self.root)?;
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            let path = self.root.join(&directory);
            for entry in fs::read_dir(&path).map_err(WorkspaceError::io("listing", &path))? {
                let entry = entry.map_err(WorkspaceError::io("listing", &path))?;
                let kind = entry.file_type().map_err(WorkspaceError::io("looking at", entry.path()))?;
                let name = entry.file_name();
                let below = directory.join(&name);
                if self.is_gits(&name) {
                    // The one at the top is the workspace's own.
                    if !directory.as_os_str().is_empty() {
                        found.certain.push(below);
                    }
                } else if kind.is_dir() && directories.of_files.contains(&below) {
                    found.hid_something |= self.set_mode(&entry.path())?;
                    open.push(below);
                } else if kind.is_dir() && directories.of_submodules.contains(&below) {
                    found.hid_something |= self.set_mode(&entry.path())?;
                    let inner = fs::read_dir(entry.path()).map_err(WorkspaceError::io("listing", &path))?;
                    found.certain.extend(inner.flatten().map(|entry| below.join(entry.file_name())));
                } else if self.blocks_git(&name, kind) {
                    halt.stop();
                    found.hid_something = true;
                    remove(&entry.path())?;
                } else if kind.is_dir() || !(kind.is_file() || kind.is_symlink()) {
                    found.doubtful.push(below);
                } else if kind.is_file() {
                    let metadata =
                        entry.metadata().map_err(WorkspaceError::io("looking at", entry.path()))?;
                    let mode = metadata.permissions().mode() & 0o7777;
                    if self.is(&name, ".gitignore") {
                        ignore_files.push(below.clone());
                    }
                    if mode != self.disk.mode(mode & 0o100 != 0) || self.disk.is_anothers(&metadata) {
                        found.odd_files.push(below);
                    }
                }
            }
        }
        for path in self.not_in(tree, ignore_files)? {
            found.hid_something = true;
            remove(&self.root.join(path))?;
        }
        let is_missing = |path: &&PathBuf| self.root.join(path).symlink_metadata().is_err();
        found.missing = directories.of_submodules.iter().filter(is_missing).cloned().collect();
        found.doubtful = self.without_ignored(found.doubtful)?;
        for path in &found.doubtful {
            if self.remove_pipes(path)? {
                halt.stop();
                found.hid_something = true;
            }
        }
        Ok(found)
    }

    /// Whether files of the tree have other permissions than git gives, or another owner. It does not see that itself, unless a file's time of change is
    /// another one in whole seconds.
    pub(super) fn has_odd_files(&self, found: &Leftovers) -> Result<bool, GitError> {
        if found.odd_files.is_empty() {
            return Ok(false);
        }
        let listed = self.git.run(&self.place).args(["ls-files", "-z"]).output()?;
        let tracked: HashSet<&Path> =
            split_nul(&listed).map(|path| Path::new(OsStr::from_bytes(path))).collect();
        Ok(found.odd_files.iter().any(|path| tracked.contains(path.as_path())))
    }

    fn directories(&self, tree: &ObjectId) -> Result<Directories, GitError> {
        let arguments = ["ls-tree", "-r", "-d", "-z", tree.as_str()];
        let listed = self.git.run(&self.place).args(arguments).output()?;
        let mut found = Directories { of_files: HashSet::new(), of_submodules: BTreeSet::new() };
        for line in split_nul(&listed) {
            let cut = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
            let path = PathBuf::from(OsStr::from_bytes(line.get(cut + 1..).unwrap_or_default()));
            if line.starts_with(b"160000 ") {
                found.of_submodules.insert(path);
            } else {
                found.of_files.insert(path);
            }
        }
        Ok(found)
    }

    /// Those of these files that are not the tree's.
    fn not_in(&self, tree: &ObjectId, mut files: Vec<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        let mut known: HashSet<PathBuf> = HashSet::new();
        for some in files.chunks(NAMED_FILES_MAX) {
            let question = ["--literal-pathspecs", "ls-tree", "--name-only", "-z", tree.as_str(), "--"];
            let arguments = question.iter().map(OsStr::new).chain(some.iter().map(|path| path.as_os_str()));
            let listed = self.git.run(&self.place).args(arguments).output()?;
            known.extend(split_nul(&listed).map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
        files.retain(|path| !known.contains(path));
        Ok(files)
    }

    /// Removes pipes, devices and sockets below a path that lie in place of files that git reads. Returns
    /// whether there was one.
    pub(super) fn remove_pipes(&self, below: &Path) -> Result<bool, WorkspaceError> {
        let mut has_found = false;
        // What lies deeper git does not reach either.
        let walk = walkdir::WalkDir::new(self.root.join(below)).follow_links(false).max_depth(DEPTH_MAX);
        for entry in walk.into_iter().flatten() {
            if self.blocks_git(entry.file_name(), entry.file_type()) {
                has_found = true;
                remove(entry.path())?;
            }
        }
        Ok(has_found)
    }

    /// Whether git would open this entry and wait.
    fn blocks_git(&self, name: &OsStr, kind: fs::FileType) -> bool {
        let is_plain = kind.is_file() || kind.is_dir() || kind.is_symlink();
        !is_plain && GIT_READS.iter().any(|read| self.is(name, read))
    }

    fn is_gits(&self, name: &OsStr) -> bool {
        self.is(name, ".git")
    }

    fn is(&self, name: &OsStr, what: &str) -> bool {
        if self.disk.ignores_case { name.eq_ignore_ascii_case(what) } else { name == what }
    }

    /// Whether it had others. One of another user's can't be used.
    fn set_mode(&self, directory: &Path) -> Result<bool, WorkspaceError> {
        let metadata = directory.symlink_metadata().map_err(WorkspaceError::io("looking at", directory))?;
        if self.disk.is_anothers(&metadata) {
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
            return Err(WorkspaceError::io("opening", directory)(error));
        }
        let is_odd = metadata.permissions().mode() & 0o7777 != self.disk.directory_mode;
        if is_odd {
            let wanted = fs::Permissions::from_mode(self.disk.directory_mode);
            fs::set_permissions(directory, wanted).map_err(WorkspaceError::io("opening", directory))?;
        }
        Ok(is_odd)
    }

    fn without_ignored(&self, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(paths);
        }
        let mut excludes = OsString::from("core.excludesFile=");
        excludes.push(self.excludes);
        // Behind `./` nothing in a name means anything to git; it answers in the same form.
        let list = paths
            .iter()
            .flat_map(|path| [b"./".as_slice(), path.as_os_str().as_bytes(), b"\0"].concat())
            .collect();
        let question = ["check-ignore", "--no-index", "-z", "--stdin"].map(OsStr::new);
        let call = self.git.run(&self.place).args([OsStr::new("-c"), &excludes]).args(question).input(list);
        let ignored = call.output_or_none()?.unwrap_or_default();
        let ignored: HashSet<&Path> = split_nul(&ignored)
            .map(|path| Path::new(OsStr::from_bytes(path.strip_prefix(b"./").unwrap_or(path))))
            .collect();
        Ok(paths.into_iter().filter(|path| !ignored.contains(path.as_path())).collect())
    }

    /// Removes what was found, after untracked files went.
    pub(super) fn clear(&self, found: Leftovers) -> Result<(), WorkspaceError> {
        for path in &found.certain {
            remove(&self.root.join(path))?;
        }
        for path in found.missing {
            let path = self.root.join(path);
            fs::create_dir_all(&path).map_err(WorkspaceError::io("creating", &path))?;
        }
        let mut inside = Vec::new();
        for path in found.doubtful {
            self.list(&path, &mut inside)?;
        }
        let mut directories = Vec::new();
        for path in self.without_ignored(inside)? {
            let path = self.root.join(path);
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(path),
                Ok(_) => remove(&path)?,
                // Something above it went.
                Err(_) => {}
            }
        }
        // The inner ones first; one that has what is ignored in it stays.
        for directory in directories.iter().rev() {
            fs::remove_dir(directory).ok();
        }
        Ok(())
    }

    /// Adds a path and, of a directory, all directories and odd files in it, outer ones first. Repositories and what can't be
    /// looked into go at once.
    fn list(&self, path: &Path, into: &mut Vec<PathBuf>) -> Result<(), WorkspaceError> {
        let deepest = self.root.components().count() + SNAPSHOT_DEPTH_MAX;
        let mut walk = walkdir::WalkDir::new(self.root.join(path)).follow_links(false).into_iter();
        while let Some(entry) = walk.next() {
            // Gone with the untracked files that were in it.
            let Ok(entry) = entry else { continue };
            let kind = entry.file_type();
            if kind.is_file() || kind.is_symlink() {
                continue;
            }
            let is_closed = kind.is_dir()
                && entry.metadata().is_ok_and(|found| found.permissions().mode() & 0o700 != 0o700);
            // Deeper ones could reach beyond the longest path: then neither git nor this walk sees them.
            let is_too_deep = entry.path().components().count() > deepest;
            if self.is_gits(entry.file_name()) || is_closed || is_too_deep {
                remove(entry.path())?;
                if kind.is_dir() {
                    walk.skip_current_dir();
                }
            } else if let Ok(below) = entry.path().strip_prefix(self.root) {
                into.push(below.to_owned());
            }
        }
        Ok(())
    }
}

impl Leftovers {
    /// Whether something may lie where git could not look.
    pub(super) const fn hid_something(&self) -> bool {
        self.hid_something
    }
}
