//! A keeper's files: a lock that shows if it is alive, a socket for reconnects, and reserved disk
//! space.

use crate::limits::RESERVE_BYTES;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Directories of the keepers' files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperPaths {
    /// Directory for locks and reserves, on the same disk as the results.
    pub directory: PathBuf,
    /// Directory for sockets. Its path must be short, because a socket's path has at most 103 bytes
    /// (unix(4) on macOS).
    pub sockets: PathBuf,
}

impl KeeperPaths {
    /// Returns the path of a keeper's lock.
    pub fn lock(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number}.lock"))
    }

    /// Returns the path of a keeper's socket.
    pub fn socket(&self, number: u32) -> PathBuf {
        self.sockets.join(number.to_string())
    }

    fn reserve(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number}.reserve"))
    }

    /// Returns true if the keeper with this number is alive.
    ///
    /// # Errors
    /// Fails if its lock exists and cannot be opened.
    pub fn is_alive(&self, number: u32) -> io::Result<bool> {
        match File::open(self.lock(number)) {
            Ok(file) => match file.try_lock() {
                // Closing the file does not unlock it while a child that another thread starts still has
                // a copy of the descriptor.
                Ok(()) => file.unlock().map(|()| false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The files of this keeper, locked for the lifetime of this value. The process changes into the
/// directory and uses relative paths, because the worker's directory may be renamed while a job
/// runs.
pub(super) struct KeeperDirectory {
    paths: KeeperPaths,
    /// Path of the directory at the time of the lock.
    original_path: PathBuf,
    number: u32,
    listener: UnixListener,
    has_reserve: bool,
    _lock: File,
}

impl KeeperDirectory {
    /// Locks the number and creates the socket.
    ///
    /// # Errors
    /// Fails if another keeper has the number, or the socket cannot be created.
    pub(super) fn take(mut paths: KeeperPaths, number: u32) -> io::Result<Self> {
        std::env::set_current_dir(&paths.directory)?;
        if paths.sockets == paths.directory {
            paths.sockets = PathBuf::from(".");
        }
        let original_path = std::mem::replace(&mut paths.directory, PathBuf::from("."));
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(paths.lock(number))?;
        lock.try_lock()?;
        let socket = paths.socket(number);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let mut directory = Self { paths, original_path, number, listener, has_reserve: false, _lock: lock };
        directory.reserve();
        Ok(directory)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Returns the path of its directory at the time of the lock.
    pub(super) fn original_path(&self) -> &Path {
        &self.original_path
    }

    /// Reserves disk space, if it is not reserved yet and available.
    pub(super) fn reserve(&mut self) {
        if self.has_reserve {
            return;
        }
        let path = self.paths.reserve(self.number);
        let written = File::create(&path).and_then(|mut file| file.write_all(&vec![0x5a; RESERVE_BYTES]));
        self.has_reserve = written.is_ok();
    }

    /// Frees the reserved space for a write that is needed now.
    pub(super) fn release(&mut self) {
        self.has_reserve = false;
        let _ = fs::remove_file(self.paths.reserve(self.number));
    }
}

/// Returns a path relative to the current directory `original_path`, if it is below the parent of
/// `original_path`. It stays valid if that directory is renamed. Any other path is returned unchanged.
pub(super) fn relative_to(original_path: &Path, path: &Path) -> PathBuf {
    let beside = original_path.parent().and_then(|parent| path.strip_prefix(parent).ok());
    let from_here = beside.map(|beside| Path::new("..").join(beside));
    // `original_path` may be a link to another place.
    from_here.filter(|from_here| is_same_file(from_here, path)).unwrap_or_else(|| path.to_owned())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

impl Drop for KeeperDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.paths.socket(self.number));
        self.release();
    }
}
