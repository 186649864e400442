//! Backup and restore of a data directory: records, tokens, certificate, logs, snapshots and
//! artifacts.
//!
//! [`create`] works while a coordinator runs. It copies the records first. Everything that a record
//! refers to was stored before the record, so it exists when it is copied.

use crate::store::{self, BackedUp, BackupError, StoreError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Directories below `transfer` that are copied. The others contain unfinished transfers.
const ARTIFACTS: &str = "artifacts";
const PROJECTS: &str = "projects";

/// Copies the data directory `from` into `to`, which must be empty or missing.
///
/// # Errors
/// [`BackupError`]. Do not use the contents of `to` after an error.
pub fn create(from: &Path, to: &Path) -> Result<BackedUp, BackupError> {
    if !from.join("records.db").is_file() {
        return Err(BackupError::NoData { directory: from.to_owned() });
    }
    let done = store::backup(from, to)?;
    let (from, to) = (from.join("transfer"), to.join("transfer"));
    copy_tree(&from.join(ARTIFACTS), &to.join(ARTIFACTS))?;
    for project in entries(&from.join(PROJECTS))? {
        let Some(name) = project.file_name() else { continue };
        copy_project(&project, &to.join(PROJECTS).join(name))?;
    }
    Ok(done)
}

/// Creates a data directory from a backup. `to` must be empty or missing: nothing is overwritten.
///
/// Attempts that ran after the backup can't write to the restored coordinator: it grants only newer
/// epochs.
///
/// # Errors
/// [`BackupError`]. Do not use the contents of `to` after an error.
pub fn restore(from: &Path, to: &Path) -> Result<BackedUp, BackupError> {
    create(from, to)
}

/// Copies a project's objects, under the lock that prevents their removal. The lists of objects are
/// copied before the objects. So a list may lack an object, but never names a missing one.
fn copy_project(from: &Path, to: &Path) -> Result<(), StoreError> {
    let lock = from.join("lock");
    let _shared = match File::open(&lock) {
        Ok(file) => {
            file.lock_shared().map_err(StoreError::file("lock", &lock))?;
            Some(file)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(StoreError::File { doing: "open", path: lock, source }),
    };
    let mut parts = entries(from)?;
    parts.sort_by_key(|part| part.ends_with("objects"));
    for part in parts {
        let Some(name) = part.file_name() else { continue };
        copy_tree(&part, &to.join(name))?;
    }
    Ok(())
}

/// Copies a file or a directory. Files that are removed during the copy are skipped. Links are
/// skipped too: the store creates no links.
fn copy_tree(from: &Path, to: &Path) -> Result<(), StoreError> {
    let metadata = match fs::symlink_metadata(from) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(StoreError::File { doing: "read", path: from.to_owned(), source }),
    };
    if metadata.is_dir() {
        store::make_directory(to)?;
        for entry in entries(from)? {
            let Some(name) = entry.file_name() else { continue };
            copy_tree(&entry, &to.join(name))?;
        }
    } else if metadata.is_file() {
        if let Some(parent) = to.parent() {
            store::make_directory(parent)?;
        }
        match fs::copy(from, to) {
            Ok(_) => {
                File::open(to).and_then(|file| file.sync_all()).map_err(StoreError::file("write", to))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(StoreError::File { doing: "copy", path: from.to_owned(), source }),
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(directory) {
        Ok(listing) => Ok(listing.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(StoreError::File { doing: "list", path: directory.to_owned(), source }),
    }
}
