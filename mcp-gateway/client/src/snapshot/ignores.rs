//! Files that `.buildpoolignore` excludes from snapshots, including tracked files and nested
//! repositories.
//!
//! The files of the repository and of its outer repositories apply. git checks each path against
//! these patterns alone, in an empty directory, so that no `.gitignore` overrides them.

use super::disk::regular_file;
use super::error::SnapshotError;
use super::repository::Repository;
use super::store::Store;
use buildpool_objects::Git;
use buildpool_objects::git::split_nul;
use buildpool_objects::incoming::checksum;
use buildpool_protocol::transfer::Checksum;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

/// Name of the ignore file at the top of a repository.
const IGNORE_FILE: &str = ".buildpoolignore";

/// An ignore file that applies to a repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct IgnoreFile {
    path: PathBuf,
    /// Length of the path prefix, from the outermost repository, that is removed before this file's
    /// patterns apply. In bytes.
    begin: usize,
}

impl IgnoreFile {
    /// Returns the ignore file of a repository at `prefix` in the outermost one, if it has one.
    pub(super) fn from_repository(repository: &Repository, prefix: &[u8]) -> Option<Self> {
        let path = ignore_file(repository)?;
        Some(Self { path, begin: prefix.len() })
    }
}

/// Returns the path of the ignore file, if it exists. A link is not followed: it could lead to any
/// file of the user.
pub(super) fn ignore_file(repository: &Repository) -> Option<PathBuf> {
    let path = repository.top.join(IGNORE_FILE);
    fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()).then_some(path)
}

/// Returns a checksum over all patterns.
pub(super) fn checksum_of(files: &[IgnoreFile]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let patterns = regular_file(&file.path).unwrap_or_default();
        hasher.update(format!("{} {}\n", file.begin, patterns.len()).as_bytes()).update(&patterns);
    }
    checksum(&hasher.finalize())
}

/// Returns those of the files and directories that the ignore files exclude. git uses the file
/// system to detect directories, so `patterns_place` creates them. A trailing `/` would not work:
/// git would then match an empty name inside the directory, to which other patterns apply.
pub(super) fn ignored(
    git: &Git,
    store: &Store,
    repository: &Repository,
    ignores: &[IgnoreFile],
    prefix: &[u8],
    (files, directories): (&[&[u8]], &[Vec<u8>]),
) -> Result<HashSet<Vec<u8>>, SnapshotError> {
    let mut found = HashSet::new();
    for file in ignores {
        // Path between the file's repository and this one.
        let between = prefix.get(file.begin..).unwrap_or_default();
        let place = store.patterns_place(repository, between, directories)?;
        // After `./`, no character of a name is special to git. The output has the same form.
        let begin = [b"./", between].concat();
        let paths = files.iter().copied().chain(directories.iter().map(Vec::as_slice));
        let list: Vec<u8> = paths.flat_map(|path| [begin.as_slice(), path, b"\0"].concat()).collect();
        if list.is_empty() {
            return Ok(found);
        }
        let mut patterns = OsString::from("core.excludesFile=");
        patterns.push(&file.path);
        let question = ["check-ignore", "--no-index", "-z", "--stdin"].map(OsStr::new);
        let call = git.run(&place).args([OsStr::new("-c"), &patterns]).args(question).input(list);
        let answer = call.output_or_none()?.unwrap_or_default();
        found.extend(
            split_nul(&answer).filter_map(|path| Some(path.strip_prefix(begin.as_slice())?.to_vec())),
        );
    }
    Ok(found)
}
