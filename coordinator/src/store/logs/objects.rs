//! Sealed logs in a directory that several coordinators share. Each log is one pack, written once.
//!
//! The files of this coordinator stay where they are: they serve its readers. Another coordinator copies the pack to its
//! own files when a reader needs it. Each block of a pack has its checksum, so damage is found when it is read.

use super::error::LogError;
use super::layout::{Layout, Place};
use super::pack::Growth;
use super::read::LogReader;
use super::registry::Logs;
use crate::store::limits::READ_BYTES_MAX;
use buildpool_protocol::AttemptId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

impl Logs {
    /// Copies a sealed log to the shared directory, if there is one. When this returns, the copy is durable. Blocks.
    ///
    /// # Errors
    /// [`LogError`]. It may be tried again.
    pub fn publish(&self, attempt: AttemptId) -> Result<(), LogError> {
        let Some(root) = self.objects() else { return Ok(()) };
        let place = Place::new(root, attempt);
        let written = unfinished(&place);
        let result = self.reader(attempt).and_then(|reader| self.write_object(reader, &place, &written));
        if result.is_err() {
            remove(&written);
        }
        result
    }

    fn write_object(&self, mut reader: LogReader, place: &Place, written: &Path) -> Result<(), LogError> {
        let (disk, directory) = (&self.inner.disk, &place.directory);
        std::fs::create_dir_all(directory).map_err(LogError::file("make", directory))?;
        let mut growth = Growth::create(written, disk)?;
        let mut position = 0;
        loop {
            let chunks = reader.read(position, READ_BYTES_MAX)?;
            if chunks.is_empty() {
                break;
            }
            growth.append(&chunks, disk)?;
            position += chunks.len() as u64;
        }
        growth.sync(disk)?;
        finish(written, &place.pack())?;
        disk.sync_directory(directory).map_err(LogError::file("sync", directory))
    }

    /// Copies the log of an ended attempt from the shared directory, unless this coordinator has all of it.
    pub(super) fn fetch(&self, attempt: AttemptId, length: u64) -> Result<(), LogError> {
        let Some(root) = self.objects() else { return Ok(()) };
        let (object, place) = (Place::new(root, attempt).pack(), Place::new(self.root(), attempt));
        let disk = &self.inner.disk;
        // A coordinator that was the leader before may have the beginning only.
        let known = Layout::recover(&place, attempt, disk, false);
        if known.is_ok_and(|(_, state)| state.position >= length) {
            return Ok(());
        }
        let mut from = match File::open(&object) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from.map_err(LogError::file("open", &object))?,
        };
        let directory = &place.directory;
        std::fs::create_dir_all(directory).map_err(LogError::file("make", directory))?;
        let written = unfinished(&place);
        let copied = disk
            .create(&written)
            .and_then(|mut to| io::copy(&mut from, &mut to))
            .map_err(LogError::file("write", &written))
            .and_then(|_| place.remove_all(disk))
            .and_then(|()| finish(&written, &place.pack()));
        if copied.is_err() {
            remove(&written);
        }
        copied
    }

    /// Returns the directories with logs: that of this coordinator, and the shared one.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.root()).chain(self.objects())
    }
}

/// Returns a new name for a file that is being written. It is not the name of a log.
fn unfinished(place: &Place) -> PathBuf {
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
