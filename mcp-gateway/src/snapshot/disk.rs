//! Files as they lie there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Looks at files by name, and never through a symbolic link to a directory.
pub(super) struct Disk<'a> {
    top: &'a Path,
    /// Whether a directory can be reached without a link.
    directories: HashMap<PathBuf, bool>,
}

impl<'a> Disk<'a> {
    pub(super) fn below(top: &'a Path) -> Self {
        Self { top, directories: HashMap::new() }
    }

    /// The size of a file or link; none for what is neither, is gone, or lies behind a link.
    pub(super) fn size(&mut self, path: &[u8]) -> Option<u64> {
        let path = Path::new(OsStr::from_bytes(path));
        if !self.is_real_directory(path.parent()?) {
            return None;
        }
        let metadata = fs::symlink_metadata(self.top.join(path)).ok()?;
        (metadata.is_file() || metadata.is_symlink()).then_some(metadata.len())
    }

    /// Whether it is a file that may not be read.
    pub(super) fn is_closed(&mut self, path: &[u8]) -> bool {
        // A pipe would let its reader wait.
        self.is_regular(path)
            && fs::File::open(self.top.join(OsStr::from_bytes(path)))
                .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    }

    pub(super) fn is_regular(&mut self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        fs::symlink_metadata(self.top.join(path)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Whether it is a directory that no link leads to.
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
