//! The one door to the file system for log segments, so that tests can make a disk fail, fill up, crawl or stop at
//! any step.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A step that changes what is on disk, or makes it last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A file or directory is made.
    Create,
    /// Bytes are written.
    Write,
    /// A file is cut.
    Truncate,
    /// A file's bytes are made to last.
    Sync,
    /// A directory's entries are made to last.
    SyncDirectory,
    /// A file takes another's name.
    Rename,
    /// A file is removed.
    Remove,
    /// A database transaction is committed.
    Commit,
}

/// Asked before each [`Operation`] on a path; an error takes the operation's place.
pub type Hook = dyn Fn(Operation, &Path) -> io::Result<()> + Send + Sync;

/// The file system, with a hook in tests.
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
    /// A disk that asks `hook` first: it may delay, fail, or look at the directory as a crash would leave it.
    pub fn hooked(hook: Arc<Hook>) -> Self {
        Self { hook: Some(hook) }
    }

    pub(crate) fn before(&self, operation: Operation, path: &Path) -> io::Result<()> {
        match &self.hook {
            Some(hook) => hook(operation, path),
            None => Ok(()),
        }
    }

    /// Makes a directory and those above it, for this user only.
    pub(crate) fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::Create, path)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// Makes an empty file for this user only, to be read and written.
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

    /// Makes the names in a directory last; it is fine when there is none.
    pub(crate) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::SyncDirectory, path)?;
        match File::open(path) {
            Ok(directory) => directory.sync_all(),
            // No name in it that could be lost: a short log that began again has never had a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Room for this user below a path, in bytes; none when it can't be told.
    pub(crate) fn free_bytes(&self, path: &Path) -> Option<u64> {
        let statistics = nix::sys::statvfs::statvfs(path).ok()?;
        #[allow(
            clippy::useless_conversion,
            clippy::unnecessary_cast,
            reason = "the widths differ between systems"
        )]
        Some((statistics.blocks_available() as u64).saturating_mul(statistics.fragment_size() as u64))
    }

    /// Removes a file; it is fine when there is none.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::Remove, path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Opens a file to read, and to write where that is allowed; none when it is not there.
pub(crate) fn open_existing(path: &Path, write: bool) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(write).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
