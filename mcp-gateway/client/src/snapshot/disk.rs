//! Access to files in the working tree.

use nix::fcntl::OFlag;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file of ignore patterns, in bytes.
const PATTERNS_BYTES_MAX: u64 = 1 << 20;

/// Reads a regular file of ignore patterns. Returns `None` for a link, a pipe, a device, or a file
/// over 1 MiB.
pub(super) fn regular_file(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe would block.
    let flags = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).bits();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(PATTERNS_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= PATTERNS_BYTES_MAX).then_some(bytes)
}

/// Looks up files by path, and never follows a symbolic link to a directory.
pub(super) struct Disk<'a> {
    top: &'a Path,
    /// Cache: whether a directory can be reached without a link.
    directories: HashMap<PathBuf, bool>,
}

impl<'a> Disk<'a> {
    pub(super) fn below(top: &'a Path) -> Self {
        Self { top, directories: HashMap::new() }
    }

    /// Returns the size of a file or link. `None` if it is neither, is missing, or is behind a
    /// link.
    pub(super) fn size(&mut self, path: &[u8]) -> Option<u64> {
        let path = Path::new(OsStr::from_bytes(path));
        if !self.is_real_directory(path.parent()?) {
            return None;
        }
        let metadata = fs::symlink_metadata(self.top.join(path)).ok()?;
        (metadata.is_file() || metadata.is_symlink()).then_some(metadata.len())
    }

    /// Returns true if it is a file that this user may not read.
    pub(super) fn is_closed(&mut self, path: &[u8]) -> bool {
        // Opening a pipe would block.
        self.is_regular(path)
            && fs::File::open(self.top.join(OsStr::from_bytes(path)))
                .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    pub(super) fn is_regular(&mut self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        fs::symlink_metadata(self.top.join(path)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns true if it is a directory that can be reached without a link.
    pub(super) fn is_directory(&mut self, path: &[u8]) -> bool {
        self.is_real_directory(Path::new(OsStr::from_bytes(path)))
    }

    fn is_real_directory(&mut self, directory: &Path) -> bool {
        if directory.as_os_str().is_empty() {
            return true;
        }
        if let Some(known) = self.directories.get(directory) {
            return *known;
        }
        let real = directory.parent().is_none_or(|parent| self.is_real_directory(parent))
            && fs::symlink_metadata(self.top.join(directory)).is_ok_and(|metadata| metadata.is_dir());
        self.directories.insert(directory.to_owned(), real);
        real
    }
}
