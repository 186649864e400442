//! Files of a local pool: its directory, lock and endpoint file. Only the user can access them.

use super::{LocalError, LocalPool};
use crate::{AccessToken, Endpoint, PoolUrl};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Maximum size of an endpoint file.
const PUBLISHED_BYTES_MAX: u64 = 64 << 10;
/// Size above which the log is renamed at the next start. One old log is kept.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// Address and credentials of a running pool, from `endpoint.json`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// URL of the pool.
    pub url: PoolUrl,
    /// Token for the pool.
    pub token: AccessToken,
    /// Process id of the pool.
    pub pid: u32,
    /// Version of its software.
    pub version: String,
    /// Random id, new with each start.
    pub instance: Uuid,
}

#[derive(Serialize, Deserialize)]
struct Written {
    url: String,
    token: String,
    pid: u32,
    version: String,
    instance: Uuid,
}

impl Published {
    /// Returns the endpoint to dial.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.url.clone(), Some(self.token.clone()))
    }
}

/// Exclusive lock of a pool's directory. It is released when the value is dropped or the process
/// ends.
#[derive(Debug)]
pub struct Lock {
    directory: PathBuf,
    _file: Flock<File>,
}

impl Lock {
    /// Creates the directory if necessary and takes the lock. Returns `None` if another pool has
    /// it.
    ///
    /// # Errors
    /// If the directory or the lock file can't be used.
    pub fn take(pool: &LocalPool) -> Result<Option<Self>, LocalError> {
        let directory = pool.directory();
        prepare(directory)?;
        let path = lock_file(directory);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|source| LocalError::File { path: path.clone(), source })?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => {
                let lock = Self { directory: directory.to_owned(), _file: file };
                lock.withdraw();
                Ok(Some(lock))
            }
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(LocalError::File { path, source: errno.into() }),
        }
    }

    /// Writes the endpoint file. The rename makes it atomic: a reader sees the whole file or no
    /// file.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn publish(&self, published: &Published) -> Result<(), LocalError> {
        let path = endpoint_file(&self.directory);
        let written = Written {
            url: published.url.to_string(),
            token: published.token.expose().to_owned(),
            pid: published.pid,
            version: published.version.clone(),
            instance: published.instance,
        };
        let text = serde_json::to_vec_pretty(&written).expect("strings and numbers serialize");
        let draft = path.with_extension("draft");
        let write = || -> io::Result<()> {
            let _ = fs::remove_file(&draft);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(&text)?;
            fs::rename(&draft, &path)
        };
        write().map_err(|source| LocalError::File { path: path.clone(), source })
    }

    /// Removes the endpoint file, if it exists.
    pub fn withdraw(&self) {
        let _ = fs::remove_file(endpoint_file(&self.directory));
    }
}

/// Returns true if a process has the lock.
pub(super) fn is_locked(directory: &Path) -> Result<bool, LocalError> {
    let path = lock_file(directory);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(LocalError::File { path, source }),
    };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(false),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(true),
        Err((_, errno)) => Err(LocalError::File { path, source: errno.into() }),
    }
}

/// Creates the directory with access for this user only, or checks its owner and mode.
pub(super) fn prepare(directory: &Path) -> Result<(), LocalError> {
    let fail = |source| LocalError::Directory { path: directory.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
    let metadata = fs::metadata(directory).map_err(fail)?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(LocalError::Foreign { path: directory.to_owned() });
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(fail)?;
    }
    Ok(())
}

