//! Finds the programs that a daemon runs (git, a debugger, `xcrun`). It returns absolute paths in
//! directories that jobs cannot write, so that no job can replace a program.

use nix::unistd::Uid;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// True if programs in directories that jobs can write are refused.
static IS_STRICT: AtomicBool = AtomicBool::new(false);
/// Programs found so far. A path stays valid as long as a program exists there.
static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Refuses programs in directories that jobs can write, for a worker with isolated jobs. Without
/// this call, such a program is used as a last resort. Call it before the first [`find`].
pub fn refuse_writable() {
    IS_STRICT.store(true, Ordering::Relaxed);
}

/// Returns the absolute path of a program. `PATH` is searched once per program.
pub fn find(name: &str) -> Option<PathBuf> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(name).filter(|path| is_program(path)) {
        return Some(path.clone());
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let is_strict = IS_STRICT.load(Ordering::Relaxed);
    let path = search(name, &directories, Uid::effective().as_raw(), is_strict)?;
    found.insert(name.to_owned(), path.clone());
    Some(path)
}

fn search(name: &str, directories: &OsStr, user: u32, is_strict: bool) -> Option<PathBuf> {
    let all = std::env::split_paths(directories).filter(|directory| directory.is_absolute());
    let programs: Vec<PathBuf> =
        all.map(|directory| directory.join(name)).filter(|path| is_program(path)).collect();
    let safe = programs.iter().find_map(|path| safe_path(path, user));
    safe.or_else(|| programs.into_iter().next().filter(|_| !is_strict))
}

/// Returns `path`, or its link target if only the target cannot be replaced by a job. Returns
/// `None` if neither is safe.
fn safe_path(path: &Path, user: u32) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let is_safe = |path: &Path| path.ancestors().skip(1).all(|directory| is_closed(directory, user));
    let is_own = fs::metadata(&real).ok().is_none_or(|found| found.uid() == user && user != 0);
    if is_own || !is_safe(&real) {
        return None;
    }
    Some(if is_safe(path) { path.to_owned() } else { real })
}

/// Returns true if jobs of `user` cannot replace entries of this directory. It must not be writable
/// for others, and must not belong to the user of a job.
fn is_closed(directory: &Path, user: u32) -> bool {
    let Ok(found) = fs::symlink_metadata(directory) else { return false };
    let mode = found.permissions().mode();
    let is_open = mode & 0o022 != 0 && mode & 0o1000 == 0 && !found.is_symlink();
    // Jobs of root run as other users, so only directories of root are safe from them.
    let is_theirs = if user == 0 { found.uid() != 0 } else { found.uid() == user };
    !is_open && !is_theirs
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::{find, search};
    use nix::unistd::Uid;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_a_job_put_first_in_the_path_is_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().canonicalize().unwrap();
        let program = directory.join("sh");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let paths = std::env::join_paths([directory.as_path(), "bin".as_ref(), "/bin".as_ref()]).unwrap();
        let user = Uid::effective().as_raw().max(1);
        let own = fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).is_ok();
        assert!(own);
        for strict in [false, true] {
            let found = search("sh", &paths, user, strict).unwrap();
            assert!(!found.starts_with(&directory) && found.is_absolute(), "{}", found.display());
        }
        assert_eq!(search("sh", directory.as_os_str(), user, false), Some(program));
        assert_eq!(search("sh", directory.as_os_str(), user, true), None);
        assert_eq!(search("no-such-program", &paths, user, false), None);
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
    }
}
