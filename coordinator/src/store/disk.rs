//! File system operations of the log segments. Tests can add a hook that delays or fails each
//! operation.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// An operation that changes the disk or makes a change durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Creates a file or directory.
    Create,
    /// Writes bytes.
    Write,
    /// Truncates a file.
    Truncate,
    /// Makes the bytes of a file durable.
    Sync,
    /// Makes the entries of a directory durable.
    SyncDirectory,
    /// Renames a file.
    Rename,
    /// Removes a file.
    Remove,
    /// Commits a database transaction.
    Commit,
}

/// Called before each [`Operation`] on a path. If it returns an error, the operation fails with
/// that error.
pub type Hook = dyn Fn(Operation, &Path) -> io::Result<()> + Send + Sync;

/// The file system, with an optional hook for tests.
#[derive(Clone, Default)]
pub struct Disk {
    hook: Option<Arc<Hook>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Disk {
    /// Returns a disk that calls `hook` before each operation. The hook may delay, fail, or read
    /// the directory in the state that a crash would leave.
    pub fn hooked(hook: Arc<Hook>) -> Self {
        Self { hook: Some(hook) }
    }

    pub(crate) fn before(&self, operation: Operation, path: &Path) -> io::Result<()> {
        match &self.hook {
            Some(hook) => hook(operation, path),
            None => Ok(()),
        }
    }

    /// Creates a directory and its parents, with access for this user only.
    pub(crate) fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::Create, path)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// Creates an empty file for reading and writing, with access for this user only.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.before(Operation::Create, path)?;
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    pub(crate) fn write_at(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.before(Operation::Write, path)?;
        file.write_all_at(bytes, offset)
    }

    pub(crate) fn truncate(&self, file: &File, path: &Path, length: u64) -> io::Result<()> {
        self.before(Operation::Truncate, path)?;
        file.set_len(length)
    }

    pub(crate) fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        self.before(Operation::Sync, path)?;
        file.sync_data()
    }

    /// Makes the entries of a directory durable. A missing directory is not an error.
    pub(crate) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::SyncDirectory, path)?;
        match File::open(path) {
            Ok(directory) => directory.sync_all(),
            // A missing directory has no entry that could be lost. This happens when a short log
            // restarts before it has a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the free space for this user below a path, in bytes, or `None` if the system does
    /// not report it.
    pub(crate) fn free_bytes(&self, path: &Path) -> Option<u64> {
        let statistics = nix::sys::statvfs::statvfs(path).ok()?;
        #[allow(
            clippy::useless_conversion,
            clippy::unnecessary_cast,
            reason = "the widths differ between systems"
        )]
        Some((statistics.blocks_available() as u64).saturating_mul(statistics.fragment_size() as u64))
    }

    /// Removes a file. A missing file is not an error.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::Remove, path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Opens an existing file for reading, and for writing if `write` is set. Returns `None` if it is
/// missing.
pub(crate) fn open_existing(path: &Path, write: bool) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(write).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
