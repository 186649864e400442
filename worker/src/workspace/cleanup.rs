//! Removes leftovers of a job that git does not list as untracked files: nested repositories, pipes
//! and sockets, empty directories, and permissions. A nested repository must never stay, because
//! its configuration would run commands in the next job's `git status`. Only directories of the
//! tree are walked. Ignored files stay, so directories below them are not checked.

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

/// Limit on the files that one command names.
const NAMED_FILES_MAX: usize = 500;

/// Files that git opens in any directory.
const GIT_READS: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".mailmap"];
/// Directory depth at which git may look for such files: the maximum of a path.
const DEPTH_MAX: usize = 2048;

/// The files of a checkout, and the settings for its git.
pub(super) struct CheckoutFiles<'a> {
    pub(super) git: &'a Git,
    /// Place for git commands on these files.
    pub(super) place: Place,
    pub(super) root: &'a Path,
    /// File with the ignore patterns that are not in the tree.
    pub(super) excludes: &'a Path,
    pub(super) disk: Disk,
}

/// The leftovers found. Paths are relative to the root.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Paths to remove completely.
    removable: Vec<PathBuf>,
    /// Directories that are not in the tree, and special files. Ignored ones are not included.
    suspicious: Vec<PathBuf>,
    /// Missing directories of submodules.
    missing: Vec<PathBuf>,
    /// True if a directory had other permissions than git sets, or an ignore file that is not in
    /// the tree. Files in it may have been hidden from git.
    may_hide_files: bool,
    /// Files with other permissions than git sets, or of other users. Ignored files are included.
    files_with_wrong_mode: Vec<PathBuf>,
}

/// The directories of a tree.
struct Directories {
    of_files: HashSet<PathBuf>,
    /// Directories of submodules, which are not in the tree.
    of_submodules: BTreeSet<PathBuf>,
}

