//! A keeper's place on the disk: a lock that shows whether it lives, a socket to find it again, space held in reserve.

use crate::limits::RESERVE_BYTES;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Where keepers have their places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// Locks and reserves; on the disk that results go to.
    pub directory: PathBuf,
    /// Sockets; short, because a socket's path has at most 103 bytes (unix(4) on macOS).
    pub sockets: PathBuf,
}

impl Places {
    /// The lock of a keeper.
    pub fn lock(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number}.lock"))
    }

    /// The socket of a keeper.
    pub fn socket(&self, number: u32) -> PathBuf {
        self.sockets.join(number.to_string())
    }

    fn reserve(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number}.reserve"))
    }

    /// Whether the keeper of this number is alive.
    ///
    /// # Errors
    /// When its lock can't be opened for another reason than that there is none.
    pub fn is_alive(&self, number: u32) -> io::Result<bool> {
        match File::open(self.lock(number)) {
            Ok(file) => match file.try_lock() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A place that is taken, for as long as this lives. The process is in its directory from then on, and names all that lies
/// there from where it is: the worker's directory may be renamed while a job runs.
pub(super) struct Place {
    places: Places,
    /// What the directory was called when it was taken.
    called: PathBuf,
    number: u32,
    listener: UnixListener,
    has_reserve: bool,
    _lock: File,
}

impl Place {
    /// Takes it.
    ///
    /// # Errors
    /// When another keeper has it, or the socket can't be made.
    pub(super) fn take(mut places: Places, number: u32) -> io::Result<Self> {
        std::env::set_current_dir(&places.directory)?;
        if places.sockets == places.directory {
            places.sockets = PathBuf::from(".");
        }
        let called = std::mem::replace(&mut places.directory, PathBuf::from("."));
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(places.lock(number))?;
        lock.try_lock()?;
        let socket = places.socket(number);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let mut place = Self { places, called, number, listener, has_reserve: false, _lock: lock };
        place.reserve();
        Ok(place)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// What its directory was called when it was taken.
    pub(super) fn called(&self) -> &Path {
        &self.called
    }

    /// Holds space back, where it is not held already and there is some.
    pub(super) fn reserve(&mut self) {
        if self.has_reserve {
            return;
        }
        let path = self.places.reserve(self.number);
        let written = File::create(&path).and_then(|mut file| file.write_all(&vec![0x5a; RESERVE_BYTES]));
        self.has_reserve = written.is_ok();
    }

    /// Gives the space back, for what must be written now.
    pub(super) fn release(&mut self) {
        self.has_reserve = false;
        let _ = fs::remove_file(self.places.reserve(self.number));
    }
}

/// A path below the directory that `called` is in, as it is from inside `called`, where this process is: it holds when that
/// directory is renamed. Any other path stays as it is.
pub(super) fn from_own(called: &Path, path: &Path) -> PathBuf {
    let beside = called.parent().and_then(|parent| path.strip_prefix(parent).ok());
    let from_here = beside.map(|beside| Path::new("..").join(beside));
    // `called` may be a link to elsewhere.
    from_here.filter(|from_here| is_one(from_here, path)).unwrap_or_else(|| path.to_owned())
}

fn is_one(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.places.socket(self.number));
        self.release();
    }
}
