//! Reads files that a job wrote. It opens only regular files, does not follow a symbolic link as
//! the last path component, and limits the size.

use crate::error::EvidenceError;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Opening a pipe does not block. A symbolic link is an error.
pub(crate) fn open_regular(path: &Path) -> Result<File, EvidenceError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(|error| {
        if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) {
            EvidenceError::NotAReport { path: path.to_owned(), kind: "a symbolic link" }
        } else {
            EvidenceError::io(path, error)
        }
    })?;
    let metadata = file.metadata().map_err(|error| EvidenceError::io(path, error))?;
    if metadata.is_file() {
        Ok(file)
    } else {
        let kind = if metadata.is_dir() { "a directory" } else { "a pipe, socket or device" };
        Err(EvidenceError::NotAReport { path: path.to_owned(), kind })
    }
}

/// Returns the whole content of a file, or an error if it is larger than `limit`.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, EvidenceError> {
    let file = open_regular(path)?;
    let length = file.metadata().map_err(|error| EvidenceError::io(path, error))?.len();
    let mut content = Vec::with_capacity(usize::try_from(length.min(limit)).unwrap_or(0));
    // Read one byte more than allowed, because a file can grow while it is read.
    let taken = file.take(limit.saturating_add(1)).read_to_end(&mut content);
    taken.map_err(|error| EvidenceError::io(path, error))?;
    if content.len() as u64 > limit || length > limit {
        let bytes = length.max(content.len() as u64);
        return Err(EvidenceError::TooLarge { path: path.to_owned(), bytes, limit });
    }
    Ok(content)
}

/// Returns the first bytes of a file, to detect its kind.
pub(crate) fn read_head(path: &Path, bytes: usize) -> Result<Vec<u8>, EvidenceError> {
    let mut head = Vec::with_capacity(bytes);
    let taken = open_regular(path)?.take(bytes as u64).read_to_end(&mut head);
    taken.map_err(|error| EvidenceError::io(path, error))?;
    Ok(head)
}

/// Returns the modification time of a file, in milliseconds since 1970.
pub(crate) fn modified_at_ms(path: &Path) -> io::Result<i64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000))
}

/// Returns the modification time of a file as RFC 3339 text.
pub(crate) fn written_at(path: &Path) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(modified_at_ms(path).ok()?).ok()?;
    Some(at.display_with_offset(jiff::tz::Offset::UTC).to_string())
}
