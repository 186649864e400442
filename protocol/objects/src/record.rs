//! Records of snapshots on disk. A snapshot is identified by the checksum of its manifest. The tree
//! alone is not sufficient: tags, branch and ignore patterns change without it, and a workspace
//! depends on them.

use crate::incoming::checksum;
use buildpool_protocol::transfer::{Checksum, Manifest, ObjectId, SnapshotName};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Returns the checksum of the manifest fields that determine a workspace. Both ends of a link
/// compute it. Adding a field here therefore requires a new protocol version.
pub fn key(manifest: &Manifest) -> Checksum {
    let told = (&manifest.tree, &manifest.head, &manifest.excludes, &manifest.left_behind);
    let text = serde_json::to_vec(&told).expect("a manifest has string keys only");
    checksum(&blake3::hash(&text))
}

/// Returns the name of a snapshot.
pub fn name(manifest: &Manifest) -> SnapshotName {
    SnapshotName {
        tree: manifest.tree.clone(),
        head: manifest.head.as_ref().map(|head| head.commit.clone()),
        manifest: Some(key(manifest)),
    }
}

/// Returns true if a snapshot matches a name.
pub fn fits(name: &SnapshotName, manifest: &Manifest) -> bool {
    name.tree == manifest.tree
        && name.head.as_ref() == manifest.head.as_ref().map(|head| &head.commit)
        && name.manifest.as_ref().is_none_or(|asked| *asked == key(manifest))
}

/// Returns the common prefix of all records with this tree and commit. Records of earlier versions
/// have nothing after it.
fn stem(tree: &ObjectId, head: Option<&ObjectId>) -> String {
    format!("{tree}.{}.", head.map_or("none", ObjectId::as_str))
}

/// Returns the file name of the record of a complete snapshot.
pub(crate) fn file_name(manifest: &Manifest) -> String {
    let head = manifest.head.as_ref().map(|head| &head.commit);
    format!("{}{}.json", stem(&manifest.tree, head), key(manifest))
}

/// Returns the record of a snapshot in this directory. If `name` has no manifest checksum, the last
/// used record matches.
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

/// Returns all records, most recently used first.
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
