//! Removes the stored snapshots of a project.

use super::{IDLE_AFTER, log_failure, opened};
use buildpool_objects::{CacheError, record, removal};
use buildpool_protocol::transfer::{Manifest, SnapshotName};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Removes the snapshots of a project, unless a live job needs one or a transfer uses them. Returns true if they are
/// gone.
pub(super) fn remove_project(directory: &Path, pinned: &[SnapshotName]) -> Result<bool, CacheError> {
    let cache = opened(directory)?;
    let Some(_alone) = cache.hold_alone()? else { return Ok(false) };
    let is_pinned = |manifest: &Manifest| pinned.iter().any(|name| record::fits(name, manifest));
    if cache.manifests().iter().any(is_pinned) {
        return Ok(false);
    }
    log_failure(directory, removal::remove(directory));
    Ok(!directory.exists())
}

pub(super) fn tidy_project(
    directory: &Path,
    pinned: &[SnapshotName],
    now: SystemTime,
) -> Result<(), CacheError> {
    let cache = opened(directory)?;
    let is_pinned = |manifest: &Manifest| pinned.iter().any(|name| record::fits(name, manifest));
    let is_idle = || {
        used_at(directory).is_some_and(|used| now.duration_since(used).is_ok_and(|idle| idle > IDLE_AFTER))
    };
    let may_go = || is_idle() && !cache.manifests().iter().any(is_pinned);
    if may_go() {
        // Lock the cache exclusively and check again: now no snapshot is being received.
        if let Some(_alone) = cache.hold_alone()?
            && may_go()
        {
            log_failure(directory, removal::remove(directory));
        }
        return Ok(());
    }
    cache.tidy(is_pinned, buildpool_objects::limits::SNAPSHOTS_KEPT, false)
}

/// Returns the time of the last use of a project's snapshots, or its creation if it has no
/// snapshots.
pub(super) fn used_at(directory: &Path) -> Option<SystemTime> {
    let snapshots = directory.join("snapshots");
    let records = fs::read_dir(&snapshots).into_iter().flatten().flatten().map(|entry| entry.path());
    records
        .chain([snapshots, directory.to_owned()])
        .filter_map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
        .max()
}
