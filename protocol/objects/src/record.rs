//! By what a snapshot is known where it is kept. The tree alone does not tell it: tags, the branch and ignore patterns change
//! without it, and a workspace answers from them. So it is the checksum of its manifest.

use crate::incoming::checksum;
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectId, SnapshotName};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The checksum of what a workspace is made of. Both ends of a link compute it, so a field of a manifest that is added to it needs
/// a new version of the protocol.
pub fn key(manifest: &Manifest) -> Checksum {
    let told = (&manifest.tree, &manifest.head, &manifest.excludes, &manifest.left_behind);
    let text = serde_json::to_vec(&told).expect("a manifest has string keys only");
    checksum(&blake3::hash(&text))
}

/// The name of a snapshot.
pub fn name(manifest: &Manifest) -> SnapshotName {
    SnapshotName {
        tree: manifest.tree.clone(),
        head: manifest.head.as_ref().map(|head| head.commit.clone()),
        manifest: Some(key(manifest)),
    }
}

/// Whether a snapshot is what is asked for.
pub fn fits(name: &SnapshotName, manifest: &Manifest) -> bool {
    name.tree == manifest.tree
        && name.head.as_ref() == manifest.head.as_ref().map(|head| &head.commit)
        && name.manifest.as_ref().is_none_or(|asked| *asked == key(manifest))
}

/// All records of a tree with a commit checked out begin with it. Those of earlier versions have nothing more.
fn stem(tree: &ObjectId, head: Option<&ObjectId>) -> String {
    format!("{tree}.{}.", head.map_or("none", ObjectId::as_str))
}

/// The file that says that a snapshot is whole.
pub(crate) fn file_name(manifest: &Manifest) -> String {
    let head = manifest.head.as_ref().map(|head| &head.commit);
    format!("{}{}.json", stem(&manifest.tree, head), key(manifest))
}

/// The record of a snapshot in this directory. Where its manifest is not named, the one that was used last.
pub(crate) fn find(directory: &Path, name: &SnapshotName) -> Option<PathBuf> {
    let stem = stem(&name.tree, name.head.as_ref());
    if let Some(key) = &name.manifest {
        return Some(directory.join(format!("{stem}{key}.json"))).filter(|path| path.is_file());
    }
    let records = all(directory).into_iter().map(|(_, path)| path);
    let is_one = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&stem))
    };
    records.into_iter().find(is_one)
}

/// All records, the most recently used one first.
pub(crate) fn all(directory: &Path) -> Vec<(SystemTime, PathBuf)> {
    let mut records: Vec<(SystemTime, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    records.sort_by(|a, b| b.cmp(a));
    records
}
