//! Objects that several coordinators share: sealed logs, snapshots, artifacts and standard input.
//!
//! An object is bytes that are written once, in a directory or a bucket, and a row in the table `objects` that names
//! them with their checksum. The bytes are written first and the row second, so a row always has its bytes. To remove an
//! object, its row is removed first.
//!
//! Each name has the number of the leader's start and a random id, so no name is used twice. Rows are written and removed
//! behind the leader's fence. So a leader that was paused can't add an object, and can't remove one that has a row:
//! it would have to remove the row first. Bytes without a row that earlier leaders left are removed by [`Objects::sweep`].

mod bucket;
mod error;
mod remote;
mod rows;
mod upload;
mod upload_limit;
mod url;

pub use error::ObjectError;
pub(crate) use rows::Item;
pub use url::{ObjectsUrl, Provider};

use super::meter::{OBJECTS, measured};
use super::reader::Reader;
use super::sql::Connection;
use blake3::Hasher;
use bucket::Bucket;
use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use upload::Upload;
use upload_limit::UploadLimit;
use uuid::Uuid;

/// Age after which bytes without a row are removed, in milliseconds. An upload of this start may be under way.
const SWEEP_AFTER_MS: i64 = 24 * 60 * 60 * 1000;

/// Age after which the progress of an upload is removed.
const ABANDONED_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Interval between sweeps. Each lists the whole bucket.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Pack of a sealed log. Its owner is the attempt.
    Log,
    /// Artifact. Its owner is the job, and its item the checksum.
    Artifact,
    /// Pack of a snapshot. Its owner is the project with its class and format.
    Snapshot,
    /// Part of a job's standard input. Its owner is the job.
    Stdin,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Log, Self::Artifact, Self::Snapshot, Self::Stdin];

    fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Artifact => "artifact",
            Self::Snapshot => "snapshot",
            Self::Stdin => "stdin",
        }
    }
}

/// Identifies an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) kind: Kind,
    pub(crate) owner: &'a str,
    pub(crate) item: &'a str,
}

/// The shared objects. Cheap to clone.
#[derive(Clone)]
pub struct Objects {
    inner: Arc<Inner>,
}

struct Inner {
    bucket: Bucket,
    url: ObjectsUrl,
    /// Directory with the progress of uploads.
    uploads: PathBuf,
    reader: Reader,
    /// Connection for the rows.
    connection: Mutex<Option<Connection>>,
    /// Number of the leader's start.
    start: u64,
    upload_limit: UploadLimit,
    /// Time of the last sweep.
    swept_at: Mutex<Option<Instant>>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").field(&self.inner.url.to_string()).finish()
    }
}

impl Objects {
    /// Ends each call that waits for the bucket, and each later one, with an error.
    pub(super) fn close(&self) {
        self.inner.bucket.close();
    }

