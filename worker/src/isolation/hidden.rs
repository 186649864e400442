//! The paths hidden from isolated jobs, and checks that each is unchanged since the start of the
//! worker.
//!
//! A file is hidden from a job by its path. A job that could rename a directory above it would see
//! it under another path. The next job would then be protected only from an empty path. Therefore
//! no job may rename a directory above a hidden path, and no job starts if a hidden path has
//! changed.

use nix::unistd::{AccessFlags, Uid, access};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directories that jobs need, or that contain much more than the worker's files.
const SHARED: [&str; 9] = [
    "/etc",
    "/usr/bin",
    "/usr/local/etc",
    "/usr/local/bin",
    "/opt/homebrew/etc",
    "/var/lib",
    "/var/tmp",
    "/tmp",
    "/dev",
];

/// Paths hidden from isolated jobs.
#[derive(Debug, Default)]
pub struct Hidden {
    hidden_paths: Vec<HiddenPath>,
    parents: Vec<PathBuf>,
}

#[derive(PartialEq, Eq, Debug)]
struct HiddenPath {
    path: PathBuf,
    is_directory: bool,
    /// Device and inode.
    identity: (u64, u64),
    /// True if another process recreates the directory. It is then hidden in any state.
    is_renewed: bool,
}

impl Hidden {
    /// Records these files and directories in their current state. Their paths must not contain
    /// symbolic links.
    ///
    /// # Errors
    /// The path that cannot be checked, and the reason.
    pub fn find(paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, (PathBuf, io::Error)> {
        let mut hidden_paths: Vec<HiddenPath> = Vec::new();
        for path in paths.into_iter().collect::<BTreeSet<_>>() {
            let metadata = fs::symlink_metadata(&path).map_err(|error| (path.clone(), error))?;
            hidden_paths.push(HiddenPath {
                path,
                is_directory: metadata.is_dir(),
                identity: (metadata.dev(), metadata.ino()),
                is_renewed: false,
            });
        }
        let above = hidden_paths.iter().flat_map(|place| place.path.ancestors().skip(1));
        let parents: BTreeSet<_> = above.filter(|parent| is_movable(parent)).map(Path::to_owned).collect();
        // A directory inside a hidden directory must not be mounted again.
        let is_hidden = |parent: &PathBuf| hidden_paths.iter().any(|place| parent.starts_with(&place.path));
        let parents = parents.into_iter().filter(|parent| !is_hidden(parent)).collect();
        Ok(Self { hidden_paths, parents })
    }

    /// Marks these paths as recreated by other processes at any time.
    #[must_use]
    pub fn renewing(mut self, paths: &[PathBuf]) -> Self {
        for place in &mut self.hidden_paths {
            place.is_renewed = paths.contains(&place.path);
        }
        self
    }

    /// Returns the hidden paths. The flag is true for a directory.
    pub fn hidden_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.hidden_paths.iter().map(|place| (place.path.as_path(), place.is_directory))
    }

    /// Returns the directories above the hidden paths that this user could rename.
    pub fn parents(&self) -> impl Iterator<Item = &Path> {
        self.parents.iter().map(PathBuf::as_path)
    }

