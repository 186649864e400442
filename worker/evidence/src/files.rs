//! Reading files that a job wrote: no link followed at the end of a path, nothing but regular files, never more than
//! the limit.

use crate::error::EvidenceError;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. A pipe does not block, a symbolic link is refused.
pub(crate) fn open_regular(path: &Path) -> Result<File, EvidenceError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(|error| {
        if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) {
            EvidenceError::NotAReport { path: path.to_owned(), what: "a symbolic link" }
        } else {
            EvidenceError::io(path, error)
        }
    })?;
    let metadata = file.metadata().map_err(|error| EvidenceError::io(path, error))?;
    if metadata.is_file() {
        Ok(file)
    } else {
        let what = if metadata.is_dir() { "a directory" } else { "a pipe, socket or device" };
        Err(EvidenceError::NotAReport { path: path.to_owned(), what })
    }
}

/// The whole content, if it is not larger than the limit.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, EvidenceError> {
    let file = open_regular(path)?;
    let length = file.metadata().map_err(|error| EvidenceError::io(path, error))?.len();
    let mut content = Vec::with_capacity(usize::try_from(length.min(limit)).unwrap_or(0));
    // One byte more than allowed, since a file can grow while it is read.
    let taken = file.take(limit.saturating_add(1)).read_to_end(&mut content);
    taken.map_err(|error| EvidenceError::io(path, error))?;
    if content.len() as u64 > limit || length > limit {
        let bytes = length.max(content.len() as u64);
        return Err(EvidenceError::TooLarge { path: path.to_owned(), bytes, limit });
    }
    Ok(content)
}

/// The first bytes of a file, to see what it is.
pub(crate) fn read_head(path: &Path, bytes: usize) -> Result<Vec<u8>, EvidenceError> {
    let mut head = Vec::with_capacity(bytes);
    let taken = open_regular(path)?.take(bytes as u64).read_to_end(&mut head);
    taken.map_err(|error| EvidenceError::io(path, error))?;
    Ok(head)
}

/// When a file was last written, in milliseconds since 1970.
pub(crate) fn modified_at_ms(path: &Path) -> io::Result<i64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000))
}
