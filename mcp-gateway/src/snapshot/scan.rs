//! One look at the working tree: what differs from our index, and what is untracked. Two git commands side by side, each
//! of which goes over the files once and writes nothing.

use super::error::SnapshotError;
use super::repository::{Repository, odd};
use super::store::Store;
use buildpool_objects::Git;
use buildpool_objects::git::split_nul;
use buildpool_objects::incoming::checksum;
use buildpool_protocol::transfer::Checksum;
use std::path::PathBuf;

/// Patterns of this file are ignored beside those of `.gitignore`, tracked files included.
pub(super) const IGNORE_FILE: &str = ".buildpoolignore";

/// What one look saw. Paths are relative to the top, as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scan {
    /// In our index, and different or gone on disk.
    pub(super) changed: Vec<Vec<u8>>,
    /// In our index, and not there any more.
    pub(super) deleted: Vec<Vec<u8>>,
    /// Untracked and not ignored, sorted.
    pub(super) others: Vec<Vec<u8>>,
    /// Untracked directories with a repository of their own.
    pub(super) nested: Vec<Vec<u8>>,
    /// Over `others` and `nested`.
    pub(super) others_checksum: Checksum,
}

/// Looks once.
pub(super) fn scan(git: &Git, store: &Store, repository: &Repository) -> Result<Scan, SnapshotError> {
    let (differences, others) = std::thread::scope(|scope| {
        let differences = scope.spawn(|| {
            git.run(&store.place(store.index()))
                .args([
                    "diff-files",
                    "-z",
                    "--raw",
                    "--no-renames",
                    "--no-ext-diff",
                    "--ignore-submodules=all",
                ])
                .output()
        });
        let mut arguments = vec!["ls-files".into(), "-o".into(), "-z".into(), "--exclude-standard".into()];
        if let Some(file) = ignore_file(repository) {
            arguments.extend(["-X".into(), file.into_os_string()]);
        }
        let others = git.run(&store.place(store.users_index())).args(arguments).output();
        (differences.join(), others)
    });
    let differences = differences.map_err(|_| odd("diff-files", "its thread ended"))??;
    let others = others?;
    let mut scan = Scan {
        changed: Vec::new(),
        deleted: Vec::new(),
        others: Vec::new(),
        nested: Vec::new(),
        others_checksum: checksum(&blake3::hash(&others)),
    };
    let mut fields = split_nul(&differences);
    while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
        let list = if entry.ends_with(b"D") { &mut scan.deleted } else { &mut scan.changed };
        list.push(path.to_vec());
    }
    for path in split_nul(&others) {
        match path.strip_suffix(b"/") {
            Some(directory) => scan.nested.push(directory.to_vec()),
            None => scan.others.push(path.to_vec()),
        }
    }
    scan.others.sort_unstable();
    Ok(scan)
}

/// Our own ignore file, if there is one.
pub(super) fn ignore_file(repository: &Repository) -> Option<PathBuf> {
    Some(repository.top.join(IGNORE_FILE)).filter(|path| path.is_file())
}

/// Tracked files that our own ignore file names, sorted.
pub(super) fn tracked_but_ignored(
    git: &Git,
    store: &Store,
    repository: &Repository,
) -> Result<Vec<Vec<u8>>, SnapshotError> {
    let Some(file) = ignore_file(repository) else { return Ok(Vec::new()) };
    let arguments =
        ["ls-files".into(), "-c".into(), "-i".into(), "-z".into(), "-X".into(), file.into_os_string()];
    let output = git.run(&store.place(store.users_index())).args(arguments).output()?;
    let mut paths: Vec<_> = split_nul(&output).map(<[u8]>::to_vec).collect();
    paths.sort_unstable();
    Ok(paths)
}
