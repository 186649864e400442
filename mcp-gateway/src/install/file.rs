//! Reading and replacing a file that belongs to a user.

use super::InstallError;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How a file is called that is being written, before what nobody can foresee.
pub(super) const BESIDE: &str = ".buildpool-";
/// Largest configuration file that is changed.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What is in the file, if it is there.
///
/// # Errors
/// When it can't be read, or is larger than any such file.
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

/// Writes beside the file and renames: a reader sees the old file or the new one.
///
/// # Errors
/// When the system refuses; the file is then as it was.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays one: what it points at is what the user keeps.
    let path = fs::canonicalize(path).unwrap_or_else(|_| pointed_at(path));
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    // Of a name that nobody can foresee, and nobody's but ours before anything is in it.
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

/// What a link points at where nothing is yet; anything else itself.
fn pointed_at(path: &Path) -> PathBuf {
    match (path.parent(), fs::read_link(path)) {
        (Some(directory), Ok(to)) => directory.join(to),
        _ => path.to_owned(),
    }
}

/// Those that a new file has here.
fn usual_rights(directory: &Path) -> io::Result<fs::Permissions> {
    let asked = fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().prefix(BESIDE).permissions(asked).tempfile_in(directory)?;
    Ok(file.as_file().metadata()?.permissions())
}
