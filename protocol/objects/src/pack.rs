//! Which objects a receiver lacks, and the pack that brings them. The list is made from the difference of two trees, so
//! its cost is that of the difference, whatever the size of the whole.

use crate::git::{Git, GitError, Place};
use crate::incoming::checksum_of;
use crate::trees::Difference;
use buildpool_protocol::transfer::{Checksum, Head, Manifest, ObjectId};
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An object that belongs to a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its name.
    pub id: ObjectId,
    /// What it must be.
    pub kind: Kind,
    /// A path that it lies at, as bytes; empty for trees at the top, commits and tags. A hint for delta search.
    pub path: Vec<u8>,
}

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Tree,
    /// A file or a symbolic link.
    Blob,
    /// A commit.
    Commit,
    /// What a tag's name points at: a tag object or a commit.
    TagOrCommit,
}

impl Kind {
    /// Whether git's name of a type fits.
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
    /// Where.
    pub path: PathBuf,
    /// Of its bytes.
    pub blake3: Checksum,
    /// In bytes.
    pub length: u64,
}

/// What a receiver lacks of a snapshot.
#[derive(Debug)]
pub struct Lack {
    /// All objects, each once.
    pub parts: Vec<Part>,
    /// From the base to the tree; absent where these are the same.
    pub tree: Option<Difference>,
    /// From the tree to the commit's; absent where that is the same or not wanted.
    pub head: Option<Difference>,
}

/// Lists what a receiver lacks that has the tree `base` (or nothing), and of the head all parts that
/// are wanted: commits, tags and the commit's tree.
///
/// # Errors
/// When git fails or an object is missing here.
pub fn lack(
    git: &Git,
    place: &Place,
    manifest: &Manifest,
    base: Option<&ObjectId>,
    is_wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<Lack, GitError> {
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
    Ok(Lack { parts, tree, head })
}

/// The objects of [`lack`].
///
/// # Errors
/// As for [`lack`].
pub fn lacking(
    git: &Git,
    place: &Place,
    manifest: &Manifest,
    base: Option<&ObjectId>,
    is_wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<Vec<Part>, GitError> {
    lack(git, place, manifest, base, is_wanted).map(|lack| lack.parts)
}

/// Counts the trees and blobs of `to` that are not here and not at the same place in `from` either.
/// Where the difference can't even be listed, returns one.
///
/// # Errors
/// When git can't be run.
pub fn absent(git: &Git, place: &Place, from: Option<&ObjectId>, to: &ObjectId) -> Result<usize, GitError> {
    let parts = match Difference::between(git, place, from, to) {
        Err(GitError::Failed { .. } | GitError::Absent { .. }) => return Ok(1),
        difference => difference?.parts,
    };
    let list = parts.iter().flat_map(|part| [part.id.as_str().as_bytes(), b"\n"].concat()).collect();
    let call = git.run(place).args(["cat-file", "--batch-check=%(objecttype)", "--buffer"]);
    let answer = call.input(list).output()?;
    Ok(answer.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b" missing")).count())
}

/// What belongs to a head beside its tree.
pub fn commits_and_tags(head: &Head) -> impl Iterator<Item = Part> {
    let top = |id: &ObjectId, kind| Part { id: id.clone(), kind, path: Vec::new() };
    let commits = [&head.commit].into_iter().chain(&head.history).map(move |id| top(id, Kind::Commit));
    commits.chain(head.tags.iter().map(move |tag| top(&tag.object, Kind::TagOrCommit)))
}

/// Numbers the packs that are being made.
static MAKING: AtomicU64 = AtomicU64::new(0);

/// Writes a pack with these objects; objects may be deltas against those of `base`. Replaces `into` whole. Without objects the file
/// is empty. A git with limits gets time for so many bytes.
///
/// # Errors
/// When git or the disk fails.
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
    // Two may make the same pack at the same time, also in one process.
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