impl CheckoutFiles<'_> {
    /// Searches the directories of this tree for leftovers. It also corrects their permissions, and
    /// removes ignore files that are not in the tree.
    ///
    /// A pipe at the path of a file that git reads is removed, and `halt` is stopped: a concurrent
    /// git may wait for a writer.
    pub(super) fn find_leftovers(&self, tree: &ObjectId, halt: &Stop) -> Result<Leftovers, WorkspaceError> {
        let directories = self.directories(tree)?;
        let mut found = Leftovers::default();
        let mut ignore_files = Vec::new();
        found.may_hide_files |= self.set_mode(self.root)?;
        let mut open = vec![PathBuf::new()];
        while let Some(directory) = open.pop() {
            let path = self.root.join(&directory);
            for entry in fs::read_dir(&path).map_err(WorkspaceError::io("listing", &path))? {
                let entry = entry.map_err(WorkspaceError::io("listing", &path))?;
                let kind = entry.file_type().map_err(WorkspaceError::io("looking at", entry.path()))?;
                let name = entry.file_name();
                let below = directory.join(&name);
                if self.is_git_directory(&name) {
                    // The one at the top belongs to the workspace itself.
                    if !directory.as_os_str().is_empty() {
                        found.removable.push(below);
                    }
                } else if kind.is_dir() && directories.of_files.contains(&below) {
                    found.may_hide_files |= self.set_mode(&entry.path())?;
                    open.push(below);
                } else if kind.is_dir() && directories.of_submodules.contains(&below) {
                    found.may_hide_files |= self.set_mode(&entry.path())?;
                    let inner = fs::read_dir(entry.path()).map_err(WorkspaceError::io("listing", &path))?;
                    found.removable.extend(inner.flatten().map(|entry| below.join(entry.file_name())));
                } else if self.blocks_git(&name, kind) {
                    halt.stop();
                    found.may_hide_files = true;
                    remove(&entry.path())?;
                } else if kind.is_dir() || !(kind.is_file() || kind.is_symlink()) {
                    found.suspicious.push(below);
                } else if kind.is_file() {
                    let metadata =
                        entry.metadata().map_err(WorkspaceError::io("looking at", entry.path()))?;
                    let mode = metadata.permissions().mode() & 0o7777;
                    if self.is(&name, ".gitignore") {
                        ignore_files.push(below.clone());
                    }
                    if mode != self.disk.mode(mode & 0o100 != 0) || self.disk.is_anothers(&metadata) {
                        found.files_with_wrong_mode.push(below);
                    }
                }
            }
        }
        for path in self.not_in(tree, ignore_files)? {
            found.may_hide_files = true;
            remove(&self.root.join(path))?;
        }
        let is_missing = |path: &&PathBuf| self.root.join(path).symlink_metadata().is_err();
        found.missing = directories.of_submodules.iter().filter(is_missing).cloned().collect();
        found.suspicious = self.without_ignored(found.suspicious)?;
        for path in &found.suspicious {
            if self.remove_pipes(path)? {
                halt.stop();
                found.may_hide_files = true;
            }
        }
        Ok(found)
    }

    /// Returns true if files of the tree have other permissions than git sets, or another owner.
    /// git does not detect this unless the change time differs in whole seconds.
    pub(super) fn has_files_with_wrong_mode(&self, found: &Leftovers) -> Result<bool, GitError> {
        if found.files_with_wrong_mode.is_empty() {
            return Ok(false);
        }
        let listed = self.git.run(&self.place).args(["ls-files", "-z"]).output()?;
        let tracked: HashSet<&Path> =
            split_nul(&listed).map(|path| Path::new(OsStr::from_bytes(path))).collect();
        Ok(found.files_with_wrong_mode.iter().any(|path| tracked.contains(path.as_path())))
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

    /// Returns the files that are not in the tree.
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

    /// Removes pipes, devices and sockets at paths of files that git reads. Returns true if there
    /// was one.
    pub(super) fn remove_pipes(&self, below: &Path) -> Result<bool, WorkspaceError> {
        let mut has_found = false;
        // git does not reach deeper paths either.
        let walk = walkdir::WalkDir::new(self.root.join(below)).follow_links(false).max_depth(DEPTH_MAX);
        for entry in walk.into_iter().flatten() {
            if self.blocks_git(entry.file_name(), entry.file_type()) {
                has_found = true;
                remove(entry.path())?;
            }
        }
        Ok(has_found)
    }

    /// Returns true if git would open this entry and block.
    fn blocks_git(&self, name: &OsStr, kind: fs::FileType) -> bool {
        let is_plain = kind.is_file() || kind.is_dir() || kind.is_symlink();
        !is_plain && GIT_READS.iter().any(|read| self.is(name, read))
    }

    fn is_git_directory(&self, name: &OsStr) -> bool {
        self.is(name, ".git")
    }

    fn is(&self, name: &OsStr, expected: &str) -> bool {
        if self.disk.ignores_case { name.eq_ignore_ascii_case(expected) } else { name == expected }
    }

    /// Sets the permissions of a directory. Returns true if they were different. A directory of
    /// another user is an error.
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
        // With the prefix `./`, no name has a special meaning for git. It answers in the same form.
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

    /// Removes the leftovers, after untracked files were removed.
    pub(super) fn remove_leftovers(&self, found: Leftovers) -> Result<(), WorkspaceError> {
        for path in &found.removable {
            remove(&self.root.join(path))?;
        }
        for path in found.missing {
            let path = self.root.join(path);
            fs::create_dir_all(&path).map_err(WorkspaceError::io("creating", &path))?;
        }
        let mut inside = Vec::new();
        for path in found.suspicious {
            self.list(&path, &mut inside)?;
        }
        let mut directories = Vec::new();
        for path in self.without_ignored(inside)? {
            let path = self.root.join(path);
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(path),
                Ok(_) => remove(&path)?,
                // A directory above it was removed.
                Err(_) => {}
            }
        }
        // Inner directories first. A directory with ignored files stays.
        for directory in directories.iter().rev() {
            fs::remove_dir(directory).ok();
        }
        Ok(())
    }

    /// Adds a path, and all directories and special files below it, outer ones first. Nested
    /// repositories and unreadable directories are removed immediately.
    fn list(&self, path: &Path, into: &mut Vec<PathBuf>) -> Result<(), WorkspaceError> {
        let deepest = self.root.components().count() + SNAPSHOT_DEPTH_MAX;
        let mut walk = walkdir::WalkDir::new(self.root.join(path)).follow_links(false).into_iter();
        while let Some(entry) = walk.next() {
            // Removed together with the untracked files in it.
            let Ok(entry) = entry else { continue };
            let kind = entry.file_type();
            if kind.is_file() || kind.is_symlink() {
                continue;
            }
            let is_closed = kind.is_dir()
                && entry.metadata().is_ok_and(|found| found.permissions().mode() & 0o700 != 0o700);
            // Deeper directories could exceed the maximum path length. Then neither git nor this
            // walk can reach them.
            let is_too_deep = entry.path().components().count() > deepest;
            if self.is_git_directory(entry.file_name()) || is_closed || is_too_deep {
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
    /// Returns true if files may have been hidden from git.
    pub(super) const fn may_hide_files(&self) -> bool {
        self.may_hide_files
    }
}
