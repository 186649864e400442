//! Opens files below a directory without following symbolic links that a job may have created.

use super::names::Disk;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, mode_t};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Flags for opening a directory.
const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_CLOEXEC);

/// Opens a directory. It may be a symbolic link only with `follows`.
pub(super) fn directory(path: &Path, follows: bool) -> io::Result<OwnedFd> {
    let link = if follows { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    Ok(open(path, DIRECTORY | link, Mode::empty())?)
}

/// Opens a directory below another one.
pub(super) fn enter(mut directory: OwnedFd, below: &Path) -> io::Result<OwnedFd> {
    for part in below.components() {
        directory = openat(&directory, part.as_os_str(), DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())?;
    }
    Ok(directory)
}

/// Opens a regular file below a directory.
pub(super) fn file(directory: &OwnedFd, path: &Path) -> io::Result<(File, Metadata)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = enter(directory.try_clone()?, path.parent().unwrap_or(Path::new("")))?;
    // Opening a pipe would block.
    let how = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::from(openat(&parent, name, how, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Sets the permissions of a regular file below a directory, and removes a file of another user.
/// Ignores other files, missing ones, and ones that cannot be reached.
pub(super) fn set_mode(directory: &OwnedFd, root: &Path, path: &Path, disk: Disk) -> io::Result<()> {
    let (Some(name), Ok(metadata)) = (path.file_name(), root.join(path).symlink_metadata()) else {
        return Ok(());
    };
    let mode = metadata.permissions().mode() & 0o7777;
    let wanted = disk.mode(mode & 0o100 != 0);
    let is_anothers = disk.is_anothers(&metadata);
    if !metadata.is_file() || mode == wanted && !is_anothers {
        return Ok(());
    }
    let Ok(parent) = enter(directory.try_clone()?, path.parent().unwrap_or(Path::new(""))) else {
        return Ok(());
    };
    if is_anothers {
        return Ok(unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir)?);
    }
    let bits = Mode::from_bits_truncate(wanted as mode_t);
    Ok(fchmodat(&parent, name, bits, FchmodatFlags::FollowSymlink)?)
}

#[cfg(test)]
mod tests {
    use super::{directory, file};
    use nix::sys::stat::Mode;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    #[test]
    fn a_file_is_reached_through_no_link_and_a_pipe_is_none() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        for place in [&inside, &outside] {
            fs::create_dir_all(place.join("deep")).unwrap();
            fs::write(place.join("deep/file"), "x").unwrap();
        }
        symlink(outside.join("deep"), inside.join("link")).unwrap();
        symlink(outside.join("deep/file"), inside.join("file-link")).unwrap();
        nix::unistd::mkfifo(&inside.join("pipe"), Mode::S_IRUSR).unwrap();
        let open = directory(&inside, false).unwrap();
        file(&open, Path::new("deep/file")).unwrap();
        for path in ["link/file", "file-link", "pipe", "deep", "..", "none"] {
            assert!(file(&open, Path::new(path)).is_err(), "{path}");
        }
        symlink(&inside, root.path().join("to-inside")).unwrap();
        assert!(directory(&root.path().join("to-inside"), false).is_err());
        directory(&root.path().join("to-inside"), true).unwrap();
    }
}
