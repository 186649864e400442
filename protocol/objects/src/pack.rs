//! Computes the objects that a receiver lacks, and writes the pack with them. The list comes from
//! the difference of two trees, so its cost depends on the difference and not on the size of the
//! tree.

use crate::git::{Git, GitError, Place};
use crate::incoming::checksum_of;
use crate::trees::Difference;
use buildpool_protocol::transfer::{Checksum, Head, Manifest, ObjectId};
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An object of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its id.
    pub id: ObjectId,
    /// Its required kind.
    pub kind: Kind,
    /// A path of the object, as bytes. Empty for top-level trees, commits and tags. git uses it as
    /// a hint for delta search.
    pub path: Vec<u8>,
}

/// Kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Tree,
    /// A file or a symbolic link.
    Blob,
    /// A commit.
    Commit,
    /// The target of a tag: a tag object or a commit.
    TagOrCommit,
}

impl Kind {
    /// Returns true if git's type name matches this kind.
    pub fn fits(self, name: &str) -> bool {
        match self {
            Self::Tree => name == "tree",
            Self::Blob => name == "blob",
            Self::Commit => name == "commit",
            Self::TagOrCommit => name == "tag" || name == "commit",
        }
    }
}

/// A pack on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackFile {
    /// Path of the pack.
    pub path: PathBuf,
    /// Checksum of the pack.
    pub blake3: Checksum,
    /// Length in bytes.
    pub length: u64,
}

/// The objects of a snapshot that a receiver lacks.
#[derive(Debug)]
pub struct MissingObjects {
    /// All objects, each once.
    pub parts: Vec<Part>,
    /// Difference from the base to the tree. `None` if both are the same.
    pub tree: Option<Difference>,
    /// Difference from the tree to the tree of the commit. `None` if both are the same, or the
    /// commit's tree is not wanted.
    pub head: Option<Difference>,
}

/// Lists the objects that a receiver with the tree `base` (or without a tree) lacks. Of the head it
/// lists the wanted parts: commits, tags and the commit's tree.
///
/// # Errors
/// Fails if git fails or an object is missing locally.
pub fn missing_objects(
    git: &Git,
    place: &Place,
    manifest: &Manifest,
    base: Option<&ObjectId>,
    is_wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<MissingObjects, GitError> {
    let empty = manifest.tree.format().empty_tree();
    let mut parts = Vec::new();
    let mut compare = |from: Option<&ObjectId>, to: &ObjectId| {
        let difference = Difference::between(git, place, from, to)?;
        parts.extend_from_slice(&difference.parts);
        Ok::<_, GitError>(difference)
    };
    let has_tree = base.unwrap_or(&empty) == &manifest.tree;
    let tree = (!has_tree).then(|| compare(base, &manifest.tree)).transpose()?;
    let other = manifest.head.as_ref().map(|head| &head.tree);
    let other = other.filter(|other| **other != manifest.tree && is_wanted(other));
    let head = other.map(|other| compare(Some(&manifest.tree), other)).transpose()?;
    if let Some(head) = &manifest.head {
        parts.extend(commits_and_tags(head).filter(|part| is_wanted(&part.id)));
    }
    let mut seen = HashSet::new();
    parts.retain(|part| part.id != empty && seen.insert(part.id.clone()));
    Ok(MissingObjects { parts, tree, head })
}

/// Returns only the objects of [`missing_objects`].
///
/// # Errors
/// As for [`missing_objects`].
pub fn missing_parts(
    git: &Git,
    place: &Place,
    manifest: &Manifest,
    base: Option<&ObjectId>,
    is_wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<Vec<Part>, GitError> {
    missing_objects(git, place, manifest, base, is_wanted).map(|missing| missing.parts)
}

/// Counts the trees and blobs of `to` that are missing locally and differ from `from`. Returns 1 if
/// the difference cannot be listed.
///
/// # Errors
/// Fails if git cannot be run.
pub fn count_absent(
    git: &Git,
    place: &Place,
    from: Option<&ObjectId>,
    to: &ObjectId,
) -> Result<usize, GitError> {
    let parts = match Difference::between(git, place, from, to) {
        Err(GitError::Failed { .. } | GitError::Absent { .. }) => return Ok(1),
        difference => difference?.parts,
    };
    let list = parts.iter().flat_map(|part| [part.id.as_str().as_bytes(), b"\n"].concat()).collect();
    let call = git.run(place).args(["cat-file", "--batch-check=%(objecttype)", "--buffer"]);
    let answer = call.input(list).output()?;
    Ok(answer.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b" missing")).count())
}

/// Returns the objects of a head except its tree.
pub fn commits_and_tags(head: &Head) -> impl Iterator<Item = Part> {
    let top = |id: &ObjectId, kind| Part { id: id.clone(), kind, path: Vec::new() };
    let commits = [&head.commit].into_iter().chain(&head.history).map(move |id| top(id, Kind::Commit));
    commits.chain(head.tags.iter().map(move |tag| top(&tag.object, Kind::TagOrCommit)))
}

/// Counter for unique names of temporary files.
static MAKING: AtomicU64 = AtomicU64::new(0);

/// Writes a pack with these objects and replaces `into` atomically. Objects may be deltas against
/// objects of `base`. Without objects the file is empty. `bytes` sets the time limit of a git with
/// limits.
///
/// # Errors
/// Fails if git or the disk fails.
pub fn write(
    git: &Git,
    place: &Place,
    parts: &[Part],
    base: Option<&ObjectId>,
    bytes: u64,
    into: &Path,
) -> Result<PackFile, GitError> {
    let mut list = Vec::new();
    if let Some(base) = base {
        list.extend_from_slice(format!("-{base}\n").as_bytes());
    }
    for part in parts {
        list.extend_from_slice(part.id.as_str().as_bytes());
        list.push(b' ');
        list.extend(part.path.iter().map(|byte| if *byte == b'\n' { b'?' } else { *byte }));
        list.push(b'\n');
    }
    // Two threads or processes may write the same pack concurrently.
    let number = MAKING.fetch_add(1, Ordering::Relaxed);
    let beside = into.with_extension(format!("{}-{number}.new", std::process::id()));
    let file = File::create(&beside).map_err(GitError::io(format!("creating {}", beside.display())))?;
    let arguments = ["pack-objects", "--stdout", "--delta-base-offset", "-q"];
    let made = if parts.is_empty() {
        Ok(())
    } else {
        git.run(place).args(arguments).for_bytes(bytes).input(list).output_into(file)
    };
    if let Err(error) = made {
        fs::remove_file(&beside).ok();
        return Err(error);
    }
    let (blake3, length) =
        checksum_of(&beside).map_err(GitError::io(format!("reading {}", beside.display())))?;
    fs::rename(&beside, into).map_err(GitError::io(format!("renaming to {}", into.display())))?;
    Ok(PackFile { path: into.to_owned(), blake3, length })
}
