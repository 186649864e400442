//! Home directories of trust classes: isolated jobs of two classes never share one.

use crate::isolation::users::JobUser;
use buildpool_objects::cache::class_key;
use buildpool_objects::removal;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tracing::warn;

/// The directory in the data directory that has one directory for each class.
const HOMES: &str = "homes";
/// The end of the name of the file whose time is the last use of a class.
const USED: &str = ".used";
/// A home directory that no job used for this long is removed.
const IDLE_AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the home directory of a class, and creates it if necessary. With a `user`, it is the home directory of that user
/// in the class: two users of jobs can't write to one directory.
///
/// # Errors
/// If the disk refuses it.
pub(super) fn make(data_directory: &Path, class: &str, user: Option<&JobUser>) -> io::Result<PathBuf> {
    let (homes, key) = (data_directory.join(HOMES), class_key(class));
    let mode = if user.is_some() { 0o711 } else { 0o700 };
    directory(&homes, mode)?;
    File::create(homes.join(format!("{key}{USED}")))?;
    let mut home = homes.join(key);
    directory(&home, mode)?;
    if let Some(user) = user {
        home.push(user.name());
        directory(&home, 0o700)?;
        // The directories above belong to root, so no job can put a link here.
        lchown(&home, Some(user.user.uid.as_raw()), Some(user.user.gid.as_raw()))?;
    }
    Ok(home)
}

/// Removes the home directories that no job used for 30 days, except those of the `held` classes.
pub(super) fn remove_idle(data_directory: &Path, held: &BTreeSet<String>, now: SystemTime) {
    let homes = data_directory.join(HOMES);
    let held: BTreeSet<String> = held.iter().map(|class| class_key(class)).collect();
    for entry in fs::read_dir(&homes).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(key) = name.strip_suffix(USED).filter(|key| !held.contains(*key)) else { continue };
        let used = entry.metadata().and_then(|metadata| metadata.modified());
        let is_idle = used.is_ok_and(|at| now.duration_since(at).is_ok_and(|idle| idle > IDLE_AFTER));
        if !is_idle {
            continue;
        }
        let removed = removal::remove(&homes.join(key)).and_then(|()| fs::remove_file(entry.path()));
        if let Err(error) = removed {
            warn!(directory = %homes.join(key).display(), %error, "an idle home directory can't be removed");
        }
    }
}

/// Creates a directory with this mode, or gives it the mode.
fn directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(path, Permissions::from_mode(mode))
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::{HOMES, IDLE_AFTER, make, remove_idle};
    use std::collections::BTreeSet;
    use std::fs;
    use std::time::{Duration, SystemTime};

    #[test]
    fn each_class_has_a_home_until_nobody_uses_it() {
        let data = tempfile::tempdir().expect("a directory");
        let homes =
            ["submitter:ada", "submitter:eve"].map(|class| make(data.path(), class, None).expect("made"));
        assert_ne!(homes[0], homes[1]);
        fs::write(homes[0].join("kept"), "warm").expect("written");
        assert_eq!(make(data.path(), "submitter:ada", None).expect("there"), homes[0]);
        assert!(homes[0].join("kept").exists());
        let later = SystemTime::now() + IDLE_AFTER + Duration::from_secs(60);
        remove_idle(data.path(), &BTreeSet::new(), SystemTime::now());
        assert!(homes.iter().all(|home| home.is_dir()));
        remove_idle(data.path(), &BTreeSet::from(["submitter:ada".to_owned()]), later);
        assert!(homes[0].join("kept").exists(), "a job has it");
        assert!(!homes[1].exists());
        remove_idle(data.path(), &BTreeSet::new(), later);
        assert_eq!(fs::read_dir(data.path().join(HOMES)).expect("there").count(), 0);
    }
}
