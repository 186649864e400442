//! A file that reserves disk space for the coordinator itself.
//!
//! A start and the removal of an old log both write a record. On a full disk neither would be
//! possible, so this file is removed before them and written again after.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of the file, in bytes. One start and one removal of old logs together write less than this.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self { path: directory.join("reserve") }
    }

    /// Removes the file, which frees its space.
    pub(super) fn release(&self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "the reserve file can't be removed");
        }
    }

    /// Writes the file again, as far as the disk has space. A shorter file is accepted.
    pub(super) fn refill(&self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, path = %self.path.display(), "the reserve file is shorter than it should be");
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut file: File = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        // A sparse file would reserve no space, and a file system may store zeros as holes.
        let block = [0xa5; BLOCK_BYTES];
        while file.metadata()?.size() < RESERVE_BYTES {
            file.write_all(&block)?;
        }
        file.sync_data()
    }
}
