//! Nested repositories, including submodules. Each is taken like the outer one, and its tree is
//! inserted into the outer tree.

use super::disk::Disk;
use super::error::SnapshotError;
use super::excludes::Excludes;
use super::ignores::IgnoreFile;
use super::repository::Repository;
use super::store::{self, Store};
use super::worktree::{Rules, Taken, WorkTree};
use buildpool_objects::Git;
use buildpool_objects::git::{GitError, split_nul};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum nesting depth of repositories: the depth to which git follows alternates.
const DEPTH_MAX: usize = 4;
/// Limit on repositories in one project.
const COUNT_MAX: usize = 500;

/// Result for a nested repository.
enum Inner {
    /// Its files are included.
    Taken(Box<Taken>, Store),
    /// A submodule that is not checked out; it becomes an empty directory.
    Empty,
    /// It is not included.
    Nothing,
}

/// Path, tree and store of a nested repository.
type Grafted = (Vec<u8>, Taken, Store);

/// Takes trees with their nested repositories.
pub(super) struct SnapshotBuilder<'a> {
    git: &'a Git,
    caches: &'a Path,
    rules: &'a Rules,
    /// Ignore files of the current repository and its outer ones.
    ignores: Vec<IgnoreFile>,
    /// Ignore patterns that are not in the tree, relative to the top.
    pub(super) excludes: Excludes,
    /// Notes for the submitter.
    pub(super) notes: Vec<String>,
    count: usize,
    /// Whether to ignore the state of earlier calls.
    begins_anew: bool,
    /// Whether stored objects of nested repositories were incomplete.
    pub(super) is_damaged: bool,
}

impl<'a> SnapshotBuilder<'a> {
    pub(super) fn new(git: &'a Git, caches: &'a Path, rules: &'a Rules, begins_anew: bool) -> Self {
        let (ignores, excludes, notes) = (Vec::new(), Excludes::default(), Vec::new());
        Self { git, caches, rules, ignores, excludes, notes, count: 0, begins_anew, is_damaged: false }
    }

    /// Takes the tree of a repository. Also returns its store, which holds the lock. `prefix` is
    /// its path in the outermost repository.
    pub(super) fn take(
        &mut self,
        repository: &Repository,
        prefix: &[u8],
        depth: usize,
    ) -> Result<(Taken, Store), SnapshotError> {
        self.count += 1;
        if depth > DEPTH_MAX || self.count > COUNT_MAX {
            return Err(SnapshotError::Nesting { path: repository.top.clone() });
        }
        let store = Store::open(self.caches, repository)?;
        if self.begins_anew {
            store.begin_anew(repository)?;
        }
        let around = self.ignores.len();
        self.ignores.extend(IgnoreFile::from_repository(repository, prefix));
        self.excludes.add(repository, prefix);
        let mut taken = self.outer(repository, prefix, &store)?;
        let mut inner: Vec<Grafted> = Vec::new();
        let mut empty: Vec<Vec<u8>> = Vec::new();
        for path in std::mem::take(&mut taken.nested) {
            match self.inner(repository, prefix, &path, depth)? {
                Inner::Taken(found, its_store) => inner.push((path, *found, its_store)),
                Inner::Empty => empty.push(path),
                Inner::Nothing => {}
            }
        }
        self.ignores.truncate(around);
        if !inner.is_empty() || !empty.is_empty() {
            let grafted = self.graft(repository, &store, &mut taken, &inner, &empty);
            self.is_damaged |= matches!(grafted, Err(SnapshotError::Git(GitError::Failed { .. })));
            grafted?;
        }
        Ok((taken, store))
    }

    /// Takes the tree without nested repositories. If the stored state is damaged, it is reset
    /// first.
    fn outer(&self, repository: &Repository, prefix: &[u8], store: &Store) -> Result<Taken, SnapshotError> {
        let (git, rules, ignores) = (self.git, self.rules, self.ignores.as_slice());
        let tree = WorkTree { git, repository, store, rules, prefix, ignores };
        match tree.take() {
            Err(SnapshotError::Git(GitError::Failed { .. }) | SnapshotError::Index { .. }) => {
                store.begin_anew(repository)?;
                tree.take()
            }
            result => result,
        }
    }

