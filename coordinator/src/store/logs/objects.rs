//! Sealed logs in the objects that several coordinators share. Each log is one pack.
//!
//! The files of this coordinator stay where they are: they serve its readers. Another coordinator copies the pack to its
//! own files when a reader needs it.

use super::error::LogError;
use super::examine::{copy, stored_attempts};
use super::layout::{Layout, LogFiles};
use super::pack::Growth;
use super::read::LogReader;
use super::registry::Logs;
use crate::store::disk::Disk;
use crate::store::limits::READ_BYTES_MAX;
use crate::store::objects::{Key, Kind, Objects};
use crate::store::reader::{Lookup, Reader};
use buildpool_protocol::AttemptId;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Returns the owner of the objects of an attempt's log.
pub(super) fn owner(attempt: AttemptId) -> String {
    format!("{}-{}", attempt.job, attempt.number)
}

/// Returns the attempt of an owner.
pub(super) fn attempt_of(owner: &str) -> Option<AttemptId> {
    let (job, number) = owner.rsplit_once('-')?;
    Some(AttemptId { job: job.parse().ok()?, number: number.parse().ok()? })
}

impl Logs {
    /// Returns the length of a log by its object. 0 if it has no object.
    pub(super) fn shared_length(&self, attempt: AttemptId) -> Result<u64, LogError> {
        let Some(objects) = &self.inner.objects else { return Ok(0) };
        let items = objects.items(Kind::Log, &owner(attempt))?;
        Ok(items.first().and_then(|item| item.item.parse().ok()).unwrap_or(0))
    }

    /// Copies a sealed log to the shared objects, if there are any. When this returns, the copy is durable. Blocks.
    ///
    /// # Errors
    /// [`LogError`]. It may be tried again.
    pub fn publish(&self, attempt: AttemptId) -> Result<(), LogError> {
        let Some(objects) = &self.inner.objects else { return Ok(()) };
        let place = LogFiles::new(self.root(), attempt);
        let written = unfinished(&place);
        let packed = self.reader(attempt).and_then(|reader| self.write_pack(reader, &place, &written));
        let stored = packed.and_then(|length| {
            let (owner, item) = (&owner(attempt), &length.to_string());
            objects.put_file(Key { kind: Kind::Log, owner, item }, &written)?;
            // An earlier leader may have stored a log that was received in another length.
            Ok(objects.remove(Kind::Log, owner, |other| other.item != *item)?)
        });
        remove(&written);
        stored
    }

    /// Returns the length of the log.
    fn write_pack(&self, mut reader: LogReader, place: &LogFiles, written: &Path) -> Result<u64, LogError> {
        let (disk, directory) = (&self.inner.disk, &place.directory);
        disk.create_directory(directory).map_err(LogError::file("make", directory))?;
        let mut growth = Growth::create(written, disk)?;
        let mut position = 0;
        loop {
            let chunks = reader.read(position, READ_BYTES_MAX)?;
            if chunks.is_empty() {
                return Ok(position);
            }
            growth.append(&chunks, disk)?;
            position += chunks.len() as u64;
        }
    }

    /// Copies the log of an ended attempt from the shared objects, unless this coordinator has all of it.
    pub(super) fn fetch(&self, attempt: AttemptId, length: u64) -> Result<(), LogError> {
        let Some(objects) = &self.inner.objects else { return Ok(()) };
        let place = LogFiles::new(self.root(), attempt);
        let disk = &self.inner.disk;
        // A coordinator that was the leader before may have the beginning only.
        let known = Layout::recover(&place, attempt, disk, false);
        if known.is_ok_and(|(_, state)| state.position >= length) {
            return Ok(());
        }
        let directory = &place.directory;
        disk.create_directory(directory).map_err(LogError::file("make", directory))?;
        let written = unfinished(&place);
        let owner = owner(attempt);
        let Some(item) = objects.items(Kind::Log, &owner)?.pop() else { return Ok(()) };
        objects.get_file(Key { kind: Kind::Log, owner: &owner, item: &item.item }, &written)?;
        let moved = place.remove_all(disk).and_then(|()| finish(&written, &place.pack()));
        if moved.is_err() {
            remove(&written);
        }
        moved
    }
}

/// Copies the whole logs of a data directory that no coordinator uses to shared objects, unless they are there. Returns the
/// attempts whose logs are not whole. Blocks.
///
/// # Errors
/// [`LogError`], with a part of the work done.
pub(crate) fn export_logs(
    directory: &Path,
    objects: &Objects,
    reader: &Reader,
) -> Result<Vec<AttemptId>, LogError> {
    let mut damaged = Vec::new();
    let root = directory.join("logs");
    let staging = directory.join("uploads/logs");
    for attempt in stored_attempts(&root) {
        let Lookup::Found(record) = reader.job(attempt.job)? else { continue };
        let known = record.attempts.iter().find(|known| known.number == attempt.number);
        let Some(length) = known.and_then(|known| Some(known.ended.as_ref()?.log_length)) else { continue };
        let (owner, item) = (owner(attempt), length.to_string());
        if objects.items(Kind::Log, &owner)?.iter().any(|known| known.item == item) {
            continue;
        }
        let place = LogFiles::new(&staging, attempt);
        place.remove_all(&Disk::default())?;
        if length == 0 {
            continue;
        }
        if copy(&root, &staging, attempt, length)? == length {
            objects.put_file(Key { kind: Kind::Log, owner: &owner, item: &item }, &place.pack())?;
            remove(&place.pack());
        } else {
            tracing::warn!(%attempt, length, "a log is shorter than its record states; it stays in the data directory");
            damaged.push(attempt);
        }
    }
    Ok(damaged)
}

/// Copies a log from shared objects to a data directory that no coordinator uses, unless it is there. Blocks.
///
/// # Errors
/// [`LogError`]
pub(crate) fn import_log(directory: &Path, objects: &Objects, owner: &str) -> Result<(), LogError> {
    let Some(attempt) = attempt_of(owner) else { return Ok(()) };
    let place = LogFiles::new(&directory.join("logs"), attempt);
    let path = place.pack();
    if path.exists() {
        return Ok(());
    }
    let Some(item) = objects.items(Kind::Log, owner)?.pop() else { return Ok(()) };
    crate::store::make_directory(&place.directory)?;
    let written = unfinished(&place);
    objects.get_file(Key { kind: Kind::Log, owner, item: &item.item }, &written)?;
    finish(&written, &path)
}

/// Returns a new name for a file that is being written. It is not the name of a log.
fn unfinished(place: &LogFiles) -> PathBuf {
    place.directory.join(format!("{}.unfinished", Uuid::now_v7()))
}

fn finish(written: &Path, path: &Path) -> Result<(), LogError> {
    std::fs::rename(written, path).map_err(LogError::file("rename to", path))
}

fn remove(written: &Path) {
    if let Err(error) = std::fs::remove_file(written)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %written.display(), "an unfinished copy of a log can't be removed");
    }
}
