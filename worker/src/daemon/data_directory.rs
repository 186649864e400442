//! The worker's data directory: a lock against a second daemon, the permanent identity, and
//! directories for keepers and attempts.

use super::spare_directories::SpareDirectories;
use crate::keeper::keeper_directory::KeeperPaths;
use buildpool_protocol::ids::{AttemptId, WorkerId};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// Limit on the path of a socket on all platforms, in bytes (unix(4) on macOS: 104 with the final
/// NUL).
const SOCKET_PATH_BYTES_MAX: usize = 103;
/// Space for a keeper's number in that path, in bytes.
const NUMBER_BYTES: usize = 12;

/// A data directory locked by this process.
#[derive(Debug)]
pub(super) struct DataDirectory {
    /// Directory of the attempts.
    pub attempts: PathBuf,
    /// Directory of the keepers.
    pub keeper_paths: KeeperPaths,
    /// Directories of ended attempts for the next ones.
    pub spares: SpareDirectories,
    /// The permanent identity.
    pub worker: WorkerId,
    directory: PathBuf,
    /// Directory of the sockets while the path of the data directory is too long for them.
    short_directory: PathBuf,
    _lock: File,
}

/// Error of the data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// Another daemon uses it.
    #[error("{}: another worker runs in this data directory", .0.display())]
    InUse(PathBuf),
    /// A file in it cannot be created or read.
    #[error("{} can't be used", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The identity file is invalid.
    #[error("{} does not contain a worker id, which is a UUID; remove the file to start as a new worker", .0.display())]
    Identity(PathBuf),
    /// The short directory for sockets belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
}

impl DataDirectory {
    /// Opens or creates the directory and locks it for the lifetime of this value.
    ///
    /// # Errors
    /// See [`DataDirectoryError`].
    pub(super) fn lock(directory: &Path) -> Result<Self, DataDirectoryError> {
        make_private(directory)?;
        let directory = directory
            .canonicalize()
            .map_err(|source| DataDirectoryError::Io { path: directory.to_owned(), source })?;
        let lock_path = directory.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|source| DataDirectoryError::Io { path: lock_path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataDirectoryError::InUse(directory)),
            Err(TryLockError::Error(source)) => {
                return Err(DataDirectoryError::Io { path: lock_path, source });
            }
        }
        let (attempts, keepers) = (directory.join("attempts"), directory.join("keepers"));
        make_private(&attempts)?;
        make_private(&keepers)?;
        let short_directory = short_directory(&keepers)?;
        let sockets = sockets(&keepers, &short_directory)?;
        let worker = identity(&directory.join("worker-id"))?;
        let keeper_paths = KeeperPaths { directory: keepers, sockets };
        let spares = SpareDirectories::new(&directory);
        Ok(Self { attempts, keeper_paths, spares, worker, directory, short_directory, _lock: lock })
    }

    /// Creates the directories of attempts and keepers again if a job without isolation has removed them.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn restore(&self) -> io::Result<()> {
        for directory in [&self.attempts, &self.keeper_paths.directory, &self.keeper_paths.sockets] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        Ok(())
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of sockets outside the data directory, used now or before a rename.
    pub(super) fn short_socket_directory(&self) -> Option<PathBuf> {
        // `/tmp` is a link on macOS.
        is_private(&self.short_directory)
            .then(|| self.short_directory.canonicalize().unwrap_or_else(|_| self.short_directory.clone()))
    }

    /// Returns the possible socket paths of a running keeper. The directory may have been renamed
    /// since the keeper started, between a short and a long path.
    pub(super) fn sockets_of(&self, number: u32) -> Vec<PathBuf> {
        let beside = self.keeper_paths.directory.join(number.to_string());
        let mut found = Vec::new();
        if is_private(&self.short_directory) {
            found.push(self.short_directory.join(number.to_string()));
        }
        if self.keeper_paths.sockets == self.keeper_paths.directory {
            found.insert(0, beside);
        } else if beside.symlink_metadata().is_ok() {
            // A symbolic link makes its path short.
            let link = self.short_directory.join(format!("{number}.at"));
            let _ = fs::remove_file(&link);
            found.extend(symlink(&beside, &link).is_ok().then_some(link));
        }
        found
    }

    /// Returns the path of the keepers' log file.
    pub(super) fn keeper_log(&self) -> PathBuf {
        self.directory.join("keepers.log")
    }

    /// Returns the directory of an attempt.
    pub(super) fn attempt(&self, attempt: AttemptId) -> PathBuf {
        crate::records::attempt_directory(&self.attempts, attempt)
    }
}

fn make_private(path: &Path) -> Result<(), DataDirectoryError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| DataDirectoryError::Io { path: path.to_owned(), source })
}

/// Returns the path of a directory of this user. Its name stays the same if the worker's directory
/// is renamed.
fn short_directory(keepers: &Path) -> Result<PathBuf, DataDirectoryError> {
    let metadata = fs::metadata(keepers)
        .map_err(|source| DataDirectoryError::Io { path: keepers.to_owned(), source })?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&metadata.dev().to_le_bytes());
    id[8..].copy_from_slice(&metadata.ino().to_le_bytes());
    let digest = blake3::hash(&id).to_hex();
    let own = nix::unistd::Uid::effective();
    Ok(PathBuf::from(format!("/tmp/buildpool-{own}-{}", &digest[..16])))
}

/// Returns the directory for sockets: next to the locks if the path is short enough.
fn sockets(keepers: &Path, short_directory: &Path) -> Result<PathBuf, DataDirectoryError> {
    if keepers.as_os_str().len() + NUMBER_BYTES <= SOCKET_PATH_BYTES_MAX {
        return Ok(keepers.to_owned());
    }
    make_private(short_directory)?;
    if !is_private(short_directory) {
        return Err(DataDirectoryError::Foreign(short_directory.to_owned()));
    }
    Ok(short_directory.to_owned())
}

/// Returns true for a directory that only this user can access.
fn is_private(path: &Path) -> bool {
    let own = nix::unistd::Uid::effective().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}

fn identity(path: &Path) -> Result<WorkerId, DataDirectoryError> {
    let failed = |source| DataDirectoryError::Io { path: path.to_owned(), source };
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(|_| DataDirectoryError::Identity(path.to_owned())),
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
    use super::{DataDirectory, DataDirectoryError, SOCKET_PATH_BYTES_MAX};

    #[test]
    fn the_identity_lasts_and_a_second_daemon_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let data_directory = DataDirectory::lock(directory.path()).expect("free");
        let worker = data_directory.worker;
        assert!(matches!(DataDirectory::lock(directory.path()), Err(DataDirectoryError::InUse(_))));
        drop(data_directory);
        assert_eq!(DataDirectory::lock(directory.path()).expect("free again").worker, worker);
    }

    #[test]
    fn sockets_have_short_paths_however_long_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let long = directory.path().join("d".repeat(120));
        let data_directory = DataDirectory::lock(&long).expect("free");
        let socket = data_directory.keeper_paths.socket(u32::MAX);
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX, "{}", socket.display());
        let short_directory = data_directory.short_socket_directory().expect("they are not in the directory");
        assert_eq!(short_directory, data_directory.keeper_paths.sockets.canonicalize().expect("it was made"));
        std::fs::remove_dir_all(&data_directory.keeper_paths.sockets).expect("it was made");
    }
}