    /// Prepares access. `environment` has the provider's settings and credentials.
    ///
    /// # Errors
    /// [`ObjectError`]
    pub(super) fn open(
        url: &ObjectsUrl,
        data_directory: &Path,
        (reader, start): (Reader, u64),
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ObjectError> {
        let uploads = data_directory.join("uploads");
        super::make_directory(&uploads)?;
        let bucket = Bucket::open(url, environment)?;
        let inner = Inner {
            bucket,
            url: url.clone(),
            uploads,
            reader,
            connection: Mutex::default(),
            start,
            upload_limit: UploadLimit::default(),
            swept_at: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Prepares access for a migration, which has no leader's start.
    ///
    /// # Errors
    /// [`ObjectError`]
    pub(crate) fn for_migration(
        url: &ObjectsUrl,
        data_directory: &Path,
        reader: Reader,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ObjectError> {
        Self::open(url, data_directory, (reader, 0), environment)
    }

    /// Reads all objects and checks them. Returns their number and bytes. Blocks for long.
    ///
    /// # Errors
    /// [`ObjectError`] with the first object that can't be read.
    pub(crate) fn verify(&self) -> Result<(u64, u64), ObjectError> {
        let nowhere = Path::new("/dev/null");
        let (mut count, mut bytes) = (0, 0);
        for kind in Kind::ALL {
            for owner in self.owners(kind)? {
                for item in self.items(kind, &owner.name)? {
                    let file = File::options().write(true).open(nowhere);
                    self.read(&item, file.map_err(ObjectError::file("open", nowhere))?)?;
                    (count, bytes) = (count + 1, bytes + item.bytes);
                }
            }
        }
        Ok((count, bytes))
    }

    /// Stores a file, and replaces the object with this key. When this returns, the object is durable. It may be called
    /// again after an error: the upload of a long file goes on where it was. Blocks.
    ///
    /// # Errors
    /// [`ObjectError`]
    pub(crate) fn put_file(&self, key: Key<'_>, path: &Path) -> Result<(), ObjectError> {
        let (blake3, bytes) = measure(path).map_err(ObjectError::file("read", path))?;
        let id = blake3::hash(format!("{}/{}/{}", key.kind.name(), key.owner, key.item).as_bytes());
        let progress = self.inner.uploads.join(format!("{}.json", &id.to_hex().as_str()[..32]));
        let upload = Upload { path: progress, blake3, bytes };
        let _permit = self.inner.upload_limit.acquire(key.kind);
        let name = measured(&OBJECTS, || self.inner.bucket.put_file(self.new_name(key), path, &upload))?;
        self.name(key, Item::new(key.item, name, upload.bytes, upload.blake3.clone()))?;
        upload.forget();
        Ok(())
    }

    /// Stores bytes, as [`Objects::put_file`] does.
    ///
    /// # Errors
    /// [`ObjectError`]
    pub(crate) fn put(&self, key: Key<'_>, bytes: &[u8]) -> Result<(), ObjectError> {
        let name = self.new_name(key);
        measured(&OBJECTS, || self.inner.bucket.put(&name, bytes))?;
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        self.name(key, Item::new(key.item, name, bytes.len() as u64, blake3))
    }

    fn new_name(&self, key: Key<'_>) -> String {
        format!("{}/{}/{}.{}", key.kind.name(), key.owner, self.inner.start, Uuid::now_v7())
    }

    /// Writes the row of an object whose bytes are stored.
    fn name(&self, key: Key<'_>, item: Item) -> Result<(), ObjectError> {
        let replaced = self.rows(|connection| rows::put(connection, key, &item))?;
        replaced.iter().for_each(|name| self.remove_bytes(name));
        Ok(())
    }

    /// Copies an object to a new file and checks its checksum. Returns false if there is no such object. Blocks.
    ///
    /// # Errors
    /// [`ObjectError`]. The file is removed then.
    pub(crate) fn get_file(&self, key: Key<'_>, path: &Path) -> Result<bool, ObjectError> {
        let Some(item) = self.item(key)? else { return Ok(false) };
        let file = crate::store::Disk::default().create(path).map_err(ObjectError::file("make", path))?;
        let read = self.read(&item, file);
        if read.is_err() {
            fs::remove_file(path).ok();
        }
        read.map(|_| true)
    }

    /// Appends the bytes of an object to a file, and checks its checksum.
    ///
    /// # Errors
    /// [`ObjectError`]. A part may be written then.
    pub(crate) fn read(&self, item: &Item, file: File) -> Result<File, ObjectError> {
        let mut copy = Hashed { file, hasher: Hasher::new() };
        measured(&OBJECTS, || self.inner.bucket.read(&item.name, item.bytes, &mut copy))?;
        let agrees =
            copy.hasher.count() == item.bytes && copy.hasher.finalize().to_hex().as_str() == item.blake3;
        if agrees { Ok(copy.file) } else { Err(ObjectError::Damaged { name: item.name.clone() }) }
    }

    /// Returns an object's row.
    ///
    /// # Errors
    /// [`ObjectError::Records`]
    pub(crate) fn item(&self, key: Key<'_>) -> Result<Option<Item>, ObjectError> {
        let items = self.items(key.kind, key.owner)?;
        Ok(items.into_iter().find(|item| item.item == key.item))
    }

    /// Returns the objects of an owner, sorted by item.
    ///
    /// # Errors
    /// [`ObjectError::Records`]
    pub(crate) fn items(&self, kind: Kind, owner: &str) -> Result<Vec<Item>, ObjectError> {
        self.rows(|connection| rows::items(connection, kind, owner))
    }

    /// Returns the owners of a kind, sorted.
    ///
    /// # Errors
    /// [`ObjectError::Records`]
    pub(crate) fn owners(&self, kind: Kind) -> Result<Vec<rows::Owner>, ObjectError> {
        self.rows(|connection| rows::owners(connection, kind))
    }

    /// Sets the time of an object to the present one, because a client got the message that it is stored.
    ///
    /// # Errors
    /// [`ObjectError::Records`]
    pub(crate) fn confirm(&self, kind: Kind, owner: &str, item: &Item) -> Result<(), ObjectError> {
        self.rows(|connection| rows::confirm(connection, (kind, owner), item, super::now_ms()))
    }

    /// Removes the objects of an owner for which `chosen` is true. Blocks.
    ///
    /// # Errors
    /// [`ObjectError::Records`]; then nothing is removed.
    pub(crate) fn remove(
        &self,
        kind: Kind,
        owner: &str,
        chosen: impl Fn(&Item) -> bool,
    ) -> Result<(), ObjectError> {
        let chosen: Vec<Item> = self.items(kind, owner)?.into_iter().filter(chosen).collect();
        self.rows(|connection| rows::remove(connection, (kind, owner), &chosen))?;
        chosen.iter().for_each(|item| self.remove_bytes(&item.name));
        Ok(())
    }

    /// Removes bytes whose row was deleted. If this fails, a later sweep removes them.
    fn remove_bytes(&self, name: &str) {
        if let Err(error) = measured(&OBJECTS, || self.inner.bucket.remove(name)) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(name, error, "the bytes of an object can't be removed; the sweep tries again");
        }
    }

    /// Removes bytes without a row that earlier leaders left. Their rows can't be written any more. Blocks for long.
    ///
    /// # Errors
    /// [`ObjectError`], with a part of the work done.
    pub(crate) fn sweep(&self, now_ms: i64) -> Result<u64, ObjectError> {
        let mut old = HashSet::new();
        self.inner.bucket.list(&mut |listed| {
            let is_old = listed.changed_ms < now_ms - SWEEP_AFTER_MS;
            if is_old && start_of(&listed.name).is_some_and(|start| start < self.inner.start) {
                old.insert(listed.name);
            }
        })?;
        self.rows(|connection| rows::retain_unnamed(connection, &mut old))?;
        old.iter().for_each(|name| self.remove_bytes(name));
        Ok(old.len() as u64)
    }

    /// Sweeps if the last sweep is long ago. Blocks.
    ///
    /// # Errors
    /// As [`Objects::sweep`]
    pub(crate) fn sweep_sometimes(&self) -> Result<(), ObjectError> {
        let mut swept_at = self.inner.swept_at.lock().unwrap_or_else(PoisonError::into_inner);
        if swept_at.is_none_or(|at| at.elapsed() > SWEEP_EVERY) {
            *swept_at = Some(Instant::now());
            // The bucket removes the parts of an abandoned upload.
            let now = SystemTime::now();
            buildpool_objects::incoming::remove_stale(&self.inner.uploads, ABANDONED_AFTER, now);
            let removed = self.sweep(super::now_ms())?;
            tracing::info!(removed, "objects that no row names were removed");
        }
        Ok(())
    }

    /// Writes, reads and removes a small object without a row.
    ///
    /// # Errors
    /// [`ObjectError`]
    pub(crate) fn probe(&self) -> Result<(), ObjectError> {
        probe(&self.inner.bucket, self.inner.start)
    }

    fn rows<T>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, super::StoreError>,
    ) -> Result<T, ObjectError> {
        let mut place = super::background::locked(&self.inner.connection);
        let connection = match place.take() {
            Some(connection) => connection,
            None => self.inner.reader.writing()?,
        };
        let result = act(&connection)?;
        *place = Some(connection);
        Ok(result)
    }
}

fn probe(bucket: &Bucket, start: u64) -> Result<(), ObjectError> {
    let name = format!("probe/{start}.{}", Uuid::now_v7());
    let text = b"buildpool";
    bucket.put(&name, text)?;
    let mut read = Vec::new();
    bucket.read(&name, text.len() as u64, &mut read)?;
    bucket.remove(&name)?;
    if read == text { Ok(()) } else { Err(ObjectError::Damaged { name }) }
}

/// Checks that a bucket can be written, read and cleaned.
///
/// # Errors
/// [`ObjectError`]
pub fn check_objects(url: &ObjectsUrl) -> Result<(), ObjectError> {
    probe(&Bucket::open(url, std::env::vars())?, 0)
}

/// Returns the number of the start in a name.
fn start_of(name: &str) -> Option<u64> {
    name.rsplit('/').next()?.split('.').next()?.parse().ok()
}

struct Hashed {
    file: File,
    hasher: Hasher,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn measure(path: &Path) -> io::Result<(String, u64)> {
    let mut hasher = Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok((hasher.finalize().to_hex().to_string(), hasher.count()))
}