    /// Checks that each hidden path is unchanged. A missing path that others recreate is created,
    /// so that there is a directory to hide.
    ///
    /// # Errors
    /// The path and the problem, for the operator.
    pub fn check(&self) -> Result<(), String> {
        for HiddenPath { path, identity, is_renewed, .. } in &self.hidden_paths {
            if *is_renewed {
                renew(path)?;
                continue;
            }
            match fs::symlink_metadata(path) {
                Ok(now) if (now.dev(), now.ino()) == *identity => {}
                Ok(_) => {
                    return Err(format!(
                        "{} was replaced since the worker started; restart the worker",
                        path.display()
                    ));
                }
                Err(error) => {
                    return Err(format!("{} can't be found any more ({error}); put it back", path.display()));
                }
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn of(hidden_paths: &[(&str, bool)], parents: &[&str]) -> Self {
        let place = |(path, is_directory): &(&str, bool)| HiddenPath {
            path: path.into(),
            is_directory: *is_directory,
            identity: (0, 0),
            is_renewed: false,
        };
        Self {
            hidden_paths: hidden_paths.iter().map(place).collect(),
            parents: parents.iter().map(PathBuf::from).collect(),
        }
    }
}

fn renew(path: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    match made.and_then(|()| fs::symlink_metadata(path)) {
        Ok(now) if now.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a directory any more; put one back", path.display())),
        Err(error) => Err(format!("{} can't be made again ({error})", path.display())),
    }
}

/// Returns true if this user could rename a directory, or grant itself the permission.
fn is_movable(directory: &Path) -> bool {
    let Some(parent) = directory.parent() else { return false };
    let is_own = fs::metadata(parent).is_ok_and(|metadata| metadata.uid() == Uid::effective().as_raw());
    is_own || access(parent, AccessFlags::W_OK).is_ok()
}

/// Returns the directory of a file, which is hidden as a whole. A file replaced while a job runs
/// would otherwise become visible.
///
/// # Errors
/// Returns the directory as error if jobs need it.
pub fn directory_of(file: &Path) -> Result<PathBuf, PathBuf> {
    let directory = file.parent().unwrap_or(Path::new("/")).to_owned();
    let home = std::env::home_dir().unwrap_or_default();
    let own = [home.join(".config"), home.join("Library/Application Support"), std::env::temp_dir()];
    let shared = SHARED.iter().map(PathBuf::from).chain(own);
    let mut needed = shared.flat_map(|path| [path.canonicalize().unwrap_or_else(|_| path.clone()), path]);
    if needed.any(|needed| needed.starts_with(&directory)) { Err(directory) } else { Ok(directory) }
}

#[cfg(test)]
mod tests {
    use super::{Hidden, directory_of};
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn what_was_moved_or_replaced_is_told() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let data = top.join("share/data");
        fs::create_dir_all(&data).unwrap();
        let hidden = Hidden::find([data.clone()]).unwrap();
        assert_eq!(hidden.check(), Ok(()));
        let parents: Vec<_> = hidden.parents().collect();
        assert_eq!(parents[parents.len() - 2..], [top.as_path(), &top.join("share")], "the outer one first");
        assert!(!parents.contains(&Path::new("/")));
        fs::rename(top.join("share"), top.join("moved")).unwrap();
        assert!(hidden.check().unwrap_err().contains("can't be found any more"));
        fs::create_dir_all(&data).unwrap();
        assert!(hidden.check().unwrap_err().contains("was replaced since the worker started"));
        fs::remove_dir_all(top.join("share")).unwrap();
        fs::rename(top.join("moved"), top.join("share")).unwrap();
        assert_eq!(hidden.check(), Ok(()), "put back");
    }

    #[test]
    fn what_others_make_anew_is_hidden_whatever_it_is_and_made_where_it_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let (pool, other) = (place.path().join("state/pool"), place.path().join("state/other"));
        for directory in [&pool, &other] {
            fs::create_dir_all(directory).unwrap();
        }
        let hidden =
            Hidden::find([pool.clone(), other.clone()]).unwrap().renewing(std::slice::from_ref(&pool));
        fs::rename(&pool, place.path().join("moved")).unwrap();
        assert_eq!(hidden.check(), Ok(()));
        assert!(pool.is_dir(), "there is something to hide");
        fs::remove_dir(&pool).unwrap();
        fs::write(&pool, "").unwrap();
        assert!(hidden.check().unwrap_err().contains("state/pool"));
        fs::remove_file(&pool).unwrap();
        fs::remove_dir(&other).unwrap();
        assert!(hidden.check().unwrap_err().contains("state/other can't be found any more"));
    }

    #[test]
    fn the_way_to_what_lies_in_a_hidden_directory_does_not_bring_it_back() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("outer/way/inner")).unwrap();
        let hidden = Hidden::find([top.join("outer"), top.join("outer/way/inner")]).unwrap();
        assert!(hidden.parents().all(|parent| !parent.starts_with(top.join("outer"))), "{hidden:?}");
    }

    #[test]
    fn a_directory_that_jobs_need_is_not_hidden() {
        assert_eq!(directory_of(Path::new("/etc/bp/worker.toml")), Ok(PathBuf::from("/etc/bp")));
        let home = std::env::home_dir().unwrap();
        for shared in [PathBuf::from("/"), "/etc".into(), "/var".into(), std::env::temp_dir(), home] {
            assert_eq!(directory_of(&shared.join("worker.toml")), Err(shared));
        }
    }
}
