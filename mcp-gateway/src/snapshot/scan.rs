//! One look at the working tree: what differs from our index, and what is untracked. Two git commands side by side, each
//! of which goes over the files once and writes nothing.

use super::error::SnapshotError;
use super::ignores::ignore_file;
use super::repository::{Repository, odd};
use super::store::Store;
use buildpool_objects::Git;
use buildpool_objects::git::split_nul;
use buildpool_objects::incoming::checksum;
use buildpool_protocol::transfer::Checksum;
use std::ffi::OsString;

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
    /// Directories that can't be looked into, as git names them.
    pub(super) closed: Vec<Vec<u8>>,
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
        let mut arguments: Vec<OsString> = vec!["ls-files".into(), "-o".into(), "-z".into()];
        // Not the last word about it: a `.gitignore` may speak against it. But what it names whole need not be looked at. First, because
        // the last file counts, and no `!` in this one asks for what the user ignores.
        if let Some(file) = ignore_file(repository) {
            arguments.extend(["-X".into(), file.into_os_string()]);
        }
        arguments.push("--exclude-standard".into());
        let others = git.run(&store.place(store.users_index())).args(arguments).output_and_remarks();
        (differences.join(), others)
    });
    let differences = differences.map_err(|_| odd("diff-files", "its thread ended"))??;
    let (others, remarks) = others?;
    let mut scan = Scan {
        changed: Vec::new(),
        deleted: Vec::new(),
        others: Vec::new(),
        nested: Vec::new(),
        closed: remarks.lines().filter_map(closed).collect(),
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

/// The directory that git says it could not look into.
fn closed(remark: &str) -> Option<Vec<u8>> {
    let rest = remark.strip_prefix("warning: could not open directory '")?;
    Some(rest.rsplit_once("': ")?.0.trim_end_matches('/').into())
}
