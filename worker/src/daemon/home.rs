//! The worker's data directory: a lock against a second daemon, the lasting identity, places for keepers and attempts.

use crate::keeper::place::Places;
use buildpool_protocol::ids::{AttemptId, WorkerId};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Longest path of a socket that every platform takes, in bytes (unix(4) on macOS: 104 with the final NUL).
const SOCKET_PATH_BYTES_MAX: usize = 103;
/// Room for a keeper's number in that path.
const NUMBER_BYTES: usize = 12;

/// A data directory that this process has for itself.
#[derive(Debug)]
pub(super) struct Home {
    /// Where attempts have their directories.
    pub attempts: PathBuf,
    /// Where keepers have their places.
    pub places: Places,
    /// The lasting identity.
    pub worker: WorkerId,
    directory: PathBuf,
    /// Where the sockets lie, or lay, while the path of the directory is too long for them.
    elsewhere: PathBuf,
    _lock: File,
}

/// Why a data directory is of no use.
#[derive(Debug)]
pub enum HomeError {
    /// Another daemon has it.
    Taken(PathBuf),
    /// Something in it can't be made or read.
    Io {
        /// Which path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The identity is none.
    Identity(PathBuf),
    /// The short directory for sockets belongs to someone else.
    Foreign(PathBuf),
}

impl fmt::Display for HomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(path) => {
                write!(f, "{}: another worker runs in this data directory", path.display())
            }
            Self::Io { path, .. } => write!(f, "{} can't be used", path.display()),
            Self::Identity(path) => {
                write!(f, "{} holds no worker id; remove it to start as a new worker", path.display())
            }
            Self::Foreign(path) => write!(f, "{} belongs to another user", path.display()),
        }
    }
}

impl std::error::Error for HomeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Taken(_) | Self::Identity(_) | Self::Foreign(_) => None,
        }
    }
}

impl Home {
    /// Takes the directory, made where it is not there, for as long as this lives.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub(super) fn take(directory: &Path) -> Result<Self, HomeError> {
        make_private(directory)?;
        let directory = directory
            .canonicalize()
            .map_err(|source| HomeError::Io { path: directory.to_owned(), source })?;
        let lock_path = directory.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|source| HomeError::Io { path: lock_path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HomeError::Taken(directory)),
            Err(TryLockError::Error(source)) => return Err(HomeError::Io { path: lock_path, source }),
        }
        let (attempts, keepers) = (directory.join("attempts"), directory.join("keepers"));
        make_private(&attempts)?;
        make_private(&keepers)?;
        let elsewhere = elsewhere(&keepers)?;
        let sockets = sockets(&keepers, &elsewhere)?;
        let worker = identity(&directory.join("worker-id"))?;
        let places = Places { directory: keepers, sockets };
        Ok(Self { attempts, places, worker, directory, elsewhere, _lock: lock })
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where sockets lie that are not in the directory, now or before it was renamed.
    pub(super) fn sockets_elsewhere(&self) -> Option<PathBuf> {
        // `/tmp` is a link on macOS.
        is_private(&self.elsewhere)
            .then(|| self.elsewhere.canonicalize().unwrap_or_else(|_| self.elsewhere.clone()))
    }

    /// Where a keeper that was found may be reached. The directory may have been renamed since it took its place, from a short
    /// path to a long one or the other way.
    pub(super) fn sockets_of(&self, number: u32) -> Vec<PathBuf> {
        let beside = self.places.directory.join(number.to_string());
        let mut found = Vec::new();
        if is_private(&self.elsewhere) {
            found.push(self.elsewhere.join(number.to_string()));
        }
        if self.places.sockets == self.places.directory {
            found.insert(0, beside);
        } else if beside.symlink_metadata().is_ok() {
            // By a link, its path is short.
            let link = self.elsewhere.join(format!("{number}.at"));
            let _ = fs::remove_file(&link);
            found.extend(symlink(&beside, &link).is_ok().then_some(link));
        }
        found
    }

    /// Where what keepers have to say of themselves goes.
    pub(super) fn keeper_log(&self) -> PathBuf {
        self.directory.join("keepers.log")
    }

    /// The directory of an attempt.
    pub(super) fn attempt(&self, attempt: AttemptId) -> PathBuf {
        crate::records::attempt_directory(&self.attempts, attempt)
    }
}

fn make_private(path: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| HomeError::Io { path: path.to_owned(), source })
}

/// A directory of this user's, named after what a rename of the worker's directory does not change.
fn elsewhere(keepers: &Path) -> Result<PathBuf, HomeError> {
    let metadata =
        fs::metadata(keepers).map_err(|source| HomeError::Io { path: keepers.to_owned(), source })?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&metadata.dev().to_le_bytes());
    id[8..].copy_from_slice(&metadata.ino().to_le_bytes());
    let digest = blake3::hash(&id).to_hex();
    let own = nix::unistd::Uid::effective();
    Ok(PathBuf::from(format!("/tmp/buildpool-{own}-{}", &digest[..16])))
}

/// Sockets lie beside the locks where their paths are short enough.
fn sockets(keepers: &Path, elsewhere: &Path) -> Result<PathBuf, HomeError> {
    if keepers.as_os_str().len() + NUMBER_BYTES <= SOCKET_PATH_BYTES_MAX {
        return Ok(keepers.to_owned());
    }
    make_private(elsewhere)?;
    if !is_private(elsewhere) {
        return Err(HomeError::Foreign(elsewhere.to_owned()));
    }
    Ok(elsewhere.to_owned())
}

/// Whether it is a directory that nobody else can use.
fn is_private(path: &Path) -> bool {
    let own = nix::unistd::Uid::effective().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}

fn identity(path: &Path) -> Result<WorkerId, HomeError> {
    let failed = |source| HomeError::Io { path: path.to_owned(), source };
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|_| HomeError::Identity(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let worker = WorkerId::from_uuid(uuid::Uuid::now_v7());
            let beside = path.with_extension("new");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)
                .map_err(failed)?;
            writeln!(file, "{worker}").and_then(|()| file.sync_all()).map_err(failed)?;
            fs::rename(&beside, path).map_err(failed)?;
            Ok(worker)
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Home, HomeError, SOCKET_PATH_BYTES_MAX};

    #[test]
    fn the_identity_lasts_and_a_second_daemon_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::take(directory.path()).expect("free");
        let worker = home.worker;
        assert!(matches!(Home::take(directory.path()), Err(HomeError::Taken(_))));
        drop(home);
        assert_eq!(Home::take(directory.path()).expect("free again").worker, worker);
    }

    #[test]
    fn sockets_have_short_paths_however_long_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let long = directory.path().join("d".repeat(120));
        let home = Home::take(&long).expect("free");
        let socket = home.places.socket(u32::MAX);
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX, "{}", socket.display());
        let elsewhere = home.sockets_elsewhere().expect("they are not in the directory");
        assert_eq!(elsewhere, home.places.sockets.canonicalize().expect("it was made"));
        std::fs::remove_dir_all(&home.places.sockets).expect("it was made");
    }
}
