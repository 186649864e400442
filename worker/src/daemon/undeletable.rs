//! Sets aside directories that cannot be removed, so that they never block a start, an attempt or
//! another directory. Each start and each cleanup tries again to remove them.

use crate::records;
use crate::workspace::EMPTY_DIRECTORY;
use buildpool_objects::removal;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tracing::{info, warn};

/// Name of the directory, in the data directory, with the directories set aside.
const ASIDE: &str = "aside";

/// Removes the directory of an attempt, as [`discard`] does. Most have only the usual entries, which need no listing.
///
/// # Errors
/// As for [`discard`].
pub(super) fn discard_attempt(data_directory: &Path, path: &Path) -> io::Result<()> {
    if remove_usual(path).is_ok() { Ok(()) } else { discard(data_directory, path) }
}

/// Removes the directory of an attempt without other entries than its records, its log and an empty directory.
fn remove_usual(path: &Path) -> nix::Result<()> {
    let directory = open_directory(path)?;
    // Without its first record, a part of it holds no attempt for the next daemon.
    let (attempt, outcome) = (records::beside(records::ATTEMPT), records::beside(records::OUTCOME));
    let files = [records::ATTEMPT, records::STATE, records::LOG, records::OUTCOME, &attempt, &outcome];
    let files = files.map(|name| (name, UnlinkatFlags::NoRemoveDir));
    for (name, kind) in files.into_iter().chain([(EMPTY_DIRECTORY, UnlinkatFlags::RemoveDir)]) {
        // The removal of the directory shows if anything is left.
        let _ = unlinkat(&directory, name, kind);
    }
    unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir)
}

/// Opens a directory. A link at the path is an error, because a job without isolation can put one there.
pub(super) fn open_directory(path: &Path) -> nix::Result<OwnedFd> {
    let how = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, how, Mode::empty())
}

/// Removes a directory below the data directory, or moves it away and logs the reason.
///
/// # Errors
/// Fails if it can be neither removed nor moved: the path is still in use.
pub(super) fn discard(data_directory: &Path, path: &Path) -> io::Result<()> {
    let Err(error) = removal::remove(path) else { return Ok(()) };
    let target = target(data_directory, path)?;
    fs::rename(path, &target)?;
    warn!("{} can't be removed ({error}); it was moved to {}", path.display(), target.display());
    Ok(())
}

/// Tries again to remove the directories set aside. Blocks.
pub(super) fn clear(data_directory: &Path) {
    for entry in fs::read_dir(data_directory.join(ASIDE)).into_iter().flatten().flatten() {
        let path = entry.path();
        match removal::remove(&path) {
            Ok(()) => info!("{} was removed", path.display()),
            Err(error) => warn!(
                "{} can't be removed: {error}; remove it by hand, perhaps as the user that owns its files",
                path.display()
            ),
        }
    }
}

fn target(data_directory: &Path, path: &Path) -> io::Result<PathBuf> {
    let directory = data_directory.join(ASIDE);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Ok(directory.join(format!("{name}-{stamp}")))
}

#[cfg(test)]
mod tests {
    use super::{ASIDE, clear, discard, discard_attempt};
    use crate::records;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_can_be_removed_is_removed_and_nothing_is_left_aside() {
        let home = tempfile::tempdir().expect("a directory");
        let attempt = home.path().join("attempts/1");
        fs::create_dir_all(attempt.join("deep")).expect("a disk");
        discard(home.path(), &attempt).expect("it can be removed");
        assert!(!attempt.exists() && !home.path().join(ASIDE).exists());
        fs::create_dir_all(home.path().join(ASIDE).join("left/deep")).expect("a disk");
        clear(home.path());
        assert_eq!(fs::read_dir(home.path().join(ASIDE)).expect("a directory").count(), 0);
    }

    #[test]
    fn an_attempt_goes_with_all_that_its_job_made_and_no_file_behind_a_link() {
        let home = tempfile::tempdir().expect("a directory");
        let (attempt, outside) = (home.path().join("attempt"), home.path().join("outside"));
        let new = || {
            fs::create_dir_all(attempt.join("empty")).expect("a disk");
            for name in [records::ATTEMPT, records::LOG, records::OUTCOME] {
                fs::write(attempt.join(name), "x").expect("a disk");
            }
        };
        fs::create_dir(&outside).expect("a disk");
        fs::write(outside.join(records::LOG), "x").expect("a disk");
        let additions: [&dyn Fn(); 4] = [
            &|| {},
            &|| fs::write(attempt.join("empty/file"), "x").expect("a disk"),
            &|| fs::create_dir_all(attempt.join("state.json/inner")).expect("a disk"),
            &|| {
                fs::rename(&attempt, home.path().join("moved")).expect("a disk");
                symlink(&outside, &attempt).expect("a disk");
            },
        ];
        for add in additions {
            new();
            add();
            discard_attempt(home.path(), &attempt).expect("it can be removed");
            assert!(attempt.symlink_metadata().is_err() && outside.join(records::LOG).exists());
        }
    }
}
