//! Scans the working tree once: differences from our index, and untracked files. Two git commands
//! run concurrently; each reads the files once and writes nothing.

use super::error::SnapshotError;
use super::ignores::ignore_file;
use super::repository::{Repository, unexpected};
use super::store::Store;
use crate::directories;
use crate::local::DIRECTORY_VARIABLE;
use buildpool_objects::Git;
use buildpool_objects::git::split_nul;
use buildpool_objects::incoming::checksum;
use buildpool_protocol::transfer::Checksum;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Result of a scan. Paths are relative to the top, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scan {
    /// Files in our index that differ or are missing on disk.
    pub(super) changed: Vec<Vec<u8>>,
    /// Files in our index that are missing on disk.
    pub(super) deleted: Vec<Vec<u8>>,
    /// Untracked files that are not ignored, sorted.
    pub(super) others: Vec<Vec<u8>>,
    /// Untracked directories with their own repository.
    pub(super) nested: Vec<Vec<u8>>,
    /// Directories that can't be read, in git's form.
    pub(super) closed: Vec<Vec<u8>>,
    /// Checksum over `others` and `nested`.
    pub(super) others_checksum: Checksum,
}

/// Scans once.
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
        // A `.gitignore` may override this file here, so a later check decides. But directories
        // that it excludes are skipped. It comes first because the last file wins: a `!` in it must
        // not include files that the user ignores.
        if let Some(file) = ignore_file(repository) {
            arguments.extend(["-X".into(), file.into_os_string()]);
        }
        arguments.push("--exclude-standard".into());
        arguments.extend(own_directories().iter().filter_map(|own| exclusion(own, &repository.top)));
        let others = git.run(&store.place(store.users_index())).args(arguments).output_and_remarks();
        (differences.join(), others)
    });
    let differences = differences.map_err(|_| unexpected("diff-files", "its thread ended"))??;
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

/// Returns the directories in which this client keeps snapshots, settings and the local pool. A job has no use for
/// them, and they change while a snapshot is taken.
fn own_directories() -> Vec<PathBuf> {
    let named = std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
    [directories::caches(), directories::data(), named].into_iter().flatten().collect()
}

/// Returns the option of git that excludes a directory, if it is below the top.
fn exclusion(directory: &Path, top: &Path) -> Option<OsString> {
    let directory = fs::canonicalize(directory).ok()?;
    let inside = directory.strip_prefix(fs::canonicalize(top).ok()?).ok()?;
    if inside.as_os_str().is_empty() {
        return None;
    }
    let mut pattern = b"--exclude=/".to_vec();
    for byte in inside.as_os_str().as_bytes() {
        if matches!(byte, b'*' | b'?' | b'[' | b'\\' | b' ') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'/');
    Some(OsString::from_vec(pattern))
}

/// Returns the directory of a git warning that it could not be opened.
fn closed(remark: &str) -> Option<Vec<u8>> {
    let rest = remark.strip_prefix("warning: could not open directory '")?;
    Some(rest.rsplit_once("': ")?.0.trim_end_matches('/').into())
}

#[cfg(test)]
mod tests {
    use super::exclusion;
    use std::fs;

    #[test]
    fn a_directory_below_the_top_is_excluded_by_its_name() {
        let top = tempfile::tempdir().expect("a directory");
        let own = top.path().join("home/a b[c]");
        fs::create_dir_all(&own).expect("it can be made");
        let option = exclusion(&own, top.path()).expect("it is below the top");
        assert_eq!(option.to_str(), Some(r"--exclude=/home/a\ b\[c]/"));
        assert_eq!(exclusion(top.path(), top.path()), None);
        assert_eq!(exclusion(top.path(), &own), None);
        assert_eq!(exclusion(&own.join("missing"), top.path()), None);
    }
}
