//! Reads and replaces a user's configuration file.

use super::InstallError;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Prefix of a temporary file name; a random part follows.
pub(super) const BESIDE: &str = ".buildpool-";
/// Maximum size of a configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Returns the content of the file, or `None` if it is missing.
///
/// # Errors
/// If it can't be read, or is too large.
pub(super) fn read(path: &Path) -> Result<Option<String>, InstallError> {
    let file = |source| InstallError::File { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file(error)),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            let reason = format!("it has {} bytes, more than any such file", metadata.len());
            return Err(InstallError::Unreadable { path: path.to_owned(), reason });
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(file)
}

/// Replaces the file by a rename: a reader sees the old file or the new one.
///
/// # Errors
/// If the system refuses; the file is then unchanged.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Keep a link and replace its target, which is the user's own file.
    let path = fs::canonicalize(path).unwrap_or_else(|_| pointed_at(path));
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    // The name is random, so that it can't be prepared by another user. Until it has content, only
    // this user can access it.
    let mut beside = tempfile::Builder::new().prefix(BESIDE).tempfile_in(directory)?;
    let rights = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => usual_rights(directory)?,
    };
    beside.as_file().set_permissions(rights)?;
    beside.write_all(text.as_bytes())?;
    beside.as_file().sync_all()?;
    beside.persist(&path).map(drop).map_err(|error| error.error)
}

/// Returns the target of a dangling link. Returns any other path unchanged.
fn pointed_at(path: &Path) -> PathBuf {
    match (path.parent(), fs::read_link(path)) {
        (Some(directory), Ok(to)) => directory.join(to),
        _ => path.to_owned(),
    }
}

/// Returns the default permissions of a new file in this directory.
fn usual_rights(directory: &Path) -> io::Result<fs::Permissions> {
    let asked = fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(BESIDE).permissions(asked).tempfile_in(directory)?;
    Ok(file.as_file().metadata()?.permissions())
}
