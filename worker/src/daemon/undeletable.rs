//! Sets aside directories that cannot be removed, so that they never block a start, an attempt or
//! another directory. Each start and each cleanup tries again to remove them.

use buildpool_objects::removal;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tracing::{info, warn};

/// Name of the directory, in the data directory, with the directories set aside.
const ASIDE: &str = "aside";

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
    use super::{ASIDE, clear, discard};
    use std::fs;

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
}
