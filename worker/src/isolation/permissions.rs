//! Permissions of the worker's directories if jobs run as separate users.
//!
//! Directories on the path to a job's files can be traversed by all users and listed by no other
//! user. The directory and the checkout of an attempt are *gates*. They belong to root, and the
//! group of the job's user can traverse them only while the attempt runs. All other directories are
//! closed.

use super::users::JobUser;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Mode of a directory that others can traverse, but not list or write.
const TRAVERSABLE: u32 = 0o711;
/// Mode of a directory that one group can traverse.
const GATE: u32 = 0o710;
/// Mode of a directory for the worker only.
const CLOSED: u32 = 0o700;

/// Sets the permissions of a whole data directory, except for the gates of running attempts. If
/// jobs run as the worker's user, traversal by others is removed.
///
/// # Errors
/// Fails if the disk fails.
pub fn settle(data_directory: &Path, has_users: bool, open: &BTreeSet<PathBuf>) -> io::Result<()> {
    if !has_users {
        let is_traversable = fs::metadata(data_directory)?.permissions().mode() & 0o777 == TRAVERSABLE;
        return if is_traversable { set(data_directory, CLOSED) } else { Ok(()) };
    }
    set(data_directory, TRAVERSABLE)?;
    let (attempts, projects) = (data_directory.join("attempts"), data_directory.join("projects"));
    for directory in [&attempts, &projects] {
        set(directory, TRAVERSABLE)?;
    }
    let mut gates = directories(&attempts)?;
    for project in directories(&projects)? {
        settle_project(&project)?;
        gates.extend(directories(&project.join("checkouts"))?);
    }
    close_gates(gates.iter().filter(|gate| !open.contains(*gate)))
}

/// Closes the files of a project other than its checkouts.
fn settle_project(project: &Path) -> io::Result<()> {
    for entry in fs::read_dir(project)? {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        let mode = match entry.file_name().to_str() {
            Some("checkouts") if is_directory => TRAVERSABLE,
            _ if is_directory => CLOSED,
            _ => 0o600,
        };
        set(&entry.path(), mode)?;
    }
    set(project, TRAVERSABLE)
}

/// Closes the gates of an ended attempt. Missing gates are not an error.
///
/// # Errors
/// Fails if the disk fails.
pub fn close_gates<'a>(gates: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
    for gate in gates {
        match set(gate, CLOSED) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Gives a job's user access: changes the owner of the job's files and opens the gates on the path.
/// `users` are all users of jobs.
///
/// # Errors
/// Fails if the disk fails. The gates are closed then.
pub fn hand_over(gates: &[PathBuf], own: &[PathBuf], user: &JobUser, users: &[JobUser]) -> io::Result<()> {
    open(gates, own, user, users).inspect_err(|_| {
        // The first error is the one to report.
        let _ = close_gates(gates);
    })
}

fn open(gates: &[PathBuf], own: &[PathBuf], user: &JobUser, users: &[JobUser]) -> io::Result<()> {
    // Closed while owners change, so that the previous user has no access any more.
    close_gates(gates)?;
    for path in own {
        give(path, user, users)?;
    }
    for gate in gates {
        // The project of a checkout is two levels up, and may be new.
        if let Some(project) =
            gate.parent().filter(|parent| parent.ends_with("checkouts")).and_then(Path::parent)
        {
            settle_project(project)?;
        }
        chown(gate, None, Some(user.user.gid.as_raw()))?;
        set(gate, GATE)?;
    }
    Ok(())
}

/// Changes the owner of a tree, and of links instead of their targets. A file of the worker with
/// several names stays unchanged. An earlier job may have hard-linked it from another place.
fn give(root: &Path, user: &JobUser, users: &[JobUser]) -> io::Result<()> {
    let (uid, gid) = (user.user.uid.as_raw(), user.user.gid.as_raw());
    let worker = nix::unistd::Uid::effective().as_raw();
    for entry in WalkDir::new(root).follow_links(false) {
        let entry = entry.map_err(io::Error::from)?;
        let metadata = entry.path().symlink_metadata()?;
        let is_laid_out = metadata.uid() == worker && (metadata.is_dir() || metadata.nlink() == 1);
        let is_a_job_s = users.iter().any(|other| other.user.uid.as_raw() == metadata.uid());
        if (metadata.uid(), metadata.gid()) != (uid, gid) && (is_laid_out || is_a_job_s) {
            lchown(entry.path(), Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

fn set(path: &Path, mode: u32) -> io::Result<()> {
    // Through a link, the change would apply to another file.
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() || metadata.permissions().mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{GATE, close_gates, hand_over, settle};
    use crate::isolation::users::JobUser;
    use nix::unistd::{Gid, Uid, User};
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_gates_of_what_runs_are_open() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let checkouts = data.join("projects/app-1/checkouts");
        for directory in ["attempts/one", "attempts/two", "projects/app-1/objects", "keepers"] {
            fs::create_dir_all(data.join(directory)).unwrap();
        }
        for number in ["1", "2"] {
            fs::create_dir_all(checkouts.join(number).join("tree")).unwrap();
        }
        fs::write(data.join("projects/app-1/project"), "app").unwrap();
        let gate = data.join("attempts/one");
        fs::set_permissions(&gate, fs::Permissions::from_mode(GATE)).unwrap();
        settle(&data, true, &BTreeSet::from([gate.clone()])).unwrap();
        for parent in ["", "attempts", "projects", "projects/app-1", "projects/app-1/checkouts"] {
            assert_eq!(mode(&data.join(parent)), 0o711, "{parent}");
        }
        assert_eq!(mode(&gate), GATE);
        for closed in ["attempts/two", "projects/app-1/objects", "projects/app-1/checkouts/1"] {
            assert_eq!(mode(&data.join(closed)), 0o700, "{closed}");
        }
        assert_eq!(mode(&data.join("projects/app-1/project")), 0o600);
        close_gates([&gate, &data.join("attempts/gone")]).unwrap();
        assert_eq!(mode(&gate), 0o700);
        settle(&data, false, &BTreeSet::new()).unwrap();
        assert_eq!(mode(&data), 0o700, "without users no other user may enter");
    }

    #[test]
    fn a_tree_becomes_the_user_s_and_a_file_with_several_names_does_not() {
        let root = User::from_uid(Uid::effective()).unwrap().expect("this user has an entry");
        if !root.uid.is_root() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let (uid, gid) = (Uid::from_raw(60_901), Gid::from_raw(60_901));
        let user = JobUser { user: User { uid, gid, ..root }, groups: vec![gid] };
        let place = tempfile::tempdir().unwrap();
        let (gate, outside) = (place.path().join("1"), place.path().join("outside"));
        let tree = gate.join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/file"), "x").unwrap();
        fs::write(&outside, "not the job's").unwrap();
        fs::hard_link(&outside, tree.join("linked")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        let users = [user.clone()];
        hand_over(std::slice::from_ref(&gate), std::slice::from_ref(&tree), &user, &users).unwrap();
        for own in ["", "sub", "sub/file", "link"] {
            assert_eq!(tree.join(own).symlink_metadata().unwrap().uid(), 60_901, "{own}");
        }
        assert_eq!(outside.metadata().unwrap().uid(), 0);
        assert_eq!((gate.metadata().unwrap().uid(), gate.metadata().unwrap().gid()), (0, 60_901));
        assert_eq!(mode(&gate), GATE);
    }
}
