//! Removes files and directory trees. A tree may have any depth: the walk is a loop, opens at most
//! three descriptors and uses no path longer than one name. Links are removed, never followed.

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::libc::{dev_t, ino_t};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Flags for opening a directory of the tree.
const INNER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Limit on listings of a directory that still has entries. Another process may add entries, and
/// some file systems skip entries while others are removed.
const LISTINGS_MAX: u32 = 3;

/// Removes a file, a link or a directory tree. A missing path is not an error. Directories without
/// write permission are made writable if this process owns them.
///
/// # Errors
/// The first failure. All other removable entries are still removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A directory between the top of the tree and the open directory.
struct Level {
    /// Its name in its parent.
    name: CString,
    /// Device and inode. They identify the directory on the way up.
    id: (dev_t, ino_t),
    /// Subdirectories that are not removed yet.
    inner: Vec<CString>,
    listings: u32,
}

/// Keeps the first failure.
#[derive(Default)]
struct First(Option<Errno>);

impl First {
    fn note(&mut self, result: nix::Result<()>) {
        match result {
            // ENOENT means that another process has already removed the entry.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => self.0 = self.0.or(Some(error)),
        }
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let parent = open(parent.unwrap_or(Path::new(".")), directory, Mode::empty())?;
    let name = CString::new(name.as_bytes())?;
    let mut first = First::default();
    empty(enter(&parent, &name)?, &name, &mut first)?;
    let removed = unlinkat(&parent, name.as_c_str(), UnlinkatFlags::RemoveDir);
    first.note(removed);
    first.0.map_or(Ok(()), |error| Err(error.into()))
}

/// Removes all entries of a directory.
fn empty(top: OwnedFd, name: &CStr, first: &mut First) -> io::Result<()> {
    let mut here = top;
    let mut levels = vec![list(&here, name.to_owned(), first)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.inner.pop() {
            match enter(&here, &name).and_then(|inner| Ok((list(&inner, name, first)?, inner))) {
                Ok((level, inner)) => {
                    levels.push(level);
                    here = inner;
                }
                Err(error) => first.note(Err(error)),
            }
            continue;
        }
        let (name, listings) = (level.name.clone(), level.listings);
        levels.pop();
        let Some(above) = levels.last_mut() else { break };
        here = openat(&here, "..", INNER, Mode::empty())?;
        if id(&here)? != above.id {
            return Err(io::Error::other("a directory was moved away while it was being removed"));
        }
        match unlinkat(&here, name.as_c_str(), UnlinkatFlags::RemoveDir) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST) if listings < LISTINGS_MAX && first.0.is_none() => {
                let inner = enter(&here, &name)?;
                levels.push(Level { listings: listings + 1, ..list(&inner, name, first)? });
                here = inner;
            }
            removed => first.note(removed),
        }
    }
    Ok(())
}

/// Opens a directory of the tree so that its entries can be removed.
fn enter(parent: &OwnedFd, name: &CStr) -> nix::Result<OwnedFd> {
    let opened = match openat(parent, name, INNER, Mode::empty()) {
        Err(Errno::EACCES) => {
            fchmodat(parent, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?;
            openat(parent, name, INNER, Mode::empty())?
        }
        opened => opened?,
    };
    if !Mode::from_bits_truncate(fstat(&opened)?.st_mode).contains(Mode::S_IRWXU) {
        // This fails for a directory of another user. Removing an entry then reports the error.
        fchmod(&opened, Mode::S_IRWXU).ok();
    }
    Ok(opened)
}

/// Removes all non-directories from a directory, and lists its subdirectories.
fn list(directory: &OwnedFd, name: CString, first: &mut First) -> nix::Result<Level> {
    let mut level = Level { name, id: id(directory)?, inner: Vec::new(), listings: 1 };
    for entry in Dir::openat(directory, ".", INNER, Mode::empty())?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if is_directory(directory, name, entry.file_type())? {
            level.inner.push(name.to_owned());
        } else {
            first.note(unlinkat(directory, name, UnlinkatFlags::NoRemoveDir));
        }
    }
    Ok(level)
}

fn is_directory(parent: &OwnedFd, name: &CStr, kind: Option<Type>) -> nix::Result<bool> {
    if let Some(kind) = kind {
        return Ok(kind == Type::Directory);
    }
    match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

fn id(directory: impl AsFd) -> nix::Result<(dev_t, ino_t)> {
    fstat(directory).map(|found| (found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::remove;
    use nix::fcntl::{OFlag, open, openat};
    use nix::sys::stat::{Mode, mkdirat};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// Creates nested directories deeper than the maximum path length.
    fn deep(top: &Path, levels: u32) {
        let how = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let mut here = open(top, how, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&here, "d", Mode::S_IRWXU).unwrap();
            here = openat(&here, "d", how, Mode::empty()).unwrap();
        }
        openat(&here, "file", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU).unwrap();
    }

    #[test]
    fn a_tree_that_is_deeper_than_any_path_goes_with_few_descriptors() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all(top.join("beside/inner")).unwrap();
        deep(&top, 20_000);
        remove(&top).unwrap();
        assert!(!top.exists());
        remove(&top).unwrap();
    }

    #[test]
    fn closed_directories_go_and_what_links_lead_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let (top, outside) = (place.path().join("top"), place.path().join("outside"));
        fs::create_dir_all(top.join("closed/inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        fs::write(top.join("closed/inner/file"), "x").unwrap();
        symlink(&outside, top.join("link")).unwrap();
        symlink("nowhere", top.join("closed/dangling")).unwrap();
        nix::unistd::mkfifo(&top.join("pipe"), Mode::S_IRUSR).unwrap();
        for (path, mode) in [("closed/inner", 0), ("closed", 0o500)] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove(&top).unwrap();
        assert!(!top.exists() && outside.join("kept").exists());
        symlink(&outside, &top).unwrap();
        remove(&top).unwrap();
        assert!(top.symlink_metadata().is_err() && outside.join("kept").exists());
    }

    #[test]
    fn many_files_and_directories_go() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        for directory in 0..40 {
            let directory = top.join(format!("{directory}/x"));
            fs::create_dir_all(&directory).unwrap();
            (0..50).for_each(|file| fs::write(directory.join(file.to_string()), "x").unwrap());
        }
        remove(&top).unwrap();
        assert!(!top.exists());
    }
}