/// Reads the endpoint file. Returns `None` if there is no file, or if its content is invalid.
///
/// A URL without TLS and a token without a fingerprint are invalid. So every endpoint from here is
/// dialled by TLS and pins the pool's certificate: another process that took over the port of a
/// dead pool receives no token.
///
/// # Errors
/// [`LocalError::File`] if the file exists and can't be read.
pub(super) fn read(directory: &Path) -> Result<Option<Published>, LocalError> {
    let path = endpoint_file(directory);
    let text = match read_bounded(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(LocalError::File { path, source }),
    };
    let Ok(written) = serde_json::from_slice::<Written>(&text) else { return Ok(None) };
    let (Ok(url), Ok(token)) = (written.url.parse::<PoolUrl>(), written.token.parse::<AccessToken>()) else {
        return Ok(None);
    };
    if !url.is_secure() || token.fingerprint().is_none() {
        return Ok(None);
    }
    Ok(Some(Published { url, token, pid: written.pid, version: written.version, instance: written.instance }))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(File::open(path)?, PUBLISHED_BYTES_MAX), &mut text)?;
    Ok(text)
}

fn lock_file(directory: &Path) -> PathBuf {
    directory.join("lock")
}

fn endpoint_file(directory: &Path) -> PathBuf {
    directory.join("endpoint.json")
}

/// Opens the pool's log for appending.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Returns the last line of a log, for an error message.
pub(super) fn last_line(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(2_000)..]).into_owned();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Lock, Published, read};
    use crate::local::LocalPool;
    use std::os::unix::fs::PermissionsExt;

    fn published() -> Published {
        Published {
            url: "wss://127.0.0.1:4711".parse().unwrap(),
            token: format!("bp_1_secret_{}", "0".repeat(64)).parse().unwrap(),
            pid: 42,
            version: "0.1.0".into(),
            instance: uuid::Uuid::now_v7(),
        }
    }

    #[test]
    fn one_holds_the_lock_and_what_it_publishes_is_read_back() {
        let place = tempfile::tempdir().unwrap();
        let pool = LocalPool::at(place.path().join("deep/pool"), "buildpool".into());
        assert!(!pool.is_running().unwrap());
        let lock = Lock::take(&pool).unwrap().expect("the lock is free");
        assert!(Lock::take(&pool).unwrap().is_none());
        assert!(pool.is_running().unwrap());
        assert_eq!(pool.published().unwrap(), None);
        let (first, second) = (published(), published());
        lock.publish(&first).unwrap();
        lock.publish(&second).unwrap();
        assert_eq!(pool.published().unwrap(), Some(second));
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(pool.directory()), 0o700);
        assert_eq!(mode(&pool.directory().join("endpoint.json")), 0o600);
        drop(lock);
        assert!(!pool.is_running().unwrap());
        // The next holder starts without an endpoint file.
        let lock = Lock::take(&pool).unwrap().expect("it was let go");
        assert_eq!(pool.published().unwrap(), None);
        lock.publish(&first).unwrap();
        lock.withdraw();
        assert_eq!(pool.published().unwrap(), None);
    }

    #[test]
    fn a_damaged_endpoint_file_counts_as_none() {
        let place = tempfile::tempdir().unwrap();
        for text in ["", "{", "{}", r#"{"url":"nonsense","token":"t","pid":1,"version":"","instance":""}"#] {
            std::fs::write(place.path().join("endpoint.json"), text).unwrap();
            assert_eq!(read(place.path()).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn an_endpoint_that_does_not_pin_a_certificate_counts_as_none() {
        let place = tempfile::tempdir().unwrap();
        let lock = Lock::take(&LocalPool::at(place.path().to_owned(), "buildpool".into())).unwrap().unwrap();
        let plain = Published { url: "ws://127.0.0.1:4711".parse().unwrap(), ..published() };
        let unpinned = Published { token: "bp_1_secret".parse().unwrap(), ..published() };
        for unsafe_endpoint in [plain, unpinned] {
            lock.publish(&unsafe_endpoint).unwrap();
            assert_eq!(read(place.path()).unwrap(), None);
        }
    }

    #[test]
    fn an_open_directory_is_closed_to_others() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let pool = LocalPool::at(place.path().to_owned(), "buildpool".into());
        let _lock = Lock::take(&pool).unwrap();
        assert_eq!(std::fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