    fn inner(
        &mut self,
        outer: &Repository,
        prefix: &[u8],
        path: &[u8],
        depth: usize,
    ) -> Result<Inner, SnapshotError> {
        let directory = outer.top.join(OsStr::from_bytes(path));
        let whole = [prefix, path].concat();
        let name = String::from_utf8_lossy(&whole);
        // Check again: the directory may have been replaced by a link.
        if !Disk::below(&outer.top).is_directory(path) {
            return Ok(Inner::Nothing);
        }
        let repository = if fs::symlink_metadata(directory.join(".git")).is_ok() {
            match Repository::find(self.git, &directory) {
                Err(SnapshotError::Broken { .. }) => Repository::without_git(self.git, &directory)?,
                // Include the files even if git can't read the repository.
                Err(
                    error @ (SnapshotError::NoWorkTree { .. }
                    | SnapshotError::Elsewhere { .. }
                    | SnapshotError::Git(GitError::Failed { .. })),
                ) => {
                    let reason = error.reason();
                    self.notes.push(format!("the ignore rules of the repository in {name} can't be read, so its ignored files travel too ({reason})"));
                    Repository::without_git(self.git, &directory)?
                }
                found => found?,
            }
        } else if fs::read_dir(&directory).is_ok_and(|mut inside| inside.next().is_none()) {
            self.notes
                .push(format!("the submodule {name} is not checked out here, so its directory is empty"));
            return Ok(Inner::Empty);
        } else {
            // A directory without a `.git` contains files of the project.
            Repository::without_git(self.git, &directory)?
        };
        let same = repository.top.canonicalize().ok() == directory.canonicalize().ok();
        if !same || repository.format() != outer.format() {
            self.notes.push(format!(
                "the repository in {name} stayed behind: its .git points elsewhere or has another object format"
            ));
            return Ok(Inner::Nothing);
        }
        let prefix = [prefix, path, b"/"].concat();
        let (taken, store) = self.take(&repository, &prefix, depth + 1)?;
        Ok(Inner::Taken(Box::new(taken), store))
    }

    /// Returns index lines for these submodules, from the user's index. They are checked out as
    /// empty directories.
    fn links(&self, store: &Store, paths: &[Vec<u8>]) -> Result<Vec<u8>, SnapshotError> {
        let place = store.place(store.users_index());
        let mut lines = Vec::new();
        for some in paths.chunks(100) {
            let mut arguments: Vec<&OsStr> =
                ["--literal-pathspecs", "ls-files", "-s", "-z", "--"].map(OsStr::new).to_vec();
            arguments.extend(some.iter().map(|path| OsStr::from_bytes(path)));
            let listed = self.git.run(&place).args(arguments).output()?;
            for line in split_nul(&listed).filter(|line| line.starts_with(b"160000 ")) {
                // In a conflict, one of the sides; mode and id, without the stage.
                let (facts, path) = line.split_at(line.iter().position(|byte| *byte == b'\t').unwrap_or(0));
                let id = facts.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
                lines.extend([b"160000 ", id, path, b"\0"].concat());
            }
        }
        Ok(lines)
    }

    fn graft(
        &self,
        repository: &Repository,
        store: &Store,
        taken: &mut Taken,
        inner: &[Grafted],
        empty: &[Vec<u8>],
    ) -> Result<(), SnapshotError> {
        store.read_also(repository, &inner.iter().map(|(_, _, store)| store).collect::<Vec<_>>())?;
        let index = store.root().join("grafted-index");
        fs::copy(store.index(), &index)
            .or_else(|error| if store.index().exists() { Err(error) } else { Ok(0) })
            .map_err(GitError::io("copying our index"))?;
        let place = store.place(index.clone());
        if !empty.is_empty() {
            let lines = self.links(store, empty)?;
            self.git.run(&place).args(["update-index", "-z", "--index-info"]).input(lines).output()?;
        }
        for (path, found, _) in inner {
            let mut prefix = std::ffi::OsString::from("--prefix=");
            prefix.push(OsStr::from_bytes(path));
            prefix.push("/");
            let arguments = [OsStr::new("read-tree"), &prefix, OsStr::new(found.tree.as_str())];
            self.git.run(&place).args(arguments).output()?;
            taken.files += found.files;
            taken.bytes += found.bytes;
            let inside = |inner: &Vec<u8>| [path.as_slice(), b"/", inner.as_slice()].concat();
            taken.kept_back.extend(found.kept_back.iter().map(inside));
            taken.refused.extend(found.refused.iter().map(inside));
            taken.closed.extend(found.closed.iter().map(inside));
            taken.changed_meanwhile.extend(found.changed_meanwhile.iter().map(inside));
        }
        taken.tree = store::write_tree(self.git, &place)?;
        fs::remove_file(&index).map_err(GitError::io("removing the grafted index"))?;
        Ok(())
    }
}
