//! Disk space of the worker: removes checkouts and projects.

use super::leases::{checkouts, lease_of, take_lease};
use super::{Workspaces, lock_file};
use crate::platform::disk_room;
use crate::workspace::checkout::{Checkout, now, remove};
use crate::workspace::collection::{Candidate, SpaceLimits, choose};
use crate::workspace::error::WorkspaceError;
use buildpool_objects::Git;
use buildpool_objects::cache::ObjectCache;
use buildpool_protocol::ids::AttemptId;
use buildpool_protocol::transfer::{ObjectFormat, ObjectId};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Prefix of checkouts that are moved away and about to be removed.
const REMOVED: &str = "removed";

impl Workspaces {
    /// Removes an unused project. Does nothing while another thread prepares files.
    fn remove_idle(&self, project: &Path) -> Result<(), WorkspaceError> {
        let path = self.root.join("lock");
        match Flock::lock(lock_file(&path)?, FlockArg::LockExclusiveNonblock) {
            Ok(_alone) if checkouts(&project.join("checkouts"), "x").next().is_none() && is_idle(project) => {
                remove(project)
            }
            Ok(_) | Err((_, Errno::EWOULDBLOCK)) => Ok(()),
            Err((_, error)) => Err(WorkspaceError::io("locking", path)(error.into())),
        }
    }

    /// Measures checkouts, removes the least recently used ones while disk space is low, and tidies
    /// the objects of unused projects. It never removes a checkout in use. It visits all files of
    /// free checkouts, so it must not run while a job waits for it.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn collect_space(&self, limits: &SpaceLimits) -> Result<(), WorkspaceError> {
        let mut free_ones = Vec::new();
        let mut total = 0;
        for checkout in self.all_checkouts() {
            if lease_of(&checkout.directory).is_none() {
                // A full disk cannot store the size, but needs the cleanup even more.
                log_failure(&checkout.directory, checkout.note_bytes(bytes_below(&checkout.directory)));
                let (used_at, bytes) = (checkout.state().used_at, checkout.bytes());
                free_ones.push(Candidate { used_at, bytes, which: checkout.clone() });
            }
            total += checkout.bytes();
        }
        let room = disk_room(&self.root).map_err(WorkspaceError::io("measuring", &self.root))?;
        for checkout in choose(free_ones, total, room, now(), limits) {
            give_up(&checkout)?;
        }
        for project in self.projects() {
            // An error with one project must not affect the others.
            log_failure(&project, self.tidy(&project));
        }
        Ok(())
    }

    /// Removes idle checkouts, least recently used first, while free disk space is low. It does not
    /// measure them, so it is fast enough for a disk that fills while jobs run.
    ///
    /// # Errors
    /// Fails if the disk fails.
    pub fn make_room(&self, limits: &SpaceLimits) -> Result<(), WorkspaceError> {
        let mut idle = self.all_checkouts();
        idle.retain(|checkout| lease_of(&checkout.directory).is_none());
        idle.sort_by_key(|checkout| checkout.state().used_at);
        for checkout in idle {
            let room = disk_room(&self.root).map_err(WorkspaceError::io("measuring", &self.root))?;
            if !limits.is_short(room) {
                break;
            }
            give_up(&checkout)?;
        }
        Ok(())
    }

    /// Sets the checkout of an attempt aside. Returns false if it has no checkout, or the disk
    /// fails.
    pub fn set_aside(&self, attempt: AttemptId) -> bool {
        let text = attempt.to_string();
        let is_its = |checkout: &Checkout| lease_of(&checkout.directory).is_some_and(|lease| lease == text);
        self.all_checkouts().into_iter().find(is_its).is_some_and(|checkout| put_aside(&checkout).is_ok())
    }

    fn tidy(&self, project: &Path) -> Result<(), WorkspaceError> {
        clear_aside(project);
        let own: Vec<Checkout> = checkouts(&project.join("checkouts"), "x").collect();
        if own.is_empty() && is_idle(project) {
            return self.remove_idle(project);
        }
        // Include checkouts in use: their git reads these objects. A checkout in preparation holds
        // the cache.
        let pinned: Vec<ObjectId> = own.iter().filter_map(|checkout| checkout.state().tree).collect();
        for (name, format) in [("objects", ObjectFormat::Sha1), ("objects-sha256", ObjectFormat::Sha256)] {
            if project.join(name).is_dir() {
                let cache = ObjectCache::open_for_disk(
                    Git::find_for_service(&self.stop)?,
                    &project.join(name),
                    format,
                    self.disk.ignores_case,
                )?;
                cache.tidy(|manifest| pinned.contains(&manifest.tree), 8, false)?;
            }
        }
        Ok(())
    }
}

/// Removes a checkout, unless an attempt has it.
fn give_up(checkout: &Checkout) -> Result<(), WorkspaceError> {
    // Empty, because a full disk cannot store any content.
    if take_lease(&checkout.directory, "")? {
        tracing::info!(directory = %checkout.directory.display(), "removing a workspace to make space");
        if let Err(error) = put_aside(checkout) {
            remove(&checkout.directory.join("lease"))?;
            log_failure(&checkout.directory, Err(error));
        }
    }
    Ok(())
}

/// Moves a leased checkout away and removes as much of it as possible. Otherwise a partially
/// removed checkout could be taken.
///
/// # Errors
/// Fails if it cannot be moved. It stays in place then.
pub(super) fn put_aside(checkout: &Checkout) -> Result<(), WorkspaceError> {
    let project = checkout.directory.ancestors().nth(2).unwrap_or(&checkout.directory);
    let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let number = checkout.directory.file_name().unwrap_or_default().to_string_lossy();
    fs::rename(&checkout.directory, project.join(format!("{REMOVED}-{number}-{stamp}")))
        .map_err(WorkspaceError::io("removing", &checkout.directory))?;
    clear_aside(project);
    Ok(())
}

/// Removes the directories set aside, as far as possible. Files of other users (of a container)
/// stay.
fn clear_aside(project: &Path) {
    for entry in fs::read_dir(project).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(REMOVED) {
            continue;
        }
        log_failure(&entry.path(), remove(&entry.path()));
    }
}

fn log_failure(path: &Path, result: Result<(), WorkspaceError>) {
    if let Err(error) = result {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(path = %path.display(), error, "space could not be collected");
    }
}

/// Returns true for a project with objects that were not used for a day. The caller checks that it
/// has no checkouts.
fn is_idle(project: &Path) -> bool {
    let records = ["objects/snapshots", "objects-sha256/snapshots"].map(|name| project.join(name));
    // A use of a snapshot updates the time of its record.
    let inside = records.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let used = inside
        .map(|entry| entry.path())
        .chain(records.iter().cloned())
        .chain([project.join("project")])
        .filter_map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
        .max();
    used.is_some_and(|used| SystemTime::now().duration_since(used).is_ok_and(|idle| idle.as_secs() > 86_400))
}

fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    walkdir::WalkDir::new(directory)
        .follow_links(false)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}
